"""Replacements: what each column of a row may be replaced by, to see what surprises in the row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from bacoun.base import FAR
from bacoun.tabular.encoding import TableEncoder
from bacoun.tabular.items import KnownItems

_RIDGE = 0.01  # of the variance, so that columns which are sums of others can be regressed
_OUTSIDE = 0.5  # standard deviations beyond the range of training that count as outside


@dataclass(frozen=True)
class Replacements:
    """What each column of a row may be replaced by, in encoded form."""

    places: list[list[int]]  # for each column, which of the D features it is encoded as
    # (m, d) for each column: quantiles, frequent categories, or typical texts or photos
    usual: list[np.ndarray]
    numbers: list[int]  # those of the features that are regressed on each other
    means: np.ndarray  # (K, D), of the features in each class
    # (K, n, n): row j regresses number j on all others, in each class and in units of `spread`
    slopes: np.ndarray
    low: np.ndarray  # (D,), range and standard deviation of the features; of vectors, no range
    high: np.ndarray
    spread: np.ndarray

    @classmethod
    def fit(
        cls,
        encoder: TableEncoder,
        rows: np.ndarray,
        classes: np.ndarray,
        known: Mapping[str, KnownItems],
    ) -> Self:
        """Learn from encoded training rows (N, D) and the index (N,) of their class."""
        places, usual = encoder.places, []
        low, high = rows.min(axis=0), rows.max(axis=0)
        for column, where in zip(encoder.columns_, places, strict=True):
            if column.name not in known:
                usual.append(column.usual_features)
                continue
            vectors = known[column.name].typical()
            no_gap = np.zeros((len(vectors), len(where) - vectors.shape[1]))
            usual.append(np.hstack([vectors, no_gap]))
            low[where], high[where] = -np.inf, np.inf
        pairs = zip(encoder.columns_, places, strict=True)
        numbers = [where[0] for c, where in pairs if c.kind == "number" and not c.levels]
        groups = [rows[classes == k] for k in range(int(classes.max()) + 1)]
        means = np.stack([group.mean(axis=0) for group in groups])
        spread = rows.std(axis=0)
        slopes = np.stack([_slopes(group, numbers, spread) for group in groups])
        return cls(places, usual, numbers, means, slopes, low, high, spread)

    def alternatives(self, column: int, rows: np.ndarray, likely: np.ndarray) -> np.ndarray:
        """Features (n, m, d) that a column of rows (n, D) may be replaced by.

        A number is regressed on the others in the `likely` classes (n, c).
        """
        where = self.places[column]
        usual = np.broadcast_to(self.usual[column], (len(rows), *self.usual[column].shape))
        if where[0] not in self.numbers:
            return usual
        slope = self.slopes[:, self.numbers.index(where[0])]  # (K, n)
        if not slope.any():
            return usual
        regressed = np.zeros((len(rows), likely.shape[1], len(where)))  # 0: no gap
        spread, numbers = _positive(self.spread), rows[:, self.numbers]
        for place, k in enumerate(likely.T):
            means = self.means[k][:, self.numbers]
            deviations = np.clip((numbers - means) / spread[self.numbers], -FAR, FAR)
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
    """Coefficients (n, n) of each number on all other numbers, in units of their spread."""
    slopes = np.zeros((len(numbers), len(numbers)))
    if len(numbers) > 1 and len(rows) > 2:
        scale = _positive(spread[numbers])
        deviations = (rows[:, numbers] - rows[:, numbers].mean(axis=0)) / scale
        covariance = np.cov(deviations, rowvar=False)
        precision = np.linalg.inv(covariance + _RIDGE * np.eye(len(numbers)))
        coefficients = -precision / np.diag(precision)[:, None]
        np.fill_diagonal(coefficients, 0.0)
        return coefficients
    return slopes
