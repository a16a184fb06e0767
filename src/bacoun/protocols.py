"""The interfaces of the three steps: all that the author of a new step needs to read.

Sizes: N points, D inputs, K classes, L features, S draws.

Any scikit-learn `BaseEstimator` with the methods of its step will do; there is no base class to
inherit. The protocols `Has...` are optional: a step that has their members is asked for them.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from torch import Generator, Tensor

from bacoun.engine.training import OnEpoch
from bacoun.files.checkpoint import Checkpoint

_Result = TypeVar("_Result")


@dataclass(frozen=True, kw_only=True)
class FitContext:
    """What a step may use in `fit` beside points and labels; a field that is None is not given.

    Attributes
    ----------
    generator : torch.Generator
        Source of randomness. None: a fresh seed.
    on_epoch : callable
        To be called after each epoch with the number done and the number planned.
    checkpoint : Checkpoint
        Where a step that runs for long saves its state, and resumes from.
    n_categories : sequence of int, of length D
        Number of categories of each column; 0 if it is continuous. None: all are.
    sample_weight : Tensor of shape (N,)
        How often each row counts, in steps 2 and 3. None: once.
    boundary_points : Tensor of shape (n, ...)
        Points on the boundary of the data, for step 2.
    boundary_labels : Tensor of shape (n,)
        The class on whose boundary each of these is; -1 if unknown. None: they teach no class.
    choose_prior_scale : callable
        For step 2: finds the prior of the last layer that predicts held-out rows best, from
        features (M, N, L), labels, weights and folds, each (N,), and K.
    best_prior_scale : float
        For step 3: what was found, if step 2 is a `HasPriorScale`.
    prior_mean : Tensor of shape (L, K)
        For step 3: the mean of the prior of the weights, if step 2 is a `HasPriorMean`. None: 0.
    all_rows : FeatureRows
        For step 3: the training rows, if features and labels are a sample of them.
    """

    generator: Generator | None = None
    on_epoch: OnEpoch | None = None
    checkpoint: Checkpoint | None = None
    n_categories: Sequence[int] | None = None
    sample_weight: Tensor | None = None
    boundary_points: Tensor | None = None
    boundary_labels: Tensor | None = None
    choose_prior_scale: Callable[[Tensor, Tensor, Tensor, Tensor, int], float] | None = None
    best_prior_scale: float | None = None
    prior_mean: Tensor | None = None
    all_rows: "FeatureRows | None" = None


class FeatureRows(Protocol):
    """The features of all training rows, in chunks, if they do not fit into memory."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def reduce(
        self,
        function: Callable[[Tensor, Tensor], _Result],
        merge: Callable[[list[_Result]], _Result],
    ) -> _Result:
        """Merge the results of `function` on features (n, L) and labels (n,) of each chunk.

        Both must be picklable, and `merge` associative.
        """


@runtime_checkable
class HasState(Protocol):
    """Can be saved with a model, and is not fitted again when an interrupted fit resumes."""

    def get_state(self) -> dict[str, Any]:
        """Plain values and tensors, nested."""

    def set_state(self, state: dict[str, Any]) -> Self:
        """Undo `get_state` on a step of the same settings."""


@runtime_checkable
class HasHonored(Protocol):
    """Knows fields of `FitContext` that no step may ignore; another step is refused them."""

    honored: Collection[str]  # of "sample_weight" and "all_rows"


@runtime_checkable
class HasHeldOutRows(Protocol):
    """Was fitted to a part of the rows only."""

    held_out_rows_: Tensor  # indices of the others


@runtime_checkable
class BoundarySampler(Protocol):
    """Step 1: learns the distribution of the data and draws points on its boundary."""

    def fit(self, points: Tensor, labels: Tensor, context: FitContext, /) -> Self:
        """Learn from points (N, D), float, and labels (N,), int in 0..K-1."""

    def sample(
        self, n_points: int, *, generator: Generator
    ) -> Tensor | tuple[Tensor, Tensor | None]:
        """Draw boundary points (n_points, D), all finite, and their classes (n_points,) if known.

        The class of a point is that of the data whose boundary it is on.
        """


