"""How good is an uncertainty? It should be higher outside than inside, and where the model errs.

Scores of detection compare the uncertainty of points inside the data with that of points outside;
scores of calibration compare probabilities with labels; scores of deferral ask how many mistakes
are left when the least certain points are handed to somebody else.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.metrics import average_precision_score

# --- detection: inside against outside -----------------------------------------------------------


def auroc(inside: ArrayLike, outside: ArrayLike) -> float:
    """Probability that a point outside scores higher than one inside; a tie counts half.

    Parameters
    ----------
    inside, outside : array of shape (n,) and (m,)
        Uncertainty of points inside and outside the data.

    Examples
    --------
    >>> auroc(inside=[0.1, 0.2, 0.3], outside=[0.3, 0.9])
    0.9166666666666666
    """
    inside, outside = _numbers(inside=inside, outside=outside)
    ranks = stats.rankdata(np.concatenate([outside, inside]))[: len(outside)]
    wins = ranks.sum() - len(outside) * (len(outside) + 1) / 2
    return float(wins / (len(inside) * len(outside)))


def aupr(inside: ArrayLike, outside: ArrayLike) -> float:
    """Average precision of finding the points outside by their high scores.

    Examples
    --------
    >>> aupr(inside=[0.1, 0.2, 0.3], outside=[0.25, 0.9])
    0.8333333333333333
    """
    inside, outside = _numbers(inside=inside, outside=outside)
    is_outside = np.repeat([False, True], [len(inside), len(outside)])
    ranks = stats.rankdata(np.concatenate([inside, outside]))  # as good as scores, and finite
    return float(average_precision_score(is_outside, ranks))


def fpr_at_tpr(inside: ArrayLike, outside: ArrayLike, tpr: float = 0.95) -> float:
    """Share of points inside that are flagged when at least `tpr` of those outside are.

    Examples
    --------
    >>> fpr_at_tpr(inside=[0.1, 0.2, 0.3, 0.4], outside=[0.35, 0.5, 0.9])
    0.25
    """
    _check_share("tpr", tpr)
    inside, outside = _numbers(inside=inside, outside=outside)
    threshold = np.sort(outside)[-_at_least(tpr, len(outside))]
    return float(np.mean(inside >= threshold))


def change_from(inside: ArrayLike, outside: ArrayLike) -> float:
    """Change of the mean from inside to outside, relative to inside: the paper's "Pct Change".

    1.0 means twice as high, -0.5 half as high; NaN or infinite if the mean inside is 0.

    Examples
    --------
    >>> round(change_from(inside=[0.089], outside=[0.667]), 2)  # BaCOUn on Wine, as published
    6.49
    """
    inside, outside = _numbers(inside=inside, outside=outside)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(outside.mean() / inside.mean() - 1)


# --- calibration: probabilities against labels ---------------------------------------------------


def expected_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, n_bins: int = 15
) -> float:
    """Mean gap between confidence and accuracy, over equal bins of confidence.

    Parameters
    ----------
    probabilities : array of shape (N, K)
    labels : array of shape (N,)
        Column of the true class, 0 to K-1.

    Examples
    --------
    >>> probabilities = [[0.8, 0.2], [0.8, 0.2], [0.2, 0.8], [0.8, 0.2]]
    >>> round(expected_calibration_error(probabilities, [0, 0, 1, 1]), 3)  # 75 % right, not 80 %
    0.05
    """
    table, truth = _predictions(probabilities, labels)
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1; got {n_bins}. Try 15.")
    confidence = table.max(axis=1)
    surplus = confidence - (table.argmax(axis=1) == truth)
    bins = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    return float(np.abs(np.bincount(bins, weights=surplus)).sum() / len(table))


def negative_log_likelihood(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Mean of -log p(true class), in nats; infinite if a true class was held impossible.

    Parameters
    ----------
    probabilities : array of shape (N, K)
    labels : array of shape (N,)
        Column of the true class, 0 to K-1.

    Examples
    --------
    >>> round(negative_log_likelihood([[0.5, 0.5], [0.5, 0.5]], [0, 1]), 4)
    0.6931
    """
    table, truth = _predictions(probabilities, labels)
    with np.errstate(divide="ignore"):
        return float(-np.log(table[np.arange(len(table)), truth]).mean())


# --- deferral: uncertainty against mistakes ------------------------------------------------------


