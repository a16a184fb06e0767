"""TableEncoder: columns of numbers, truths and categories -> numbers (N, D) to learn from.

What it learned is plain values, so that it is kept in a model's JSON. It does what scikit-learn's
ColumnTransformer of a SimpleImputer and a OneHotEncoder would do, and also says which column, which
row and which value is wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from pandas.api import types

from bacoun.storage import plain
from bacoun.tabular.reading import MISSING, listed

Kind = Literal["number", "boolean", "category"]

MOST_CATEGORIES = 1000
_FEWEST_FOR_IDS = 10  # rows; in fewer, different values are no sign of an id
_MOSTLY = 0.9  # a text column with so many numbers was meant to be one of numbers

_TRUTHS = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}


@dataclass(frozen=True)
class Column:
    """How one column becomes numbers.

    Attributes
    ----------
    categories : list of str
        Of a category, in order; each becomes a column of 0 and 1.
    fill : float, str or None
        What stands in for a missing value; None if missing values are refused.
    indicator : bool
        Whether one more column tells where values were missing.
    """

    name: str
    kind: Kind
    categories: list[str] = field(default_factory=list)
    fill: float | str | None = None
    indicator: bool = False

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns it becomes."""
        names = [f"{self.name}={value}" for value in self.categories] or [self.name]
        return [*names, f"{self.name} missing"] if self.indicator else names


