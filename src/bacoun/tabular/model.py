"""TableModel: a table with a target column -> a classifier and a rule -> scored tables."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from bacoun.base import Evaluation
from bacoun.checkpoint import Checkpoint
from bacoun.classifier import BaCOUnClassifier
from bacoun.deferral import DeferralRule
from bacoun.deferral.checks import as_share
from bacoun.serialization import from_state, to_state
from bacoun.storage import read_folder, refuse_incomplete, write_folder
from bacoun.tabular.encoding import TableEncoder, find_ids
from bacoun.tabular.labels import read_labels
from bacoun.uncertainty import expected_calibration_error

_USUAL_ERROR = 0.01  # asked for where the data can support it

# A threshold is the score of a calibration row. Single precision leaves the last digits to the
# other rows of a block; the rule sees those that it does not, so that they cannot tip the balance.
_DECIMALS_OF_NATS, _DECIMALS_OF_SCORE = 5, 2


@dataclass(frozen=True)
class TableModel:
    """All that turns a table into decisions.

    Attributes
    ----------
    classifier : BaCOUnClassifier
    encoder : TableEncoder
    rule : DeferralRule
        Calibrated on rows that the classifier did not learn from.
    target : str
        Name of the column with the labels.
    facts : dict
        Plain values: rows, classes, how well it does on the calibration rows, what was left out.
    made : dict of str
        When it was "fitted", and "with" which versions of what.
    calibration : dict of ndarray of shape (n_calibration,)
        "ood_score" of the calibration rows, +inf for an unseen category, their "total" uncertainty,
        and whether the prediction was "correct".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris(as_frame=True).frame
    >>> model = TableModel.fit(iris, "target", quick=True)
    >>> strange = iris.head(1) * 9
    >>> print(*model.score(strange)["reason"])
    unfamiliar
    """

    classifier: BaCOUnClassifier
    encoder: TableEncoder
    rule: DeferralRule
    target: str
    facts: Mapping[str, Any]
    made: Mapping[str, str]
    calibration: Mapping[str, np.ndarray]

    @classmethod
    def fit(
        cls,
        frame: pd.DataFrame,
        target: str,
        *,
        random_state: int = 0,
        impute: bool = False,
        calibration_share: float = 0.2,
        false_alarm: float = 0.05,
        max_error: float | Literal["auto"] | None = "auto",
        confidence: float = 0.95,
        per_class: bool = False,
        quick: bool = False,
        classifier: BaCOUnClassifier | None = None,
        verbose: bool = False,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    ) -> Self:
        """Learn from a table whose column `target` holds the labels.

        Parameters
        ----------
        impute : bool
            Fill missing values, and tell the classifier where; see `TableEncoder.fit`.
        calibration_share : float
            Share of the rows, drawn from each class, that is kept aside for the rule.
        false_alarm, confidence, per_class
            Of the rule, as in `DeferralRule.calibrate`.
        max_error : float, "auto" or None
            Largest share of errors among accepted rows. If the data cannot support what is asked
            for, nothing is accepted. "auto" asks for 0.01 and goes without a bound where the data
            cannot support it; `facts["error_bound"]` says which. None: no bound.
        quick : bool
            Settings for a first look: seconds instead of minutes.
        classifier : BaCOUnClassifier, optional
            Settings of yours, with a boundary; it is fitted in place. None: the default ones, or
            the quick ones.
        checkpoint : path or Checkpoint, optional
            Folder to keep progress in and to go on from; see `BaCOUnClassifier.fit`.
        """
        asked = _USUAL_ERROR if max_error == "auto" else max_error
        shares = {"calibration_share": calibration_share, "false_alarm": false_alarm}
        shares |= {"confidence": confidence} | ({} if asked is None else {"max_error": asked})
        for name, share in shares.items():
            as_share(name, share)
        if not 0 <= random_state < 2**32:
            raise ValueError(
                f"random_state must be a whole number from 0 to {2**32 - 1}; got {random_state}."
            )
        labels = read_labels(frame, target)
        table = frame.drop(columns=target)
        learn, keep = _split(labels, calibration_share, random_state)
        encoder = TableEncoder().fit(table.iloc[learn], impute, find_ids(table))
        points = encoder.transform(table.iloc[learn])
        encoder.transform(table.iloc[keep])  # what is wrong there is better said before the work
        make = BaCOUnClassifier.quick if quick else BaCOUnClassifier
        classifier = classifier or make(random_state=random_state, verbose=verbose)
        classifier.fit(points, labels[learn], checkpoint=checkpoint)

        answers = _answer(classifier, encoder, table.iloc[keep])
        truth = np.searchsorted(classifier.classes_, labels[keep])
        options = {"false_alarm": false_alarm, "confidence": confidence, "per_class": per_class}
        rule = answers.calibrate(truth, max_error=asked, **options)
        bound = "No bound on errors was asked for."
        if rule.acceptance is not None:
            bound = rule.acceptance.statement
            if max_error == "auto" and rule.acceptance.threshold is None:
                rule = answers.calibrate(truth, max_error=None, **options)
                bound += " So no bound on errors is promised."
        facts = {
            "rows": len(frame),
            "training_rows": len(learn),
            "calibration_rows": len(keep),
            "classes": {str(label): int((labels == label).sum()) for label in classifier.classes_},
            "features": len(encoder.feature_names_),
            "dropped_columns": dict(encoder.dropped_),
            **answers.quality(truth),
            "error_bound": bound,
            "seed": random_state,
            "impute": impute,
            "quick": quick,
            "data_digest": _digest(frame),
        }
        return cls(classifier, encoder, rule, target, facts, _made_now(), answers.scores(truth))

    @property
    def added_columns(self) -> list[str]:
        """Names of the columns that `score` returns."""
        each = [f"p_{label}" for label in self.classifier.classes_]
        parts = ["total", "aleatoric", "epistemic"]
        unfamiliar = ["ood_score", "ood_probability", "log_density"]
        return ["prediction", *each, *parts, *unfamiliar, "decision", "reason"]

    def score(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Predictions, uncertainties and decisions for each row, with the index of `frame`.

        Returns
        -------
        DataFrame
            `prediction`; `p_<class>` for each class; `total`, `aleatoric`, `epistemic`, in nats;
            `ood_score`; `ood_probability`; `log_density`; `decision`, "accept" or "defer";
            `reason`, "" or "unfamiliar" or "ambiguous". A row with a category that was not seen in
            training is unfamiliar, whatever its `ood_score`.
        """
        answers = _answer(self.classifier, self.encoder, frame)
        given = answers.given
        columns = [
            self.classifier.classes_[answers.predicted],
            *given.probabilities.T,
            *(given.total, given.aleatoric, given.epistemic),
            *(given.ood_score, given.ood_probability, given.log_density),
            *self.rule.decide(*answers.rounded(), answers.predicted),
        ]
        named = dict(zip(self.added_columns, columns, strict=True))
        return pd.DataFrame(named, index=frame.index)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model to a new folder of JSON and safetensors, whole or not at all."""
        content = {
            "classifier": to_state(self.classifier),
            "encoder": self.encoder.to_dict(),
            "rule": self.rule.to_dict(),
            "target": self.target,
            "facts": dict(self.facts),
            "made": dict(self.made),
            "calibration": {name: torch.tensor(each) for name, each in self.calibration.items()},
        }
        write_folder(content, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote."""
        content = read_folder(path)
        if "encoder" not in content:
            raise ValueError(
                f"'{path}' must be a model of a table; it is a classifier without the table's "
                "columns. Fit one with bacoun fit, or load this one with BaCOUnClassifier.load."
            )
        with refuse_incomplete(path):
            return cls(
                classifier=from_state(BaCOUnClassifier, content["classifier"]),
                encoder=TableEncoder.from_dict(content["encoder"]),
                rule=DeferralRule.from_dict(content["rule"]),
                target=content["target"],
                facts=content["facts"],
                made=content["made"],
                calibration={name: each.numpy() for name, each in content["calibration"].items()},
            )


