"""Numeric benchmark tables by name, and their split into training and test rows.

Each is checked against its published size, so that a damaged or different file is noticed before
anything is fitted to it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split

from reproduction.datasets.catalog import SOURCES
from reproduction.datasets.dataset import Dataset
from reproduction.datasets.sources import fetch
from reproduction.datasets.unpack import PathLike
from reproduction.datasets.wine import read_wine_quality

Table = tuple[np.ndarray, np.ndarray, list[str]]
"""Numbers X (N, D), labels y (N,), and the names of the D columns."""

_TEST_SHARE = 0.3

# name: rows, columns, classes, as published
_SHAPES = {
    "breast-cancer": (569, 30, 2),
    "contraceptive": (1473, 9, 3),
    "digits-table": (1797, 64, 10),
    "haberman": (306, 3, 2),
    "iris": (150, 4, 3),
    "letter": (20000, 16, 26),
    "penbased": (10992, 16, 10),
    "pima": (768, 8, 2),
    "saheart": (462, 9, 2),
    "satimage": (6435, 36, 6),
    "segment": (2310, 19, 7),
    "sklearn-wine": (178, 13, 3),
    "texture": (5500, 40, 11),
    "vehicle": (846, 18, 4),
    "wine-quality": (2337, 11, 2),
}
_FILES = {  # the others come with scikit-learn or with this package
    file.partition(".")[0]: (source, file)
    for source in ("tables", "medical")
    for file in SOURCES[source].files
}
_BUILT_IN: dict[str, Callable[[], Any]] = {
    "breast-cancer": load_breast_cancer,
    "digits-table": load_digits,
    "iris": load_iris,
    "sklearn-wine": load_wine,
}


def table_names() -> list[str]:
    """The tables there are, in alphabetical order."""
    return list(_SHAPES)


def source_of(name: str) -> str | None:
    """The entry of `SOURCES` whose files hold the table; None if it needs no download."""
    return _FILES[name][0] if name in _FILES else None


def load_table(name: str, path: PathLike | None = None) -> Table:
    """A benchmark table, all of it numeric.

    Parameters
    ----------
    name : str
        One of `table_names()`.
    path : path, optional
        Folder to look in, as in `reproduction.datasets.sources.locate`; for tables that are files.

    Returns
    -------
    X : ndarray of float64 of shape (N, D)
    y : ndarray of shape (N,)
        Whole numbers or words.
    feature_names : list of str
        Of the D columns; "x1" to "xD" where the source names none.
    """
    if name not in _SHAPES:
        raise ValueError(f"name must be one of {', '.join(table_names())}; got {name!r}.")
    if name in _BUILT_IN:
        bunch = _BUILT_IN[name]()
        X = np.asarray(bunch.data, dtype=np.float64)
        return _checked(name, "scikit-learn", (X, bunch.target, list(bunch.feature_names)))
    if name == "wine-quality":
        return _checked(name, "the package", _wine_quality())
    source, file = _FILES[name]
    where = fetch(source, path) / file
    return _checked(name, f"'{where}'", _READERS[source](where))


def read_keel(path: Path) -> Table:
    """A KEEL data file without its header: numbers, then the label, separated by commas."""
    content = pd.read_csv(path, header=None, skipinitialspace=True)
    names = [f"x{number}" for number in range(1, content.shape[1])]
    return _numeric(path, content.iloc[:, :-1]), _labels(content.iloc[:, -1]), names


def read_medical(path: Path) -> Table:
    """A CSV file with a header, the label last; a family history of "Present" counts 1."""
    content = pd.read_csv(path)
    if "Famhist" in content:
        content["Famhist"] = content["Famhist"].map({"Absent": 0, "Present": 1})
    inputs = content.iloc[:, :-1]
    return _numeric(path, inputs), _labels(content.iloc[:, -1]), list(inputs.columns)


_READERS = {"tables": read_keel, "medical": read_medical}


def split_table(
    X: np.ndarray,
    y: np.ndarray,
    feature_names: list[str],
    *,
    n_train: int,
    random_state: int,
    left_out: Any = None,
) -> Dataset:
    """A split, stratified by class: 70 % of the rows for training, 30 % for testing.

    Parameters
    ----------
    X, y, feature_names
        As `load_table` returns them.
    n_train : int
        Training rows, at most; drawn at random.
    random_state : int
        Seed of the split and of that draw.
    left_out : label, optional
        A class to keep out of training and test rows. Duplicate rows are dropped first, so that
        no training row is evaluated.

    Returns
    -------
    Dataset
        Regions "in": the test rows; "out": all rows of the class that was left out, if there is
        one.
    """
    if left_out is not None:
        if left_out not in y:
            raise ValueError(
                f"left_out must be one of the classes {np.unique(y).tolist()}; got {left_out!r}."
            )
        rows = np.sort(np.unique(X, axis=0, return_index=True)[1])
        X, y = X[rows], y[rows]
    train, test = train_test_split(
        np.arange(len(X)), test_size=_TEST_SHARE, stratify=y, random_state=random_state
    )
    regions = {}
    if left_out is not None:
        regions["out"] = X[y == left_out]
        train, test = train[y[train] != left_out], test[y[test] != left_out]
    train = np.random.default_rng(random_state).permutation(train)[:n_train]
    return Dataset(
        points=X[train],
        labels=y[train],
        test_points=X[test],
        test_labels=y[test],
        regions={"in": X[test], **regions},
        feature_names=feature_names,
    )


def _wine_quality() -> Table:
    """White wine of quality 5 or 7."""
    content = read_wine_quality()
    content = content[content["quality"].isin([5, 7])]
    quality = content.pop("quality").to_numpy()
    return content.to_numpy(dtype=np.float64), quality, list(content.columns)


def _numeric(path: Path, columns: pd.DataFrame) -> np.ndarray:
    try:
        numbers = columns.to_numpy(dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"'{path}' must hold numbers before its last column: {error}.") from error
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers).all(axis=1))[0])
        raise ValueError(
            f"'{path}' must hold a number in every cell before its last column; row {row + 1} "
            "does not."
        )
    return numbers


def _labels(column: pd.Series) -> np.ndarray:
    """Whole numbers if they all are, so that 2 sorts before 10; else words."""
    if pd.api.types.is_integer_dtype(column):
        return column.to_numpy()
    return column.astype(str).str.strip().to_numpy(dtype=str)


def _checked(name: str, place: str, table: Table) -> Table:
    X, y, names = table
    found, wanted = (*X.shape, len(np.unique(y))), _SHAPES[name]
    if found != wanted:
        shape = "{} rows, {} columns and {} classes"
        raise ValueError(
            f"{name} must have {shape.format(*wanted)}; {place} has {shape.format(*found)}."
        )
    return X, y, names
