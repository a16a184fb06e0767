"""The target column: labels (N,) of one kind, of at least two classes, each with enough rows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bacoun.storage import plain
from bacoun.tabular.encoding import check_names
from bacoun.tabular.reading import MISSING, listed

FEWEST_ROWS = 5
"""Rows that a class must have: some to learn from, and some to calibrate on."""


def read_labels(frame: pd.DataFrame, target: str) -> np.ndarray:
    """Labels (N,) of a table, as whole numbers, text, truths or whole floats."""
    check_names(frame)
    if target not in frame:
        raise ValueError(
            f"the target must be a column of the table; there is no '{target}'. It has "
            f"{listed(frame.columns)}."
        )
    values = [plain(value) for value in frame[target].astype(object)]
    missing = [i for i, value in enumerate(values) if _is_missing(value)]
    if missing:
        raise ValueError(
            f"column '{target}' must have a label in every row; {len(missing)} of {len(values)} "
            f"have none, the first is row {missing[0] + 1}. Leave them out, or write labels such "
            "as 'None' in another way."
        )
    kinds = {type(value) for value in values}
    if not any(kinds <= kind for kind in ({str}, {bool}, {int}, {int, float})):
        raise ValueError(
            f"column '{target}' must hold labels of one kind, text, whole numbers or truths; got "
            f"{', '.join(sorted(kind.__name__ for kind in kinds))}. Convert them."
        )
    labels = np.array(values)
    _check_classes(labels, target)
    return labels


def _is_missing(value: object) -> bool:
    gap = pd.isna(value)  # type: ignore[call-overload]
    return value in MISSING if isinstance(value, str) else gap is True


def _check_classes(labels: np.ndarray, target: str) -> None:
    classes, counts = np.unique(labels, return_counts=True)
    if labels.dtype.kind == "f" and not all(label.is_integer() for label in classes.tolist()):
        raise ValueError(
            f"column '{target}' must hold classes; it has {len(classes)} different numbers, "
            "with decimals or infinite. Name another target, or cut it into classes first."
        )
    if len(classes) < 2:
        raise ValueError(
            f"column '{target}' must have at least 2 classes; it has {classes.tolist()[0]!r} in "
            "every row. There is nothing to decide between."
        )
    if counts.min() < FEWEST_ROWS:
        rare = [str(label) for label in classes[counts < FEWEST_ROWS]]
        raise ValueError(
            f"each class in '{target}' must have at least {FEWEST_ROWS} rows; {len(rare)} of "
            f"{len(classes)} have fewer: {listed(rare, 4)}. Bring more rows, join classes, or "
            "leave them out."
        )
