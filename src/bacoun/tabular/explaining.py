"""Explainer: which columns make rows unlikely, or stand between two classes.

A column's surprise is the log density that the row gains if this column alone is replaced by its
likeliest value given all others. An unfamiliar row is repaired greedily: the most surprising column
is replaced, then the next, until the row is familiar. Values outside the range of the training rows
come first, because a flow says little about where it was not fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from bacoun.classifier import BaCOUnClassifier
from bacoun.tabular.encoding import Column, TableEncoder
from bacoun.tabular.explanation import MAX_REPAIRS, Explanation, Pull, Surprise

_N_QUANTILES = 9  # of a number, to replace a value by
_N_LEVELS = 20  # of a category, the most frequent
_N_CLASSES = 3  # the most likely, in which a number is regressed on the others
_N_COLUMNS = 8  # the most surprising, that are looked at again after a repair
_RIDGE = 0.01  # of the variance, so that columns which are sums of others can be regressed
_OUTSIDE = 0.5  # standard deviations beyond the range of training that count as outside
_FIRST = 1e6  # nats that each standard deviation outside counts in the order of repairs
_LOWEST = -1e30  # log density of what a flow cannot represent
_CHUNK = 8192

IsFamiliar = Callable[[np.ndarray], np.ndarray]
"""Takes encoded rows (n, D); returns whether each is familiar (n,)."""
Values = Mapping[str, np.ndarray]
"""Values (n,) of each column, as they are shown to people."""


@dataclass(frozen=True)
class Replacements:
    """What each column of a row may be replaced by, in encoded form.

    Attributes
    ----------
    places : list of list of int
        For each column, which of the D features it is encoded as.
    usual : list of ndarray of shape (m, d)
        For each column, usual values of its features: quantiles, or frequent categories.
    means : ndarray of shape (K, D)
        Mean of the features in each class.
    slopes : ndarray of shape (K, D, D)
        Row j regresses feature j on all others, in each class; 0 unless it is a number.
    low, high, spread : ndarray of shape (D,)
        Range and standard deviation of the features.
    """

    places: list[list[int]]
    usual: list[np.ndarray]
    means: np.ndarray
    slopes: np.ndarray
    low: np.ndarray
    high: np.ndarray
    spread: np.ndarray

    @classmethod
    def fit(cls, encoder: TableEncoder, rows: np.ndarray, classes: np.ndarray) -> Self:
        """Learn from encoded training rows (N, D) and the index (N,) of their class."""
        ends = np.cumsum([len(column.features) for column in encoder.columns_]).tolist()
        starts = [0, *ends[:-1]]
        places = [[*range(*bounds)] for bounds in zip(starts, ends, strict=True)]
        pairs = list(zip(encoder.columns_, places, strict=True))
        usual = [_usual(column, rows[:, where]) for column, where in pairs]
        numbers = [where[0] for column, where in pairs if column.is_continuous]
        groups = [rows[classes == k] for k in range(int(classes.max()) + 1)]
        means = np.stack([group.mean(axis=0) for group in groups])
        spread = rows.std(axis=0)
        ridge = _RIDGE * spread[numbers] ** 2
        slopes = np.stack([_slopes(group, numbers, ridge) for group in groups])
        return cls(places, usual, means, slopes, rows.min(axis=0), rows.max(axis=0), spread)

    def alternatives(self, column: int, rows: np.ndarray, likely: np.ndarray) -> np.ndarray:
        """Features (n, m, d) that a column of rows (n, D) may be replaced by.

        Parameters
        ----------
        likely : ndarray of int of shape (n, c)
            Classes in which a number is regressed on the others.
        """
        where = self.places[column]
        usual = np.broadcast_to(self.usual[column], (len(rows), *self.usual[column].shape))
        slope = self.slopes[:, where[0]]  # (K, D)
        if not slope.any():
            return usual
        regressed = np.zeros((len(rows), likely.shape[1], len(where)))  # 0: no gap
        for place, k in enumerate(likely.T):
            change = ((rows - self.means[k]) * slope[k]).sum(axis=1)
            regressed[:, place, 0] = self.means[k, where[0]] + change
        return np.concatenate([usual, regressed], axis=1)

    def outside(self, rows: np.ndarray) -> np.ndarray:
        """By how many standard deviations each column (n, C) of rows (n, D) leaves its range."""
        beyond = np.maximum(self.low - rows, rows - self.high)
        deviations = beyond / np.where(self.spread > 0, self.spread, 1.0)
        first = [where[0] for where in self.places]
        return np.where(deviations > _OUTSIDE, deviations, 0.0)[:, first]

    def to_dict(self) -> dict[str, Any]:
        """Plain values and tensors."""
        arrays = {name: torch.from_numpy(getattr(self, name)) for name in _ARRAYS}
        usual = [torch.from_numpy(values) for values in self.usual]
        return {"places": self.places, "usual": usual, **arrays}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        arrays = {name: content[name].numpy() for name in _ARRAYS}
        return cls(content["places"], [values.numpy() for values in content["usual"]], **arrays)


@dataclass(frozen=True)
class Explainer:
    """Explains encoded rows (n, D) by a classifier and what their columns may be replaced by."""

    classifier: BaCOUnClassifier
    encoder: TableEncoder
    replacements: Replacements

    def unfamiliar(
        self, rows: np.ndarray, values: Values, probabilities: np.ndarray, is_familiar: IsFamiliar
    ) -> list[Explanation]:
        """Explain unfamiliar rows (n, D), whose classes have these probabilities (n, K)."""
        likely = np.argsort(-probabilities, axis=1)[:, :_N_CLASSES]
        n_rows, n_columns = len(rows), len(self.replacements.places)
        current, each = rows.copy(), np.arange(n_rows)
        wanted = np.ones((n_rows, n_columns), dtype=bool)
        repairs: list[list[tuple[int, np.ndarray, float]]] = [[] for _ in range(n_rows)]
        n_repairs, first = np.zeros(n_rows, dtype=int), None
        for number in range(1, MAX_REPAIRS + 1):
            left = n_repairs == 0
            if not left.any():
                break
            nats, expected = self._surprises(current, likely, wanted & left[:, None])
            if first is None:
                first = nats, expected
                wanted = nats.argsort(axis=1).argsort(axis=1) >= n_columns - _N_COLUMNS
            order = nats + _FIRST * self.replacements.outside(current)
            order[~wanted] = -1.0
            best = order.argmax(axis=1)
            for row in np.flatnonzero(left):
                column = best[row]
                repairs[row].append((column, expected[column][row], nats[row, column]))
                current[row, self.replacements.places[column]] = expected[column][row]
            wanted[each, best] &= ~left
            n_repairs[left & is_familiar(current)] = number
        assert first is not None
        return [
            Explanation(
                reason="unfamiliar",
                surprises=self._ranked(values, row, repairs[row], *first),
                n_repairs=int(n_repairs[row]),
            )
            for row in range(n_rows)
        ]

    def _ranked(
        self,
        values: Values,
        row: int,
        repairs: list[tuple[int, np.ndarray, float]],
        nats: np.ndarray,
        expected: list[np.ndarray],
    ) -> tuple[Surprise, ...]:
        """Repaired columns of a row in their order, then the others by their surprise."""
        repaired = [column for column, *_ in repairs]
        others = [int(column) for column in np.argsort(-nats[row]) if column not in repaired]
        found = [*repairs, *((each, expected[each][row], nats[row, each]) for each in others)]
        ranked = []
        for place, features, gain in found:
            column = self.encoder.columns_[place]
            shown = column.as_text(values[column.name][row])
            likely = column.as_text(column.decode(features))
            ranked.append(Surprise(column.name, shown, likely, float(gain)))
        return tuple(ranked)

    def _surprises(
        self, rows: np.ndarray, likely: np.ndarray, wanted: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """How much the `wanted` columns (n, C) of rows (n, D) surprise, and what was expected.

        Returns
        -------
        nats : ndarray of shape (n, C)
            Gain in log density by the best replacement of each column; at least 0.
        expected : list of C arrays of shape (n, d)
            These replacements.
        """
        here = self._log_density(rows)
        nats, expected = np.zeros(wanted.shape), []
        for column, where in enumerate(self.replacements.places):
            expected.append(rows[:, where].copy())
            chosen = np.flatnonzero(wanted[:, column])
            if len(chosen) == 0:
                continue
            others = self.replacements.alternatives(column, rows[chosen], likely[chosen])
            densities = self._log_density(_replaced(rows[chosen], where, others))
            densities = densities.reshape(others.shape[:2])
            best = densities.argmax(axis=1)
            each = np.arange(len(chosen))
            nats[chosen, column] = np.maximum(densities[each, best] - here[chosen], 0.0)
            expected[-1][chosen] = others[each, best]
        return nats, expected

    def _log_density(self, rows: np.ndarray) -> np.ndarray:
        """Log density (n,) of encoded rows (n, D), up to a constant."""
        chunks = [rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK)]
        points = map(self.classifier._standardized, chunks)
        found = [self.classifier.boundary_.log_prob(chunk).double().numpy() for chunk in points]
        return np.maximum(np.concatenate(found), _LOWEST)

    def ambiguous(
        self, rows: np.ndarray, values: Values, probabilities: np.ndarray
    ) -> list[Explanation]:
        """Explain rows (n, D) between two classes, which have these probabilities (n, K)."""
        order = np.argsort(-probabilities, axis=1)[:, :2]
        here = self._log_odds(rows, order)
        pulls = np.empty((len(rows), len(self.replacements.places)))
        for column, where in enumerate(self.replacements.places):
            usual = self.replacements.usual[column]
            others = np.broadcast_to(usual, (len(rows), *usual.shape))
            repeated = np.repeat(order, len(usual), axis=0)
            log_odds = self._log_odds(_replaced(rows, where, others), repeated)
            pulls[:, column] = here - log_odds.reshape(others.shape[:2]).mean(axis=1)
        labels, found = [str(label) for label in self.classifier.classes_], []
        for row, pair in enumerate(order):
            ranked = []
            for place in np.argsort(-np.abs(pulls[row])):
                column, pull = self.encoder.columns_[place], pulls[row, place]
                shown = column.as_text(values[column.name][row])
                ranked.append(
                    Pull(column.name, shown, labels[pair[int(pull < 0)]], float(abs(pull)))
                )
            both = tuple((labels[k], float(probabilities[row, k])) for k in pair)
            found.append(Explanation(reason="ambiguous", classes=both, pulls=tuple(ranked)))
        return found

    def _log_odds(self, rows: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Log-odds (n,) of the first of two classes (n, 2) against the second."""
        probabilities = self.classifier.evaluate(rows).probabilities
        pair = np.take_along_axis(probabilities, order, axis=1)
        logs: np.ndarray = np.log(np.maximum(pair, 1e-12))
        return logs[:, 0] - logs[:, 1]


