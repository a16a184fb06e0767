"""ScoredRows: what a model says about rows of a table, and the deferral rule calibrated on it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from scipy import stats

from bacoun.base import Evaluation
from bacoun.classifier import BaCOUnClassifier
from bacoun.deferral import DeferralRule
from bacoun.tabular.neighbors import Neighborhood
from bacoun.uncertainty import auroc, expected_calibration_error

_SCORES = tuple(field.name for field in fields(Evaluation) if field.name != "probabilities")
_BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.2)  # of the error rate, of which "auto" chooses
_LARGEST_ERROR_PROBABILITY = 0.2  # so that scarce data does not mean fewer deferrals
_SIGNIFICANT = 0.01  # p-value of drift within the calibration rows

# A threshold is the score of a calibration row, whose last digits in single precision depend on the
# other rows of its chunk. The rule is given rounded scores, so that they cannot change a decision.
_DECIMALS_OF_NATS, _DECIMALS_OF_SCORE = 5, 2


@dataclass(frozen=True)
class ScoredRows:
    """What a model says about N rows of a table."""

    frame: pd.DataFrame  # the N rows as they came
    features: np.ndarray  # (N, D), encoded
    classes: np.ndarray  # the labels (K,), in the order of the probabilities
    evaluation: Evaluation[np.ndarray]  # probabilities (N, K), uncertainties and scores (N,)
    unseen: np.ndarray  # (N,), rows with something that training did not have
    outside: np.ndarray  # (N,), rows farther from all known ones than these from each other
    reason: np.ndarray  # (N,): "unfamiliar", "ambiguous", or "" if accepted or not decided yet
    truth: np.ndarray | None = None  # index (N,) of the true class, if known

    @classmethod
    def of(
        cls,
        classifier: BaCOUnClassifier,
        frame: pd.DataFrame,
        features: np.ndarray,
        unseen: np.ndarray | None = None,
        neighborhood: Neighborhood | None = None,
    ) -> Self:
        """Score encoded rows; none is outside without a neighborhood."""
        said, nothing = classifier.evaluate(features), np.zeros(len(features), dtype=bool)
        unseen = nothing if unseen is None else unseen
        outside = nothing if neighborhood is None else neighborhood.is_outside(features)
        reason = np.full(len(features), "")
        return cls(frame, features, classifier.classes_, said, unseen, outside, reason)

    def __len__(self) -> int:
        return len(self.unseen)

    def take(self, rows: np.ndarray) -> Self:
        """Some of the rows, by their indices."""
        said = {name: _take(column, rows) for name, column in vars(self.evaluation).items()}
        names = ("frame", "features", "unseen", "outside", "reason", "truth")
        parts = {name: _take(vars(self)[name], rows) for name in names}
        return replace(self, evaluation=Evaluation(**said), **parts)

    @property
    def predicted(self) -> np.ndarray:
        """Index (N,) of the most likely class."""
        return self.evaluation.probabilities.argmax(axis=1)

    def most_likely(self, row: int, number: int = 3) -> list[tuple[int, float]]:
        """Indices and probabilities of the most likely classes of a row."""
        probabilities = self.evaluation.probabilities[row]
        order = np.argsort(-probabilities, kind="stable")[:number]
        return [(int(k), float(probabilities[k])) for k in order]

    @property
    def correct(self) -> np.ndarray | None:
        """Whether each prediction (N,) is right; None without labels."""
        return None if self.truth is None else self.predicted == self.truth

    @property
    def ood_score(self) -> np.ndarray:
        """OOD score (N,), infinite for what is certainly unlike all training rows."""
        return np.where(self.unseen | self.outside, np.inf, self.evaluation.ood_score)

    def _rounded(self) -> tuple[np.ndarray, np.ndarray]:
        """`ood_score` (N,) and total uncertainty (N,), as the rule is given them."""
        in_nats = self.evaluation.ood_probability is None  # without doubt, the score is epistemic
        decimals = _DECIMALS_OF_NATS if in_nats else _DECIMALS_OF_SCORE
        return self.ood_score.round(decimals), self.evaluation.total.round(_DECIMALS_OF_NATS)

    def decided(self, rule: DeferralRule) -> Self:
        """The same rows, with the reasons by which a rule defers them."""
        return replace(self, reason=rule.decide(*self._rounded(), self.predicted).reason)

    @staticmethod
    def column_names(classes: Iterable[Any]) -> list[str]:
        """Names of the columns of `table`."""
        probabilities = (f"p_{label}" for label in classes)
        return ["prediction", *probabilities, *_SCORES, "decision", "reason"]

    @cached_property
    def table(self) -> pd.DataFrame:
        """The columns that `TableModel.score` adds, with the index of `frame`."""
        said = self.evaluation
        columns = [
            self.classes[self.predicted],
            *said.probabilities.T,
            *(vars(said)[score] for score in _SCORES),
            np.where(self.reason == "", "accept", "defer"),
            self.reason,
        ]
        named = zip(self.column_names(self.classes), columns, strict=True)
        return pd.DataFrame(dict(named), index=self.frame.index)

    def calibrate(
        self, max_error: float | Literal["auto"] | None, **options: Any
    ) -> tuple[DeferralRule, str]:
        """The deferral rule, and a sentence on its error bound.

        Of several bounds, as in "auto", the tightest counts that there is evidence for. Each is
        tested with an equal share of the risk, so that the choice keeps the confidence.
        """
        scores = *self._rounded(), self.correct, self.predicted
        make = partial(DeferralRule.calibrate, *scores, **options)
        if max_error is None:
            return make(), "No error bound was requested."
        bounds = _BOUNDS if max_error == "auto" else [max_error]
        if len(bounds) > 1:
            cap = _LARGEST_ERROR_PROBABILITY
            make = partial(make, max_error_probability=cap, n_bounds=len(bounds))
        rules = [make(max_error=bound) for bound in sorted(bounds)]
        supported = (rule for rule in rules if rule.total_threshold > -math.inf)
        rule = next(supported, rules[-1])
        acceptance: Any = rule.acceptance
        if acceptance.threshold is not None or len(bounds) == 1:
            return rule, acceptance.statement
        return replace(rule, acceptance=None), f"{acceptance.statement} No bound is guaranteed."

    def calibration(self) -> dict[str, Any]:
        """The scores that the rule is calibrated on, before rounding."""
        total = self.evaluation.total
        return {"ood_score": self.ood_score, "total": total, "correct": self.correct}

    def drift(self) -> str:
        """Whether rows in the order of time become less familiar, or errors more frequent."""
        assert self.correct is not None
        measures = {"ood_score rises": self.ood_score, "errors become more frequent": ~self.correct}
        half, rising = len(self) // 2, []
        for words, values in measures.items():
            early, late = values[:half].astype(float), values[half:].astype(float)
            p_value = float(stats.mannwhitneyu(late, early, alternative="greater").pvalue)
            if p_value < _SIGNIFICANT / len(measures):
                rising.append(f"{words} (p = {p_value:.1g})")
        if not rising:
            return ""
        return (
            f"Among the calibration rows, in the order of time, {' and '.join(rising)}. The "
            "guarantees do not cover such drift."
        )

    def quality(self) -> dict[str, float | None]:
        """Accuracy, area under the ROC curve and calibration error; None if not defined."""
        assert self.truth is not None
        said = self.evaluation.probabilities, self.truth
        accuracy = float((self.predicted == self.truth).mean())
        ece = expected_calibration_error(*said)
        return {"accuracy": accuracy, "auc": class_auc(*said), "ece": ece}


def class_auc(probabilities: np.ndarray, labels: np.ndarray) -> float | None:
    """Area under the ROC curve: of the last of two classes, else the one-vs-rest mean.

    Classes that no row or every row has are left out; None if that leaves none.
    """
    n_classes = probabilities.shape[1]
    areas = [
        auroc(probabilities[labels != k, k], probabilities[labels == k, k])
        for k in ([1] if n_classes == 2 else range(n_classes))
        if 0 < (labels == k).sum() < len(labels)
    ]
    return float(np.mean(areas)) if areas else None


def _take(value: Any, rows: np.ndarray) -> Any:
    some = value.iloc if isinstance(value, pd.DataFrame) else value
    return None if some is None else some[rows]
