"""Input checks: what scikit-learn refuses, refused in one clear sentence."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

# What scikit-learn says, over several lines or unclearly -> the same in one sentence. Its own words
# stay in where its checks look for them.
_CLEARER = {
    r"Input X contains NaN": r"X must hold finite numbers; it contains NaN. Fill or drop missing "
    r"values first, for instance with sklearn.impute.SimpleImputer.",
    r"Input X contains infinity": r"X must hold finite numbers; it contains infinity or a value "
    r"too large for float64. Clip or drop such rows first.",
    r"could not convert string to float: (.{0,40})": r"X must hold numbers; it contains the text "
    r"\1. Encode such columns first, for instance with sklearn.preprocessing.OneHotEncoder.",
    r"could not be promoted": r"X must hold numbers; it contains dates or columns of mixed kinds. "
    r"Convert such columns first.",
    r"Expected 2D array, got (\w+)": r"X must be a table with a row for each point; got a \1 "
    r"array. Reshape your data: X.reshape(-1, 1) makes it one column, X.reshape(1, -1) one row.",
    r"Complex data not supported": r"Complex data not supported: X must hold real numbers. Split "
    r"it into real and imaginary columns.",
    r"inconsistent numbers of samples: \[(\d+), (\d+)\]": r"X and y must be equally long; got \1 "
    r"rows and \2 labels. Check that each row has its label.",
    r"Found array with 0 sample\(s\) \(shape=(.*?\))": r"X must have at least one row; got shape "
    r"\1 with 0 sample(s). Check the filter it went through.",
    r"Expected unique column names": r"X must have columns of different names; some occur twice. "
    r"Rename them.",
}


def _in_one_sentence(message: str) -> str | None:
    found = ((re.search(theirs, message), ours) for theirs, ours in _CLEARER.items())
    return next((match.expand(ours) for match, ours in found if match), None)


def checked(estimator: Any, X: ArrayLike, *y: ArrayLike, reset: bool = True) -> Any:
    """What scikit-learn's `validate_data` returns, in float64; or one sentence on what is wrong.

    Images become rows of pixels; the estimator's `image_shape_` keeps their shape (C, H, W).
    """
    rows, shape = _rows(X)
    if reset:
        estimator.image_shape_ = shape
    elif shape != estimator.image_shape_:
        raise ValueError(
            f"X must hold {_kind(estimator.image_shape_)}, as in fit; got {_kind(shape)}."
        )
    try:
        return validate_data(estimator, rows, *y, dtype=np.float64, reset=reset)
    except (TypeError, ValueError) as error:
        clearer = _in_one_sentence(str(error))
        if clearer is None:
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(clearer) from None  # the original may print the whole of X


def _rows(X: Any) -> tuple[Any, tuple[int, ...] | None]:
    """X as it is, and None; or images as rows of pixels, and their shape (C, H, W)."""
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


def _kind(shape: tuple[int, ...] | None) -> str:
    return "a table" if shape is None else f"images of {' x '.join(map(str, shape))}"


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
