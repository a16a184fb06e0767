"""What of a scored row is watched, and in which bin of the reference it falls.

The bins of a quantity are made from some of the reference rows and filled from the others, so that
these and new rows are exchangeable if nothing has changed. Columns have the known rows of the
model as reference; scores that depend on the model's weights, its calibration rows alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bacoun.columns.column import Column
from bacoun.tabular.neighbors import Neighborhood
from bacoun.tabular.scored_rows import ScoredRows

N_BINS = 24
_EVERY = 4  # of the reference rows, one makes the bins and the others fill them
_MAX_COLUMNS = 200
_MARGIN = 1e-4  # of the range of a score: its rounding depends on what else is scored
_WEIGHTS = {"ood_score": 0.3, "total": 0.1, "prediction": 0.1}  # the columns share the rest


@dataclass(frozen=True)
class BinnedQuantity:
    """One quantity of a row that is watched, such as a column, and its bins."""

    name: str  # of a column, "ood_score", "total" or "prediction"
    place: int  # of a column: its feature
    edges: np.ndarray  # between the bins, of a number
    order: np.ndarray  # bin of each code, of a category; other codes are in the last bin
    counts: np.ndarray  # (N_BINS,) reference rows in each bin

    @classmethod
    def number(cls, name: str, reference: np.ndarray, place: int = -1) -> Self:
        """Bins between quantiles of some of the reference values (n,)."""
        levels, few = np.linspace(0, 1, N_BINS - 2), reference[::_EVERY]
        made = np.quantile(few, levels, method="inverted_cdf") if len(few) else []
        distinct = np.unique(np.nan_to_num(made, posinf=1e300))
        between = distinct[:-1] / 2 + distinct[1:] / 2
        # Beyond all of these values, by more than rounding, is a bin of its own on both sides.
        margin = _MARGIN * max(np.ptp(distinct), np.abs(distinct).max()) if len(distinct) else 0.0
        edges = np.concatenate([distinct[:1] - margin, between, distinct[-1:] + margin])
        return cls(name, place, edges, np.empty(0, int), np.zeros(N_BINS))._filled(reference)

    @classmethod
    def category(cls, name: str, n_codes: int, reference: np.ndarray, place: int = -1) -> Self:
        """Frequent codes first; rare and unknown ones are the strangest, and share a bin."""
        known = reference[::_EVERY].astype(int)
        frequency = np.bincount(known[(known >= 0) & (known < n_codes)], minlength=n_codes)
        order = np.full(n_codes, N_BINS - 1)
        ranked = np.argsort(-frequency, kind="stable")[: N_BINS - 1]
        # Without reference rows the order is as given.
        kept = ranked[frequency[ranked] > 0] if len(known) else ranked
        order[kept] = np.arange(len(kept))
        return cls(name, place, np.empty(0), order, np.zeros(N_BINS))._filled(reference)

    def _filled(self, reference: np.ndarray) -> Self:
        others = np.delete(reference, np.s_[::_EVERY])
        return replace(self, counts=np.bincount(self.bins(others), minlength=N_BINS).astype(float))

    def bins(self, values: np.ndarray) -> np.ndarray:
        """Bin (n,) of each value."""
        if len(self.order) == 0:
            return np.searchsorted(self.edges, values, side="right")
        codes = values.astype(int)
        known = (codes >= 0) & (codes < len(self.order))
        return np.where(known, self.order[np.where(known, codes, 0)], N_BINS - 1)


def watched(
    columns: Sequence[Column],
    known: Neighborhood,
    calibration: Mapping[str, np.ndarray],
    n_classes: int,
) -> list[BinnedQuantity]:
    """Quantities with known rows as reference of the columns, and calibration rows of the scores.

    `calibration` has the `ood_score` and `total` of the calibration rows.
    """
    quantities = [
        BinnedQuantity.number("ood_score", calibration["ood_score"]),
        BinnedQuantity.number("total", calibration["total"]),
        BinnedQuantity.category("prediction", n_classes, np.empty(0)),
    ]
    place = 0
    for column in columns[:_MAX_COLUMNS]:
        if column.embedding is not None:  # single numbers of a vector mean nothing
            place += len(column.features)
            continue
        reference = known.rows[:, place].astype(float)
        if column.levels:
            codes, n_codes = reference.round(), len(column.levels) + 1
            quantities.append(BinnedQuantity.category(column.name, n_codes, codes, place))
        else:
            quantities.append(BinnedQuantity.number(column.name, reference, place))
        place += len(column.features)
    return quantities


def weights_of(quantities: list[BinnedQuantity]) -> np.ndarray:
    """Share (Q,) of each quantity in the false alarm probability."""
    n_columns = len(quantities) - len(_WEIGHTS)
    rest = (1 - sum(_WEIGHTS.values())) / max(n_columns, 1)
    return np.array([rest if q.place >= 0 else _WEIGHTS[q.name] for q in quantities])


def bins_of(
    quantities: list[BinnedQuantity], scored: ScoredRows, known: Neighborhood
) -> np.ndarray:
    """Bins (n, Q) of all quantities of scored rows, in the representation of the known ones."""
    features = known.standardized(scored.features).astype(float)
    scores = {
        "ood_score": scored.ood_score,
        "total": scored.evaluation.total,
        "prediction": scored.predicted,
    }
    bins = [q.bins(scores[q.name] if q.place < 0 else features[:, q.place]) for q in quantities]
    return np.stack(bins, axis=1)
