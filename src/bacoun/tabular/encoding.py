"""TableEncoder: columns of a table, numbers or others -> features (N, D).

A category is one feature, the number of its value; the classifier is told which features are
categories. Its state is plain values, so that it can be stored in a model's JSON, and its error
messages name the column, the row and the value.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pandas as pd

from bacoun.columns.cells import Cells, as_text, equals, is_missing
from bacoun.columns.column import MAX_CATEGORIES, Column
from bacoun.columns.frames import check_names, check_values
from bacoun.columns.photo_files import located
from bacoun.columns.profile import TableProfile
from bacoun.columns.reading import listed
from bacoun.columns.type_inference import find_kind, is_constant, is_id
from bacoun.tabular.explanation import Unseen
from bacoun.tabular.items import ItemColumns


class TableEncoder:
    """Learn the columns of a table, then encode such tables as numbers.

    Numbers stay as they are, dates become days since 1970, and month and weekday if training has
    all of them. Categories, booleans and numbers that take only two values become 0, 1, ..., in
    sorted order. A gap is a category of its own; in a continuous column it is replaced by the
    median and a 0/1 feature is added. Texts and photos become vectors, by encoders. Ids, constant
    and empty columns are dropped.

    A row is marked as unseen if it has a category that `fit` did not see, a number or date that is
    outside the range in `fit` by more than the width of that range, a gap where there was none,
    more gaps than any row of `fit`, another value in a column that was constant, or a photo that
    cannot be read. After `fit`, `profile_` describes all columns.

    Parameters
    ----------
    profile : TableProfile, optional
        What another one has learned.
    photo_folder : str or None
        What paths of photos are relative to; "" is the current directory. None: paths are refused,
        and photos are data URIs, so that nobody can make a service read files.

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

    def __init__(self, profile: TableProfile | None = None, photo_folder: str | None = "") -> None:
        self.photo_folder = photo_folder
        if profile is not None:
            self.profile_ = profile

    def fit(self, frame: pd.DataFrame, impute: bool = True, **options: Any) -> Self:
        """Learn the columns, their categories and their medians; see `fit_transform`."""
        self.fit_transform(frame, impute, **options)
        return self

    def fit_transform(
        self,
        frame: pd.DataFrame,
        impute: bool = True,
        ids: Mapping[str, str] | None = None,
        no_inputs: Iterable[str] = (),
        items: ItemColumns | None = None,
    ) -> np.ndarray:
        """Learn from a table, whose cells are read once, and encode it as features (N, D).

        Parameters
        ----------
        frame : DataFrame of N rows
            Table without the target.
        impute : bool
            Whether missing values are allowed; otherwise they are an error.
        ids : dict, optional
            Result of `find_ids` on a larger table that contains `frame`. None: find them here.
        no_inputs : iterable of str
            Columns that are described, but not used, such as groups and times.
        items : ItemColumns, optional
            Columns of texts and photos, all of which can be read. None: there are none.
        """
        check_names(frame)
        items = items or ItemColumns()
        inputs = frame.drop(columns=list(no_inputs))
        dropped = dict(find_ids(inputs) if ids is None else ids)
        dropped |= _without_content(inputs.drop(columns=list(dropped)))
        cells: dict[str, Cells] = {}
        for name in inputs.columns.drop(list(dropped)):
            kind, date_format = items.kinds.get(name), None
            if kind is None:
                kind, date_format = find_kind(frame[name])
            cells[name] = Cells.read(frame[name], kind, date_format, strict=True)
            if kind == "category" and len(cells[name].labels) > MAX_CATEGORIES:
                raise ValueError(
                    f"column '{name}' must have at most {MAX_CATEGORIES} categories; it has "
                    f"{len(cells[name].labels)}. Group the rare ones, or leave the column out."
                )
        if not cells:
            raise ValueError(
                "the table must have a column to learn from; all are ids, constant or empty: "
                f"{listed(dropped)}. Add other columns."
            )
        values = _contents(cells)
        check_values(values, complete=[] if impute else cells)
        self.profile_ = TableProfile.of_cells(frame, cells, dropped, items.encoders)
        return self._encode(values)[0]

    def without_row_hashes(self) -> Self:
        """One that encodes in the same way, and is small enough to be sent to many workers."""
        small = replace(self.profile_, row_hashes=np.empty(0, dtype=np.int64))
        return type(self)(small, self.photo_folder)

    @property
    def columns_(self) -> list[Column]:
        """The columns that are used."""
        return self.profile_.used

    @property
    def dropped_(self) -> dict[str, str]:
        """From the name of a dropped column to the reason: "id", "constant" or "empty"."""
        return self.profile_.dropped

    @property
    def feature_names_(self) -> list[str]:
        """Names of the features (D,) that `transform` returns."""
        return [name for column in self.columns_ for name in column.features]

    @property
    def categorical_features_(self) -> list[int]:
        """Which of the features (D,) are categories."""
        flags = [flag for column in self.columns_ for flag in column.features.values()]
        return [index for index, is_category in enumerate(flags) if is_category]

    @property
    def places(self) -> list[list[int]]:
        """For each of the columns, which of the features (D,) it is encoded as."""
        ends = np.cumsum([len(column.features) for column in self.columns_]).tolist()
        return [[*range(*bounds)] for bounds in zip([0, *ends[:-1]], ends, strict=True)]

    def without_gaps(self, n_categories: Sequence[int] | None) -> list[int]:
        """Numbers of categories of the features (D,), but -1 for those that only say "missing"."""
        sizes = list(n_categories or [0] * len(self.feature_names_))
        for column, where in zip(self.columns_, self.places, strict=True):
            if column.gaps and not column.levels:
                sizes[where[-1]] = -1
        return sizes

    def texts_and_photos(
        self, frame: pd.DataFrame, features: np.ndarray
    ) -> list[tuple[Column, np.ndarray, np.ndarray]]:
        """Columns of texts and photos, with their cells (N,) and vectors (N, D) in a table."""
        values, found = self.read(frame), []
        for column, where in zip(self.columns_, self.places, strict=True):
            if column.embedding is not None:
                vectors = features[:, where[: len(column.embedding.center)]]
                found.append((column, values[column.name], vectors))
        return found

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """Features (N, D), in float64, of a table with the same columns in any order."""
        return self.transform_with_unseen(frame)[0]

    def transform_with_unseen(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Features (N, D), and which rows (N,) hold something that `fit` did not see."""
        values = self.read(frame)
        features, unseen = self._encode(values)
        changed = [~equals(frame[name], value) for name, value in self._constants(frame)]
        too_many = _n_missing(values) > self.profile_.max_missing
        return features, np.any([unseen, *changed, too_many], axis=0)

    def _constants(self, frame: pd.DataFrame) -> list[tuple[str, str]]:
        """Names and values of the constant columns that a table has, too."""
        return [(name, value) for name, value in self.profile_.constants.items() if name in frame]

    def _encode(self, values: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        encoded = (column.encode(values[column.name]) for column in self.columns_)
        features, unseen = zip(*encoded, strict=True)
        return np.concatenate(features, axis=1), np.any(unseen, axis=0)

    def unseen_in(self, frame: pd.DataFrame) -> list[tuple[Unseen, ...]]:
        """What each row has that `fit` did not see."""
        values, unseen = self.read(frame), [list[Unseen]() for _ in range(len(frame))]
        for column in self.columns_:
            cells = values[column.name]
            for row, training in column.unseen_in(cells).items():
                unseen[row].append(Unseen(column.name, column.as_text(cells[row]), training))
        for name, value in self._constants(frame):
            text = as_text(frame[name])
            for row in np.flatnonzero(~equals(frame[name], value)).tolist():
                unseen[row].append(Unseen(name, text[row], f"always {value} in training"))
        n_missing, most = _n_missing(values), self.profile_.max_missing
        for row in np.flatnonzero(n_missing > most).tolist():
            training = f"at most {most} in training"
            unseen[row].insert(0, Unseen("missing values", str(n_missing[row]), training))
        return list(map(tuple, unseen))

    def typed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The table, with numbers and booleans parsed from the text of a CSV; the rest as it is."""
        result, read = frame.astype(object), self.read(frame)
        for column in self.columns_:
            if column.kind in ("date", "photo"):
                continue
            values = read[column.name]
            parsed = (values == 1 if column.kind == "boolean" else values).astype(object)
            parsed[pd.isna(values)] = None
            result[column.name] = parsed
        return result

    def read(self, frame: pd.DataFrame) -> dict[str, np.ndarray]:
        """Checked values (N,) of all columns that are used, by name: text, or float64."""
        check_names(frame)
        absent = [column.name for column in self.columns_ if column.name not in frame]
        if absent:
            raise ValueError(
                f"the table must have the columns that the model was fitted on; it lacks "
                f"{listed(absent)}. It has {listed(frame.columns)}."
            )
        values = _contents({column.name: column.read(frame) for column in self.columns_})
        check_values(values)
        for column in self.columns_:
            if column.kind == "photo":
                values[column.name] = self._located(values[column.name])
        return values

    def located(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The table, with complete paths of photos."""
        photos = [c.name for c in self.columns_ if c.kind == "photo" and c.name in frame]
        paths = {name: Cells.read(frame[name], "photo").content for name in photos}
        return frame.assign(**{name: self._located(cells) for name, cells in paths.items()})

    def _located(self, photos: np.ndarray) -> np.ndarray:
        """Photos (N,) with complete paths; None where there is none."""
        paths = [None if photo is None else located(photo, self.photo_folder) for photo in photos]
        return np.array(paths, dtype=object)


def find_ids(frame: pd.DataFrame) -> dict[str, str]:
    """Columns that only identify rows: unique text, or consecutive integers in any order.

    The result is from their names to "id".
    """
    check_names(frame)
    return {str(name): "id" for name in frame if is_id(frame[name])}


def _n_missing(values: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.sum([pd.isna(column) for column in values.values()], axis=0)


def _without_content(frame: pd.DataFrame) -> dict[str, str]:
    """Empty and constant columns; one with gaps is not constant."""
    gaps = {str(name): is_missing(frame[name]) for name in frame}
    reasons = {name: "empty" for name, missing in gaps.items() if missing.all()}
    complete = [name for name, missing in gaps.items() if not missing.any()]
    return reasons | {name: "constant" for name in complete if is_constant(frame[name])}


def _contents(cells: Mapping[str, Cells]) -> dict[str, np.ndarray]:
    return {name: column.content for name, column in cells.items()}
