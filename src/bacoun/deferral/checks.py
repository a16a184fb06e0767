"""Input checks: each error message is one sentence, followed by what to do."""

from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def check_share(name: str, value: Any, *, below: float, example: float) -> None:
    """Refuse a value that is not a number from 0 to `below`, which is not allowed itself."""
    if not isinstance(value, Real) or not 0 <= float(value) < below:
        raise ValueError(
            f"{name} must be a share from 0 to below {below:g}; got {value!r}. Try {example:g}."
        )


def as_share(name: str, value: float) -> Fraction:
    """A fraction in (0, 1), exact in decimal: the float 0.7 is below 7/10, and ranks round up."""
    if not isinstance(value, float | int | np.floating) or not 0 < value < 1:
        raise ValueError(
            f"{name} must lie between 0 and 1, both excluded; got {value!r}. Write 5 % as 0.05."
        )
    return Fraction(str(float(value)))


def as_scores(
    name: str, values: ArrayLike, *, empty: bool = False, infinite: bool = False
) -> np.ndarray:
    """Finite scores (N,) in float64; `empty` allows N = 0, and `infinite` allows +inf."""
    scores = _as_floats(name, values, 1, "one number for each point", infinite)
    if len(scores) == 0 and not empty:
        raise ValueError(
            f"{name} must hold at least one calibration point; got none. Hold out labeled points."
        )
    return scores


def as_probabilities(values: ArrayLike) -> np.ndarray:
    """Class probabilities (N, K) in float64."""
    return _as_floats("probabilities", values, 2, "a row for each point, a column for each class")


def as_classes(name: str, values: ArrayLike) -> np.ndarray:
    """Class indices (N,), counted from 0."""
    classes = np.asarray(values)
    if classes.ndim != 1 or classes.dtype.kind not in "iu" or (classes < 0).any():
        raise ValueError(
            f"{name} must hold a class index from 0 for each point; got {classes.dtype} of shape "
            f"{classes.shape}. Pass for instance predict_proba(X).argmax(axis=1)."
        )
    return classes


def as_booleans(name: str, values: ArrayLike) -> np.ndarray:
    """Booleans (N,); 0 and 1 are accepted."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise ValueError(
            f"{name} must hold True or False for each point; got {array.dtype} of shape "
            f"{array.shape}. Pass predict(X) == y."
        )
    return array.astype(bool)


def check_same_length(**columns: Any) -> None:
    """Refuse columns of different lengths."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"{', '.join(lengths)} must be equally long; got "
            f"{', '.join(map(str, lengths.values()))}. Pass the same points to each."
        )


def _as_floats(
    name: str, values: ArrayLike, ndim: int, meaning: str, infinite: bool = False
) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must hold numbers; got a {type(values).__name__} with other content."
        ) from None
    if array.ndim != ndim:
        raise ValueError(f"{name} must hold {meaning}; got shape {array.shape}. Reshape it.")
    n_bad = int((~np.isfinite(array) & ~(infinite & (array == np.inf))).sum())
    if n_bad:
        raise ValueError(
            f"{name} must hold finite numbers; {n_bad} of {array.size} are NaN or infinite. "
            "Check the rows for which the model gave no score."
        )
    return array
