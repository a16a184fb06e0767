"""TableEncoder: columns of numbers, booleans, categories and dates -> features (N, D).

A category is one feature, the number of its value; the classifier is told which features are
categories. Its state is plain values, so that it can be stored in a model's JSON, and its error
messages name the column, the row and the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd

from bacoun.columns import dates, kinds
from bacoun.columns.kinds import Kind, check_names, check_values, read_values
from bacoun.columns.reading import listed
from bacoun.tabular.explanation import Unseen

MAX_CATEGORIES = 1000
_PARTS = {"month": (dates.month, 12), "weekday": (dates.weekday, 7)}  # of a date, from 1


@dataclass(frozen=True)
class Column:
    """How one column is encoded.

    Attributes
    ----------
    name : str
        Name of the column in the table.
    kind : {"number", "boolean", "category", "date"}
        What it holds.
    date_format : str, optional
        How dates are written, as in `strptime`. None: they are timestamps.
    levels : list of str, or of float
        Sorted values of a category, a boolean, or a number that takes only two values. They are
        encoded as 0, 1, ...; a gap is one more, if training had any. Empty: the column is
        continuous.
    fill : float
        Median, in place of a gap in a continuous column.
    low, high : float
        Range of a continuous column in training.
    whole : bool
        Whether all its values are whole numbers.
    gaps : bool
        Whether training had gaps. If so, a continuous column has a 0/1 feature for them.
    parts : list of str
        "month" and "weekday" of a date, if training had all of them.
    """

    name: str
    kind: Kind
    date_format: str | None = None
    levels: list[Any] = field(default_factory=list)
    fill: float = 0.0
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    gaps: bool = False
    parts: list[str] = field(default_factory=list)

    @classmethod
    def fit(cls, column: pd.Series) -> Self:
        """Learn the levels of a column, or its median."""
        kind, date_format = kinds.find_kind(column)
        name, values = str(column.name), read_values(column, kind, date_format)
        missing = pd.isna(values)
        present, gaps = values[~missing], bool(missing.any())
        if kind in ("category", "boolean") or len(np.unique(present)) <= 2:
            levels = sorted(set(present.tolist()) | ({0.0, 1.0} if kind == "boolean" else set()))
            if len(levels) > MAX_CATEGORIES:
                raise ValueError(
                    f"column '{name}' must have at most {MAX_CATEGORIES} categories; it has "
                    f"{len(levels)}. Group the rare ones, or leave the column out."
                )
            return cls(name, kind, date_format, levels, gaps=gaps)
        parts = []
        if kind == "date":
            parts = [
                part
                for part, (number_of, n_levels) in _PARTS.items()
                if len(np.unique(number_of(present))) == n_levels
            ]
        fill, low, high = map(float, (np.median(present), present.min(), present.max()))
        whole = bool((present == np.floor(present)).all())
        return cls(name, kind, date_format, [], fill, low, high, whole, gaps, parts)

    @property
    def features(self) -> dict[str, bool]:
        """Names of the features it becomes, and whether each is a category."""
        if self.levels:
            return {self.name: True}
        named = {self.name: False} | {f"{self.name} {part}": True for part in self.parts}
        return named | ({f"{self.name} missing": True} if self.gaps else {})

    @property
    def is_continuous(self) -> bool:
        """Whether it is a number that takes more than two values."""
        return self.kind == "number" and not self.levels

    def read(self, frame: pd.DataFrame) -> np.ndarray:
        """Values (N,) of this column in a table: float64, or text; NaN or None is a gap."""
        return read_values(frame[self.name], self.kind, self.date_format)

    def encode(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Features (N, d), and which rows (N,) have a value or a gap that training did not have."""
        missing = pd.isna(values)
        if self.levels:
            codes = pd.Index(self.levels).get_indexer(pd.Index(values)).astype(np.float64)
            codes[missing] = len(self.levels) if self.gaps else -1
            return codes[:, None], codes < 0
        filled, width = np.where(missing, self.fill, values), self.high - self.low
        impossible = (filled < self.low - width) | (filled > self.high + width)
        features = [filled, *(_PARTS[part][0](filled) - 1 for part in self.parts)]
        features += [missing] if self.gaps else []
        unseen = impossible | (missing & (not self.gaps))
        return np.column_stack(features).astype(np.float64), unseen

    def decode(self, features: np.ndarray) -> Any:
        """The value that features (d,) of one row stand for; None is a gap, or what is unseen.

        In a column of whole numbers it is rounded.
        """
        if self.levels:
            code = int(features[0])
            return self.levels[code] if 0 <= code < len(self.levels) else None
        if self.gaps and features[-1] == 1:
            return None
        return float(np.round(features[0]) if self.whole else features[0])

    @property
    def in_training(self) -> str:
        """What a value that training did not have is compared with, in words."""
        if self.levels:
            return "not seen in training"
        return f"{self.as_text(self.low)} to {self.as_text(self.high)} in training"

    def as_text(self, value: Any) -> str:
        """A value, as it is shown to people."""
        if pd.isna(value):
            return "missing"
        if self.kind == "date":
            return dates.as_text(float(value))
        if self.kind == "boolean":
            return "true" if value == 1 else "false"
        return str(value) if self.kind == "category" else f"{value:.6g}"


