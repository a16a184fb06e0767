"""The sockets: what each step must offer.

Sizes: N points, D inputs, K classes, L features, S draws.

Any scikit-learn `BaseEstimator` with these verbs fits; nothing of ours need be inherited.
"""

from __future__ import annotations

from typing import Protocol, Self, runtime_checkable

from torch import Generator, Tensor


@runtime_checkable
class BoundarySampler(Protocol):
    """Step 1: learns the cloud of the data, draws points on its edge."""

    def fit(self, points: Tensor, labels: Tensor, *, generator: Generator | None = None) -> Self:
        """Learn from points (N, D), float, and labels (N,), int in 0..K-1."""
        ...

    def sample(
        self, n_points: int, *, generator: Generator
    ) -> Tensor | tuple[Tensor, Tensor | None]:
        """Draw edge points, shape (n_points, D), all finite; with them, if known, their classes.

        The class (n_points,) is that of the data whose edge a point is on.
        """
        ...

    def log_prob(self, points: Tensor) -> Tensor:
        """Log density (N,) of points (N, D), in nats."""
        ...


@runtime_checkable
class FeatureMap(Protocol):
    """Step 2: learns the classes and, if there is one, the edge; then stays frozen.

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
    """A feature map that also tells data from edge: what doubt grows with."""

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
