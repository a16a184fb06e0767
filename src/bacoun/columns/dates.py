"""Dates: text in one of the common formats, or timestamps -> days since 1970, and their parts."""

from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
from pandas.api import types

ISO = "ISO8601"
_SHAPES = {  # what text must look like -> the formats it may be in
    r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?": [ISO],
    r"\d{4}/\d{1,2}/\d{1,2}": ["%Y/%m/%d"],
    r"\d{1,2}\.\d{1,2}\.\d{4}": ["%d.%m.%Y"],
    r"\d{1,2}/\d{1,2}/\d{4}": ["%d/%m/%Y", "%m/%d/%Y"],
    r"\d{1,2}-\d{1,2}-\d{4}": ["%d-%m-%Y", "%m-%d-%Y"],
}
_SECONDS_PER_DAY = 86400.0


def find_format(text: np.ndarray) -> str | None:
    """The one format in which all of `text` (n,) is dates; None if there is none.

    Raises ValueError if day and month cannot be told apart.
    """
    values = pd.Series(text, dtype=object)
    for shape, formats in _SHAPES.items():
        if not values.str.fullmatch(shape).all():
            continue
        fitting = [wanted for wanted in formats if not np.isnan(parse(text, wanted)).any()]
        if len(fitting) > 1:
            raise ValueError(f"day and month cannot be told apart in dates such as {text[0]!r}")
        return fitting[0] if fitting else None
    return None


def is_timestamps(column: pd.Series) -> bool:
    """Whether a column holds timestamps or dates, not text."""
    if types.is_datetime64_any_dtype(column):
        return True
    if not types.is_object_dtype(column) and "date" not in str(column.dtype):
        return False
    present = column.dropna().astype(object)
    return len(present) > 0 and all(isinstance(value, date) for value in present)


def parse(text: np.ndarray, date_format: str) -> np.ndarray:
    """Days (n,) since 1970, NaN where text (n,) is no date in this format."""
    values = pd.Series(text, dtype=object)
    return as_days(pd.to_datetime(values, format=date_format, errors="coerce", utc=True))


def as_days(column: pd.Series) -> np.ndarray:
    """Days (N,) since 1970 of timestamps or dates, NaN where missing; without zone, in UTC."""
    moments = pd.to_datetime(column.astype(object), errors="coerce", utc=True)
    microseconds = moments.dt.as_unit("us").astype("int64").to_numpy(np.float64)
    return np.where(moments.isna(), np.nan, microseconds / 1e6 / _SECONDS_PER_DAY)


def month(days: np.ndarray) -> np.ndarray:
    """Month (n,) of each date, 1 to 12."""
    whole = np.floor(days).astype("datetime64[D]")
    return whole.astype("datetime64[M]").astype(int) % 12 + 1


def weekday(days: np.ndarray) -> np.ndarray:
    """Weekday (n,) of each date, 1 for Monday to 7."""
    return (np.floor(days).astype(int) + 3) % 7 + 1  # 1970 began on a Thursday


def as_text(days: float) -> str:
    """A date, with the time if it is not midnight."""
    moment = datetime.fromtimestamp(round(days * _SECONDS_PER_DAY), UTC)
    day = moment.date().isoformat()  # %Y would not pad years below 1000
    return day if days == np.floor(days) else f"{day} {moment:%H:%M}"
