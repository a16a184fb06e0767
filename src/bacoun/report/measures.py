"""What the page measures on scored rows, as plain values."""

import math
from typing import NamedTuple, Self

import numpy as np

from bacoun import uncertainty as scores
from bacoun.deferral import DeferralRule
from bacoun.tabular.scored_rows import ScoredRows, class_auc

_BINS = 15  # of confidence, as in expected_calibration_error
_COVERAGES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)


class Tally(NamedTuple):
    """Some of the `total` rows of a table, and their right predictions; None without labels."""

    rows: int
    total: int
    right: int | None

    @property
    def share(self) -> float:
        """Share of the table."""
        return self.rows / self.total

    @property
    def accuracy(self) -> float | None:
        """Share of right predictions; None without labels or rows."""
        return None if self.right is None or not self.rows else self.right / self.rows


def outcomes(scored: ScoredRows, among: np.ndarray | None = None) -> dict[str, Tally]:
    """Rows, or some of them, that are "accepted", "unfamiliar" or "ambiguous", and "all"."""
    among = np.full(len(scored), True) if among is None else among
    reasons = {"accepted": "", "unfamiliar": "unfamiliar", "ambiguous": "ambiguous"}
    chosen = {name: among & (scored.reason == reason) for name, reason in reasons.items()}
    right = scored.correct
    return {
        name: Tally(int(rows.sum()), len(scored), None if right is None else int(right[rows].sum()))
        for name, rows in (chosen | {"all": among}).items()
    }


class Thresholds(NamedTuple):
    """Thresholds of a deferral rule; None where it sets none."""

    ood_score: float | None
    total: float | None
    by_class: list[float]  # of ood_score, ascending

    @classmethod
    def of(cls, rule: DeferralRule) -> Self:
        """Read them from a rule."""
        both = (rule.ood_threshold, rule.total_threshold)
        ood_score, total = (None if math.isinf(limit) else limit for limit in both)
        return cls(ood_score, total, sorted((rule.class_thresholds or {}).values()))


class ConfidenceBin(NamedTuple):
    """Rows of similar confidence."""

    rows: int
    confidence: float
    accuracy: float


def accuracy(test: ScoredRows) -> dict[str, float | None]:
    """How good the probabilities of all rows are: AUC, ECE and log loss; empty without labels."""
    if test.truth is None:
        return {}
    said = test.evaluation.probabilities, test.truth
    return {
        "auc": class_auc(*said),
        "ece": scores.expected_calibration_error(*said, _BINS),
        "log_loss": scores.negative_log_likelihood(*said),
    }


def reliability(test: ScoredRows) -> list[ConfidenceBin]:
    """The bins of `expected_calibration_error` that hold rows; empty without labels."""
    right, confidence = test.correct, test.evaluation.probabilities.max(axis=1)
    if right is None:
        return []
    bins = np.clip(np.ceil(confidence * _BINS).astype(int) - 1, 0, _BINS - 1)
    return [
        ConfidenceBin(int(rows.sum()), float(confidence[rows].mean()), float(right[rows].mean()))
        for rows in (bins == number for number in np.unique(bins))
    ]


def detection(test: ScoredRows, ood: ScoredRows | None) -> dict[str, dict[str, float]]:
    """How well each score separates OOD rows from test rows; empty without OOD rows."""
    if ood is None:
        return {}
    inside, outside = test.evaluation, ood.evaluation
    names = ("ood_score", "epistemic", "total")
    pairs = {name: (vars(inside)[name], vars(outside)[name]) for name in names}
    if inside.log_density is not None and outside.log_density is not None:
        pairs["negative log density"] = (-inside.log_density, -outside.log_density)
    measures = {"auroc": scores.auroc, "fpr95": scores.fpr_at_tpr, "aupr": scores.aupr}
    return {
        name: {word: measure(*pair) for word, measure in measures.items()}
        for name, pair in pairs.items()
    }


def risk(test: ScoredRows) -> dict[str, float]:
    """Errors if rows are answered in the order of total uncertainty; empty without labels."""
    total, right = test.evaluation.total, test.correct
    if right is None:
        return {}
    return {
        "error": 1 - float(right.mean()),
        "coverage_5": scores.coverage_at_risk(total, right, 0.05),
        "aurc": scores.aurc(total, right),
        "aurc_oracle": scores.aurc(~right, right),
        "augrc": scores.augrc(total, right),
    }


def risk_at_coverage(test: ScoredRows) -> dict[float, float]:
    """Share of errors among the rows answered, by coverage; empty without labels."""
    if test.correct is None:
        return {}
    return {c: scores.risk_at_coverage(test.evaluation.total, test.correct, c) for c in _COVERAGES}
