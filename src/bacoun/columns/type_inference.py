"""What a column holds, inferred from its values: one of six kinds, an id, or always the same."""

import re
from decimal import Decimal

import numpy as np
import pandas as pd
from pandas.api import types

from bacoun.columns import dates
from bacoun.columns.cells import (
    Kind,
    as_text,
    first_value,
    holds_numbers,
    is_missing,
    is_text,
    text_as_numbers,
    unsupported,
)
from bacoun.columns.photo_files import is_photo
from bacoun.columns.reading import listed

_MIN_ROWS_FOR_IDS = 10  # with fewer rows, distinct values do not indicate an id
_ID_NAME = r"(?i:(^|[^a-z])(ids?|key|uuid|identifier)$)|[a-z]I[dD]$|^Unnamed: 0$"
_MOSTLY_PHOTOS = 0.9
_MOSTLY_DISTINCT = 0.5
_FEWEST_WORDS = 4  # of most free texts
_MOST_CAPITALS = 0.6  # share of words with a capital; names of people and things have more
_LOOKED_AT = 5000  # rows, from all over the table
_WORD = re.compile(r"[^\W\d_]{2,}")
_MOSTLY_NUMERIC = 0.9  # a text column with so many numbers was meant to be numeric


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
    if not is_text(column):
        return False
    text = as_text(column)
    mostly_text = np.isnan(text_as_numbers(text)).mean() > 0.5
    is_unique = len(set(text)) == n_rows
    return is_unique and bool(mostly_text) and not (_has_decimal_commas(text) or _is_dates(text))


def is_photos(column: pd.Series) -> bool:
    """Whether a column holds photos: paths that end like those, or data URIs."""
    present = _present_text(column)
    return len(present) > 0 and bool(np.mean([*map(is_photo, present)]) >= _MOSTLY_PHOTOS)


def is_free_text(column: pd.Series) -> bool:
    """Whether a column holds sentences: several words each, mostly distinct, no names or titles."""
    present = _present_text(column)
    if len(present) < _MIN_ROWS_FOR_IDS or len(set(present)) < _MOSTLY_DISTINCT * len(present):
        return False
    words = [_WORD.findall(text) for text in present]
    capitals = np.mean([word.istitle() for each in words for word in each] or [1.0])
    is_long = np.median([*map(len, words)]) >= _FEWEST_WORDS
    return bool(is_long and capitals <= _MOST_CAPITALS and not _is_dates(present))


def _present_text(column: pd.Series) -> np.ndarray:
    if not is_text(column) or column.empty:
        return np.empty(0, dtype=object)
    some = column.iloc[:: -(-len(column) // _LOOKED_AT)]
    return as_text(some[~is_missing(some)])


def is_constant(column: pd.Series) -> bool:
    """Whether all values are the same; none may be missing."""
    return len(set(as_text(column))) == 1 if is_text(column) else column.nunique() == 1


def find_kind(column: pd.Series) -> tuple[Kind, str | None]:
    """Whether a column holds numbers, booleans, categories or dates, and the format of the dates.

    The format is None if they are timestamps.
    """
    if dates.is_timestamps(column):
        return "date", None
    if types.is_bool_dtype(column):
        return "boolean", None
    if holds_numbers(column):
        return "number", None
    if not is_text(column):
        raise unsupported(column, str(column.dtype))
    return _kind_of_text(column[~is_missing(column)])


def _kind_of_text(present: pd.Series) -> tuple[Kind, str | None]:
    """The kind of a column of text or objects, none of which is missing."""
    scalars = (value.item() if isinstance(value, np.generic) else value for value in present)
    held = set(map(type, scalars))
    if any(not issubclass(kind, str | bool | int | float | Decimal) for kind in held):
        raise unsupported(present, listed(sorted(kind.__name__ for kind in held)))
    if held <= {int, float, Decimal}:
        return "number", None
    text = as_text(present)
    if {value.lower() for value in text} <= {"true", "false"}:
        return "boolean", None
    _check_not_meant_as_numbers(present, text)
    try:
        date_format = dates.find_format(text)
    except ValueError as error:
        raise ValueError(
            f"column '{present.name}' must hold dates in one format; {error}. Write them as "
            "2021-04-03."
        ) from None
    return ("category", None) if date_format is None else ("date", date_format)


def _check_not_meant_as_numbers(present: pd.Series, text: np.ndarray) -> None:
    """Refuse text (N,) that was meant to be numbers: a few words among them, or decimal commas."""
    words = np.isnan(text_as_numbers(text))
    if _MOSTLY_NUMERIC <= (~words).mean() < 1:
        raise ValueError(
            f"column '{present.name}' must hold only numbers, or text; among numbers it has "
            f"{first_value(present[words])}. Correct it, or empty the cell."
        )
    if _has_decimal_commas(text):
        raise ValueError(
            f"column '{present.name}' must use decimal points; got {text[0]!r}. "
            "Export the table with decimal points."
        )


def _has_decimal_commas(text: np.ndarray) -> bool:
    return all(re.fullmatch(r"\s*[-+]?\d+,\d+\s*", value) for value in text)


def _is_dates(text: np.ndarray) -> bool:
    try:
        return dates.find_format(text) is not None
    except ValueError:  # day and month cannot be told apart
        return True
