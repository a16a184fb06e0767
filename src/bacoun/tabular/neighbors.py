"""Neighborhood: which rows are farther from the training rows than any of them from the others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from bacoun.base import FAR
from bacoun.engine.threads import threads_for

_NEIGHBORS = (1, 5)  # distances are measured to the nearest row, and to the fifth
_MAX_ROWS = 10_000  # that are kept, drawn at random
_MAX_LEVELS = 100  # of a category; others have no part in distances
_N_FIRST = 256  # kept rows to try first: most new rows have enough neighbors among these
_CHUNK = 2048


@dataclass(frozen=True)
class Neighborhood:
    """Known rows, and the largest distance of one to its nearest and to its fifth neighbor.

    Distances are Euclidean, between standardized numbers and one-hot encoded categories. A row that
    is farther from all known rows than they are from each other is outside of what was seen,
    however likely a flow may find it.
    """

    rows: np.ndarray  # (n, D) in float32 and random order, standardized; categories are 0, 1, ...
    mean: np.ndarray  # (D,), by which numbers are standardized
    scale: np.ndarray  # (D,)
    n_categories: list[int]  # of each column; 0 if it is continuous, -1 if it does not count
    limits: list[float]  # largest distances of a known row to others; empty if there are too few

    @classmethod
    def fit(cls, rows: np.ndarray, n_categories: Sequence[int], random_state: int) -> Self:
        """Keep known rows (N, D), or some of them, and measure their distances.

        `random_state` seeds the order of the rows and, if there are more than 10,000, their choice.
        """
        sizes = list(n_categories)
        is_number, spread = np.array(sizes) == 0, rows.std(axis=0)
        mean = np.where(is_number, rows.mean(axis=0), 0.0)
        scale = np.where(is_number & (spread > 0), spread, 1.0)
        order = np.random.default_rng(random_state).permutation(len(rows))[:_MAX_ROWS]
        without = cls(rows[:0], mean, scale, sizes, limits=[])
        kept = without.standardized(rows[order])
        if len(kept) <= max(_NEIGHBORS):
            return replace(without, rows=kept)
        # Each row is its own nearest neighbor.
        distances = _distances(kept, kept, sizes, [nth + 1 for nth in _NEIGHBORS])
        return replace(without, rows=kept, limits=distances.max(axis=0).tolist())

    def is_outside(self, rows: np.ndarray) -> np.ndarray:
        """Whether each of the rows (N, D) is outside, (N,)."""
        outside, left = np.zeros(len(rows), dtype=bool), np.arange(len(rows))
        if not self.limits:
            return outside
        rows = self.standardized(rows)
        limits = np.array(self.limits) * (1 + 1e-4)  # more than rounding
        for kept in (self.rows[:_N_FIRST], self.rows):
            distances = _distances(rows[left], kept, self.n_categories, _NEIGHBORS)
            left = left[(distances > limits).any(axis=1)]
        outside[left] = True
        return outside

    def coordinates(self, rows: np.ndarray) -> np.ndarray:
        """Rows (N, D) as points (N, E) in the space of these distances."""
        return _one_hot(self.standardized(rows), self.n_categories).double().numpy()

    def standardized(self, rows: np.ndarray) -> np.ndarray:
        """Rows (N, D) in float32, as the known ones are kept: equal rows stay equal."""
        with np.errstate(over="ignore"):
            standard = np.clip((rows - self.mean) / self.scale, -FAR, FAR)
        return standard.astype(np.float32)


def _distances(
    rows: np.ndarray, kept: np.ndarray, sizes: list[int], neighbors: Sequence[int]
) -> np.ndarray:
    """Distances (N, m) of rows (N, D) to the nearest, fifth, ... of the kept ones (n, D)."""
    ours = _one_hot(kept, sizes)
    squares, places = ours.square().sum(dim=1), [nth - 1 for nth in neighbors]
    chunks = [np.empty((0, len(places)))]
    with threads_for(ours.numel() * _CHUNK):
        for start in range(0, len(rows), _CHUNK):
            theirs = _one_hot(rows[start : start + _CHUNK], sizes)
            own = theirs.square().sum(dim=1, keepdim=True)
            distances = (own + squares).addmm_(theirs, ours.T, alpha=-2)
            nearest = distances.topk(max(neighbors), dim=1, largest=False).values[:, places]
            chunks.append(nearest.clamp(min=0).sqrt().numpy())
    return np.concatenate(chunks)


def _one_hot(rows: np.ndarray, sizes: list[int]) -> Tensor:
    """Numbers as they are, categories one-hot encoded, all of them 0 for one that is unknown."""
    is_number = np.array(sizes) == 0
    columns = [rows[:, is_number]]
    for column, size in enumerate(sizes):
        if 0 < size <= _MAX_LEVELS:
            columns.append(rows[:, column, None] == np.arange(size, dtype=np.float32))
    return torch.from_numpy(np.concatenate(columns, axis=1, dtype=np.float32))