class _Answers(NamedTuple):
    """What a classifier says of N rows."""

    given: Evaluation[np.ndarray]
    unseen: np.ndarray  # (N,), rows with a category not seen in training

    @property
    def predicted(self) -> np.ndarray:
        """Index (N,) of the most likely class."""
        return self.given.probabilities.argmax(axis=1)

    @property
    def ood_score(self) -> np.ndarray:
        """How unfamiliar (N,) the rows are; infinitely so where a category is unseen."""
        return np.where(self.unseen, np.inf, self.given.ood_score)

    def rounded(self) -> tuple[np.ndarray, np.ndarray]:
        """What the rule sees of `ood_score` (N,) and of total uncertainty (N,)."""
        without_doubt = self.given.ood_probability is None  # then the score is one of nats
        decimals = _DECIMALS_OF_NATS if without_doubt else _DECIMALS_OF_SCORE
        return self.ood_score.round(decimals), self.given.total.round(_DECIMALS_OF_NATS)

    def calibrate(self, truth: np.ndarray, **options: Any) -> DeferralRule:
        """A rule for rows like these, given the index (N,) of their classes."""
        right = self.predicted == truth
        return DeferralRule.calibrate(*self.rounded(), right, self.predicted, **options)

    def scores(self, truth: np.ndarray) -> dict[str, np.ndarray]:
        """What the rule was calibrated on, before rounding."""
        right = self.predicted == truth
        return {"ood_score": self.ood_score, "total": self.given.total, "correct": right}

    def quality(self, truth: np.ndarray) -> dict[str, float | None]:
        """Accuracy, area under the ROC curve, calibration error; None where not defined."""
        n_classes = self.given.probabilities.shape[1]
        auc = None
        if len(np.unique(truth)) == n_classes:
            scores = self.given.probabilities[:, 1] if n_classes == 2 else self.given.probabilities
            auc = float(roc_auc_score(truth, scores, multi_class="ovr"))
        return {
            "accuracy": float((self.predicted == truth).mean()),
            "auc": auc,
            "ece": expected_calibration_error(self.given.probabilities, truth),
        }


