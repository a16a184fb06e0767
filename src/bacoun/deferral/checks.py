"""Input checks of this room: each refusal is one sentence with the way out."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def as_share(name: str, value: float) -> Fraction:
    """A share strictly between 0 and 1, exactly as its decimals say.

    Ranks are rounded up, and 0.7 as a float is a little less than 7/10.
    """
    if not isinstance(value, float | int | np.floating) or not 0 < value < 1:
        raise ValueError(
            f"{name} must lie between 0 and 1, both excluded; got {value!r}. "
            "Write five per cent as 0.05."
        )
    return Fraction(str(float(value)))


def as_scores(
    name: str, values: ArrayLike, *, empty: bool = False, infinite: bool = False
) -> np.ndarray:
    """Finite numbers (N,) in float64, at least one of them unless `empty` is allowed.

    `infinite` allows +inf too, which is above every other score.
    """
    scores = _as_floats(name, values)
    if scores.ndim != 1:
        raise ValueError(
            f"{name} must hold one number for each point; got shape {scores.shape}. Flatten it."
        )
    if len(scores) == 0 and not empty:
        raise ValueError(
            f"{name} must hold at least one calibration point; got none. "
            "Keep some labelled points out of the fit."
        )
    _check_finite(name, np.where(scores == np.inf, 0.0, scores) if infinite else scores)
    return scores


def as_probabilities(values: ArrayLike) -> np.ndarray:
    """Class probabilities (N, K) in float64."""
    probabilities = _as_floats("probabilities", values)
    if probabilities.ndim != 2:
        raise ValueError(
            "probabilities must have a row for each point and a column for each class; got shape "
            f"{probabilities.shape}. Pass what predict_proba returns."
        )
    _check_finite("probabilities", probabilities)
    return probabilities


def as_classes(name: str, values: ArrayLike) -> np.ndarray:
    """Class indices (N,): whole numbers from 0."""
    classes = np.asarray(values)
    if classes.ndim != 1 or classes.dtype.kind not in "iu" or (classes < 0).any():
        raise ValueError(
            f"{name} must hold a class index from 0 for each point; got {classes.dtype} of shape "
            f"{classes.shape}. Pass predict_proba(X).argmax(axis=1) or the like."
        )
    return classes


def as_truths(name: str, values: ArrayLike) -> np.ndarray:
    """Right or wrong (N,), as booleans."""
    truths = np.asarray(values)
    if truths.ndim != 1 or truths.dtype.kind not in "biuf" or not np.isin(truths, (0, 1)).all():
        raise ValueError(
            f"{name} must hold True or False for each point; got {truths.dtype} of shape "
            f"{truths.shape}. Pass predict(X) == y."
        )
    return truths.astype(bool)


def check_equally_long(**columns: Any) -> None:
    """Refuse columns of unequal lengths; None is no column."""
    lengths = {name: len(column) for name, column in columns.items() if column is not None}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"{', '.join(lengths)} must be equally long; got "
            f"{', '.join(map(str, lengths.values()))}. Score the same points for each."
        )


def _as_floats(name: str, values: ArrayLike) -> np.ndarray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must hold numbers; got {type(values).__name__} with other content. "
            "Pass an array of scores."
        ) from None


def _check_finite(name: str, values: np.ndarray) -> None:
    n_bad = int((~np.isfinite(values)).sum())
    if n_bad:
        raise ValueError(
            f"{name} must hold finite numbers; {n_bad} of {values.size} are NaN or infinite. "
            "Look for rows that the model could not score."
        )