class TableEncoder:
    """Learn the columns of a table, then encode such tables as numbers.

    Numbers stay as they are, dates become days since 1970, and month and weekday if training has
    all of them. Categories, booleans and numbers that take only two values become 0, 1, ..., in
    sorted order. A gap is a category of its own; in a continuous column it is replaced by the
    median and a 0/1 feature is added. Ids, constant and empty columns are dropped.

    A row is marked as unseen if it has a category that `fit` did not see, a number or date that is
    outside the range in `fit` by more than the width of that range, a gap where there was none,
    more gaps than any row of `fit`, or another value in a column that was constant.

    Attributes
    ----------
    columns_ : list of Column
        The columns that are used.
    dropped_ : dict
        From the name of a dropped column to the reason: "id", "constant" or "empty".
    constants_ : dict
        From the name of a constant column to its value, as text.
    max_missing_ : int
        Largest number of missing values in a row.
    feature_names_ : list of str
        Names of the features (D,) that `transform` returns.
    categorical_features_ : list of int
        Which of these features are categories.

    Examples
    --------
    >>> smoker, ward = [True, False, True], list("ABA")
    >>> table = pd.DataFrame({"age": [40, 52, 61], "smoker": smoker, "ward": ward})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.feature_names_
    ['age', 'smoker', 'ward']
    >>> encoder.transform(table)
    array([[40.,  1.,  0.],
           [52.,  0.,  1.],
           [61.,  1.,  0.]])
    """

    def fit(
        self, frame: pd.DataFrame, impute: bool = True, ids: Mapping[str, str] | None = None
    ) -> Self:
        """Learn the columns, their categories and their medians.

        Parameters
        ----------
        frame : DataFrame of N rows
            Table without the target.
        impute : bool
            Whether missing values are allowed; otherwise they are an error.
        ids : dict, optional
            Result of `find_ids` on a larger table that contains `frame`. None: find them here.
        """
        check_names(frame)
        dropped = dict(find_ids(frame) if ids is None else ids)
        dropped |= _without_content(frame.drop(columns=list(dropped)))
        used = [str(name) for name in frame if name not in dropped]
        if not used:
            raise ValueError(
                "the table must have a column to learn from; all are ids, constant or empty: "
                f"{listed(dropped)}. Add other columns."
            )
        self.columns_ = [Column.fit(frame[name]) for name in used]
        values = {column.name: column.read(frame) for column in self.columns_}
        check_values(values, complete=[] if impute else used)
        self.dropped_ = dropped
        self.constants_ = {
            name: kinds.as_text(frame[name])[0]
            for name, reason in dropped.items()
            if reason == "constant"
        }
        self.max_missing_ = int(_n_missing(values).max())
        return self

    @property
    def feature_names_(self) -> list[str]:
        """Names of the features (D,) that `transform` returns."""
        return [name for column in self.columns_ for name in column.features]

    @property
    def categorical_features_(self) -> list[int]:
        """Which of the features (D,) are categories."""
        kinds = [kind for column in self.columns_ for kind in column.features.values()]
        return [index for index, is_category in enumerate(kinds) if is_category]

    @property
    def gap_features_(self) -> list[int]:
        """Which of the features (D,) say that a number is missing."""
        ends = np.cumsum([len(column.features) for column in self.columns_])
        pairs = zip(self.columns_, ends.tolist(), strict=True)
        return [end - 1 for column, end in pairs if column.gaps and not column.levels]

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """Features (N, D), in float64, of a table with the same columns in any order."""
        return self.transform_with_unseen(frame)[0]

    def transform_with_unseen(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Features (N, D), and which rows (N,) hold something that `fit` did not see."""
        values = self.read(frame)
        encoded = (column.encode(values[column.name]) for column in self.columns_)
        features, unseen = zip(*encoded, strict=True)
        changed = [
            ~kinds.equals(frame[name], value)
            for name, value in self.constants_.items()
            if name in frame
        ]
        too_many = _n_missing(values) > self.max_missing_
        return np.concatenate(features, axis=1), np.any([*unseen, *changed, too_many], axis=0)

    def unseen_in(self, frame: pd.DataFrame) -> list[tuple[Unseen, ...]]:
        """What each row has that `fit` did not see."""
        values, found = self.read(frame), [list[Unseen]() for _ in range(len(frame))]
        for column in self.columns_:
            given = values[column.name]
            for row in np.flatnonzero(column.encode(given)[1]):
                training = "never in training" if pd.isna(given[row]) else column.in_training
                found[row].append(Unseen(column.name, column.as_text(given[row]), training))
        for name, value in self.constants_.items():
            if name in frame:
                given = kinds.as_text(frame[name])
                for row in np.flatnonzero(~kinds.equals(frame[name], value)):
                    found[row].append(Unseen(name, given[row], f"always {value} in training"))
        n_missing, most = _n_missing(values), self.max_missing_
        for row in np.flatnonzero(n_missing > most):
            training = f"at most {most} in training"
            found[row].insert(0, Unseen("missing values", str(n_missing[row]), training))
        return list(map(tuple, found))

    def typed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The table, with numbers and booleans parsed from the text of a CSV; dates as they are."""
        result, read = frame.astype(object), self.read(frame)
        for column in self.columns_:
            if column.kind == "date":
                continue
            values = read[column.name]
            parsed = (values == 1 if column.kind == "boolean" else values).astype(object)
            parsed[pd.isna(values)] = None
            result[column.name] = parsed
        return result

    def extra(self, names: Iterable[str]) -> list[str]:
        """Those of the column `names` that `fit` did not see."""
        known = {column.name for column in self.columns_} | self.dropped_.keys()
        return [name for name in names if name not in known]

    def read(self, frame: pd.DataFrame) -> dict[str, np.ndarray]:
        """Checked values (N,) of all columns that are used, by name; see `Column.read`."""
        check_names(frame)
        absent = [column.name for column in self.columns_ if column.name not in frame]
        if absent:
            raise ValueError(
                f"the table must have the columns that the model was fitted on; it lacks "
                f"{listed(absent)}. It has {listed(frame.columns)}."
            )
        values = {column.name: column.read(frame) for column in self.columns_}
        check_values(values)
        return values

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "columns": [asdict(column) for column in self.columns_],
            "dropped": self.dropped_,
            "constants": self.constants_,
            "max_missing": self.max_missing_,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        encoder = cls()
        try:
            encoder.columns_ = [Column(**column) for column in content["columns"]]
            encoder.dropped_ = dict(content["dropped"])
            encoder.constants_ = dict(content["constants"])
            encoder.max_missing_ = int(content["max_missing"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                "an encoder must be a dictionary written by to_dict; reading it failed at "
                f"{error}. Fit it again."
            ) from error
        return encoder


def find_ids(frame: pd.DataFrame) -> dict[str, str]:
    """Columns that only identify rows: unique text, or consecutive integers in any order.

    Returns
    -------
    dict
        From the name of the column to "id".
    """
    check_names(frame)
    return {str(name): "id" for name in frame if kinds.is_id(frame[name])}


def _n_missing(values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Number (N,) of missing values in each row."""
    return np.sum([pd.isna(column) for column in values.values()], axis=0)


def _without_content(frame: pd.DataFrame) -> dict[str, str]:
    """Empty and constant columns; one with gaps is not constant."""
    found = {}
    for name in map(str, frame):
        missing = kinds.is_missing(frame[name])
        if missing.all():
            found[name] = "empty"
        elif not missing.any() and kinds.is_constant(frame[name]):
            found[name] = "constant"
    return found
