"""The largest set of points whose predictions may be accepted: few errors, with confidence.

Why the bound is valid. Sort the calibration points by uncertainty, and look at those strictly
below the (s + 1)-th. Given that edge alone, and not the scores below it, they are s independent
draws from the region below the edge: their errors are binomial with the true error of that region,
and the exact binomial test holds. The sizes s follow from the number of points, `max_error` and
`confidence`; no label is looked at. They are tested from the smallest on, each at the full level,
and the last one that passes before one fails is kept (fixed-sequence testing). To be wrong, the
first region that is too bad must pass, which has probability at most 1 - confidence.

That the edges come from the same scores costs one assumption: errors do not become rarer as the
uncertainty rises. Which region is the first bad one then tells nothing that would make its errors
fewer than binomial. With `thresholds` chosen on other points nothing is assumed.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from bacoun.deferral.checks import as_scores, as_share, as_truths, check_equally_long

# Regions tested at most. Each is a chance to stop early; between them the region cannot end.
_N_REGIONS = 20


@dataclass(frozen=True)
class Acceptance:
    """Which points may be accepted, and what that rests on.

    Attributes
    ----------
    max_error, confidence : float
        What was asked for.
    threshold : float or None
        Accept up to this uncertainty; infinite: accept all. None: the data cannot support it.
    n_points : int
        Calibration points.
    n_accepted, n_errors : int
        Calibration points in the region and errors among them; if the data cannot support it, those
        of the smallest region that was tested.
    upper_bound : float
        Exact upper confidence bound (Clopper-Pearson) of the error in that region.
    """

    max_error: float
    confidence: float
    threshold: float | None
    n_points: int
    n_accepted: int
    n_errors: int
    upper_bound: float

    @property
    def statement(self) -> str:
        """What is promised and on what grounds, or what it would take."""
        asked = f"at most {percent(self.max_error)} of accepted points are wrong"
        asked += f", with {percent(self.confidence)} confidence"
        if self.threshold is not None:
            return (
                f"{asked[0].upper()}{asked[1:]}: {self.n_accepted} of {self.n_points} calibration "
                f"points were accepted, {self.n_errors} of them wrong (upper bound "
                f"{percent(self.upper_bound)})."
            )
        needed = points_needed(self.max_error, self.confidence)
        found = f"there were {self.n_accepted}"
        if self.n_accepted >= needed:
            found = (
                f"the least uncertain {self.n_accepted} held {self.n_errors} (upper bound "
                f"{percent(self.upper_bound)})"
            )
        return (
            f"The data cannot support that {asked}: this needs {needed} accepted calibration "
            f"points without an error; {found}. Bring more calibration points, or ask for less."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite threshold becomes None beside `supported`: True."""
        unlimited = self.threshold is None or math.isinf(self.threshold)
        plain = asdict(self) | {"supported": self.threshold is not None}
        return plain | {"threshold": None if unlimited else self.threshold}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
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
) -> Acceptance:
    """The largest region {total <= threshold} whose error is at most `max_error`, with confidence.

    Parameters
    ----------
    total : array of shape (N,)
        Uncertainty of calibration points, which the model was not fitted on. None at all, where
        all points are unfamiliar, support nothing.
    correct : array of shape (N,)
        Whether the prediction was right.
    max_error : float
        Largest share of errors among accepted points.
    confidence : float
        In this share of calibration sets, at least, the promise holds.
    thresholds : array, optional
        Chosen without the calibration points; tested from the smallest on, and all points last.
        None: the regions start with the least uncertain points, as few as can pass the test but at
        least a tenth of all, and grow to the sizes at which further errors become affordable.

    Examples
    --------
    >>> largest_acceptance(range(299), [True] * 299, 0.01).threshold
    inf
    >>> print(largest_acceptance(range(298), [True] * 298, 0.01).statement)
    The data cannot support that at most 1 % of accepted points are wrong, with 95 % confidence: \
this needs 299 accepted calibration points without an error; there were 298. Bring more \
calibration points, or ask for less.
    """
    total, correct = as_scores("total", total, empty=True), as_truths("correct", correct)
    check_equally_long(total=total, correct=correct)
    as_share("max_error", max_error)
    as_share("confidence", confidence)
    if thresholds is None:
        tested = _edges(total, max_error, confidence)
    else:
        tested = np.unique(np.append(as_scores("thresholds", thresholds), math.inf))

    kept: Acceptance | None = None
    for threshold in tested.tolist():
        inside = total <= threshold
        n_accepted, n_errors = int(inside.sum()), int((inside & ~correct).sum())
        region = Acceptance(
            max_error=float(max_error),
            confidence=float(confidence),
            threshold=threshold,
            n_points=len(total),
            n_accepted=n_accepted,
            n_errors=n_errors,
            upper_bound=upper_bound(n_errors, n_accepted, confidence),
        )
        if not _passes(n_errors, n_accepted, max_error, confidence):
            return kept or replace(region, threshold=None)
        kept = region
    assert kept is not None  # at least one region is tested
    return kept


