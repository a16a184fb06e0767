"""TableEncoder: columns of numbers, booleans and categories -> features (N, D).

Its state is plain values, so that it can be stored in a model's JSON. It does what scikit-learn's
ColumnTransformer with a SimpleImputer and a OneHotEncoder does, and its error messages name the
column, the row and the value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd

from bacoun.tabular import columns
from bacoun.tabular.columns import Kind, check_names, check_values, read_values
from bacoun.tabular.reading import listed

_MAX_CATEGORIES = 1000


@dataclass(frozen=True)
class Column:
    """How one column is encoded.

    Attributes
    ----------
    name : str
        Name of the column in the table.
    kind : {"number", "boolean", "category"}
        What it holds.
    categories : list of str
        Sorted values of a category, to be one-hot encoded.
    fill : float, str or None
        Replaces missing values; None if they are refused.
    indicator : bool
        Whether a 0/1 feature for missing values is added.
    """

    name: str
    kind: Kind
    categories: list[str] = field(default_factory=list)
    fill: float | str | None = None
    indicator: bool = False

    @property
    def feature_names(self) -> list[str]:
        """Names of the features it becomes."""
        names = [f"{self.name}={value}" for value in self.categories] or [self.name]
        return [*names, f"{self.name} missing"] if self.indicator else names

    @classmethod
    def fit(cls, name: str, kind: Kind, values: np.ndarray, impute: bool) -> Self:
        """Learn the categories in `values` (N,) and, to `impute`, the median or the mode."""
        missing = pd.isna(values)
        present = values[~missing]
        categories = sorted(set(present)) if kind == "category" else []
        if len(categories) > _MAX_CATEGORIES:
            raise ValueError(
                f"column '{name}' must have at most {_MAX_CATEGORIES} categories; it has "
                f"{len(categories)}. Group the rare ones, or leave the column out."
            )
        fill: float | str | None = None
        if impute:
            frequent, _ = Counter(present.tolist()).most_common(1)[0]
            fill = float(np.median(present)) if kind == "number" else frequent
        return cls(name, kind, categories, fill, bool(missing.any()))

    def encode(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Features (N, d), and which rows (N,) have a category or a gap that `fit` did not see."""
        missing = pd.isna(values)
        unseen = missing & (not self.indicator)
        values = values.copy()
        values[missing] = self.fill
        if self.kind == "category":
            known = pd.Index(self.categories, dtype=object)
            codes = known.get_indexer(pd.Index(values, dtype=object))
            unseen = unseen | (codes < 0)
            features = (codes[:, None] == np.arange(len(known))).astype(np.float64)
        else:
            features = values.astype(np.float64)[:, None]
        return np.column_stack([features, missing]) if self.indicator else features, unseen


class TableEncoder:
    """Learn the columns of a table, then encode such tables as numbers.

    Numbers stay as they are, booleans become 0/1, categories are one-hot encoded. Ids, constant and
    empty columns are dropped. A row is marked as unseen if it has a category that `fit` did not
    see, a missing value where there was none, more missing values than any row of `fit`, or another
    value in a column that was constant.

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
        """Learn the columns, their categories and the values to impute.

        Parameters
        ----------
        frame : DataFrame of N rows
            Table without the target.
        impute : bool
            Replace missing values by the median or the most frequent value, and add a 0/1 feature
            for them; otherwise they are an error, here and in `transform`.
        ids : dict, optional
            Result of `find_ids` on a larger table that contains `frame`. None: find them here.
        """
        check_names(frame)
        dropped = dict(find_ids(frame) if ids is None else ids)
        dropped |= _without_content(frame.drop(columns=list(dropped)), impute)
        used = [str(name) for name in frame if name not in dropped]
        if not used:
            raise ValueError(
                "the table must have a column to learn from; all are ids, constant or empty: "
                f"{listed(dropped)}. Add other columns."
            )
        kinds = {name: columns.find_kind(frame[name]) for name in used}
        values = {name: read_values(frame[name], kinds[name]) for name in used}
        check_values(values, complete=[] if impute else used)
        self.columns_ = [Column.fit(name, kinds[name], values[name], impute) for name in used]
        self.dropped_ = dropped
        self.constants_ = {
            name: columns.as_text(frame[name])[0]
            for name, reason in dropped.items()
            if reason == "constant" and not columns.is_missing(frame[name]).any()
        }
        self.max_missing_ = int(_n_missing(values).max())
        return self

    @property
    def feature_names_(self) -> list[str]:
        """Names of the features (D,) that `transform` returns."""
        return [name for column in self.columns_ for name in column.feature_names]

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """Features (N, D), in float64, of a table with the same columns in any order."""
        return self.transform_with_unseen(frame)[0]

    def transform_with_unseen(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Features (N, D), and which rows (N,) hold something that `fit` did not see."""
        values = self._read(frame)
        encoded = (column.encode(values[column.name]) for column in self.columns_)
        features, unseen = zip(*encoded, strict=True)
        changed = [
            ~columns.equals(frame[name], value)
            for name, value in self.constants_.items()
            if name in frame
        ]
        too_many = _n_missing(values) > self.max_missing_
        return np.concatenate(features, axis=1), np.any([*unseen, *changed, too_many], axis=0)

    def typed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The table, with numbers and booleans parsed from the text of a CSV."""
        result, read = frame.astype(object), self._read(frame)
        for column in self.columns_:
            values = read[column.name]
            parsed = (values == 1 if column.kind == "boolean" else values).astype(object)
            parsed[pd.isna(values)] = None
            result[column.name] = parsed
        return result

    def extra(self, names: Iterable[str]) -> list[str]:
        """Those of the column `names` that `fit` did not see."""
        known = {column.name for column in self.columns_} | self.dropped_.keys()
        return [name for name in names if name not in known]

    def _read(self, frame: pd.DataFrame) -> dict[str, np.ndarray]:
        """The checked values of all columns that are used."""
        check_names(frame)
        absent = [column.name for column in self.columns_ if column.name not in frame]
        if absent:
            raise ValueError(
                f"the table must have the columns that the model was fitted on; it lacks "
                f"{listed(absent)}. It has {listed(frame.columns)}."
            )
        values = {each.name: read_values(frame[each.name], each.kind) for each in self.columns_}
        check_values(values, complete=[each.name for each in self.columns_ if each.fill is None])
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
    return {str(name): "id" for name in frame if columns.is_id(frame[name])}


def _n_missing(values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Number (N,) of missing values in each row."""
    return np.sum([pd.isna(column) for column in values.values()], axis=0)


def _without_content(frame: pd.DataFrame, impute: bool) -> dict[str, str]:
    """Empty and constant columns; to `impute`, gaps in a constant column are information."""
    found = {}
    for name in map(str, frame):
        missing = columns.is_missing(frame[name])
        if missing.all():
            found[name] = "empty"
        elif columns.is_constant(frame[name][~missing]) and not (impute and missing.any()):
            found[name] = "constant"
    return found
