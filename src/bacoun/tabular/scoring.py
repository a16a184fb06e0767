"""What a classifier predicts for the rows of a table, and the deferral rule calibrated on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import stats
from sklearn.metrics import roc_auc_score

from bacoun.base import Evaluation
from bacoun.classifier import BaCOUnClassifier
from bacoun.deferral import DeferralRule
from bacoun.deferral.rule import Decisions
from bacoun.tabular.neighbors import Neighborhood
from bacoun.uncertainty import expected_calibration_error

_LARGEST_ERROR_PROBABILITY = 0.2  # so that scarce data does not mean fewer deferrals
_SIGNIFICANT = 0.01  # p-value of drift within the calibration rows

# A threshold is the score of a calibration row, whose last digits in single precision depend on the
# other rows of its chunk. The rule is given rounded scores, so that they cannot change a decision.
_DECIMALS_OF_NATS, _DECIMALS_OF_SCORE = 5, 2


class ScoredRows(NamedTuple):
    """What a classifier predicts for N rows."""

    features: np.ndarray  # (N, D), encoded
    evaluation: Evaluation[np.ndarray]
    unseen: np.ndarray  # (N,), rows with something not seen in training
    outside: np.ndarray  # (N,), rows outside of all training rows

    @classmethod
    def of(
        cls,
        classifier: BaCOUnClassifier,
        features: np.ndarray,
        unseen: np.ndarray,
        neighborhood: Neighborhood | None = None,
    ) -> Self:
        """Score encoded rows (N, D), some of which (N,) have something unseen.

        Without a neighborhood, none is outside.
        """
        outside = np.zeros(len(features), dtype=bool)
        if neighborhood is not None:
            outside = neighborhood.is_outside(features)
        return cls(features, classifier.evaluate(features), unseen, outside)

    def take(self, rows: np.ndarray) -> Self:
        """Some of the rows, by their indices."""
        given: dict[str, Any] = {
            name: None if values is None else values[rows]
            for name, values in vars(self.evaluation).items()
        }
        others = self.unseen[rows], self.outside[rows]
        return type(self)(self.features[rows], Evaluation(**given), *others)

    @property
    def predicted(self) -> np.ndarray:
        """Index (N,) of the most likely class."""
        return self.evaluation.probabilities.argmax(axis=1)

    @property
    def ood_score(self) -> np.ndarray:
        """OOD score (N,), infinite for what is certainly unlike all training rows."""
        return np.where(self.unseen | self.outside, np.inf, self.evaluation.ood_score)

    def rounded(self) -> tuple[np.ndarray, np.ndarray]:
        """`ood_score` (N,) and total uncertainty (N,), as the rule is given them."""
        in_nats = self.evaluation.ood_probability is None  # without doubt, the score is epistemic
        decimals = _DECIMALS_OF_NATS if in_nats else _DECIMALS_OF_SCORE
        return self.ood_score.round(decimals), self.evaluation.total.round(_DECIMALS_OF_NATS)

    def decide(self, rule: DeferralRule) -> Decisions:
        """Accept or defer each row."""
        return rule.decide(*self.rounded(), self.predicted)

    def calibrate(
        self, truth: np.ndarray, bounds: Sequence[float], **options: Any
    ) -> tuple[DeferralRule, str]:
        """The rule, given the class indices `truth` (N,), and a sentence on its error bound.

        Of several `bounds` the tightest counts that there is evidence for. Each is tested with an
        equal share of the risk, so that the choice keeps the confidence.
        """
        right = self.predicted == truth
        make = partial(DeferralRule.calibrate, *self.rounded(), right, self.predicted, **options)
        if not bounds:
            return make(), "No error bound was requested."
        if len(bounds) > 1:
            make = partial(
                make, max_error_probability=_LARGEST_ERROR_PROBABILITY, n_bounds=len(bounds)
            )
        rules = [make(max_error=bound) for bound in sorted(bounds)]
        rule = next(filter(_is_supported, rules), rules[-1])
        acceptance: Any = rule.acceptance
        if _is_supported(rule) or len(bounds) == 1:
            return rule, acceptance.statement
        return replace(rule, acceptance=None), f"{acceptance.statement} No bound is guaranteed."

    def calibration(self, truth: np.ndarray) -> dict[str, np.ndarray]:
        """The scores that the rule is calibrated on, before rounding."""
        right = self.predicted == truth
        return {"ood_score": self.ood_score, "total": self.evaluation.total, "correct": right}

    def drift(self, truth: np.ndarray) -> str:
        """Whether rows in the order of time become less familiar, or errors more frequent."""
        correct, half = self.predicted == truth, len(truth) // 2
        measures = {"ood_score rises": self.ood_score, "errors become more frequent": ~correct}
        found = []
        for words, values in measures.items():
            early, late = values[:half].astype(float), values[half:].astype(float)
            p_value = float(stats.mannwhitneyu(late, early, alternative="greater").pvalue)
            if p_value < _SIGNIFICANT / len(measures):
                found.append(f"{words} (p = {p_value:.1g})")
        if not found:
            return ""
        return (
            f"Among the calibration rows, in the order of time, {' and '.join(found)}. The "
            "guarantees do not cover such drift."
        )

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
