"""The interfaces of the three steps.

Sizes: N points, D inputs, K classes, L features, S draws.

Any scikit-learn `BaseEstimator` with these methods will do; there is no base class to inherit.
To be saved with a model, a step also needs `get_state` and `set_state`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self, TypeVar, runtime_checkable

from torch import Generator, Tensor

_Result = TypeVar("_Result")


@runtime_checkable
class BoundarySampler(Protocol):
    """Step 1: learns the distribution of the data and draws points on its boundary."""

    def fit(self, points: Tensor, labels: Tensor, *, generator: Generator | None = None) -> Self:
        """Learn from points (N, D), float, and labels (N,), int in 0..K-1."""
        ...

    def sample(
        self, n_points: int, *, generator: Generator
    ) -> Tensor | tuple[Tensor, Tensor | None]:
        """Draw boundary points (n_points, D), all finite, and their classes (n_points,) if known.

        The class of a point is that of the data whose boundary it is on.
        """
        ...

    def log_prob(self, points: Tensor) -> Tensor:
        """Log density (N,) of points (N, D), in nats."""
        ...


@runtime_checkable
class FeatureMap(Protocol):
    """Step 2: learns the classes and, if there is one, the boundary; then stays frozen.

    If its `fit` also takes `edge` (n, D) and `edge_labels` (n,) or None, it is given them.
    """

    def fit(self, points: Tensor, labels: Tensor, *, generator: Generator | None = None) -> Self:
        """Learn from points (N, D) and labels (N,), int in 0..K-1."""
        ...

    def transform(self, points: Tensor) -> Tensor:
        """Features (N, L) of points (N, D)."""
        ...


@runtime_checkable
class EdgeAwareFeatureMap(FeatureMap, Protocol):
    """A feature map that can also tell data from boundary points."""

    def transform_with_log_odds(self, points: Tensor) -> tuple[Tensor, Tensor | None]:
        """Features (N, L), and log-odds (N,) of edge against data, None if no edge was seen."""
        ...


@runtime_checkable
class LastLayer(Protocol):
    """Step 3: a posterior over linear classifiers on the features."""

    def fit(self, features: Tensor, labels: Tensor, *, generator: Generator | None = None) -> Self:
        """Learn from features (N, L), without a bias column, and labels (N,), int in 0..K-1."""
        ...

    def predict_proba_samples(self, features: Tensor) -> Tensor:
        """Class probabilities (S, N, K) under each posterior draw."""
        ...


class FeatureRows(Protocol):
    """All training rows as features, if they do not fit into memory: in chunks, here or elsewhere.

    A posterior whose `fit` takes `all_rows` may use them beside the features of a sample.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def reduce(
        self,
        function: Callable[[Tensor, Tensor], _Result],
        merge: Callable[[list[_Result]], _Result],
    ) -> _Result:
        """Merge the results of `function` on features (n, L) and labels (n,) of each chunk.

        Both must be picklable, and `merge` associative.
        """
        ...
