"""The one reader of a column: what each cell holds, which cells are missing, which unreadable.

A column is read as far as it can be, so that a table can be checked whatever it holds. In strict
mode, for training and for scoring, an unreadable cell is refused in one sentence.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from pandas.api import types

from bacoun.columns import dates
from bacoun.columns.photo_files import content_digest
from bacoun.columns.reading import MISSING

Kind = Literal["number", "boolean", "category", "date", "text", "photo"]

ITEMS = ("text", "photo")  # kinds of columns that an encoder turns into vectors

_BOOLEANS = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
_ROUNDED_BITS = np.uint64(22)  # leaves 30 bits of the mantissa, about nine significant digits


@dataclass(frozen=True, eq=False)
class Cells:
    """Values (N,) of a column, each of which is present, missing, or unreadable.

    They are float64, NaN unless present; dates are days since 1970. For categories, texts and
    photos, they are indices into `labels`, -1 if missing.
    """

    values: np.ndarray
    missing: np.ndarray  # bool (N,), where a cell is empty
    bad: np.ndarray  # bool (N,), where it is not what this kind of column holds
    kind: str = "number"
    date_format: str | None = None  # of dates that are text
    # Distinct categories, texts or paths of photos, in the order of their first appearance.
    labels: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=object))

    @classmethod
    def read(
        cls, column: pd.Series, kind: str, date_format: str | None = None, strict: bool = False
    ) -> Self:
        """Read a column as "number", "boolean", "category", "date", "text" or "photo".

        Dates are timestamps, or text in `date_format`. If `strict`, unreadable cells raise a
        ValueError that names the first one. Photos are not opened: their cells are paths.
        """
        if kind == "category" or kind in ITEMS:
            labels, codes = _spellings(column)
            if kind in ITEMS:  # blanks are a gap, too
                is_blank = np.array([not label.strip() for label in labels], dtype=bool)
                codes = np.where(np.append(is_blank, False)[codes], -1, codes)
            return cls(codes, codes < 0, np.zeros(len(column), dtype=bool), kind, labels=labels)
        if kind == "date":
            values = _dates(column, date_format)
        elif strict and not (is_text(column) or holds_numbers(column)):
            raise unsupported(column, str(column.dtype))
        else:
            values = _booleans(column) if kind == "boolean" else as_numbers(column)
        missing = np.isnan(values)
        missing[missing] = is_missing(column[missing])
        bad = np.isnan(values) & ~missing
        if strict and bad.any():
            raise _unreadable(column[bad], kind, date_format)
        return cls(values, missing, bad, kind, date_format)

    @property
    def present(self) -> np.ndarray:
        """The values that could be read (n,)."""
        return self.values[~(self.missing | self.bad)]

    @property
    def content(self) -> np.ndarray:
        """Values (N,) as float64, NaN if missing; of `labels` these, None if missing."""
        if not self._has_labels:
            return self.values
        return np.array([*self.labels, None], dtype=object)[self.values]

    @property
    def _has_labels(self) -> bool:
        return self.kind == "category" or self.kind in ITEMS

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows of each category, the most frequent first."""
        number = np.bincount(self.present.astype(np.int64), minlength=len(self.labels))
        order = np.argsort(-number, kind="stable")
        return {str(self.labels[i]): int(number[i]) for i in order}

    def hashes(self) -> np.ndarray:
        """A hash (N,) of each value: of stripped text, or of about nine significant digits.

        Of a photo, it is that of the file's content, wherever it is.
        """
        if self._has_labels:
            text = [str(label).strip().encode(errors="replace").decode() for label in self.labels]
            text = list(map(content_digest, text)) if self.kind == "photo" else text
            hashed = pd.util.hash_array(np.array([*text, ""], dtype=object), categorize=False)
            return hashed[self.values]
        bits = (self.values + 0.0).view(np.uint64)  # + 0.0 makes one zero of the two
        half = np.uint64(1) << (_ROUNDED_BITS - np.uint64(1))
        rounded = np.where(np.isnan(self.values), np.uint64(1), (bits + half) >> _ROUNDED_BITS)
        return pd.util.hash_array(rounded)


def as_numbers(column: pd.Series) -> np.ndarray:
    """Numbers (N,) as float64, NaN where there is none."""
    if holds_numbers(column):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    if isinstance(column.dtype, pd.StringDtype):
        with suppress(Exception):  # without pyarrow, or with other text, pandas reads what it can
            filled = column.mask(column.isin(sorted(MISSING)))
            return filled.astype("double[pyarrow]").to_numpy(dtype=np.float64, na_value=np.nan)
    return text_as_numbers(as_text(column))


