"""TableProfile: what the training table looked like, column by column, and hashes of its rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import pandas as pd

from bacoun.columns.cells import Cells
from bacoun.columns.column import NO_INPUT, Column
from bacoun.encoders import HasSpec

_MAX_HASHES = 200_000


@dataclass(frozen=True, eq=False)
class TableProfile:
    """The training table, described column by column, and hashes of its rows.

    Attributes
    ----------
    columns : tuple of Column
        All columns but the target, in the order of the table.
    row_hashes : ndarray of int64
        Hashes of the distinct rows, at most 200,000, over the columns that are used.
    max_missing : int
        Largest number of missing values in a row.
    hashed : float
        Fraction of the distinct rows that `row_hashes` holds.
    repeated : float
        Fraction of the rows that occur more than once, which so many new ones will do anyway.

    Examples
    --------
    >>> table = pd.DataFrame({"id": [1, 2, 3], "age": [40, 52, 60], "ward": ["A", "B", "A"]})
    >>> profile = TableProfile.of(table, {"age": "number", "ward": "category"})
    >>> [column.kind for column in profile.columns]
    ['dropped', 'number', 'category']
    >>> dict(profile.columns[2].counts)
    {'A': 2, 'B': 1}
    """

    columns: tuple[Column, ...]
    row_hashes: np.ndarray
    max_missing: int = 0
    hashed: float = 1.0
    repeated: float = 0.0

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        kinds: Mapping[str, str],
        date_formats: Mapping[str, str | None] | None = None,
    ) -> Self:
        """Describe a training table.

        Parameters
        ----------
        frame : DataFrame of N rows
            Table without the target.
        kinds : dict
            From the name of each column that is used to "number", "boolean", "category" or "date".
            Other columns are dropped ones.
        date_formats : dict, optional
            From the name of a column with dates to their format; None: ISO 8601, or timestamps.
        """
        formats = date_formats or {}
        cells = {n: Cells.read(frame[n], kind, formats.get(n)) for n, kind in kinds.items()}
        return cls.of_cells(frame, cells, {})

    @classmethod
    def of_cells(
        cls,
        frame: pd.DataFrame,
        cells: Mapping[str, Cells],
        dropped: Mapping[str, str],
        encoders: Mapping[str, HasSpec] | None = None,
    ) -> Self:
        """Describe a training table of which the columns that are used have been read.

        `dropped` says why others are not; `encoders` are those of texts and photos.
        """
        columns = [
            Column.of(str(name), cells[str(name)], (encoders or {}).get(str(name)))
            if str(name) in cells
            else Column.without_use(column, dropped.get(str(name), NO_INPUT))
            for name, column in frame.items()
        ]
        n_missing = np.sum([read.missing for read in cells.values()], axis=0)
        hashes = hash_rows(cells[column.name] for column in columns if not column.dropped)
        distinct, counts = np.unique(hashes, return_counts=True)
        kept = distinct
        if len(distinct) > _MAX_HASHES:
            drawn = np.random.default_rng(0).choice(len(distinct), _MAX_HASHES, replace=False)
            kept = distinct[np.sort(drawn)]
        return cls(
            columns=tuple(columns),
            row_hashes=kept.view(np.int64),
            max_missing=int(np.max(n_missing, initial=0)),
            hashed=len(kept) / max(len(distinct), 1),
            repeated=1 - float((counts == 1).sum()) / max(len(frame), 1),
        )

    @cached_property
    def used(self) -> list[Column]:
        """The columns that the model uses."""
        return [column for column in self.columns if not column.dropped]

    @property
    def dropped(self) -> dict[str, str]:
        """From the name of an input that is not used to the reason: "id", "constant" or "empty"."""
        return {c.name: c.dropped for c in self.columns if c.dropped not in ("", NO_INPUT)}

    @property
    def constants(self) -> dict[str, str]:
        """From the name of a constant input to its value, as text."""
        return {c.name: next(iter(c.counts)) for c in self.columns if c.dropped == "constant"}

    @property
    def names(self) -> list[str]:
        """Names of all columns, in order."""
        return [column.name for column in self.columns]

    def copies(self, cells: Iterable[Cells]) -> int:
        """How many rows of another table, given the cells of its used columns, are in this one."""
        return int(np.isin(hash_rows(cells).view(np.int64), self.row_hashes).sum())


def hash_rows(cells: Iterable[Cells]) -> np.ndarray:
    """One uint64 for each row (N,), from the values of all columns in this order."""
    total = np.zeros(1, dtype=np.uint64)
    for column in cells:
        total = total * np.uint64(1_000_003) ^ column.hashes()
    return total
