"""Replacements: what each column of a row may be replaced by, to see what surprises in the row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from bacoun.base import FAR
from bacoun.tabular.encoding import TableEncoder

_RIDGE = 0.01  # of the variance, so that columns which are sums of others can be regressed
_OUTSIDE = 0.5  # standard deviations beyond the range of training that count as outside


@dataclass(frozen=True)
class Replacements:
    """What each column of a row may be replaced by, in encoded form."""

    places: list[list[int]]  # for each column, which of the D features it is encoded as
    usual: list[np.ndarray]  # (m, d) for each column: quantiles, or frequent categories
    means: np.ndarray  # (K, D), of the features in each class
    # (K, D, D): row j regresses number j on all others, in each class and in units of `spread`
    slopes: np.ndarray
    low: np.ndarray  # (D,), range and standard deviation of the features
    high: np.ndarray
    spread: np.ndarray

    @classmethod
    def fit(cls, encoder: TableEncoder, rows: np.ndarray, classes: np.ndarray) -> Self:
        """Learn from encoded training rows (N, D) and the index (N,) of their class."""
        places = encoder.places
        usual = [column.usual_features for column in encoder.columns_]
        pairs = zip(encoder.columns_, places, strict=True)
        numbers = [where[0] for c, where in pairs if c.kind == "number" and not c.levels]
        groups = [rows[classes == k] for k in range(int(classes.max()) + 1)]
        means = np.stack([group.mean(axis=0) for group in groups])
        spread = rows.std(axis=0)
        slopes = np.stack([_slopes(group, numbers, spread) for group in groups])
        return cls(places, usual, means, slopes, rows.min(axis=0), rows.max(axis=0), spread)

    def alternatives(self, column: int, rows: np.ndarray, likely: np.ndarray) -> np.ndarray:
        """Features (n, m, d) that a column of rows (n, D) may be replaced by.

        A number is regressed on the others in the `likely` classes (n, c).
        """
        where = self.places[column]
        usual = np.broadcast_to(self.usual[column], (len(rows), *self.usual[column].shape))
        slope = self.slopes[:, where[0]]  # (K, D)
        if not slope.any():
            return usual
        regressed = np.zeros((len(rows), likely.shape[1], len(where)))  # 0: no gap
        spread = _positive(self.spread)
        for place, k in enumerate(likely.T):
            deviations = np.clip((rows - self.means[k]) / spread, -FAR, FAR)
            change = (deviations * slope[k]).sum(axis=1)
            regressed[:, place, 0] = self.means[k, where[0]] + change * spread[where[0]]
        return np.concatenate([usual, regressed], axis=1)

    def outside(self, rows: np.ndarray) -> np.ndarray:
        """By how many standard deviations each column (n, C) of rows (n, D) leaves its range."""
        beyond = np.maximum(self.low - rows, rows - self.high)
        deviations = beyond / _positive(self.spread)
        first = [where[0] for where in self.places]
        return np.where(deviations > _OUTSIDE, deviations, 0.0)[:, first]


def _positive(spread: np.ndarray) -> np.ndarray:
    return np.where(spread > 0, spread, 1.0)


def _slopes(rows: np.ndarray, numbers: Sequence[int], spread: np.ndarray) -> np.ndarray:
    """Coefficients (D, D) of each number on all other numbers, in units of their spread (D,)."""
    slopes = np.zeros((rows.shape[1], rows.shape[1]))
    if len(numbers) > 1 and len(rows) > 2:
        scale = _positive(spread[numbers])
        deviations = (rows[:, numbers] - rows[:, numbers].mean(axis=0)) / scale
        covariance = np.cov(deviations, rowvar=False)
        precision = np.linalg.inv(covariance + _RIDGE * np.eye(len(numbers)))
        coefficients = -precision / np.diag(precision)[:, None]
        np.fill_diagonal(coefficients, 0.0)
        slopes[np.ix_(numbers, numbers)] = coefficients
    return slopes