def text_as_numbers(text: np.ndarray) -> np.ndarray:
    """Text (N,) as float64, NaN where it is not a number."""
    return pd.to_numeric(pd.Series(text, dtype=object), errors="coerce").to_numpy(np.float64)


def as_text(column: pd.Series) -> np.ndarray:
    """Values (N,) as text; whole numbers have no decimals, also if they are stored as floats.

    Each value has the same text in any company: 1.0 among numbers, and among words.
    """
    return np.array([_text_of(value) for value in column.astype(object)], dtype=object)


def is_missing(column: pd.Series) -> np.ndarray:
    """Where (N,) a value is missing; in text, also where it says so, such as "NA"."""
    missing = np.zeros(len(column), dtype=bool)
    with suppress(Exception):  # a signalling NaN, for instance
        missing = column.isna().to_numpy(dtype=bool)
    if is_text(column):
        missing = missing | np.array([text in MISSING for text in as_text(column)], dtype=bool)
    return missing


def equals(column: pd.Series, value: str) -> np.ndarray:
    """Where (N,) a column holds `value`, as text in any case or as the same number."""
    text = as_text(column)
    same_text = np.array([cell.strip().lower() == value.strip().lower() for cell in text], bool)
    (number,) = text_as_numbers(np.array([value], dtype=object))
    return same_text | (text_as_numbers(text) == number)


def holds_numbers(column: pd.Series) -> bool:
    """Whether a column is of a numeric type, or boolean; text is not, whatever it says."""
    numeric = types.is_numeric_dtype(column) or types.is_bool_dtype(column)
    return bool(numeric and not types.is_complex_dtype(column))


def is_text(column: pd.Series) -> bool:
    """Whether a column is of a type that may hold text: strings, objects or categories."""
    return bool(
        types.is_string_dtype(column)
        or types.is_object_dtype(column)
        or isinstance(column.dtype, pd.CategoricalDtype)
        or "dictionary" in str(column.dtype)  # Arrow's categories
    )


def unsupported(column: pd.Series, held: str) -> ValueError:
    """The error about a column that `held`, in words, something else than the four kinds."""
    return ValueError(
        f"columns must hold numbers, text, booleans or dates; '{column.name}' holds {held}. "
        "Convert it to one of these, or leave it out."
    )


def first_value(bad: pd.Series) -> str:
    """The first bad value and, if the index counts rows, its row."""
    value, row = str(bad.iloc[0])[:40], bad.index[0]
    return f"{value!r} in row {int(row) + 1}" if types.is_integer(row) else repr(value)


def _unreadable(bad: pd.Series, kind: str, date_format: str | None) -> ValueError:
    such_dates = f"dates such as {example_date(date_format)},"
    wanted = {"number": "numbers", "boolean": "true or false", "date": such_dates}[kind]
    return ValueError(
        f"column '{bad.name}' must hold {wanted} as in training; got {first_value(bad)}. "
        "Correct it."
    )


def example_date(date_format: str | None) -> str:
    """A date in this format."""
    if date_format in (None, dates.ISO):
        return "2021-04-03"
    return datetime(2021, 4, 3).strftime(str(date_format))


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    try:
        return str(int(value)) if is_whole else str(value)
    except Exception:  # an object without a text
        return type(value).__name__


def _spellings(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Distinct texts (k,) of the values that are present, and for each row (N,) which, or -1."""
    # Among objects 1, 1.0 and True are equal, but have different texts.
    if not types.is_object_dtype(column) or types.infer_dtype(column) == "string":
        with suppress(Exception):  # unhashable values
            codes, distinct = pd.factorize(column)
            labels, codes_of_distinct = _distinct_texts(pd.Series(distinct))
            return labels, np.append(codes_of_distinct, -1)[codes]
    return _distinct_texts(column)


def _distinct_texts(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    text = as_text(column)
    text[is_missing(column)] = None
    codes, labels = pd.factorize(text)
    return np.asarray(labels, dtype=object), codes


def _booleans(column: pd.Series) -> np.ndarray:
    """0.0 or 1.0 (N,), NaN where a value is neither true nor false."""
    if holds_numbers(column):
        values = as_numbers(column)
        return np.where(np.isin(values, (0, 1)), values, np.nan)
    labels, codes = _spellings(column)
    meant = [_BOOLEANS.get(label.strip().lower(), np.nan) for label in labels]
    return np.array([*meant, np.nan])[codes]


def _dates(column: pd.Series, date_format: str | None) -> np.ndarray:
    """Days (N,) since 1970, NaN where a value is no date in this format."""
    with suppress(Exception):
        if dates.is_timestamps(column):
            return dates.as_days(column)
        return dates.parse(as_text(column), date_format or dates.ISO)
    return np.full(len(column), np.nan)
