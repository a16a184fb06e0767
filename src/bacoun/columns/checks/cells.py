"""The cells of one column, read as far as they can be: nothing here raises on odd content."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd
from pandas.api import types

from bacoun.columns import dates, kinds
from bacoun.columns.reading import MISSING

_MAX_BOOLEAN_SPELLINGS = 50  # a column with more distinct values does not hold booleans
_ROUNDED_BITS = np.uint64(22)  # leaves 30 bits of the mantissa, about nine significant digits
_NO_LABELS = np.empty(0, dtype=object)


@dataclass(frozen=True, eq=False)
class Cells:
    """Values (N,) of a column, each of which is present, missing, or unreadable.

    Attributes
    ----------
    values : ndarray of shape (N,)
        float64, NaN unless present; dates are days since 1970. For categories, indices into
        `labels`, -1 if missing.
    missing, bad : ndarray of bool, of shape (N,)
        Where a cell is empty, and where it is not what this kind of column holds.
    labels : ndarray of str
        Distinct categories, in the order of their first appearance.
    """

    values: np.ndarray
    missing: np.ndarray
    bad: np.ndarray
    labels: np.ndarray = field(default_factory=lambda: _NO_LABELS)

    @classmethod
    def read(cls, column: pd.Series, kind: str, date_format: str | None = None) -> Self:
        """Read a column as "number", "boolean", "category" or "date"."""
        if kind == "category":
            labels, codes = _spellings(column)
            return cls(codes, codes < 0, np.zeros(len(column), dtype=bool), labels)
        if kind == "date":
            values = _dates(column, date_format)
        else:
            values = _booleans(column) if kind == "boolean" else as_numbers(column)
        missing = np.isnan(values)
        missing[missing] = _is_missing(column[missing])
        return cls(values, missing, np.isnan(values) & ~missing)

    @property
    def present(self) -> np.ndarray:
        """The values that could be read (n,)."""
        return self.values[~(self.missing | self.bad)]

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows of each category, the most frequent first."""
        number = np.bincount(self.present.astype(np.int64), minlength=len(self.labels))
        order = np.argsort(-number, kind="stable")
        return {str(self.labels[i]): int(number[i]) for i in order}

    def hashes(self) -> np.ndarray:
        """A hash (N,) of each value: of stripped text, or of about nine significant digits."""
        if self.values.dtype != np.float64:
            text = [str(label).strip().encode(errors="replace").decode() for label in self.labels]
            hashed = pd.util.hash_array(np.array([*text, ""], dtype=object), categorize=False)
            return hashed[self.values]
        bits = (self.values + 0.0).view(np.uint64)  # + 0.0 makes one zero of the two
        half = np.uint64(1) << (_ROUNDED_BITS - np.uint64(1))
        rounded = np.where(np.isnan(self.values), np.uint64(1), (bits + half) >> _ROUNDED_BITS)
        return pd.util.hash_array(rounded)


def as_numbers(column: pd.Series) -> np.ndarray:
    """Numbers (N,) as float64, NaN where there is none."""
    if types.is_numeric_dtype(column) or types.is_bool_dtype(column):
        if types.is_complex_dtype(column):
            return np.full(len(column), np.nan)
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    if isinstance(column.dtype, pd.StringDtype):
        with suppress(Exception):  # without pyarrow, or with other text, pandas reads what it can
            filled = column.mask(column.isin(sorted(MISSING)))
            return filled.astype("double[pyarrow]").to_numpy(dtype=np.float64, na_value=np.nan)
    numbers = pd.to_numeric(pd.Series(as_text(column), dtype=object), errors="coerce")
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


def as_text(column: pd.Series) -> np.ndarray:
    """Text (N,) of any values, as the model sees them."""
    try:
        return kinds.as_text(column)
    except Exception:  # an object that does not survive conversion; its own text will do
        return np.array([_safe_text(value) for value in column.astype(object)], dtype=object)


def _safe_text(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return type(value).__name__


def _is_missing(column: pd.Series) -> np.ndarray:
    try:
        return kinds.is_missing(column)
    except Exception:  # a signalling NaN, for instance
        return np.array([text in MISSING for text in as_text(column)], dtype=bool)


def _spellings(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Distinct texts (k,) of the values that are present, and for each row (N,) which, or -1."""
    try:
        codes, values = pd.factorize(column)
        found = pd.Series(values)
    except Exception:  # unhashable values
        codes, texts = pd.factorize(as_text(column))
        found = pd.Series(texts, dtype=object)
    text, absent = as_text(found), _is_missing(found)
    # 1 and "1" are two values and one text.
    text[absent] = None
    text_codes, labels = pd.factorize(text)
    return np.asarray(labels, dtype=object), np.append(text_codes, -1)[codes]


def _booleans(column: pd.Series) -> np.ndarray:
    """0.0 or 1.0 (N,), NaN where a value is neither true nor false."""
    if types.is_numeric_dtype(column) or types.is_bool_dtype(column):
        values = as_numbers(column)
        return np.where(np.isin(values, (0, 1)), values, np.nan)
    labels, codes = _spellings(column)
    read = np.full(len(labels) + 1, np.nan)
    for i, label in enumerate(labels[:_MAX_BOOLEAN_SPELLINGS]):
        try:
            read[i] = kinds.read_values(pd.Series([label], dtype=object), "boolean")[0]
        except ValueError:
            continue
    return read[codes]


def _dates(column: pd.Series, date_format: str | None) -> np.ndarray:
    """Days (N,) since 1970, NaN where a value is no date in this format."""
    nothing = np.full(len(column), np.nan)
    try:
        if dates.is_timestamps(column):
            return dates.as_days(column)
        return dates.parse(as_text(column), date_format or dates.ISO)
    except Exception:
        return nothing