@runtime_checkable
class HasDensity(Protocol):
    """A boundary from whose density doubt can be learned."""

    def log_prob(self, points: Tensor) -> Tensor:
        """Log density (N,) of points (N, D), in nats."""


@runtime_checkable
class HasUnfamiliarity(HasDensity, Protocol):
    """A boundary that knows several ways in which a point may be unusual."""

    def unfamiliarity(self, points: Tensor) -> dict[str, Tensor]:
        """Scores (N,) by name; a larger one is more unusual."""

    def held_out_unfamiliarity(self, points: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The same of the points (N, D) of `fit`, as if they were new."""

    def log_prob_from(self, points: Tensor, unfamiliarity: dict[str, Tensor]) -> Tensor:
        """`log_prob` (N,) of points of known `unfamiliarity`, so that flows are asked once."""


@runtime_checkable
class HasClassDensities(Protocol):
    """A boundary with a density of each class, by which a score is explained."""

    def class_log_prob(self, points: Tensor, wanted: Tensor | None = None) -> Tensor:
        """Log of p(class) times the density of points (N, D) in each class, (K, N).

        K is 1 with one density for all classes. Where `wanted` (K, N) is False, it may be -inf.
        """


@runtime_checkable
class FeatureMap(Protocol):
    """Step 2: learns the classes and, if there is one, the boundary; then stays frozen."""

    def fit(self, points: Tensor, labels: Tensor, context: FitContext, /) -> Self:
        """Learn from points (N, D), or images (N, C, H, W), and labels (N,), int in 0..K-1."""

    def transform(self, points: Tensor) -> Tensor:
        """Features (N, L) of points (N, ...)."""


@runtime_checkable
class HasLogOdds(Protocol):
    """A feature map that can also tell data from boundary points."""

    def transform_with_log_odds(self, points: Tensor) -> tuple[Tensor, Tensor | None]:
        """Features (N, L), and log-odds (N,) of boundary against data; None without a boundary."""


@runtime_checkable
class HasRegions(Protocol):
    """A feature map with class probabilities of its own."""

    def region_proba(self, points: Tensor) -> Tensor:
        """Probabilities (N, K), or (N, K+1) with the boundary last."""


@runtime_checkable
class HasTransformSeen(Protocol):
    """A feature map that knows the rows of `fit` too well."""

    def transform_seen(self, points: Tensor) -> Tensor:
        """Features (N, L) of points of `fit`, as if they were new."""


@runtime_checkable
class HasPriorScale(Protocol):
    """A feature map that has called `choose_prior_scale`."""

    prior_scale_: float | None


@runtime_checkable
class HasPriorMean(Protocol):
    """A feature map that knows weights of the last layer, for the prior to be centered on."""

    @property
    def prior_mean_(self) -> Tensor:
        """Shape (L, K)."""


@runtime_checkable
class HasFeatureViews(Protocol):
    """A feature map from whose features one can tell how unusual points are."""

    def unfamiliarity_from(self, features: Tensor) -> dict[str, Tensor]:
        """Scores (N,) of features (N, L), by name; a larger one is more unusual."""


@runtime_checkable
class LastLayer(Protocol):
    """Step 3: a posterior over linear classifiers on the features.

    Its attribute `health_` says how far the draws can be trusted. To answer
    `predict_proba_samples(X, joint=True)` of the classifier, it takes `joint` too.
    """

    def fit(self, features: Tensor, labels: Tensor, context: FitContext, /) -> Self:
        """Learn from features (N, L), without a bias column, and labels (N,), int in 0..K-1."""

    def predict_proba_samples(self, features: Tensor) -> Tensor:
        """Class probabilities (S, N, K) under each posterior draw."""


@runtime_checkable
class HasMoments(Protocol):
    """A posterior that is faster without its draws."""

    def predict_moments(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean over draws of the class probabilities (N, K) and of their entropy (N,)."""
