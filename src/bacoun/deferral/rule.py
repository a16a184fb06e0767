"""DeferralRule: accept a prediction, or defer the point to a person and say why."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from bacoun.deferral.checks import as_booleans, as_classes, as_scores, as_share, check_same_length
from bacoun.deferral.conformal import class_thresholds, conformal_threshold, fewest_scores
from bacoun.deferral.risk import Acceptance, largest_acceptance
from bacoun.files.persistence import from_state, to_state
from bacoun.files.text import percent


class Decisions(NamedTuple):
    """What to do with each point.

    Attributes
    ----------
    decision : ndarray of shape (N,)
        "accept" or "defer".
    reason : ndarray of shape (N,)
        "unfamiliar" if the `ood_score` is too high; "ambiguous" if only the total uncertainty is,
        so that classes overlap here; "" if the point is accepted.
    """

    decision: np.ndarray
    reason: np.ndarray


@dataclass(frozen=True)
class DeferralRule:
    """Thresholds on `ood_score` and total uncertainty, with guarantees.

    Attributes
    ----------
    false_alarm : float
        At most this fraction of in-distribution points is flagged as unfamiliar, on average.
    n_calibration : int
        Size of the calibration set, without points whose `ood_score` is infinite.
    ood_threshold : float
        Points with a higher `ood_score` are unfamiliar. If the calibration set is too small, it is
        infinite, and only infinite scores are unfamiliar.
    class_thresholds : dict or None
        Thresholds for single predicted classes, by index; others use `ood_threshold`. None: all do.
    acceptance : Acceptance or None
        Which familiar points may be accepted; None without an error bound.
    max_error_probability : float or None
        Familiar points that are wrong with a higher probability, according to the model, are
        ambiguous whatever the error bound. None: only the error bound counts.
    n_infinite : int
        Calibration points with an infinite `ood_score`. They are unfamiliar whatever the threshold,
        and use up to half of the false alarms.

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
    max_error_probability: float | None = None
    n_infinite: int = 0

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
        max_error_probability: float | None = None,
        n_bounds: int = 1,
    ) -> Self:
        """Choose the thresholds on a calibration set, which the model was not fitted on.

        Parameters
        ----------
        ood_score, total : array of shape (N,)
            Any score that is higher for unfamiliar points, up to +inf; total uncertainty, in nats.
        correct : array of shape (N,), optional
            Whether each prediction is correct; required by `max_error`.
        predicted : array of shape (N,), optional
            Index of the predicted class; required by `per_class`.
        false_alarm : float
            Largest fraction of in-distribution points that may be flagged as unfamiliar.
        max_error, confidence : float
            Largest error rate among accepted points, and the confidence with which it holds. None:
            accept all familiar points.
        per_class : bool
            Guarantee `false_alarm` within each predicted class with enough calibration points.
        max_error_probability : float, optional
            Defer points that are wrong with a higher probability according to the model, below 0.5.
        n_bounds : int
            From how many values of `max_error` one will be chosen by the rules for all of them.
        """
        ood_score, total = _as_columns(ood_score, total)
        finite = np.isfinite(ood_score)  # the others would raise the threshold beyond all of them
        rule = cls(
            false_alarm=float(as_share("false_alarm", false_alarm)),
            n_calibration=int(finite.sum()),
            ood_threshold=_ood_threshold(ood_score, false_alarm),
            n_infinite=int((~finite).sum()),
            max_error_probability=max_error_probability,
        )
        if per_class and finite.any():
            classes = _predicted(predicted, ood_score)
            thresholds = class_thresholds(ood_score[finite], classes[finite], false_alarm)
            rule = replace(rule, class_thresholds=thresholds)
        if max_error is None:
            return rule
        right = as_booleans("correct", _required("correct", correct, "max_error"))
        check_same_length(total=total, correct=right)
        left = rule.decide(ood_score, total, predicted).decision == "accept"
        acceptance = largest_acceptance(
            total[left], right[left], max_error, confidence, n_bounds=n_bounds
        )
        return replace(rule, acceptance=acceptance)

    def decide(
        self, ood_score: ArrayLike, total: ArrayLike, predicted: ArrayLike | None = None
    ) -> Decisions:
        """Accept or defer each point; without evidence for the error bound, none is accepted.

        The arguments (N,) are as in `calibrate`; a rule with class thresholds needs `predicted`.
        """
        ood_score, total = _as_columns(ood_score, total, empty=True)
        limit = np.full(len(ood_score), self.ood_threshold)
        if self.class_thresholds is not None:
            classes = _predicted(predicted, ood_score)
            for index, threshold in self.class_thresholds.items():
                limit[classes == index] = threshold
        reason = np.where(total > self.total_threshold, "ambiguous", "")
        reason = np.where((ood_score > limit) | np.isinf(ood_score), "unfamiliar", reason)
        return Decisions(np.where(reason == "", "accept", "defer"), reason)

    @property
    def total_threshold(self) -> float:
        """Familiar points with a higher total uncertainty are ambiguous; infinite if none are."""
        limit = math.inf
        if (q := self.max_error_probability) is not None:
            # Of all predictions that are wrong with probability q, none has a smaller entropy.
            limit = -q * math.log(q) - (1 - q) * math.log(1 - q)
        if self.acceptance is None:
            return limit
        threshold = self.acceptance.threshold
        return -math.inf if threshold is None else min(limit, threshold)

    def summary(self) -> str:
        """The rule and its guarantees in a few lines."""
        lines = [self._unfamiliar_in_words()]
        if self.class_thresholds is not None:
            each = [f"{index}: {value:.3g}" for index, value in self.class_thresholds.items()]
            lines.append(
                f"The same within predicted classes, above {', '.join(each) or 'none'}; others, "
                f"such as those with fewer than {fewest_scores(self.false_alarm)} points, are not "
                "covered by the guarantee."
            )
        if self.acceptance is not None or self.max_error_probability is not None:
            limit = self.total_threshold
            which = "none" if limit > 0 else "all others"
            if math.isfinite(limit):
                which = f"of the others, total above {limit:.3g} nats"
            bound = self.acceptance and self.acceptance.statement
            lines.append(f"Ambiguous: {which}. {bound or 'No error bound is guaranteed.'}")
        if self.max_error_probability is not None:
            level = percent(self.max_error_probability, 3, least=0)
            lines[-1] += f" What is wrong with more than {level} probability is always deferred."
        lines.append(
            "This holds for points from the same distribution as the calibration points; no rule "
            "can guarantee to flag every point that is not."
        )
        return "\n".join(lines)

    def _unfamiliar_in_words(self) -> str:
        alarm, needed = percent(self.false_alarm, 3, least=0), fewest_scores(self.false_alarm)
        if math.isinf(self.ood_threshold):
            words = (
                f"Unfamiliar: only an infinite ood_score. A false alarm rate of {alarm} needs "
                f"{needed} calibration points; there were {self.n_calibration}."
            )
        else:
            words = (
                f"Unfamiliar: ood_score above {self.ood_threshold:.3g}. On average at most {alarm} "
                f"of in-distribution points are flagged ({self.n_calibration} calibration points)."
            )
        if self.n_infinite > 0:
            words += f" {self.n_infinite} more have an infinite ood_score and are always flagged"
            share = self.n_infinite / (self.n_infinite + self.n_calibration)
            too_many = share > self.false_alarm / 2
            words += f", so that in all it may be more than {alarm}." if too_many else "."
        return words

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite threshold becomes None."""
        return to_state(self) | {
            "ood_threshold": self.ood_threshold if math.isfinite(self.ood_threshold) else None,
            "acceptance": self.acceptance and self.acceptance.to_dict(),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        try:
            threshold, acceptance = plain["ood_threshold"], plain["acceptance"]
            finite = {"ood_threshold": math.inf if threshold is None else threshold}
            rule = from_state(cls, {**plain, **finite, "acceptance": None})
            return replace(rule, acceptance=acceptance and Acceptance.from_dict(acceptance))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                "a deferral rule must be a dictionary written by to_dict; reading it failed at "
                f"{error}. Calibrate the rule again."
            ) from error


def _ood_threshold(ood_score: np.ndarray, false_alarm: float) -> float:
    """The threshold that only `false_alarm` of the points exceed, those of infinite score included.

    If these use up more than half of the false alarms, the other half is for finite scores: no
    share of infinite scores may make the threshold so high that nothing else exceeds it.
    """
    finite = ood_score[np.isfinite(ood_score)]
    if len(finite) == 0:
        return math.inf
    of_finite, of_all = (conformal_threshold(s, false_alarm) for s in (finite, ood_score))
    if len(finite) == len(ood_score):
        return of_finite
    threshold = min(of_all, conformal_threshold(finite, false_alarm / 2))
    return threshold if math.isfinite(threshold) else of_finite


def _as_columns(
    ood_score: ArrayLike, total: ArrayLike, *, empty: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    scores = as_scores("ood_score", ood_score, empty=empty, infinite=True)
    entropies = as_scores("total", total, empty=empty)
    check_same_length(ood_score=scores, total=entropies)
    return scores, entropies


def _predicted(predicted: ArrayLike | None, ood_score: np.ndarray) -> np.ndarray:
    """Indices (N,) of the predicted classes, checked."""
    classes = as_classes("predicted", _required("predicted", predicted, "per_class"))
    check_same_length(ood_score=ood_score, predicted=classes)
    return classes


def _required(name: str, values: ArrayLike | None, option: str) -> ArrayLike:
    if values is None:
        raise ValueError(f"{option} needs {name}; got None. Pass {name}, or leave {option} out.")
    return values
