"""A fit of the classifier, step by step."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from torch import Tensor

from bacoun.boundary import MixedShell, find_outliers
from bacoun.boundary.compact import MOST_INPUTS
from bacoun.deferral.checks import check_share
from bacoun.engine.progress import progress_bars
from bacoun.engine.randomness import as_generator
from bacoun.features import Forest, LinearFeatures
from bacoun.files.checkpoint import Checkpoint
from bacoun.posterior.prior_scale import held_out_prior_scale
from bacoun.prediction import features_of, learn_doubt
from bacoun.protocols import (
    FeatureRows,
    FitContext,
    HasDensity,
    HasLogOdds,
    HasPriorMean,
    HasPriorScale,
)
from bacoun.steps import fit_step, make_step
from bacoun.uncertainty import Doubt
from bacoun.validation import as_rows
from bacoun.weights import Rows, combined_weights, weighted_rows

if TYPE_CHECKING:
    from bacoun.classifier import BaCOUnClassifier


class FittedAttributes:
    """What a fit sets; without doubt or a boundary, these are None."""

    boundary_: Any
    features_: Any
    posterior_: Any
    doubt_: Doubt | None
    outliers_: np.ndarray


class Fit:
    """Training rows, randomness and checkpoint of a fit; its methods are called in order.

    The `classifier` gets the fitted attributes. `sample_of` is what all rows are, if X and y are a
    sample of rows that do not fit into memory: a checkpoint compares it, and weights and
    `contamination` are not supported then. The other arguments are those of the classifier's `fit`.
    """

    def __init__(
        self,
        classifier: BaCOUnClassifier,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        sample_of: Any = None,
    ) -> None:
        self.classifier = classifier
        if sample_of is not None:
            _check_unweighted(classifier, sample_weight)
        self.rows = weighted_rows(X, y, sample_weight)
        for_images, n_numbers = _shape_of(self.rows.X, classifier.categorical_features)
        self.is_wide = not for_images and n_numbers > MOST_INPUTS
        self.steps = fresh_steps(classifier, for_images, self.is_wide)
        self.points, self.labels = classifier._validated(self.rows.X, self.rows.y)
        self.generator = as_generator(classifier.random_state)
        if isinstance(checkpoint, str | os.PathLike):
            checkpoint = Checkpoint(checkpoint)
        self.checkpoint = checkpoint
        if self.checkpoint is not None:
            self.checkpoint.begin(self._identity(sample_of), self.generator)

    def _identity(self, sample_of: Any) -> dict[str, Any]:
        """What the outcome depends on, by the name that a refusal gives it."""
        model = self.classifier
        return {
            "X": [self.points, model.mean_, model.scale_],
            "y": [self.labels, model.classes_],
            "sample_weight": [self.rows.weights],
            "settings": [model, *self.steps],
            "version of bacoun": version("bacoun"),
        } | ({} if sample_of is None else {"rows": [sample_of]})

    def learn_features(self) -> None:
        """Steps 1 and 2: points on the boundary of the data, and features that know it."""
        model = self.classifier
        with self._running():
            self._leave_out_outliers()
            weights = row_weights(model, self.rows, self.labels)
            linear = None
            if self.is_wide and _is_auto(model.features):
                linear = self._linear_features(weights)
                if linear is None:
                    self.steps = fresh_steps(model)
            boundary, features, _ = self.steps
            model.boundary_, model.doubt_ = None, None
            if boundary is not None:
                data = self.points.flatten(1), self.labels
                model.boundary_ = self._fitted("boundary", boundary, *data)
            if linear is not None:
                model.features_ = linear
                return
            drawn = {} if boundary is None else self._boundary_points()
            model.features_ = self._fitted(
                "features",
                features,
                self.points,
                self.labels,
                sample_weight=weights,
                choose_prior_scale=held_out_prior_scale,
                **drawn,
            )

    def infer_posterior(self, all_rows: FeatureRows | None = None) -> None:
        """Step 3, and doubt; `all_rows` are the features of all rows, if X and y are a sample."""
        model = self.classifier
        with self._running():
            learned = features_of(model.features_, self.points, seen=True)
            model.posterior_ = self._fitted(
                "posterior",
                self.steps[2],
                learned,
                self.labels,
                sample_weight=row_weights(model, self.rows, self.labels),
                **known_of_last_layer(model.features_),
                all_rows=all_rows,
            )
            if model.boundary_ is not None and model.ood_prior > 0:
                n_rows = len(self.points) if all_rows is None else all_rows.n_rows
                prior, data = float(model.ood_prior), (self.points, self.labels, learned)
                model.doubt_ = learn_doubt(model._predictor, *data, prior, n_rows)

    def _linear_features(self, weights: Tensor | None) -> LinearFeatures | None:
        """Linear features, if they predict held-out rows at least as well as trees do."""
        data = self.points, self.labels
        linear: LinearFeatures = self._fitted(
            "linear features", LinearFeatures(), *data, sample_weight=weights
        )
        return linear if linear.accuracy_ >= self._accuracy_of_forest(weights) else None

    def _accuracy_of_forest(self, weights: Tensor | None) -> float:
        """Of a forest on rows that it has not seen: what networks are at least worth."""
        data, n_jobs = (self.points, self.labels), self.classifier.n_jobs
        forest = Forest().fit(
            *data, generator=as_generator(0), sample_weight=weights, n_jobs=n_jobs
        )
        return forest.out_of_bag_accuracy(*data, weights)

    @contextmanager
    def _running(self) -> Iterator[None]:
        with progress_bars(self.classifier.verbose) as self._bar_for, self.classifier._threads():
            yield

    def _fitted(self, name: str, step: Any, *data: Tensor, **known: Any) -> Any:
        context = FitContext(
            generator=self.generator,
            on_epoch=self._bar_for(name),
            checkpoint=self.checkpoint,
            n_categories=self.classifier.n_categories_,
            **known,
        )
        return fit_step(name, step, *data, context=context)

    def _leave_out_outliers(self) -> None:
        model = self.classifier
        model.outliers_ = np.empty(0, dtype=np.int64)
        if model.contamination == 0:
            return
        data = model._checked(self.rows.X), self.labels, model.contamination
        bar = self._bar_for("outliers")
        outliers = find_outliers(*data, generator=self.generator, on_epoch=bar)
        model.outliers_ = outliers if self.rows.places is None else self.rows.places[outliers]
        self.rows = self.rows.take(np.setdiff1d(np.arange(len(self.points)), outliers))
        self.points, self.labels = model._validated(self.rows.X, self.rows.y)

    def _boundary_points(self) -> dict[str, Tensor | None]:
        """Boundary points, of the shape of points, and their classes if the boundary knows them."""
        n_points = n_boundary_points(self.classifier, len(self.points))
        drawn = self.classifier.boundary_.sample(n_points, generator=self.generator)
        points, labels = drawn if isinstance(drawn, tuple) else (drawn, None)
        shaped = points.view(-1, *self.points.shape[1:])
        return {"boundary_points": shaped, "boundary_labels": labels}


def known_of_last_layer(feature_map: Any) -> dict[str, Any]:
    """What a feature map knows about the prior of the last layer, as fields of `FitContext`."""
    return {
        "best_prior_scale": (
            feature_map.prior_scale_ if isinstance(feature_map, HasPriorScale) else None
        ),
        "prior_mean": feature_map.prior_mean_ if isinstance(feature_map, HasPriorMean) else None,
    }


def row_weights(classifier: BaCOUnClassifier, rows: Rows, labels: Tensor) -> Tensor | None:
    """Weights (N,) of rows times those of their classes; None if all are 1."""
    own_labels = classifier.classes_[labels.cpu().numpy()]
    weights = combined_weights(classifier.class_weight, own_labels, rows.weights)
    return None if weights is None else torch.from_numpy(weights).to(classifier.device)


def n_boundary_points(classifier: BaCOUnClassifier, n_points: int) -> int:
    """The paper's balance heuristic, more points for images, or the number that was set."""
    number = classifier.n_boundary
    if number == "balanced":
        n_classes = len(classifier.classes_)
        share = (1 + 3 / n_classes) / n_classes if classifier.image_shape_ is None else 0.5
        return min(100_000, max(1000, round(share * n_points)))
    if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
        raise ValueError(f"n_boundary must be 'balanced' or a positive number; got {number!r}.")
    return int(number)


