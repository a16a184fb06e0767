"""Metrics for uncertainty scores: OOD detection, calibration, and selective prediction.

Detection compares the uncertainty of in-distribution points, `inside` (n,), with that of
out-of-distribution points, `outside` (m,). Calibration compares `probabilities` (N, K) with
`labels` (N,), columns from 0 to K-1. Selective prediction asks how many errors remain when the most
uncertain points are not answered; `correct` (N,) says whether each prediction is.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


def auroc(inside: ArrayLike, outside: ArrayLike) -> float:
    """Probability that an OOD score, `outside` (m,), is above one `inside` (n,); ties count half.

    Examples
    --------
    >>> auroc(inside=[0.1, 0.2, 0.3], outside=[0.3, 0.9])
    0.9166666666666666
    """
    inside, outside = _as_scores(inside=inside, outside=outside)
    wins = stats.mannwhitneyu(outside, inside, method="asymptotic").statistic
    return float(wins / (len(inside) * len(outside)))


def aupr(inside: ArrayLike, outside: ArrayLike) -> float:
    """Average precision of detecting OOD points (m,) among those inside (n,) by high scores."""
    from sklearn.metrics import average_precision_score  # slow to import, and scoring needs none

    inside, outside = _as_scores(inside=inside, outside=outside)
    is_outside = np.repeat([False, True], [len(inside), len(outside)])
    ranks = stats.rankdata(np.concatenate([inside, outside]))  # scikit-learn refuses infinity
    return float(average_precision_score(is_outside, ranks))


def fpr_at_tpr(inside: ArrayLike, outside: ArrayLike, tpr: float = 0.95) -> float:
    """False positive rate at the threshold that flags at least `tpr` of the OOD points.

    The scores are `inside` (n,) and `outside` (m,); the true positive rate `tpr` is in (0, 1].
    """
    inside, outside = _as_scores(inside=inside, outside=outside)
    threshold = np.sort(outside)[-_count("tpr", tpr, len(outside))]
    return float(np.mean(inside >= threshold))


def change_from(inside: ArrayLike, outside: ArrayLike) -> float:
    """Relative change of the mean, the paper's "Pct Change": 1.0 is twice as high for OOD points.

    NaN or infinite if the mean of the scores `inside` (n,), not `outside` (m,), is 0.

    Examples
    --------
    >>> round(change_from(inside=[0.089], outside=[0.667]), 2)  # BaCOUn on Wine, as published
    6.49
    """
    inside, outside = _as_scores(inside=inside, outside=outside)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(outside.mean() / inside.mean() - 1)


def expected_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, n_bins: int = 15
) -> float:
    """Mean gap between confidence and accuracy over `n_bins` confidence bins of equal width.

    The `probabilities` are (N, K), and `labels` (N,) the columns of the true classes.

    Examples
    --------
    >>> probabilities = [[0.8, 0.2], [0.8, 0.2], [0.2, 0.8], [0.8, 0.2]]
    >>> round(expected_calibration_error(probabilities, [0, 0, 1, 1]), 3)  # 75 % right, not 80 %
    0.05
    """
    table, truth = _as_predictions(probabilities, labels)
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1; got {n_bins}. Try 15.")
    confidence = table.max(axis=1)
    gap = confidence - (table.argmax(axis=1) == truth)
    bins = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    return float(np.abs(np.bincount(bins, weights=gap)).sum() / len(table))


def negative_log_likelihood(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Mean of -log p(true class), in nats; infinite if a true class has probability 0.

    The `probabilities` are (N, K), and `labels` (N,) the columns of the true classes.
    """
    table, truth = _as_predictions(probabilities, labels)
    with np.errstate(divide="ignore"):
        return float(-np.log(table[np.arange(len(table)), truth]).mean())


