"""Selective prediction: the largest set of points whose error rate is bounded with confidence.

Sort the calibration points by uncertainty, and take those strictly below the (s + 1)-th. Given that
threshold alone, they are s independent draws from the region below it, so the exact binomial test
is valid. The sizes s depend only on the number of points, `max_error` and `confidence`, never on
labels. They are tested in ascending order, each at the full level, and the last one before the
first failure is kept (fixed-sequence testing). To be wrong, the first region with too many errors
must pass, with probability at most 1 - confidence.

Taking the thresholds from the same scores costs one assumption: the error rate does not fall as the
uncertainty rises. With `thresholds` chosen on other points, nothing is assumed.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from bacoun.deferral.checks import as_booleans, as_scores, as_share, check_same_length
from bacoun.files.text import percent

_MAX_REGIONS = 20  # each test is a chance to stop early; a region can only end at a tested size


@dataclass(frozen=True)
class Acceptance:
    """Which points may be accepted, and the evidence for it.

    Attributes
    ----------
    max_error, confidence : float
        The requested error bound, and the confidence with which it holds.
    threshold : float or None
        Accept up to this uncertainty; infinite: accept all. None: not enough evidence.
    n_points : int
        Size of the calibration set.
    n_accepted, n_errors : int
        Calibration points in the region and errors among them; without enough evidence, those of
        the smallest region that was tested.
    upper_bound : float
        Exact upper confidence bound (Clopper-Pearson) of the error rate in that region.
    n_bounds : int
        From how many bounds this one was chosen. Each is tested at a level that leaves its share of
        the risk, so that the choice may depend on the points (Bonferroni).
    """

    max_error: float
    confidence: float
    threshold: float | None
    n_points: int
    n_accepted: int
    n_errors: int
    upper_bound: float
    n_bounds: int = 1

    @property
    def statement(self) -> str:
        """The guarantee and the evidence for it, or what is missing."""
        max_error, confidence, upper_bound = (
            percent(share, 3, least=0)
            for share in (self.max_error, self.confidence, self.upper_bound)
        )
        bound = f"at most {max_error} of accepted points are wrong, with {confidence} confidence"
        upper = f"(upper bound {upper_bound})"
        if self.threshold is not None:
            return (
                f"{bound[0].upper()}{bound[1:]}: {self.n_accepted} of {self.n_points} calibration "
                f"points were accepted, {self.n_errors} of them wrong {upper}."
            )
        needed = points_needed(self.max_error, _level(self.confidence, self.n_bounds))
        found = f"there were {self.n_accepted}"
        if self.n_accepted >= needed:
            found = f"the {self.n_accepted} least uncertain had {self.n_errors} {upper}"
        return (
            f"Not enough evidence that {bound}: this needs {needed} accepted calibration points "
            f"without an error; {found}. Use more calibration points, or a weaker bound."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite threshold becomes None, with `supported` True."""
        unlimited = self.threshold is None or math.isinf(self.threshold)
        plain = asdict(self) | {"supported": self.threshold is not None}
        return plain | {"threshold": None if unlimited else self.threshold}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        values = dict(plain)
        if values.pop("supported") and values["threshold"] is None:
            values["threshold"] = math.inf
        return cls(**values)


