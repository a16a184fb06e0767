"""TableProfile: what the training table looked like, so that another table can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
import torch

from bacoun.columns import kinds
from bacoun.columns.checks.cells import Cells, as_text

KINDS = ("number", "boolean", "category", "date", "dropped")
_LEVELS = np.linspace(0, 1, 41)
_MAX_DISTINCT = 20
_MAX_CATEGORIES = 1000
_MAX_HASHES = 200_000


@dataclass(frozen=True)
class ColumnProfile:
    """The distribution of one column in training.

    Attributes
    ----------
    name : str
        Name of the column in the table.
    kind : {"number", "boolean", "category", "date", "dropped"}
        What it holds; "dropped" if the model does not use it.
    n_rows, n_missing : int
        Number of rows, and of missing values among them.
    quantiles : tuple of float
        41 values of the column at evenly spaced levels, from its smallest to its largest; dates are
        days since 1970. Empty for categories, as are all numbers below.
    shares : tuple of float
        Fraction of the values at or below each of `cuts`.
    mean, sd : float
        Mean and standard deviation.
    whole : float
        Fraction of the values that are integers.
    distinct : tuple of float
        All values, sorted, if there are at most 20 of them.
    distinct_counts : tuple of int
        Number of rows for each of them.
    counts : dict
        Number of rows by category, for the 1000 most frequent; of a constant, its value.
    date_format : str, optional
        Format of dates that are text.
    """

    name: str
    kind: str
    n_rows: int
    n_missing: int = 0
    quantiles: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    mean: float = 0.0
    sd: float = 0.0
    whole: float = 0.0
    distinct: tuple[float, ...] = ()
    distinct_counts: tuple[int, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    date_format: str | None = None

    @classmethod
    def of(cls, column: pd.Series, kind: str, date_format: str | None = None) -> Self:
        """Describe a training column."""
        name, n_rows = str(column.name), len(column)
        if kind == "dropped":
            return cls(name, kind, n_rows, counts=_constant(column))
        cells = Cells.read(column, kind, date_format)
        described = cls(name, kind, n_rows, int(n_rows - len(cells.present)))
        if kind == "category":
            counts = dict(list(cells.counts.items())[:_MAX_CATEGORIES])
            return replace(described, counts=counts)
        return replace(described, date_format=date_format, **_numbers(cells.present))

    @property
    def n_present(self) -> int:
        """Number of values that are not missing."""
        return self.n_rows - self.n_missing

    @property
    def missing(self) -> float:
        """Fraction of missing values."""
        return self.n_missing / max(self.n_rows, 1)

    @property
    def smallest(self) -> float:
        """The smallest value; NaN without values."""
        return self.quantiles[0] if self.quantiles else float("nan")

    @property
    def largest(self) -> float:
        """The largest value; NaN without values."""
        return self.quantiles[-1] if self.quantiles else float("nan")

    @cached_property
    def cuts(self) -> np.ndarray:
        """Values (c,) between the quantiles, at which distributions are compared.

        Between, so that rounding cannot move a value across; the first is just below the smallest
        value, the last just above the largest.
        """
        return _between(np.array(self.quantiles))


@dataclass(frozen=True, eq=False)
class TableProfile:
    """The training table, described column by column, and hashes of its rows.

    Attributes
    ----------
    columns : tuple of ColumnProfile
        All columns but the target, in the order of the table.
    row_hashes : ndarray of uint64
        Sorted hashes of the distinct rows, at most 200,000, over the columns that are used.
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

    columns: tuple[ColumnProfile, ...]
    row_hashes: np.ndarray
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
        profiles = [
            ColumnProfile.of(frame[name], kinds.get(str(name), "dropped"), formats.get(str(name)))
            for name in frame.columns
        ]
        used = [each for each in profiles if each.kind != "dropped"]
        hashes = hash_rows(Cells.read(frame[p.name], p.kind, p.date_format) for p in used)
        distinct, counts = np.unique(hashes, return_counts=True)
        kept = distinct
        if len(distinct) > _MAX_HASHES:
            drawn = np.random.default_rng(0).choice(len(distinct), _MAX_HASHES, replace=False)
            kept = distinct[np.sort(drawn)]
        return cls(
            columns=tuple(profiles),
            row_hashes=kept,
            hashed=len(kept) / max(len(distinct), 1),
            repeated=1 - float((counts == 1).sum()) / max(len(frame), 1),
        )

    @property
    def used(self) -> list[ColumnProfile]:
        """The columns that the model uses."""
        return [column for column in self.columns if column.kind != "dropped"]

    @property
    def names(self) -> list[str]:
        """Names of all columns, in order."""
        return [column.name for column in self.columns]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, and a tensor of hashes."""
        return {
            "columns": [asdict(column) for column in self.columns],
            "row_hashes": torch.from_numpy(self.row_hashes.view(np.int64).copy()),
            "hashed": self.hashed,
            "repeated": self.repeated,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        numbers = ("quantiles", "shares", "distinct", "distinct_counts")
        try:
            profiles = [
                ColumnProfile(**{**each, **{name: tuple(each[name]) for name in numbers}})
                for each in content["columns"]
            ]
            hashes = content["row_hashes"].numpy().view(np.uint64)
            return cls(tuple(profiles), hashes, content["hashed"], content["repeated"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                "a profile must be a dictionary written by to_dict; reading it failed at "
                f"{error}. Fit the model again."
            ) from error


def hash_rows(cells: Iterable[Cells]) -> np.ndarray:
    """One uint64 for each row (N,), from the values of all columns in this order."""
    total = np.zeros(1, dtype=np.uint64)
    for each in cells:
        total = total * np.uint64(1_000_003) ^ each.hashes()
    return total


def _constant(column: pd.Series) -> dict[str, int]:
    """The only value of a column as text, with the number of rows; empty if there are several."""
    missing = kinds.is_missing(column)
    if missing.any() or len(column) == 0 or column.astype(str).nunique() != 1:
        return {}
    return {str(as_text(column.head(1))[0]): len(column)}


def _numbers(present: np.ndarray) -> dict[str, Any]:
    """The fields of a profile that describe numbers."""
    present = present[np.isfinite(present)]
    if len(present) == 0:
        return {}
    ordered = np.sort(present)
    quantiles = np.quantile(ordered, _LEVELS, method="inverted_cdf")
    cuts = _between(quantiles)
    distinct, counts = np.unique(ordered, return_counts=True)
    few = len(distinct) <= _MAX_DISTINCT
    found = {
        "quantiles": tuple(quantiles.tolist()),
        "shares": tuple((np.searchsorted(ordered, cuts, side="right") / len(ordered)).tolist()),
        "distinct": tuple(distinct.tolist()) if few else (),
        "distinct_counts": tuple(counts.tolist()) if few else (),
        "whole": float(np.mean(present == np.floor(present))),
    }
    with np.errstate(over="ignore", invalid="ignore"):
        moments = {"mean": present.mean(), "sd": present.std()}
    return found | {name: float(np.nan_to_num(each)) for name, each in moments.items()}


def _between(quantiles: np.ndarray) -> np.ndarray:
    if len(quantiles) == 0:
        return quantiles
    values = np.unique(quantiles)
    low, high = values[0], values[-1]
    margin = 1e-6 * ((high / 2 - low / 2) or abs(low) or 1.0)
    outer = np.array([min(low - margin, np.nextafter(low, -np.inf))])
    above = np.array([max(high + margin, np.nextafter(high, np.inf))])
    return np.concatenate([outer, values[:-1] / 2 + values[1:] / 2, above])
