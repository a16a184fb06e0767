"""TableModel: a table with a target column -> a classifier and a deferral rule -> scored tables."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import roc_auc_score

from bacoun.base import Evaluation
from bacoun.checkpoint import Checkpoint
from bacoun.classifier import BaCOUnClassifier
from bacoun.deferral import DeferralRule
from bacoun.deferral.checks import as_share
from bacoun.serialization import from_state, to_state
from bacoun.storage import read_folder, refuse_incomplete, write_folder
from bacoun.tabular.encoding import TableEncoder, find_ids
from bacoun.tabular.labels import read_labels
from bacoun.tabular.splitting import find_groups, split
from bacoun.uncertainty import expected_calibration_error

_DEFAULT_BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.2)
_LARGEST_ERROR_PROBABILITY = 0.2  # so that scarce data does not mean fewer deferrals

# A threshold is the score of a calibration row, whose last digits in single precision depend on the
# other rows of its chunk. The rule is given rounded scores, so that they cannot change a decision.
_DECIMALS_OF_NATS, _DECIMALS_OF_SCORE = 5, 2


@dataclass(frozen=True)
class TableModel:
    """A classifier for tables, with the encoding of its columns and its deferral rule.

    Attributes
    ----------
    classifier : BaCOUnClassifier
        Fitted on the encoded training rows.
    encoder : TableEncoder
        Turns tables into features.
    rule : DeferralRule
        Calibrated on rows that were held out from training.
    target : str
        Name of the column with the labels.
    facts : dict
        Plain values: number of rows, classes, quality on the calibration rows, dropped columns.
    made : dict of str
        When it was "fitted", and "with" which library versions.
    calibration : dict of ndarray of shape (n_calibration,)
        "ood_score" of the calibration rows, +inf for an unseen category, their "total" uncertainty,
        and whether the prediction was "correct".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris(as_frame=True).frame
    >>> model = TableModel.fit(iris, "target", quick=True)
    >>> far_away = iris.head(1) * 9
    >>> print(*model.score(far_away)["reason"])
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
        group: str | None = None,
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
        """Train a classifier on a table, and calibrate its deferral rule on held-out rows.

        Parameters
        ----------
        frame : DataFrame of N rows
            Columns of numbers, booleans or text, and the target.
        target : str
            Name of the column with the labels.
        random_state : int
            Seed of the split and of the classifier.
        impute : bool
            Replace missing values by the median or the most frequent value, and add a 0/1 feature
            for them; otherwise they are an error.
        group : str, optional
            Column that says which rows belong together, such as several visits of one patient. They
            stay on one side of the split, one of each group is used for calibration, and the column
            is no input. None: only identical rows belong together.
        calibration_share : float
            Fraction of the rows, stratified by class, that is held out to calibrate the rule.
        false_alarm : float
            Largest fraction of in-distribution rows that may be flagged as unfamiliar.
        max_error : float, "auto" or None
            Largest error rate among accepted rows. Without enough evidence for it, no row is
            accepted. "auto": the tightest of 0.01, 0.02, 0.05, 0.1 and 0.2 that there is evidence
            for, if any, and rows that are wrong with a probability above 0.2 according to the model
            are deferred anyway; `facts["error_bound"]` says which. None: all familiar rows are
            accepted.
        confidence : float
            Confidence with which `max_error` holds.
        per_class : bool
            Guarantee `false_alarm` within each predicted class with enough calibration rows.
        quick : bool
            Use settings for a first look: seconds instead of minutes.
        classifier : BaCOUnClassifier, optional
            Your own settings, with a boundary; it is fitted in place. None: the default or the
            quick ones.
        verbose : bool
            Show progress bars on stderr.
        checkpoint : path or Checkpoint, optional
            Folder to save progress to, and to resume from after an interruption.
        """
        bounds: Sequence[float] = _DEFAULT_BOUNDS
        if max_error != "auto":
            bounds = [] if max_error is None else [max_error]
        fractions = {"calibration_share": calibration_share, "false_alarm": false_alarm}
        fractions |= {"confidence": confidence} | ({"max_error": bounds[0]} if bounds else {})
        for name, fraction in fractions.items():
            as_share(name, fraction)
        if not 0 <= random_state < 2**32:
            raise ValueError(f"random_state must be from 0 to {2**32 - 1}; got {random_state}.")
        labels = read_labels(frame, target)
        table = frame.drop(columns=target)
        ids = find_ids(table)
        groups = find_groups(table.drop(columns=[name for name in ids if name != group]), group)
        table = table.drop(columns=[group] if group is not None else [])
        try:
            train, held_out = split(labels, groups, calibration_share, random_state)
        except ValueError:
            TableEncoder().fit(table, impute)  # if the columns are the problem, they are named
            raise
        encoder = TableEncoder().fit(
            table.iloc[train], impute, {name: ids[name] for name in ids if name in table}
        )
        points = encoder.transform(table.iloc[train])
        encoder.transform(table.iloc[held_out])  # errors there are better raised before the fit
        make = BaCOUnClassifier.quick if quick else BaCOUnClassifier
        classifier = classifier or make(random_state=random_state, verbose=verbose)
        classifier.fit(points, labels[train], checkpoint=checkpoint)

        scored = _Scored.of(classifier, encoder, table.iloc[held_out])
        truth = np.searchsorted(classifier.classes_, labels[held_out])
        options: dict[str, Any] = {"false_alarm": false_alarm, "per_class": per_class}
        options |= {"confidence": confidence}
        rule, error_bound = scored.calibrate(truth, bounds, **options)
        facts = {
            "rows": len(frame),
            "training_rows": len(train),
            "calibration_rows": len(held_out),
            "copies": int(len(frame) - len(np.unique(groups))),
            "unseen_in_calibration": int(scored.unseen.sum()),
            "classes": {str(label): int((labels == label).sum()) for label in classifier.classes_},
            "features": len(encoder.feature_names_),
            "dropped_columns": dict(encoder.dropped_),
            **scored.quality(truth),
            "error_bound": error_bound,
            "seed": random_state,
            "impute": impute,
            "quick": quick,
            "data_digest": _checksum(frame),
        }
        return cls(classifier, encoder, rule, target, facts, _made_now(), scored.calibration(truth))

    @property
    def added_columns(self) -> list[str]:
        """Names of the columns that `score` returns."""
        each = [f"p_{label}" for label in self.classifier.classes_]
        parts = ["total", "aleatoric", "epistemic"]
        ood = ["ood_score", "ood_probability", "log_density"]
        return ["prediction", *each, *parts, *ood, "decision", "reason"]

    def score(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Predictions, uncertainties and decisions for each row of `frame`, with the same index.

        Returns
        -------
        DataFrame
            `prediction`; `p_<class>` for each class; `total`, `aleatoric`, `epistemic`, in nats;
            `ood_score`; `ood_probability`; `log_density`; `decision`, "accept" or "defer";
            `reason`, "" or "unfamiliar" or "ambiguous". A row is unfamiliar, whatever its
            `ood_score`, if it has an unseen category, a gap where training had none, more gaps than
            any training row, or another value in a column that was constant.
        """
        scored = _Scored.of(self.classifier, self.encoder, frame)
        given = scored.evaluation
        columns = [
            self.classifier.classes_[scored.predicted],
            *given.probabilities.T,
            *(given.total, given.aleatoric, given.epistemic),
            *(given.ood_score, given.ood_probability, given.log_density),
            *self.rule.decide(*scored.rounded(), scored.predicted),
        ]
        named = dict(zip(self.added_columns, columns, strict=True))
        return pd.DataFrame(named, index=frame.index)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model atomically to the folder `path`, as JSON and safetensors.

        The folder must not exist yet; with `overwrite`, a saved model there is replaced.
        """
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
        """Read the model that `save` wrote to the folder `path`."""
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


class _Scored(NamedTuple):
    """What a classifier predicts for N rows."""

    evaluation: Evaluation[np.ndarray]
    unseen: np.ndarray  # (N,), rows with something not seen in training

    @classmethod
    def of(cls, classifier: BaCOUnClassifier, encoder: TableEncoder, frame: pd.DataFrame) -> Self:
        points, unseen = encoder.transform_with_unseen(frame)
        return cls(classifier.evaluate(points), unseen)

    @property
    def predicted(self) -> np.ndarray:
        """Index (N,) of the most likely class."""
        return self.evaluation.probabilities.argmax(axis=1)

    @property
    def ood_score(self) -> np.ndarray:
        """OOD score (N,), infinite for what was not seen in training."""
        return np.where(self.unseen, np.inf, self.evaluation.ood_score)

    def rounded(self) -> tuple[np.ndarray, np.ndarray]:
        """`ood_score` (N,) and total uncertainty (N,), as the rule is given them."""
        in_nats = self.evaluation.ood_probability is None  # without doubt, the score is epistemic
        decimals = _DECIMALS_OF_NATS if in_nats else _DECIMALS_OF_SCORE
        return self.ood_score.round(decimals), self.evaluation.total.round(_DECIMALS_OF_NATS)

    def calibrate(
        self, truth: np.ndarray, bounds: Sequence[float], **options: Any
    ) -> tuple[DeferralRule, str]:
        """The rule, given the class indices `truth` (N,), and a sentence on its error bound.

        Several `bounds` are tested from the loosest to the tightest, as one fixed sequence, which
        keeps the confidence of each; the last one before the first failure counts.
        """
        right = self.predicted == truth
        make = partial(DeferralRule.calibrate, *self.rounded(), right, self.predicted, **options)
        if not bounds:
            return make(), "No error bound was requested."
        if len(bounds) > 1:
            make = partial(make, max_error_probability=_LARGEST_ERROR_PROBABILITY)
        rule = make(max_error=max(bounds))
        for bound in sorted(bounds, reverse=True)[1:]:
            tighter = make(max_error=bound)
            if not _is_supported(tighter):
                break
            rule = tighter
        acceptance: Any = rule.acceptance
        if _is_supported(rule) or len(bounds) == 1:
            return rule, acceptance.statement
        return replace(rule, acceptance=None), f"{acceptance.statement} No bound is guaranteed."

    def calibration(self, truth: np.ndarray) -> dict[str, np.ndarray]:
        """The scores that the rule is calibrated on, before rounding."""
        right = self.predicted == truth
        return {"ood_score": self.ood_score, "total": self.evaluation.total, "correct": right}

    def quality(self, truth: np.ndarray) -> dict[str, float | None]:
        """Accuracy, area under the ROC curve and calibration error; None if not defined."""
        probabilities = self.evaluation.probabilities
        auc, n_classes = None, probabilities.shape[1]
        if len(np.unique(truth)) == n_classes:
            scores = probabilities[:, 1] if n_classes == 2 else probabilities
            auc = float(roc_auc_score(truth, scores, multi_class="ovr"))
        accuracy = float((self.predicted == truth).mean())
        ece = expected_calibration_error(probabilities, truth)
        return {"accuracy": accuracy, "auc": auc, "ece": ece}


def _is_supported(rule: DeferralRule) -> bool:
    """Whether there is enough evidence for the rule's error bound."""
    return rule.acceptance is not None and rule.acceptance.threshold is not None


def _made_now() -> dict[str, str]:
    """The time, and the versions of all libraries that affect a model's numbers."""
    libraries = ("bacoun", "torch", "zuko", "numpy", "scipy", "scikit-learn", "pandas")
    versions = [f"{name} {version(name)}" for name in libraries]
    return {
        "fitted": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "with": ", ".join([*versions, f"Python {platform.python_version()}"]),
    }


def _checksum(frame: pd.DataFrame) -> str:
    """Checksum of a table's column names and content."""
    checksum = hashlib.sha256("\0".join(map(str, frame.columns)).encode())
    checksum.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return checksum.hexdigest()