def points_needed(max_error: float, confidence: float, n_errors: int = 0) -> int:
    """Fewest accepted points of which `n_errors` may be wrong.

    Examples
    --------
    >>> [points_needed(0.01, 0.95, n_errors) for n_errors in range(3)]
    [299, 473, 628]
    """
    # Chernoff: this many are more than enough.
    enough = math.ceil(2 * (n_errors - 2 * math.log1p(-confidence)) / max_error) + n_errors + 1
    sizes = range(n_errors + 1, enough + 1)
    found = bisect_left(sizes, True, key=lambda n: _passes(n_errors, n, max_error, confidence))
    return sizes[found]


def upper_bound(n_errors: int, n_points: int, confidence: float) -> float:
    """Upper confidence bound of an error of which `n_errors` in `n_points` were seen, exact.

    Examples
    --------
    >>> round(upper_bound(0, 299, 0.95), 5)
    0.00997
    """
    if n_errors >= n_points:
        return 1.0
    return float(special.betaincinv(n_errors + 1, n_points - n_errors, confidence))


def percent(share: float) -> str:
    """A share in words: 0.05 is 5 %."""
    return f"{100 * share:.3g} %"


def _passes(n_errors: int, n_points: int, max_error: float, confidence: float) -> bool:
    """Whether so few errors would be rarer than 1 - confidence if the error were `max_error`."""
    return bool(special.bdtr(n_errors, n_points, max_error) <= 1 - confidence)


def _edges(total: np.ndarray, max_error: float, confidence: float) -> np.ndarray:
    """Thresholds just below the point that follows the s least uncertain ones, for growing s."""
    if len(total) == 0:
        return np.array([math.inf])
    ascending = np.append(np.sort(total), math.inf)
    edges = ascending[_region_sizes(len(total), max_error, confidence)]
    # Where points tie, a region may hold fewer than can pass: begin beyond the tie.
    weakest = min(points_needed(max_error, confidence), len(total)) - 1
    edges = np.unique(edges[edges > ascending[weakest]])
    return np.where(np.isinf(edges), edges, np.nextafter(edges, -math.inf))


def _region_sizes(n_points: int, max_error: float, confidence: float) -> list[int]:
    """Sizes to test: where one more error becomes affordable, about evenly spaced, and all."""
    start = max(points_needed(max_error, confidence), n_points // 10)
    if start >= n_points:
        return [n_points]
    few, many = (stats.binom.ppf(1 - confidence, n, max_error) - 1 for n in (start, n_points))
    errors = np.unique(np.linspace(max(few, 0), many, _N_REGIONS).astype(int)).tolist()
    sizes = (points_needed(max_error, confidence, n_errors) for n_errors in errors)
    return [*(size for size in sizes if size < n_points), n_points]