def _is_auto(step: Any) -> bool:
    return isinstance(step, str) and step == "auto"


def _shape_of(X: Any, categories: Sequence[int] | None) -> tuple[bool, int]:
    """Whether X holds images, and how many columns of numbers."""
    table, image_shape = as_rows(X)
    n_columns = 0
    with suppress(TypeError, IndexError):  # it is not checked yet
        n_columns = table.shape[1] if hasattr(table, "shape") else len(table[0])
    return image_shape is not None, n_columns - (0 if categories is None else len(categories))


def fresh_steps(
    classifier: BaCOUnClassifier, for_images: bool = False, is_wide: bool = False
) -> tuple[Any, Any, Any]:
    """Clones of the three steps, names turned into objects and own settings filled in.

    A table `is_wide` if flows would need more rows than there usually are for so many numbers; its
    default boundary suits linear features.
    """
    check_share("ood_prior", classifier.ood_prior, below=1, example=0.01)
    check_share("contamination", classifier.contamination, below=0.5, example=0.05)
    is_auto = _is_auto(classifier.features)
    learned: Any = "learned" if for_images and is_auto else classifier.features
    features = clone(make_step("features", learned), safe=False)
    may_be_linear = is_wide and (is_auto or isinstance(features, LinearFeatures))
    by_direction = may_be_linear and _is_auto(classifier.boundary)
    kind = "direction-shell" if by_direction else classifier.boundary
    boundary = clone(make_step("boundary", kind), safe=False)
    posterior = clone(make_step("posterior", classifier.posterior), safe=False)
    for step in (boundary, features):
        if classifier.n_jobs is not None and isinstance(step, BaseEstimator):
            unset = [name for name, value in step.get_params().items() if value is None]
            own = [name for name in unset if name.rpartition("__")[2] == "n_jobs"]
            step.set_params(**dict.fromkeys(own, classifier.n_jobs))
    columns = classifier.categorical_features
    if columns is not None and len(columns) > 0:
        boundary = None if boundary is None else MixedShell.around(boundary)
    elif isinstance(boundary, MixedShell):
        boundary = boundary._part("shell")
    can_score_ood = isinstance(features, HasLogOdds) or isinstance(boundary, HasDensity)
    if boundary is not None and classifier.ood_prior > 0 and not can_score_ood:
        raise ValueError(
            "ood_prior needs a boundary with log_prob, or a feature map with "
            f"transform_with_log_odds; {type(boundary).__name__} and {type(features).__name__} "
            "have neither. Pass ood_prior=0."
        )
    return boundary, features, posterior


def _check_unweighted(classifier: BaCOUnClassifier, sample_weight: ArrayLike | None) -> None:
    is_set = {
        "sample_weight": sample_weight is not None,
        "contamination": classifier.contamination > 0,
        "class_weight": classifier.class_weight is not None,
    }
    wrong = [name for name in is_set if is_set[name]]
    if wrong:
        raise ValueError(
            f"a fit to more rows than fit into memory must be without {wrong[0]}; got one. "
            "Leave it out, or fit to a sample."
        )
