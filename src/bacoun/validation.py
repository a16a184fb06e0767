"""Input checks: each mistake is refused in one sentence that says what to do."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

_LARGEST_CODE = 100_000  # of a category

ImageShape = tuple[int, ...] | None
"""(C, H, W) of images, None for a table."""


def as_rows(X: Any) -> tuple[Any, ImageShape]:
    """A table as it is, and None; or images as rows of pixels, and their shape (C, H, W)."""
    if isinstance(X, list | tuple) and len(X) > 0 and getattr(X[0], "ndim", 0) >= 2:
        X = np.asarray(X)
    shape = tuple(getattr(X, "shape", ()))
    if len(shape) < 3:
        return X, None
    if len(shape) > 4 or 0 in shape:
        raise ValueError(
            "X must be a table (N, D), or images (N, H, W) or (N, C, H, W), none of them empty; "
            f"got shape {shape}."
        )
    return np.asarray(X).reshape(len(X), -1), (1, *shape[1:])[-3:]


def check_table(estimator: Any, X: ArrayLike, *y: ArrayLike, reset: bool) -> Any:
    """X (N, D) as float64, and y (N,) if given, checked by scikit-learn's `validate_data`.

    What it would report unclearly or over several lines is checked here first. The words that
    scikit-learn's estimator checks look for are part of our sentences.
    """
    if not sparse.issparse(X):
        _check_numbers(X)
        given: tuple[Any, ...] = (X, *y)
        lengths = [len(rows) for rows in given if hasattr(rows, "__len__")]
        if len(lengths) == 2 and lengths[0] != lengths[1]:
            raise ValueError(
                f"X and y must be equally long; got {lengths[0]} rows and {lengths[1]} labels. "
                "Check that each row has its label."
            )
    options = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    return validate_data(estimator, X, *y, reset=reset, **options)


def _check_numbers(X: Any) -> None:
    if isinstance(X, pd.DataFrame):
        if not X.columns.is_unique:
            raise ValueError("X must have unique column names; some occur twice. Rename them.")
        if len(X.select_dtypes(["datetime", "datetimetz", "timedelta"]).columns) > 0:
            raise TypeError("X must hold numbers; it contains dates. Convert such columns first.")
    values = np.asarray(X)
    if values.dtype.kind == "c":
        raise ValueError(
            "Complex data not supported: X must hold real numbers. Split it into two columns."
        )
    if values.ndim < 2:
        kind = "scalar" if values.ndim == 0 else "1D"
        raise ValueError(
            f"X must be a table with a row for each point; got a {kind} array. Reshape your data: "
            "X.reshape(-1, 1) makes it one column, X.reshape(1, -1) one row."
        )
    if len(values) == 0:
        raise ValueError(
            f"X must have at least one row; got shape {values.shape} with 0 sample(s). Check the "
            "filter it went through."
        )
    numbers = values if values.dtype.kind in "biuf" else _as_numbers(values)
    # A sum is finite if all its terms are, and takes one pass without a copy.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(numbers.sum())
    if suspicious and np.isnan(numbers).any():
        raise ValueError(
            "X must hold finite numbers; it contains NaN. Fill or drop missing values first, for "
            "instance with sklearn.impute.SimpleImputer."
        )
    if suspicious and np.isinf(numbers).any():
        raise ValueError(
            "X must hold finite numbers; it contains infinity or a value too large for float64. "
            "Clip or drop such rows first."
        )


def _as_numbers(values: np.ndarray) -> np.ndarray:
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        text = next((value for value in values.ravel() if isinstance(value, str)), None)
        if text is None:
            raise TypeError(f"X must hold numbers; {error}. Convert such columns first.") from None
        raise ValueError(
            f"X must hold numbers; it contains the text {text[:40]!r}. Encode such columns first, "
            "for instance with sklearn.preprocessing.OneHotEncoder."
        ) from None


def count_categories(
    table: np.ndarray, columns: Sequence[int], image_shape: ImageShape
) -> list[int] | None:
    """Number of categories (D,) of each column of a table (N, D); 0 for those that are continuous.

    The `columns` hold categories, as whole numbers 0, 1, ...; without any, the result is None.
    """
    chosen, n_columns = list(columns), table.shape[1]
    if not chosen:
        return None
    if image_shape is not None:
        raise ValueError("categorical_features must be None for images. Leave it out.")
    whole = all(isinstance(column, int | np.integer) for column in chosen)
    if not whole or not set(chosen) <= set(range(n_columns)):
        raise ValueError(
            f"categorical_features must be columns of X, from 0 to {n_columns - 1}; got {chosen}."
        )
    codes = table[:, chosen]
    if (codes < 0).any() or (codes != np.floor(codes)).any() or codes.max() > _LARGEST_CODE:
        raise ValueError(
            f"categorical_features must hold whole numbers 0, 1, ..., at most {_LARGEST_CODE}; got "
            "others. Encode them, for instance with sklearn.preprocessing.OrdinalEncoder."
        )
    sizes = np.zeros(n_columns, dtype=int)
    sizes[chosen] = codes.max(axis=0) + 1
    return sizes.tolist()


def classes_of(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes (K,), sorted, and the index (N,) of each label among them."""
    try:
        check_classification_targets(y)
        return np.unique(y, return_inverse=True)
    except TypeError:  # labels that cannot be sorted
        kinds = sorted({type(label).__name__ for label in y})
        raise ValueError(
            f"y must hold labels of one kind, all text or all numbers; got {', '.join(kinds)}. "
            "Convert them, for instance with y.astype(str)."
        ) from None
