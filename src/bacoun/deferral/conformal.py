"""Split-conformal thresholds: how high a score may be before a point counts as unusual.

A new point drawn like the N calibration points is equally likely to take each of the N + 1 ranks
among them. So it exceeds the k-th smallest of their scores with probability at most
1 - k / (N + 1), however the scores are distributed; ties only make that smaller.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from bacoun.deferral.checks import (
    as_classes,
    as_probabilities,
    as_scores,
    as_share,
    check_equally_long,
)


def conformal_threshold(scores: ArrayLike, false_alarm: float) -> float:
    """The score that a new point of the same kind exceeds at most `false_alarm` of the time.

    Parameters
    ----------
    scores : array of shape (N,)
        Scores of calibration points, which the model was not fitted on; +inf is allowed.
    false_alarm : float
        Between 0 and 1. The promise is on average over calibration sets.

    Returns
    -------
    float
        The ceil((N + 1) (1 - false_alarm))-th smallest score. Infinite, so that nothing exceeds it,
        if N is below `fewest_scores(false_alarm)`.

    Examples
    --------
    >>> conformal_threshold(range(1, 20), 0.05), conformal_threshold(range(1, 19), 0.05)
    (19.0, inf)
    """
    known = as_scores("scores", scores, infinite=True)
    return _smallest(known, 1 - as_share("false_alarm", false_alarm))


def fewest_scores(false_alarm: float) -> int:
    """Number of calibration points from which the threshold is finite.

    The rank ceil((N + 1) (1 - a)) is at most N just if (N + 1) a >= 1, so N >= ceil(1 / a) - 1.

    Examples
    --------
    >>> fewest_scores(0.05), fewest_scores(0.01)
    (19, 99)
    """
    return math.ceil(1 / as_share("false_alarm", false_alarm)) - 1


def class_thresholds(
    scores: ArrayLike, predicted: ArrayLike, false_alarm: float
) -> dict[int, float]:
    """One conformal threshold for each predicted class (Mondrian), where there are enough points.

    Parameters
    ----------
    scores : array of shape (N,)
    predicted : array of shape (N,)
        Index of the class that the model predicts for each calibration point.

    Returns
    -------
    dict
        From class index to threshold. A class whose threshold would be infinite, as is that of a
        class of fewer than `fewest_scores(false_alarm)` points, is left out: the pooled threshold
        has to do for it, without a promise of its own.
    """
    scores = as_scores("scores", scores, infinite=True)
    predicted = as_classes("predicted", predicted)
    check_equally_long(scores=scores, predicted=predicted)
    found = {
        index: conformal_threshold(scores[predicted == index], false_alarm)
        for index in np.unique(predicted).tolist()
    }
    return {index: threshold for index, threshold in found.items() if math.isfinite(threshold)}


def prediction_set_threshold(probabilities: ArrayLike, labels: ArrayLike, coverage: float) -> float:
    """How unlikely a class may look and still have to be in the set: the score 1 - p(true class).

    Parameters
    ----------
    probabilities : array of shape (N, K)
        Class probabilities of calibration points.
    labels : array of shape (N,)
        Index of the true class of each.
    coverage : float
        How often the set must hold the true class of a new point, on average.
    """
    table, truth = as_probabilities(probabilities), as_classes("labels", labels)
    check_equally_long(probabilities=table, labels=truth)
    if truth.max(initial=-1) >= table.shape[1]:
        raise ValueError(
            f"labels must be class indices below {table.shape[1]}, the number of columns of "
            f"probabilities; got {truth.max()}. Use the order of classes_."
        )
    unlikely = 1 - table[np.arange(len(table)), truth]
    return _smallest(as_scores("labels", unlikely), as_share("coverage", coverage))


def prediction_sets(probabilities: ArrayLike, threshold: float) -> np.ndarray:
    """Which classes (N, K) cannot be ruled out, given `prediction_set_threshold`.

    A set may hold several classes, or none where no class is likely enough.
    """
    return 1 - as_probabilities(probabilities) <= threshold


def _smallest(scores: np.ndarray, share: Fraction) -> float:
    """The ceil((N + 1) share)-th smallest score; infinity stands at rank N + 1."""
    rank = math.ceil((len(scores) + 1) * share)
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else math.inf