_ARRAYS = ("means", "slopes", "low", "high", "spread")


def _replaced(rows: np.ndarray, where: Sequence[int], others: np.ndarray) -> np.ndarray:
    """Rows (n * m, D): each of rows (n, D) with its features `where` replaced by m others."""
    changed = np.repeat(rows, others.shape[1], axis=0)
    changed[:, where] = others.reshape(-1, len(where))
    return changed


def _usual(column: Column, features: np.ndarray) -> np.ndarray:
    """Usual values (m, d) of the features (N, d) of a column, without gaps."""
    if column.levels:
        codes, counts = np.unique(features[:, 0], return_counts=True)
        known = codes < len(column.levels)
        order = np.argsort(-counts[known], kind="stable")[:_N_LEVELS]
        return codes[known][order][:, None]
    present = features[features[:, -1] == 0] if column.gaps else features
    order = np.argsort(present[:, 0], kind="stable")
    shares = np.linspace(0.01, 0.99, _N_QUANTILES)
    return present[order[np.round(shares * (len(present) - 1)).astype(int)]]


def _slopes(rows: np.ndarray, numbers: Sequence[int], ridge: np.ndarray) -> np.ndarray:
    """Coefficients (D, D) of each number on all other numbers."""
    slopes = np.zeros((rows.shape[1], rows.shape[1]))
    if len(numbers) > 1 and len(rows) > 2:
        precision = np.linalg.inv(np.cov(rows[:, numbers], rowvar=False) + np.diag(ridge))
        coefficients = -precision / np.diag(precision)[:, None]
        np.fill_diagonal(coefficients, 0.0)
        slopes[np.ix_(numbers, numbers)] = coefficients
    return slopes