def risk_coverage(uncertainty: ArrayLike, correct: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Share of points answered, and share of mistakes among them, for every threshold.

    Parameters
    ----------
    uncertainty : array of shape (N,)
        A point is answered if its uncertainty does not exceed the threshold.
    correct : array of shape (N,)
        Whether the answer is right.

    Returns
    -------
    coverages, risks : ndarray of shape (n,)
        An entry for each distinct uncertainty, in rising order: equal points are answered together.

    Examples
    --------
    >>> coverages, risks = risk_coverage([0.1, 0.2, 0.2, 0.9], [True, True, False, False])
    >>> coverages, risks.round(2)
    (array([0.25, 0.75, 1.  ]), array([0.  , 0.33, 0.5 ]))
    """
    answered, mistakes = _thresholds(uncertainty, correct)
    return answered / answered[-1], mistakes / answered


def aurc(uncertainty: ArrayLike, correct: ArrayLike) -> float:
    """Area under the risk-coverage curve: mean risk over answering 1, 2, ..., N points.

    Equal points are thought of as answered in random order; the mean over these orders is given.

    Examples
    --------
    >>> aurc([0.1, 0.2, 0.3, 0.4], [True, True, True, False])  # 0, 0, 0 and 1/4
    0.0625
    """
    answered, mistakes = _thresholds(uncertainty, correct)
    count = np.arange(1, answered[-1] + 1)
    return float((np.interp(count, [0, *answered], [0, *mistakes]) / count).mean())


def augrc(uncertainty: ArrayLike, correct: ArrayLike) -> float:
    """Area under the generalised risk-coverage curve: the mean risk of a silent mistake.

    Traub et al. (2024): the probability that a random point is a mistake and is answered, when
    another random point sets the threshold; a tie counts half. Half the error rate for a useless
    uncertainty, half its square for a perfect one.

    Examples
    --------
    >>> augrc([0.1, 0.2, 0.3, 0.4], [True, True, True, False])
    0.03125
    """
    answered, mistakes = _thresholds(uncertainty, correct)
    n_points = answered[-1]
    return float(np.trapezoid([0, *mistakes], [0, *answered]) / n_points**2)


def risk_at_coverage(uncertainty: ArrayLike, correct: ArrayLike, coverage: float) -> float:
    """Share of mistakes when at least the share `coverage` of the points is answered.

    Examples
    --------
    >>> risk_at_coverage([0.1, 0.2, 0.3, 0.4], [True, False, True, False], coverage=0.5)
    0.5
    """
    _check_share("coverage", coverage)
    answered, mistakes = _thresholds(uncertainty, correct)
    first = np.searchsorted(answered, _at_least(coverage, answered[-1]))
    return float(mistakes[first] / answered[first])


def coverage_at_risk(uncertainty: ArrayLike, correct: ArrayLike, risk: float) -> float:
    """Largest share of points that can be answered with a share of mistakes of at most `risk`.

    0.0 if no threshold reaches that. Measured on these points; it promises nothing for others.

    Examples
    --------
    >>> coverage_at_risk([0.1, 0.2, 0.3, 0.4], [True, True, True, False], risk=0.1)
    0.75
    """
    coverages, risks = risk_coverage(uncertainty, correct)
    return float(coverages[risks <= risk].max(initial=0.0))


# --- one map against another ---------------------------------------------------------------------


def rank_correlation(a: ArrayLike, b: ArrayLike) -> float:
    """Spearman's rank correlation of two scores of the same points; NaN if one is constant.

    Examples
    --------
    >>> round(rank_correlation([1, 2, 3, 4], [1, 4, 9, 16]), 3)
    1.0
    """
    a, b = _numbers(a=a, b=b)
    if len(a) != len(b):
        raise ValueError(f"a and b must be equally long; got {len(a)} and {len(b)} numbers.")
    if np.ptp(stats.rankdata(a)) == 0 or np.ptp(stats.rankdata(b)) == 0:
        return math.nan
    return float(stats.spearmanr(a, b).statistic)


# --- what they share -----------------------------------------------------------------------------


def _thresholds(uncertainty: ArrayLike, correct: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Number of points (n,) answered at each threshold, and of mistakes (n,) among them."""
    (scores,) = _numbers(uncertainty=uncertainty)
    right = np.asarray(correct, dtype=bool)
    if right.shape != scores.shape:
        raise ValueError(
            f"correct must have an entry for each uncertainty; got shape {right.shape} for "
            f"{len(scores)} points."
        )
    _, group, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    return sizes.cumsum(), np.bincount(group, weights=~right).cumsum()


def _numbers(**columns: ArrayLike) -> list[np.ndarray]:
    """The columns as arrays of floats, if each holds at least one number and no NaN."""
    arrays = {name: np.asarray(column, dtype=np.float64) for name, column in columns.items()}
    for name, array in arrays.items():
        if array.ndim != 1 or len(array) == 0:
            raise ValueError(f"{name} must be a row of numbers; got shape {array.shape}.")
        if np.isnan(array).any():
            raise ValueError(f"{name} must hold numbers; got NaN. Drop such points first.")
    return list(arrays.values())


def _predictions(probabilities: ArrayLike, labels: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (N, K) and column numbers (N,), if they belong together."""
    table, truth = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    if table.ndim != 2 or table.shape[0] == 0 or truth.shape != table.shape[:1]:
        raise ValueError(
            "probabilities must be (N, K) and labels (N,), with N at least 1; got shapes "
            f"{table.shape} and {truth.shape}."
        )
    columns = np.arange(table.shape[1])
    if not np.isin(truth, columns).all():
        raise ValueError(
            f"labels must be column numbers from 0 to {columns[-1]}; got {np.unique(truth)[:5]}. "
            "Use np.searchsorted(model.classes_, y)."
        )
    return table, truth.astype(np.int64)


def _check_share(name: str, share: float) -> None:
    if not 0 < share <= 1:
        raise ValueError(f"{name} must lie in (0, 1]; got {share}. Try 0.95.")


def _at_least(share: float, n_points: int) -> int:
    """The smallest number that is at least `share` of `n_points`, rounding of `share` aside."""
    return math.ceil(share * n_points - 1e-9)
