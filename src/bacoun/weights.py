"""Weights of rows and classes, as scikit-learn understands them."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import _safe_indexing
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight

ClassWeight = Mapping[Any, float] | Literal["balanced"] | None
_LARGEST = 1e9  # a weight counts as so many copies of a row; far above, a posterior is a point


class Rows(NamedTuple):
    """Labeled rows of positive weight."""

    X: Any
    y: Any
    weights: np.ndarray | None  # (n,); None if all are 1
    places: np.ndarray | None  # (n,) among all given rows; None if all are used

    def take(self, rows: np.ndarray) -> "Rows":
        """Some of them, by their indices (m,)."""
        return Rows(
            take(self.X, rows),
            take(self.y, rows),
            None if self.weights is None else self.weights[rows],
            rows if self.places is None else self.places[rows],
        )


def weighted_rows(X: Any, y: Any, sample_weight: ArrayLike | None) -> Rows:
    """The rows to learn from, without those of weight 0."""
    if sample_weight is None:
        return Rows(X, y, None, None)
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    _check_size(weights, "sample_weight")
    return Rows(X, y, weights, None).take(np.flatnonzero(weights > 0))


def combined_weights(
    class_weight: ClassWeight, labels: np.ndarray, weights: np.ndarray | None
) -> np.ndarray | None:
    """Weights (N,) of rows times those of their classes; None if all are 1.

    The labels (N,) are as the user gave them, each class at least once.
    """
    if class_weight is None:
        return weights
    if class_weight != "balanced":
        known = set(labels.tolist())
        if not isinstance(class_weight, Mapping) or not all(
            label in known and weight > 0 for label, weight in class_weight.items()
        ):
            raise ValueError(
                "class_weight must be 'balanced' or a dict of positive weights by label, of "
                f"{sorted(known)[:5]}; got {class_weight!r}."
            )
        class_weight = dict.fromkeys(known, 1.0) | dict(class_weight)
    of_class: np.ndarray = compute_sample_weight(class_weight, labels)
    combined: np.ndarray = of_class if weights is None else weights * of_class
    _check_size(combined, "class_weight")
    return combined


def _check_size(weights: np.ndarray, name: str) -> None:
    if len(weights) and weights.max() > _LARGEST:
        raise ValueError(
            f"{name} must be at most {_LARGEST:g}, it counts copies of a row; got "
            f"{weights.max():g}. Divide all weights by their mean."
        )


def take(table: Any, rows: np.ndarray) -> Any:
    """Rows of an array, a DataFrame, a list, or whatever NumPy can read, of the same kind."""
    return _safe_indexing(table if hasattr(table, "__getitem__") else np.asarray(table), rows)
