"""TableModel: a table with a target column -> a classifier and a deferral rule -> scored tables."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import torch

from bacoun.classifier import BaCOUnClassifier
from bacoun.columns import dates
from bacoun.columns.checks.profile import TableProfile
from bacoun.columns.frames import as_pandas, like
from bacoun.columns.kinds import find_kind
from bacoun.deferral import DeferralRule
from bacoun.deferral.checks import as_share
from bacoun.files.checkpoint import Checkpoint
from bacoun.files.model_folder import read_folder, refuse_incomplete, write_folder
from bacoun.serialization import pack_classifier, unpack_classifier
from bacoun.tabular.encoding import TableEncoder, find_ids
from bacoun.tabular.explaining import Explainer
from bacoun.tabular.explanation import Explanation
from bacoun.tabular.labels import read_labels
from bacoun.tabular.neighbors import Neighborhood
from bacoun.tabular.replacements import Replacements
from bacoun.tabular.scoring import ScoredRows
from bacoun.tabular.splitting import are_events, find_groups, read_times, split, split_by_time

_DEFAULT_BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True)
class Sampled:
    """What is known about all rows, if a table is a sample of more than fit into memory.

    Attributes
    ----------
    train, held_out : ndarray of int
        Rows of the sample to train and to calibrate on.
    ids : dict
        Columns that only identify rows, as from `find_ids`.
    facts : dict
        Facts about all rows that replace those about the sample.
    fit_classifier : callable
        Fits a classifier to all rows; called with it, the fitted encoder, the sampled points, their
        labels and the checkpoint.
    """

    train: np.ndarray
    held_out: np.ndarray
    ids: Mapping[str, str]
    facts: Mapping[str, Any]
    fit_classifier: Callable[[BaCOUnClassifier, TableEncoder, np.ndarray, np.ndarray, Any], None]


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
    neighborhood : Neighborhood
        Up to 10,000 of the rows, to notice others that are far from all of them.
    replacements : Replacements
        What columns may be replaced by, to explain why a row is unfamiliar.
    profile : TableProfile
        What the columns of the training rows look like, to check new tables.

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
    neighborhood: Neighborhood
    replacements: Replacements
    profile: TableProfile

    @classmethod
    def fit(
        cls,
        frame: Any,
        target: str,
        *,
        random_state: int = 0,
        impute: bool = True,
        group: str | None = None,
        time: str | None = None,
        calibration_share: float = 0.2,
        false_alarm: float = 0.05,
        max_error: float | Literal["auto"] | None = "auto",
        confidence: float = 0.95,
        per_class: bool = False,
        quick: bool = False,
        classifier: BaCOUnClassifier | None = None,
        verbose: bool = False,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        sampled: Sampled | None = None,
    ) -> Self:
        """Train a classifier on a table, and calibrate its deferral rule on held-out rows.

        Parameters
        ----------
        frame : DataFrame of N rows
            Columns of numbers, booleans or text, and the target; of pandas, polars or Arrow.
        target : str
            Name of the column with the labels.
        random_state : int
            Seed of the split and of the classifier.
        impute : bool
            Whether missing values are allowed; otherwise they are an error. A gap is a category of
            its own, or the median and a 0/1 feature for it.
        group : str, optional
            Column that says which rows belong together, such as several visits of one patient. They
            stay on one side of the split, one of each group is used for calibration, and the column
            is no input. None: identical rows are copies of one event and belong together, unless
            their labels differ often: then they are different events, and each row counts.
        time : str, optional
            Column of dates or numbers. The latest rows are used for calibration, instead of random
            ones, and the column is no input.
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
        sampled : Sampled, optional
            What `fit_files` knows about the rows of which `frame` is a sample. None: these are all.
        """
        bounds = check_settings(
            random_state=random_state,
            calibration_share=calibration_share,
            false_alarm=false_alarm,
            max_error=max_error,
            confidence=confidence,
        )
        frame = as_pandas(frame)
        labels = read_labels(frame, target)
        table = frame.drop(columns=target)
        found = find_ids(table) if sampled is None else sampled.ids
        ids = {name: why for name, why in found.items() if name not in (group, time)}
        groups = find_groups(table.drop(columns=list(ids)), group)
        n_copies = len(frame) - len(np.unique(groups))
        repeats = "none" if n_copies == 0 else "copies"
        if group is None and are_events(labels, groups):
            repeats, groups = "events", np.arange(len(frame))
        times = None if time is None else read_times(table, time)
        inputs = table.drop(columns=[name for name in (group, time) if name is not None])
        try:
            if sampled is not None:
                train, held_out = sampled.train, sampled.held_out
            elif times is None:
                train, held_out = split(labels, groups, calibration_share, random_state)
            else:
                train, held_out = split_by_time(labels, groups, times, calibration_share)
        except ValueError:
            TableEncoder().fit(inputs, impute)  # if the columns are the problem, they are named
            raise
        encoder = TableEncoder().fit(inputs.iloc[train], impute, ids)
        points = encoder.transform(inputs.iloc[train])
        unknown = encoder.transform_with_unseen(inputs.iloc[held_out])
        make = BaCOUnClassifier.quick if quick else BaCOUnClassifier
        classifier = classifier or make(random_state=random_state, verbose=verbose)
        classifier.categorical_features = encoder.categorical_features_ or None
        if sampled is None:
            classifier.fit(points, labels[train], checkpoint=checkpoint)
        else:
            sampled.fit_classifier(classifier, encoder, points, labels[train], checkpoint)

        scored = ScoredRows.of(classifier, *unknown)
        known = np.concatenate([points, unknown[0][~unknown[1]]])
        sizes = classifier.n_categories_ or [0] * known.shape[1]
        sizes = [-1 if k in encoder.gap_features_ else size for k, size in enumerate(sizes)]
        truth = np.searchsorted(classifier.classes_, labels[held_out])
        options: dict[str, Any] = {"false_alarm": false_alarm, "per_class": per_class}
        options |= {"confidence": confidence}
        rule, error_bound = scored.calibrate(truth, bounds, **options)
        facts: dict[str, Any] = {
            "rows": len(frame),
            "training_rows": len(train),
            "sampled_rows": len(train),
            "calibration_rows": len(held_out),
            "copies": int(n_copies),
            "repeated_rows": repeats,
            "unseen_in_calibration": int(np.isinf(scored.ood_score).sum()),
            "classes": {str(label): int((labels == label).sum()) for label in classifier.classes_},
            "features": len(encoder.feature_names_),
            "dropped_columns": dict(encoder.dropped_),
            "calibrated_on": "random rows",
            "drift": "",
            **scored.quality(truth),
            "error_bound": error_bound,
            "seed": random_state,
            "impute": impute,
            "quick": quick,
            "data_digest": _checksum(frame),
        }
        facts |= {} if sampled is None else sampled.facts
        if times is not None:
            in_order = np.argsort(times[held_out], kind="stable")
            facts["calibrated_on"] = _period(time, table, times[held_out])
            facts["drift"] = scored.take(in_order).drift(truth[in_order])
        columns = {column.name: column for column in encoder.columns_}
        profile = TableProfile.of(
            table.iloc[train],
            {name: column.kind for name, column in columns.items()},
            {name: column.date_format for name, column in columns.items()},
        )
        share_known = len(train) / facts["training_rows"]
        return cls(
            classifier=classifier,
            encoder=encoder,
            rule=rule,
            target=target,
            facts=facts,
            made=_made_now(),
            calibration=scored.calibration(truth),
            neighborhood=Neighborhood.fit(known, sizes, random_state),
            replacements=Replacements.fit(
                encoder, points, np.searchsorted(classifier.classes_, labels[train])
            ),
            profile=replace(profile, hashed=profile.hashed * share_known),
        )

    @property
    def added_columns(self) -> list[str]:
        """Names of the columns that `score` returns, `because` last."""
        each = [f"p_{label}" for label in self.classifier.classes_]
        parts = ["total", "aleatoric", "epistemic"]
        ood = ["ood_score", "ood_probability", "rows_like_this", "log_density"]
        return ["prediction", *each, *parts, *ood, "decision", "reason", "because"]

    def score(self, frame: Any, because: bool = False) -> Any:
        """Predictions, uncertainties and decisions for each row of `frame`, with the same index.

        Parameters
        ----------
        frame : DataFrame
            A table with the columns of training, in any order; of pandas, polars or Arrow.
        because : bool
            Add the column `because`, which says in words why a row is deferred; see `explain`. That
            takes a few milliseconds for each deferred row.

        Returns
        -------
        DataFrame, or table of the same library as `frame`
            `prediction`; `p_<class>` for each class; `total`, `aleatoric`, `epistemic`, in nats;
            `ood_score`; `ood_probability`; `rows_like_this`; `log_density`; `decision`, "accept" or
            "defer"; `reason`, "" or "unfamiliar" or "ambiguous"; `because`, if asked for. A row is
            unfamiliar, whatever its `ood_score`, if it has an unseen category, a gap where training
            had none, more gaps than any training row, another value in a column that was constant,
            or if it is farther from all known rows than these are from each other.
        """
        table = as_pandas(frame)
        (scored,) = self.score_rows([table])
        return like(frame, self.scored_table(table, scored, because))

    def score_rows(self, frames: Sequence[pd.DataFrame]) -> list[ScoredRows]:
        """Score several tables in one pass, which is faster than one after the other."""
        encoded = [self.encoder.transform_with_unseen(frame) for frame in frames]
        features, unseen = (np.concatenate(each) for each in zip(*encoded, strict=True))
        scored = ScoredRows.of(self.classifier, features, unseen, self.neighborhood)
        ends = np.cumsum([len(frame) for frame in frames])
        return [scored.take(rows) for rows in np.split(np.arange(len(features)), ends[:-1])]

    def scored_table(
        self, frame: pd.DataFrame, scored: ScoredRows, because: bool = False
    ) -> pd.DataFrame:
        """What `score` returns, from the result of `score_rows` for this table."""
        given, decisions = scored.evaluation, scored.decide(self.rule)
        columns = [
            self.classifier.classes_[scored.predicted],
            *given.probabilities.T,
            *(given.total, given.aleatoric, given.epistemic),
            *(given.ood_score, given.ood_probability, given.rows_like_this, given.log_density),
            *decisions,
        ]
        named = dict(zip(self.added_columns, columns, strict=False))
        if because:
            named["because"] = [str(each) for each in self.explainer.explain(frame, scored)]
        return pd.DataFrame(named, index=frame.index)

    def explain(self, frame: Any) -> list[Explanation]:
        """Why each row of `frame` is deferred.

        Of an unfamiliar row, the columns that make it so: the most surprising first, each with its
        value and with what was expected given the rest of the row. Of an ambiguous row, the two
        classes and the columns between them. Of an accepted row, nothing.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> iris = load_iris(as_frame=True).frame
        >>> model = TableModel.fit(iris, "target", quick=True)
        >>> (why,) = model.explain(iris.head(1).assign(**{"petal length (cm)": 14.0}))
        >>> why.surprises[0].column
        'petal length (cm)'
        """
        table = as_pandas(frame)
        (scored,) = self.score_rows([table])
        return self.explainer.explain(table, scored)

    @property
    def explainer(self) -> Explainer:
        """Explains rows by the parts of this model."""
        return Explainer(
            self.classifier, self.encoder, self.replacements, self.neighborhood, self.rule
        )

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model atomically to the folder `path`, as JSON and safetensors.

        The folder must not exist yet; with `overwrite`, a saved model there is replaced.
        """
        content = {
            "classifier": pack_classifier(self.classifier),
            "encoder": self.encoder.to_dict(),
            "rule": self.rule.to_dict(),
            "target": self.target,
            "facts": dict(self.facts),
            "made": dict(self.made),
            "calibration": {name: torch.tensor(each) for name, each in self.calibration.items()},
            "neighborhood": self.neighborhood.to_dict(),
            "replacements": self.replacements.to_dict(),
            "profile": self.profile.to_dict(),
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
                classifier=unpack_classifier(BaCOUnClassifier, content["classifier"]),
                encoder=TableEncoder.from_dict(content["encoder"]),
                rule=DeferralRule.from_dict(content["rule"]),
                target=content["target"],
                facts=content["facts"],
                made=content["made"],
                calibration={name: each.numpy() for name, each in content["calibration"].items()},
                neighborhood=Neighborhood.from_dict(content["neighborhood"]),
                replacements=Replacements.from_dict(content["replacements"]),
                profile=TableProfile.from_dict(content["profile"]),
            )


def check_settings(
    *,
    random_state: int = 0,
    calibration_share: float = 0.2,
    false_alarm: float = 0.05,
    max_error: float | Literal["auto"] | None = "auto",
    confidence: float = 0.95,
    **others: Any,
) -> Sequence[float]:
    """Refuse numbers that `TableModel.fit` cannot use; return the error bounds to try.

    Other settings than these are ignored.
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
    return bounds


def _period(name: str | None, table: pd.DataFrame, times: np.ndarray) -> str:
    """The time that the calibration rows span, in words."""
    is_date = find_kind(table[name])[0] == "date"
    first, last = (dates.as_text(t) if is_date else f"{t:.15g}" for t in (times.min(), times.max()))
    return f"the latest rows, {name} from {first} to {last}"


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
