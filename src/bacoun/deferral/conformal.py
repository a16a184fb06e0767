"""Split-conformal thresholds: how high a score may be before a point counts as unusual.

If a new point is exchangeable with the N calibration points, its rank among them is uniform on
1, ..., N + 1. So it exceeds the k-th smallest calibration score with probability at most
1 - k / (N + 1), whatever the distribution of scores; ties only make that smaller.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from bacoun.deferral import checks
from bacoun.deferral.checks import as_classes, as_scores, as_share


def conformal_threshold(scores: ArrayLike, false_alarm: float) -> float:
    """The score that a new in-distribution point exceeds with probability at most `false_alarm`.

    Parameters
    ----------
    scores : array of shape (N,)
        Scores of the calibration set, which the model was not fitted on; +inf is allowed.
    false_alarm : float
        False alarm rate, between 0 and 1, on average over calibration sets.

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
    rank = math.ceil((len(known) + 1) * (1 - as_share("false_alarm", false_alarm)))
    return float(np.sort(known)[rank - 1]) if rank <= len(known) else math.inf


def fewest_scores(false_alarm: float) -> int:
    """Number of calibration points from which the threshold for `false_alarm` is finite.

    The rank ceil((N + 1) (1 - a)) is at most N if and only if N >= ceil(1 / a) - 1: 19 for 5 %.
    """
    return math.ceil(1 / as_share("false_alarm", false_alarm)) - 1


def class_thresholds(
    scores: ArrayLike, predicted: ArrayLike, false_alarm: float
) -> dict[int, float]:
    """One conformal threshold for each predicted class (Mondrian) with enough points.

    Parameters
    ----------
    scores : array of shape (N,)
        Scores of the calibration set; +inf is allowed.
    predicted : array of shape (N,)
        Index of the class that the model predicts for each calibration point.
    false_alarm : float
        False alarm rate within each class, between 0 and 1.

    Returns
    -------
    dict
        From class index to threshold. A class with an infinite threshold, for instance because it
        has fewer than `fewest_scores(false_alarm)` points, is left out: use the pooled threshold
        for it, which does not guarantee the false alarm rate within that class.
    """
    scores = as_scores("scores", scores, infinite=True)
    predicted = as_classes("predicted", predicted)
    checks.check_same_length(scores=scores, predicted=predicted)
    classes = np.unique(predicted).tolist()
    found = {k: conformal_threshold(scores[predicted == k], false_alarm) for k in classes}
    return {k: threshold for k, threshold in found.items() if math.isfinite(threshold)}


def prediction_set_threshold(probabilities: ArrayLike, labels: ArrayLike, coverage: float) -> float:
    """Threshold on 1 - p(class) below which a class belongs to the prediction set.

    Parameters
    ----------
    probabilities : array of shape (N, K)
        Class probabilities of the calibration set.
    labels : array of shape (N,)
        Index of the true class of each calibration point.
    coverage : float
        Probability that the set contains the true class of a new point, between 0 and 1.
    """
    table, truth = checks.as_probabilities(probabilities), as_classes("labels", labels)
    checks.check_same_length(probabilities=table, labels=truth)
    if truth.max(initial=-1) >= table.shape[1]:
        raise ValueError(
            f"labels must be class indices below {table.shape[1]}, the number of columns of "
            f"probabilities; got {truth.max()}. Use the order of classes_."
        )
    scores = as_scores("labels", 1 - table[np.arange(len(table)), truth])
    return conformal_threshold(scores, float(1 - as_share("coverage", coverage)))


def prediction_sets(probabilities: ArrayLike, threshold: float) -> np.ndarray:
    """Which classes (N, K) belong to each prediction set: those with 1 - p(class) <= `threshold`.

    Of `probabilities` (N, K); `prediction_set_threshold` gives the threshold. Sets may be empty.
    """
    return 1 - checks.as_probabilities(probabilities) <= threshold
