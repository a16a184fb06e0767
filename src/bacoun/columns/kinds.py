"""One column of a table: its kind, and its values as float64 or text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api import types

from bacoun.columns import dates
from bacoun.columns.reading import MISSING, listed
from bacoun.files.model_folder import plain

Kind = Literal["number", "boolean", "category", "date"]

_MIN_ROWS_FOR_IDS = 10  # with fewer rows, distinct values do not indicate an id
_ID_NAME = r"(?i:(^|[^a-z])(ids?|key|uuid|identifier)$)|[a-z]I[dD]$|^Unnamed: 0$"
_MOSTLY_NUMERIC = 0.9  # a text column with so many numbers was meant to be numeric
_BOOLEANS = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}


def check_names(frame: pd.DataFrame) -> None:
    """Refuse column names that are not text, or not unique."""
    names = frame.columns
    if not all(isinstance(name, str) for name in names):
        raise ValueError(
            "column names must be text; got others. Rename them, for instance with "
            "frame.rename(columns=str)."
        )
    if not names.is_unique:
        raise ValueError(
            "column names must be unique; these occur more than once: "
            f"{listed(names[names.duplicated()].unique())}. Rename them."
        )


def check_cells(frame: pd.DataFrame) -> None:
    """Refuse cells that hold several values."""
    for name, column in frame.items():
        if column.dtype.kind != "O" or isinstance(column.dtype, pd.StringDtype):
            continue
        if any(issubclass(kind, _SEVERAL) for kind in set(map(type, column))):
            row = next(k for k, cell in enumerate(column) if isinstance(cell, _SEVERAL))
            raise ValueError(
                f"cells must be text, numbers, dates or true and false; column '{name}' has a "
                f"{type(column.iloc[row]).__name__} in row {row + 1}. Make a column of each part."
            )


_SEVERAL = (list, tuple, dict, set, frozenset, np.ndarray, pd.Series)


def is_id(column: pd.Series) -> bool:
    """Whether a column only numbers or names the rows: unique integers, or unique text.

    Unique integers are an id if they are consecutive, in any order, or if the column is called so.
    """
    n_rows = len(column)
    if n_rows < _MIN_ROWS_FOR_IDS or column.isna().any():
        return False
    if types.is_integer_dtype(column):
        consecutive = int(column.max()) - int(column.min()) == n_rows - 1
        named = re.search(_ID_NAME, str(column.name)) is not None
        unique = column.nunique() == n_rows
        return bool(unique and (consecutive or named))
    if not _is_text(column):
        return False
    text = as_text(column)
    mostly_text = np.isnan(_as_numbers(text)).mean() > 0.5
    is_unique = len(set(text)) == n_rows
    return is_unique and bool(mostly_text) and not (_has_decimal_commas(text) or _is_dates(text))


def is_constant(column: pd.Series) -> bool:
    """Whether all values are the same; none may be missing."""
    return len(set(as_text(column))) == 1 if _is_text(column) else column.nunique() == 1


def is_missing(column: pd.Series) -> np.ndarray:
    """Where (N,) a value is missing; in text, also where it says so, such as "NA"."""
    missing = column.isna().to_numpy(dtype=bool)
    if _is_text(column):
        return missing | np.array([value in MISSING for value in as_text(column)], dtype=bool)
    return missing


def equals(column: pd.Series, value: str) -> np.ndarray:
    """Where (N,) a column holds `value`, as text in any case or as the same number."""
    text = as_text(column)
    same_text = np.array([each.strip().lower() == value.strip().lower() for each in text], bool)
    (number,) = _as_numbers(np.array([value], dtype=object))
    return same_text | (_as_numbers(text) == number)


def find_kind(column: pd.Series) -> tuple[Kind, str | None]:
    """Whether a column holds numbers, booleans, categories or dates, and the format of the dates.

    The format is None if they are timestamps.
    """
    if dates.is_timestamps(column):
        return "date", None
    kind: Kind = _find_kind(column)
    if kind == "category":
        text = as_text(column[~is_missing(column)])
        try:
            date_format = dates.find_format(text)
        except ValueError as error:
            raise ValueError(
                f"column '{column.name}' must hold dates in one format; {error}. Write them as "
                "2021-04-03."
            ) from None
        if date_format is not None:
            return "date", date_format
    return kind, None


def _find_kind(column: pd.Series) -> Kind:
    if types.is_bool_dtype(column):
        return "boolean"
    if holds_numbers(column):
        return "number"
    if not _is_text(column):
        raise _unsupported(column, str(column.dtype))
    present = column[~is_missing(column)]
    held = {type(plain(value)) for value in present.astype(object)}
    if any(not issubclass(kind, str | bool | int | float | Decimal) for kind in held):
        raise _unsupported(column, listed(sorted(kind.__name__ for kind in held)))
    if held <= {int, float, Decimal}:
        return "number"
    text = as_text(present)
    if {value.lower() for value in text} <= {"true", "false"}:
        return "boolean"
    _check_not_meant_as_numbers(present, text)
    return "category"


def read_values(column: pd.Series, kind: Kind, date_format: str | None = None) -> np.ndarray:
    """Values (N,): text of a category, None if missing; else float64, NaN if missing.

    Dates, written in `date_format` or as timestamps, become days since 1970.
    """
    if kind == "date":
        return _read_dates(column, date_format)
    if kind == "category":
        values = as_text(column)
        values[is_missing(column)] = None
        return values
    if _is_text(column):
        text = as_text(column)
        if kind == "boolean":
            values = np.array([_BOOLEANS.get(value.strip().lower(), np.nan) for value in text])
        else:
            values = _as_numbers(text)
        bad = np.isnan(values) & ~is_missing(column)
    elif holds_numbers(column):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        bad = ~np.isnan(values) & ~np.isin(values, (0, 1)) & (kind == "boolean")
    else:
        raise _unsupported(column, str(column.dtype))
    if bad.any():
        wanted = {"number": "numbers", "boolean": "true or false"}[kind]
        raise ValueError(
            f"column '{column.name}' must hold {wanted} as in training; got "
            f"{_first_value(column[bad])}. Correct it."
        )
    return values


def _read_dates(column: pd.Series, date_format: str | None) -> np.ndarray:
    missing = is_missing(column)
    if dates.is_timestamps(column) or missing.all():
        return dates.as_days(column.where(~missing, None))
    values = dates.parse(as_text(column), date_format or dates.ISO)
    bad = np.isnan(values) & ~missing
    if bad.any():
        example = "2021-04-03"
        if date_format is not None and date_format != dates.ISO:
            example = datetime(2021, 4, 3).strftime(date_format)
        raise ValueError(
            f"column '{column.name}' must hold dates such as {example}, as in training; got "
            f"{_first_value(column[bad])}. Correct it."
        )
    return values


def check_values(columns: Mapping[str, np.ndarray], complete: Iterable[str] = ()) -> None:
    """Refuse infinite numbers in any column, and missing values in those named in `complete`."""
    numeric = [name for name, values in columns.items() if values.dtype == np.float64]
    names = [name for name in numeric if np.isinf(columns[name]).any()]
    if names:
        raise ValueError(
            f"columns must hold finite numbers; {listed(names)} {_has(names)} infinite values. "
            "Clip them, or leave such rows out."
        )
    names = [name for name in complete if pd.isna(columns[name]).any()]
    if names:
        n_rows = int(np.any([pd.isna(columns[name]) for name in names], axis=0).sum())
        raise ValueError(
            f"columns must not have missing values; {listed(names)} {_has(names)} some, in "
            f"{n_rows} {'row' if n_rows == 1 else 'rows'}. Fill them, or fit with impute=True."
        )


def _check_not_meant_as_numbers(present: pd.Series, text: np.ndarray) -> None:
    """Refuse text (N,) that was meant to be numbers: a few words among them, or decimal commas."""
    words = np.isnan(_as_numbers(text))
    if _MOSTLY_NUMERIC <= (~words).mean() < 1:
        raise ValueError(
            f"column '{present.name}' must hold only numbers, or text; among numbers it has "
            f"{_first_value(present[words])}. Correct it, or empty the cell."
        )
    if _has_decimal_commas(text):
        raise ValueError(
            f"column '{present.name}' must use decimal points; got {text[0]!r}. "
            "Export the table with decimal points."
        )


def _is_text(column: pd.Series) -> bool:
    return bool(
        types.is_string_dtype(column)
        or types.is_object_dtype(column)
        or isinstance(column.dtype, pd.CategoricalDtype)
        or "dictionary" in str(column.dtype)  # Arrow's categories
    )


def holds_numbers(column: pd.Series) -> bool:
    """Whether a column is of a numeric type, or boolean; text is not, whatever it says."""
    numeric = types.is_numeric_dtype(column) or types.is_bool_dtype(column)
    return bool(numeric and not types.is_complex_dtype(column))


def as_text(column: pd.Series) -> np.ndarray:
    """Values (N,) as text; whole numbers have no decimals, also if they are stored as floats.

    Each value has the same text in any company: 1.0 among numbers, and among words.
    """
    return np.array([_text_of(value) for value in column.astype(object)], dtype=object)


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if is_whole else str(value)


def _as_numbers(text: np.ndarray) -> np.ndarray:
    """Text (N,) as float64, NaN where it is not a number."""
    return pd.to_numeric(pd.Series(text, dtype=object), errors="coerce").to_numpy(np.float64)


def _has_decimal_commas(text: np.ndarray) -> bool:
    return all(re.fullmatch(r"\s*[-+]?\d+,\d+\s*", value) for value in text)


def _is_dates(text: np.ndarray) -> bool:
    try:
        return dates.find_format(text) is not None
    except ValueError:  # day and month cannot be told apart
        return True


def _first_value(bad: pd.Series) -> str:
    """The first bad value and, if the index counts rows, its row."""
    value, row = str(bad.iloc[0])[:40], bad.index[0]
    return f"{value!r} in row {int(row) + 1}" if types.is_integer(row) else repr(value)


def _unsupported(column: pd.Series, held: str) -> ValueError:
    return ValueError(
        f"columns must hold numbers, text, booleans or dates; '{column.name}' holds {held}. "
        "Convert it to one of these, or leave it out."
    )


def _has(names: list[str]) -> str:
    return "has" if len(names) == 1 else "have"
