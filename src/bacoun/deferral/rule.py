"""DeferralRule: accept a prediction, or hand the point to a person and say why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from bacoun.deferral.checks import (
    as_classes,
    as_scores,
    as_share,
    as_truths,
    check_equally_long,
)
from bacoun.deferral.conformal import class_thresholds, conformal_threshold, fewest_scores
from bacoun.deferral.risk import Acceptance, largest_acceptance, percent


class Decisions(NamedTuple):
    """What to do with each point.

    Attributes
    ----------
    decision : ndarray of shape (N,)
        "accept" or "defer".
    reason : ndarray of shape (N,)
        Why it is deferred: "unfamiliar", nothing like it was seen, or "ambiguous", its uncertainty
        is too high although it looks familiar, so classes overlap here; "" where it is accepted.
    """

    decision: np.ndarray
    reason: np.ndarray


@dataclass(frozen=True)
class DeferralRule:
    """Thresholds on `ood_score` and total uncertainty, with what they promise.

    Attributes
    ----------
    false_alarm : float
        At most this share of in-distribution points is flagged as unfamiliar, on average.
    n_calibration : int
        Calibration points behind the rule.
    ood_threshold : float
        Points whose `ood_score` is above are unfamiliar. Infinite if there were too few points to
        set it, or too many of an infinite score; then only such points are unfamiliar.
    class_thresholds : dict or None
        The same for single predicted classes, by index; other classes use `ood_threshold`. None:
        one threshold for all.
    acceptance : Acceptance or None
        Among familiar points, those that may be accepted; None if no error bound was asked for.

    Examples
    --------
    >>> scores = np.linspace(0, 1, 99)
    >>> rule = DeferralRule.calibrate(scores, scores, scores < 0.5, max_error=0.1)
    >>> print(*rule.decide([0.1, 0.1, 2.0], [0.1, 0.9, 2.0]).reason, sep=", ")
    , ambiguous, unfamiliar
    """

    false_alarm: float
    n_calibration: int
    ood_threshold: float
    class_thresholds: dict[int, float] | None = None
    acceptance: Acceptance | None = None

    @classmethod
    def calibrate(
        cls,
        ood_score: ArrayLike,
        total: ArrayLike,
        correct: ArrayLike | None = None,
        predicted: ArrayLike | None = None,
        *,
        false_alarm: float = 0.05,
        max_error: float | None = None,
        confidence: float = 0.95,
        per_class: bool = False,
    ) -> Self:
        """Choose the thresholds on points that the model was not fitted on.

        Parameters
        ----------
        ood_score : array of shape (N,)
            How unfamiliar the calibration points are, as `model.ood_score` says; or any score that
            is higher for stranger points. +inf is unfamiliar under every rule.
        total : array of shape (N,)
            Their total uncertainty, in nats.
        correct : array of shape (N,), optional
            Whether each prediction was right; `max_error` needs it.
        predicted : array of shape (N,), optional
            Index of the predicted class; `per_class` needs it.
        false_alarm : float
            Largest share of in-distribution points that may be flagged as unfamiliar.
        max_error : float, optional
            Largest share of errors among accepted points. None: accept all that is familiar.
        confidence : float
            With which the error bound holds.
        per_class : bool
            Keep `false_alarm` within each predicted class that has enough calibration points.
        """
        ood_score = as_scores("ood_score", ood_score, infinite=True)
        total = as_scores("total", total)
        check_equally_long(ood_score=ood_score, total=total)
        thresholds = None
        if per_class:
            thresholds = class_thresholds(ood_score, _given("predicted", predicted), false_alarm)
        familiar = cls(
            false_alarm=float(as_share("false_alarm", false_alarm)),
            n_calibration=len(ood_score),
            ood_threshold=conformal_threshold(ood_score, false_alarm),
            class_thresholds=thresholds,
        )
        if max_error is None:
            return familiar
        truths = as_truths("correct", _given("correct", correct))
        check_equally_long(total=total, correct=truths)
        passed = familiar.decide(ood_score, total, predicted).decision == "accept"
        acceptance = largest_acceptance(total[passed], truths[passed], max_error, confidence)
        return replace(familiar, acceptance=acceptance)

    def decide(
        self, ood_score: ArrayLike, total: ArrayLike, predicted: ArrayLike | None = None
    ) -> Decisions:
        """Accept or defer each point (N,), given its scores and, per class, its predicted class.

        A point whose `ood_score` is +inf is always unfamiliar. If the data could not support the
        error bound, nothing is accepted.
        """
        ood_score = as_scores("ood_score", ood_score, empty=True, infinite=True)
        total = as_scores("total", total, empty=True)
        check_equally_long(ood_score=ood_score, total=total)
        limit = np.full(len(ood_score), self.ood_threshold)
        if self.class_thresholds is not None:
            classes = as_classes("predicted", _given("predicted", predicted))
            check_equally_long(ood_score=ood_score, predicted=classes)
            for index, threshold in self.class_thresholds.items():
                limit[classes == index] = threshold
        reason = np.where(total > self._total_threshold, "ambiguous", "")
        unfamiliar = (ood_score > limit) | np.isinf(ood_score)
        reason = np.where(unfamiliar, "unfamiliar", reason)
        return Decisions(np.where(reason == "", "accept", "defer"), reason)

    @property
    def _total_threshold(self) -> float:
        if self.acceptance is None:
            return math.inf
        return -math.inf if self.acceptance.threshold is None else self.acceptance.threshold

    def summary(self) -> str:
        """The rule and its promises in a few lines."""
        lines = [self._unfamiliar_in_words()]
        if self.class_thresholds is not None:
            each = [f"{index}: {value:.3g}" for index, value in self.class_thresholds.items()]
            lines.append(
                f"The same within predicted classes, above {', '.join(each) or 'none'}; others, as "
                f"those of fewer than {fewest_scores(self.false_alarm)} points, have no promise of "
                "their own."
            )
        if self.acceptance is not None:
            lines.append(f"{self._ambiguous_in_words()} {self.acceptance.statement}")
        lines.append(
            "This holds for points drawn like the calibration points; no rule can promise to find "
            "every point that is not."
        )
        return "\n".join(lines)

    def _unfamiliar_in_words(self) -> str:
        alarm, needed = percent(self.false_alarm), fewest_scores(self.false_alarm)
        if self.n_calibration < needed:
            return (
                f"Unfamiliar: only an infinite ood_score. A false alarm of {alarm} needs {needed} "
                f"calibration points; there were {self.n_calibration}."
            )
        if math.isinf(self.ood_threshold):
            return (
                "Unfamiliar: only an infinite ood_score, which too many of the "
                f"{self.n_calibration} calibration points have to promise a false alarm of {alarm}."
            )
        return (
            f"Unfamiliar: ood_score above {self.ood_threshold:.3g}. On average at most {alarm} of "
            f"in-distribution points are flagged ({self.n_calibration} calibration points)."
        )

    def _ambiguous_in_words(self) -> str:
        if math.isinf(self._total_threshold):
            return "Ambiguous: none." if self._total_threshold > 0 else "Ambiguous: all others."
        return f"Ambiguous: of the others, total above {self._total_threshold:.3g} nats."

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite threshold becomes None."""
        own = self.class_thresholds
        finite = math.isfinite(self.ood_threshold)
        return {
            "false_alarm": self.false_alarm,
            "n_calibration": self.n_calibration,
            "ood_threshold": self.ood_threshold if finite else None,
            "class_thresholds": own and {str(index): value for index, value in own.items()},
            "acceptance": self.acceptance and self.acceptance.to_dict(),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        try:
            own, acceptance = plain["class_thresholds"], plain["acceptance"]
            threshold = plain["ood_threshold"]
            return cls(
                false_alarm=plain["false_alarm"],
                n_calibration=plain["n_calibration"],
                ood_threshold=math.inf if threshold is None else threshold,
                class_thresholds=own and {int(index): value for index, value in own.items()},
                acceptance=acceptance and Acceptance.from_dict(acceptance),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"a deferral rule must hold what to_dict wrote; reading it failed at {error}. "
                "Calibrate anew."
            ) from error


def _given(name: str, values: ArrayLike | None) -> ArrayLike:
    if values is None:
        option = {"predicted": "per_class", "correct": "max_error"}[name]
        raise ValueError(f"{option} needs {name}; got None. Pass {name}, or leave {option} out.")
    return values