def _answer(classifier: BaCOUnClassifier, encoder: TableEncoder, frame: pd.DataFrame) -> _Answers:
    points, unseen = encoder.transform_with_unseen(frame)
    return _Answers(classifier.evaluate(points), unseen)


def _made_now() -> dict[str, str]:
    """The moment, and the versions of all that a model's numbers depend on."""
    libraries = ("bacoun", "torch", "zuko", "numpy", "scipy", "scikit-learn", "pandas")
    versions = [f"{name} {version(name)}" for name in libraries]
    return {
        "fitted": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "with": ", ".join([*versions, f"Python {platform.python_version()}"]),
    }


def _split(labels: np.ndarray, share: float, random_state: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from and rows to keep aside, in their order; each class is in both."""
    rows = np.arange(len(labels))
    n_classes = len(np.unique(labels))
    n_keep = round(share * len(labels))
    if not n_classes <= n_keep <= len(labels) - 2 * n_classes:
        raise ValueError(
            f"calibration_share must leave rows of each class on both sides; {share:g} of "
            f"{len(labels)} rows does not, with {n_classes} classes. Try 0.2, or bring more rows."
        )
    learn, keep = train_test_split(
        rows, test_size=n_keep, stratify=labels, random_state=random_state
    )
    return np.sort(learn), np.sort(keep)


def _digest(frame: pd.DataFrame) -> str:
    """A fingerprint of the table's names and content."""
    digest = hashlib.sha256("\0".join(map(str, frame.columns)).encode())
    digest.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return digest.hexdigest()