def risk_coverage(uncertainty: ArrayLike, correct: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Coverage (fraction answered) and risk (error rate among those) at every threshold.

    A point is answered if its `uncertainty` (N,) does not exceed the threshold; `correct` (N,) says
    whether its prediction is. The results (n,) have one entry for each distinct uncertainty,
    ascending: tied points are answered together.

    Examples
    --------
    >>> coverages, risks = risk_coverage([0.1, 0.2, 0.2, 0.9], [True, True, False, False])
    >>> coverages, risks.round(2)
    (array([0.25, 0.75, 1.  ]), array([0.  , 0.33, 0.5 ]))
    """
    answered, errors = _cumulative(uncertainty, correct)
    return answered / answered[-1], errors / answered


def aurc(uncertainty: ArrayLike, correct: ArrayLike) -> float:
    """Area under the risk-coverage curve: mean risk over answering 1, 2, ..., N points.

    Points are answered by ascending `uncertainty` (N,), with ties averaged over all their orders;
    `correct` (N,) says whether each prediction is.

    Examples
    --------
    >>> aurc([0.1, 0.2, 0.3, 0.4], [True, True, True, False])  # 0, 0, 0 and 1/4
    0.0625
    """
    answered, errors = _cumulative(uncertainty, correct)
    count = np.arange(1, answered[-1] + 1)
    return float((np.interp(count, [0, *answered], [0, *errors]) / count).mean())


def augrc(uncertainty: ArrayLike, correct: ArrayLike) -> float:
    """Area under the generalized risk-coverage curve: the mean risk of an undetected error.

    Traub et al. (2024): the probability that a random point is an error and is answered, when
    another random point sets the threshold; ties count half. Half the error rate for a useless
    `uncertainty` (N,), half its square for a perfect one; `correct` (N,) says which are no errors.
    """
    answered, errors = _cumulative(uncertainty, correct)
    return float(np.trapezoid([0, *errors], [0, *answered]) / answered[-1] ** 2)


def risk_at_coverage(uncertainty: ArrayLike, correct: ArrayLike, coverage: float) -> float:
    """Error rate at the lowest threshold that answers at least `coverage` of the points.

    Of points with `uncertainty` (N,) and predictions that are `correct` (N,) or not; `coverage`
    lies in (0, 1].
    """
    answered, errors = _cumulative(uncertainty, correct)
    first = np.searchsorted(answered, _count("coverage", coverage, answered[-1]))
    return float(errors[first] / answered[first])


def coverage_at_risk(uncertainty: ArrayLike, correct: ArrayLike, risk: float) -> float:
    """Largest coverage with an error rate of at most `risk` on these points; 0.0 if there is none.

    The points have `uncertainty` (N,), and predictions that are `correct` (N,) or not.
    """
    coverages, risks = risk_coverage(uncertainty, correct)
    return float(coverages[risks <= risk].max(initial=0.0))


def rank_correlation(a: ArrayLike, b: ArrayLike) -> float:
    """Spearman's rank correlation of two scores (N,); NaN if one of them is constant."""
    a, b = _as_scores(a=a, b=b)
    if len(a) != len(b):
        raise ValueError(f"a and b must be equally long; got {len(a)} and {len(b)} numbers.")
    if len(np.unique(a)) == 1 or len(np.unique(b)) == 1:
        return math.nan
    return float(stats.spearmanr(a, b).statistic)


def _cumulative(uncertainty: ArrayLike, correct: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Number of points (n,) answered at each threshold, and of errors (n,) among them."""
    (scores,) = _as_scores(uncertainty=uncertainty)
    right = np.asarray(correct, dtype=bool)
    if right.shape != scores.shape:
        raise ValueError(
            f"correct must have one entry per uncertainty; got shape {right.shape} for "
            f"{len(scores)} points."
        )
    _, group, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    return sizes.cumsum(), np.bincount(group, weights=~right).cumsum()


def _as_scores(**columns: ArrayLike) -> list[np.ndarray]:
    """The columns in float64; refuses empty ones and NaN, but not infinity."""
    arrays = {name: np.asarray(column, dtype=np.float64) for name, column in columns.items()}
    for name, array in arrays.items():
        if array.ndim != 1 or len(array) == 0:
            raise ValueError(f"{name} must be a 1-D array of numbers; got shape {array.shape}.")
        if np.isnan(array).any():
            raise ValueError(f"{name} must hold numbers; got NaN. Drop such points first.")
    return list(arrays.values())


def _as_predictions(probabilities: ArrayLike, labels: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (N, K) in float64 and columns of the true class (N,), of matching shapes."""
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


def _count(name: str, fraction: float, n_points: int) -> int:
    """The smallest count that is at least `fraction` of `n_points`, up to rounding errors."""
    if not 0 < fraction <= 1:
        raise ValueError(f"{name} must lie in (0, 1]; got {fraction}. Try 0.95.")
    return math.ceil(fraction * n_points - 1e-9)
