"""The target column: labels (N,) of one type, with at least two classes of enough rows each."""

import numpy as np
import pandas as pd

from bacoun.columns.cells import is_missing
from bacoun.columns.frames import check_cells, check_names
from bacoun.columns.reading import listed
from bacoun.files.model_folder import plain

MIN_ROWS = 5  # of each class, to train and to calibrate on


def read_labels(frame: pd.DataFrame, target: str) -> np.ndarray:
    """Labels (N,) in the column `target`: text, booleans, integers or whole floats."""
    check_cells(frame)
    labels = label_values(frame, target)
    classes, counts = np.unique(labels, return_counts=True)
    if labels.dtype.kind == "f" and not all(label.is_integer() for label in classes.tolist()):
        raise ValueError(
            f"column '{target}' must hold classes; it has {len(classes)} different numbers, "
            "with decimals or infinite. Choose another target, or bin it first."
        )
    if len(classes) < 2:
        raise ValueError(
            f"column '{target}' must have at least 2 classes; it has {classes.tolist()[0]!r} in "
            "every row."
        )
    if counts.min() < MIN_ROWS:
        rare = [str(label) for label in classes[counts < MIN_ROWS]]
        raise ValueError(
            f"each class in '{target}' must have at least {MIN_ROWS} rows; {len(rare)} of "
            f"{len(classes)} have fewer: {listed(rare, 4)}. Add rows, merge classes, or leave "
            "them out."
        )
    return labels


def label_values(frame: pd.DataFrame, target: str) -> np.ndarray:
    """The same, of some rows of a table: not every class need have enough of them."""
    check_names(frame)
    if target not in frame:
        raise ValueError(
            f"the target must be a column of the table; there is no '{target}'. It has "
            f"{listed(frame.columns)}."
        )
    missing = np.flatnonzero(is_missing(frame[target]))
    if len(missing):
        raise ValueError(
            f"column '{target}' must have a label in every row; {len(missing)} of {len(frame)} "
            f"have none, the first is row {missing[0] + 1}. Leave them out, or rename labels such "
            "as 'None'."
        )
    values = [plain(value) for value in frame[target].astype(object)]
    kinds = {type(value) for value in values}
    if not any(kinds <= kind for kind in ({str}, {bool}, {int}, {int, float})):
        raise ValueError(
            f"column '{target}' must hold labels of one type, text, integers or booleans; got "
            f"{', '.join(sorted(kind.__name__ for kind in kinds))}. Convert them."
        )
    return np.array(values)