def largest_acceptance(
    total: ArrayLike,
    correct: ArrayLike,
    max_error: float,
    confidence: float = 0.95,
    thresholds: ArrayLike | None = None,
    n_bounds: int = 1,
) -> Acceptance:
    """The largest region {total <= threshold} with an error rate of at most `max_error`.

    Parameters
    ----------
    total : array of shape (N,)
        Uncertainty of the calibration points, which the model was not fitted on; may be empty.
    correct : array of shape (N,)
        Whether each prediction is correct.
    max_error : float
        Largest error rate among accepted points, between 0 and 1.
    confidence : float
        Probability, over calibration sets, that the bound holds; between 0 and 1.
    thresholds : array of shape (n,), optional
        Chosen without the calibration points; tested in ascending order, and all points last.
        None: start with the least uncertain points, as few as can pass the test but at least a
        tenth of all, and grow to the sizes at which one more error is allowed.
    n_bounds : int
        From how many values of `max_error` one will be chosen by the results for all of them.

    Examples
    --------
    >>> largest_acceptance(range(299), [True] * 299, 0.01).threshold
    inf
    >>> print(largest_acceptance(range(298), [True] * 298, 0.01).statement)
    Not enough evidence that at most 1 % of accepted points are wrong, with 95 % confidence: this \
needs 299 accepted calibration points without an error; there were 298. Use more calibration \
points, or a weaker bound.
    """
    total, correct = as_scores("total", total, empty=True), as_booleans("correct", correct)
    check_same_length(total=total, correct=correct)
    as_share("max_error", max_error)
    as_share("confidence", confidence)
    level = _level(confidence, n_bounds)
    if thresholds is None:
        tested = _thresholds(total, max_error, level)
    else:
        tested = np.unique(np.append(as_scores("thresholds", thresholds), math.inf))

    def region(threshold: float) -> Acceptance:
        inside = total <= threshold
        n_accepted, n_errors = int(inside.sum()), int((inside & ~correct).sum())
        figures = (len(total), n_accepted, n_errors, upper_bound(n_errors, n_accepted, level))
        return Acceptance(float(max_error), float(confidence), threshold, *figures, n_bounds)

    regions = [region(threshold) for threshold in tested.tolist()]
    passed = takewhile(lambda r: _passes(r.n_errors, r.n_accepted, max_error, level), regions)
    return [replace(regions[0], threshold=None), *passed][-1]


def _level(confidence: float, n_bounds: int) -> float:
    """Confidence at which each of several bounds is tested."""
    return 1 - (1 - confidence) / n_bounds


def points_needed(max_error: float, confidence: float, n_errors: int = 0) -> int:
    """Fewest accepted calibration points, `n_errors` of them wrong, that support a bound.

    The bound is an error rate of at most `max_error`, with `confidence`; both between 0 and 1.

    Examples
    --------
    >>> [points_needed(0.01, 0.95, n_errors) for n_errors in range(3)]
    [299, 473, 628]
    """
    # An upper limit, by the Chernoff bound.
    enough = math.ceil(2 * (n_errors - 2 * math.log1p(-confidence)) / max_error) + n_errors + 1
    sizes = range(n_errors + 1, enough + 1)
    found = bisect_left(sizes, True, key=lambda n: _passes(n_errors, n, max_error, confidence))
    return sizes[found]


def upper_bound(n_errors: int, n_points: int, confidence: float) -> float:
    """Exact upper confidence bound of an error rate, given `n_errors` errors in `n_points`."""
    if n_errors >= n_points:
        return 1.0
    return float(special.betaincinv(n_errors + 1, n_points - n_errors, confidence))


def _passes(n_errors: int, n_points: int, max_error: float, confidence: float) -> bool:
    """Whether so few errors have probability <= 1 - confidence at an error rate of `max_error`."""
    return bool(special.bdtr(n_errors, n_points, max_error) <= 1 - confidence)


def _thresholds(total: np.ndarray, max_error: float, confidence: float) -> np.ndarray:
    """Thresholds just below the point that follows the s least uncertain ones, for growing s."""
    if len(total) == 0:
        return np.array([math.inf])
    ascending = np.append(np.sort(total), math.inf)
    edges = ascending[_region_sizes(len(total), max_error, confidence)]
    # With ties, a region may hold fewer points than can pass: start beyond the tie.
    last_needed = min(points_needed(max_error, confidence), len(total)) - 1
    edges = np.unique(edges[edges > ascending[last_needed]])
    return np.where(np.isinf(edges), edges, np.nextafter(edges, -math.inf))


def _region_sizes(n_points: int, max_error: float, confidence: float) -> list[int]:
    """Sizes to test: where one more error is allowed, about evenly spaced, and all points."""
    start = max(points_needed(max_error, confidence), n_points // 10)
    if start >= n_points:
        return [n_points]
    few, many = (stats.binom.ppf(1 - confidence, n, max_error) - 1 for n in (start, n_points))
    errors = np.unique(np.linspace(max(few, 0), many, _MAX_REGIONS).astype(int)).tolist()
    sizes = (points_needed(max_error, confidence, n_errors) for n_errors in errors)
    return [*(size for size in sizes if size < n_points), n_points]