class TableEncoder:
    """Learn what a table's columns are, then turn such tables into numbers.

    Numbers stay as they are, a boolean becomes 0 and 1, a category a column of 0 and 1 for each of
    its values. A category that was not seen in `fit` is 0 in all of them, and the row counts as
    unseen. Columns that number the rows, and columns of one value alone, are left out.

    Attributes
    ----------
    columns_ : list of Column
        Those that are used.
    dropped_ : dict
        From the name of a column that is left out to the reason: "id", "constant" or "empty".
    feature_names_ : list of str
        Of the columns (D,) that `transform` returns.

    Examples
    --------
    >>> table = pd.DataFrame({"age": [40, 52], "smoker": [True, False], "ward": ["A", "B"]})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.feature_names_
    ['age', 'smoker', 'ward=A', 'ward=B']
    >>> encoder.transform(table)
    array([[40.,  1.,  1.,  0.],
           [52.,  0.,  0.,  1.]])
    """

    def fit(
        self, frame: pd.DataFrame, impute: bool = False, ids: Mapping[str, str] | None = None
    ) -> Self:
        """Learn the columns, their categories and what to put for missing values.

        Parameters
        ----------
        impute : bool
            Put the median, or the most frequent value, for what is missing, and add a column that
            tells where; otherwise missing values are an error, here and in `transform`.
        ids : dict, optional
            What `find_ids` said of a larger table, of which `frame` is a part.
        """
        check_names(frame)
        dropped = dict(find_ids(frame) if ids is None else ids)
        dropped |= _without_content(frame.drop(columns=list(dropped)), impute)
        used = [str(name) for name in frame if name not in dropped]
        if not used:
            raise ValueError(
                "the table must have a column to learn from; all are ids, constant or empty: "
                f"{listed(dropped)}. Bring other columns."
            )
        kinds = {name: _kind(frame[name]) for name in used}
        cells = {name: _read(frame[name], kinds[name]) for name in used}
        _refuse_infinite(cells)
        if not impute:
            _refuse_missing(cells)
        self.columns_ = [_learn(name, kinds[name], cells[name], impute) for name in used]
        self.dropped_ = dropped
        return self

    @property
    def feature_names_(self) -> list[str]:
        """Names of the columns (D,) that `transform` returns."""
        return [name for column in self.columns_ for name in column.feature_names]

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """The numbers (N, D) of a table with the same columns, in any order, in float64."""
        return self.transform_with_unseen(frame)[0]

    def transform_with_unseen(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """The numbers (N, D), and which rows (N,) have a category that `fit` did not see."""
        cells = self._cells(frame)
        parts, unseen = [], np.zeros(len(frame), dtype=bool)
        for column in self.columns_:
            part, strange = _encode(column, *cells[column.name])
            parts.append(part)
            unseen |= strange
        return np.concatenate(parts, axis=1), unseen

    def typed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The table with numbers and truths in place of the text that a CSV has for them."""
        cells = self._cells(frame)
        result = frame.astype(object)
        for column in self.columns_:
            values, missing = cells[column.name]
            known = (values == 1 if column.kind == "boolean" else values).astype(object)
            known[missing] = None
            result[column.name] = known
        return result

    def extra(self, names: Iterable[str]) -> list[str]:
        """Those of a table's columns that `fit` did not see."""
        known = {column.name for column in self.columns_} | self.dropped_.keys()
        return [name for name in names if name not in known]

    def _cells(self, frame: pd.DataFrame) -> dict[str, Cells]:
        """What is in the columns that are used; all checked."""
        check_names(frame)
        absent = [column.name for column in self.columns_ if column.name not in frame]
        if absent:
            raise ValueError(
                f"the table must have the columns that the model was fitted on; it lacks "
                f"{listed(absent)}. It has {listed(frame.columns)}."
            )
        cells = {column.name: _read(frame[column.name], column.kind) for column in self.columns_}
        _refuse_infinite(cells)
        _refuse_missing(
            {column.name: cells[column.name] for column in self.columns_ if column.fill is None}
        )
        return cells

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"columns": [asdict(column) for column in self.columns_], "dropped": self.dropped_}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        encoder = cls()
        try:
            encoder.columns_ = [Column(**column) for column in content["columns"]]
            encoder.dropped_ = dict(content["dropped"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"an encoder must hold what to_dict wrote; reading it failed at {error}. Fit anew."
            ) from error
        return encoder


def check_names(frame: pd.DataFrame) -> None:
    """Refuse columns without a name of their own."""
    names = frame.columns
    if not all(isinstance(name, str) for name in names):
        raise ValueError(
            "columns must have names of text; got others. Rename them, for instance with "
            "frame.rename(columns=str)."
        )
    if not names.is_unique:
        raise ValueError(
            "columns must have different names; these occur more than once: "
            f"{listed(names[names.duplicated()].unique())}. Rename them."
        )


def find_ids(frame: pd.DataFrame) -> dict[str, str]:
    """Columns that only tell rows apart: other text in each, or whole numbers without a gap.

    Returns
    -------
    dict
        From name to "id".
    """
    check_names(frame)
    return {str(name): "id" for name in frame if _is_id(frame[name])}


def _is_id(column: pd.Series) -> bool:
    n_rows = len(column)
    if n_rows < _FEWEST_FOR_IDS or column.isna().any():
        return False
    if types.is_integer_dtype(column):
        return int(column.max()) - int(column.min()) == n_rows - 1 and column.nunique() == n_rows
    if not _is_text(column):
        return False
    text = _text(column)
    return len(set(text)) == n_rows and _are_numbers(text).mean() < 0.5 and not _have_commas(text)


def _without_content(frame: pd.DataFrame, impute: bool) -> dict[str, str]:
    """Columns that are empty, or have one value alone and, if asked, no gaps to tell of."""
    found = {}
    for name in map(str, frame):
        missing = _is_missing(frame[name])
        if missing.all():
            found[name] = "empty"
        elif _is_constant(frame[name][~missing]) and not (impute and missing.any()):
            found[name] = "constant"
    return found


def _is_constant(column: pd.Series) -> bool:
    return len(set(_text(column))) == 1 if _is_text(column) else column.nunique() == 1


# --- reading a column ----------------------------------------------------------------------------


class Cells(NamedTuple):
    """A column's values (N,), float64 or text, and where (N,) they are missing."""

    values: np.ndarray
    missing: np.ndarray


def _read(column: pd.Series, kind: Kind) -> Cells:
    if kind == "category":
        return Cells(_text(column), _is_missing(column))
    if _is_text(column):
        text, missing = _text(column), _is_missing(column)
        if kind == "boolean":
            values = np.array([_TRUTHS.get(value.strip().lower(), np.nan) for value in text])
        else:
            values = _numbers(text)
        bad = np.isnan(values) & ~missing
    elif _is_numeric(column):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        missing = np.isnan(values)
        bad = ~missing & ~np.isin(values, (0, 1)) if kind == "boolean" else np.zeros_like(missing)
    else:
        raise _strange(column, str(column.dtype))
    if bad.any():
        wanted = {"number": "numbers", "boolean": "true or false"}[kind]
        raise ValueError(
            f"column '{column.name}' must hold {wanted} as in training; got "
            f"{_where(column[bad])}. Correct it."
        )
    return Cells(values, missing)


def _is_text(column: pd.Series) -> bool:
    return bool(
        types.is_string_dtype(column)
        or types.is_object_dtype(column)
        or isinstance(column.dtype, pd.CategoricalDtype)
        or "dictionary" in str(column.dtype)  # what Arrow calls a category
    )


def _is_numeric(column: pd.Series) -> bool:
    numeric = types.is_numeric_dtype(column) or types.is_bool_dtype(column)
    return bool(numeric and not types.is_complex_dtype(column))


def _text(column: pd.Series) -> np.ndarray:
    """Values (N,) as text; a whole number has no decimals, however it is stored."""
    values = column.astype(object).to_numpy()
    if types.is_float_dtype(column):
        values = np.array([int(v) if float(v).is_integer() else v for v in values], dtype=object)
    return np.array([v if isinstance(v, str) else str(v) for v in values], dtype=object)


def _is_missing(column: pd.Series) -> np.ndarray:
    """Where (N,) a value is missing; in text, also where it says so."""
    missing = column.isna().to_numpy(dtype=bool)
    if _is_text(column):
        return missing | np.array([value in MISSING for value in _text(column)], dtype=bool)
    return missing


def _numbers(text: np.ndarray) -> np.ndarray:
    """Text (N,) as float64, NaN where it is no number."""
    return pd.to_numeric(pd.Series(text, dtype=object), errors="coerce").to_numpy(np.float64)


def _are_numbers(text: np.ndarray) -> np.ndarray:
    return ~np.isnan(_numbers(text))


def _have_commas(text: np.ndarray) -> bool:
    return all(re.fullmatch(r"\s*[-+]?\d+,\d+\s*", value) for value in text)


def _where(bad: pd.Series) -> str:
    """The first wrong value and, if rows are counted, its row."""
    value, row = str(bad.iloc[0])[:40], bad.index[0]
    return f"{value!r} in row {int(row) + 1}" if types.is_integer(row) else repr(value)


def _strange(column: pd.Series, held: str) -> ValueError:
    return ValueError(
        f"columns must hold numbers, text or truths; '{column.name}' holds {held}. Turn it into "
        "numbers, such as days since a date, or leave it out."
    )


def _refuse_missing(cells: Mapping[str, Cells]) -> None:
    names = [name for name, (_, missing) in cells.items() if missing.any()]
    if names:
        n_rows = int(np.any([cells[name].missing for name in names], axis=0).sum())
        raise ValueError(
            f"columns must not have missing values; {listed(names)} {_has(names)} some, in "
            f"{n_rows} {'row' if n_rows == 1 else 'rows'}. Fill them, or fit with impute "
            "(--impute on the command line)."
        )


def _refuse_infinite(cells: Mapping[str, Cells]) -> None:
    names = [name for name, (values, _) in cells.items() if values.dtype == np.float64]
    names = [name for name in names if np.isinf(cells[name].values).any()]
    if names:
        raise ValueError(
            f"columns must hold finite numbers; {listed(names)} {_has(names)} infinite values. "
            "Clip them, or leave such rows out."
        )


def _has(names: list[str]) -> str:
    return "has" if len(names) == 1 else "have"


# --- learning and encoding -----------------------------------------------------------------------


def _kind(column: pd.Series) -> Kind:
    if types.is_bool_dtype(column):
        return "boolean"
    if _is_numeric(column):
        return "number"
    if not _is_text(column):
        raise _strange(column, str(column.dtype))
    present = column[~_is_missing(column)]
    held = {type(plain(value)) for value in present.astype(object)}
    if any(not issubclass(kind, str | bool | int | float | Decimal) for kind in held):
        raise _strange(column, listed(sorted(kind.__name__ for kind in held)))
    if held <= {int, float, Decimal}:
        return "number"
    text = _text(present)
    if {value.lower() for value in text} <= {"true", "false"}:
        return "boolean"
    numeric = _are_numbers(text)
    if _MOSTLY <= numeric.mean() < 1:
        raise ValueError(
            f"column '{column.name}' must hold numbers alone, or text; among numbers it has "
            f"{_where(present[~numeric])}. Correct it, or empty the cell and fit with impute "
            "(--impute on the command line)."
        )
    if _have_commas(text):
        raise ValueError(
            f"column '{column.name}' must have a point before decimals; got {text[0]!r}. "
            "Export the table with decimal points."
        )
    return "category"


def _learn(name: str, kind: Kind, cells: Cells, impute: bool) -> Column:
    present = cells.values[~cells.missing]
    categories = sorted(set(present)) if kind == "category" else []
    if len(categories) > MOST_CATEGORIES:
        raise ValueError(
            f"column '{name}' must have at most {MOST_CATEGORIES} categories; it has "
            f"{len(categories)}. Group the rare ones, or leave the column out."
        )
    fill: float | str | None = None
    if impute:
        frequent, _ = Counter(present.tolist()).most_common(1)[0]
        fill = float(np.median(present)) if kind == "number" else frequent
    return Column(name, kind, categories, fill, bool(cells.missing.any()))


def _encode(
    column: Column, values: np.ndarray, missing: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Columns (N, d) of numbers, and which rows (N,) hold a category not seen before."""
    filled = values.copy()
    filled[missing] = column.fill
    unseen = np.zeros(len(values), dtype=bool)
    if column.kind == "category":
        codes = pd.Index(column.categories, dtype=object).get_indexer(
            pd.Index(filled, dtype=object)
        )
        unseen = codes < 0
        part = np.zeros((len(values), len(column.categories)))
        part[np.flatnonzero(~unseen), codes[~unseen]] = 1.0
    else:
        part = filled.astype(np.float64)[:, None]
    return (np.column_stack([part, missing]) if column.indicator else part), unseen
