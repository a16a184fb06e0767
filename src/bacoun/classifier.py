"""BaCOUnClassifier: fits the steps in order; see `prediction` and `serialization` for the rest."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted
from torch import Generator, Tensor, nn

from bacoun.base import BayesianClassifier, Evaluation
from bacoun.boundary import MixedShell, find_outliers
from bacoun.deferral.checks import check_share
from bacoun.engine.nested import NestedSettings
from bacoun.engine.progress import progress_bars
from bacoun.engine.randomness import RandomState, as_generator, threads_for
from bacoun.files.checkpoint import Checkpoint
from bacoun.files.model_folder import read_folder, refuse_incomplete, write_folder
from bacoun.posterior import Health
from bacoun.posterior.held_out import held_out_prior_scale
from bacoun.prediction import Predictor, features_of, learn_doubt, reference_rows
from bacoun.protocols import (
    BoundarySampler,
    EdgeAwareFeatureMap,
    FeatureMap,
    FeatureRows,
    LastLayer,
)
from bacoun.serialization import from_state, to_state
from bacoun.steps import STEPS, fit_step, make_step
from bacoun.uncertainty import Doubt, Uncertainty
from bacoun.validation import as_rows, count_categories
from bacoun.weights import ClassWeight, Rows, combined_weights, weighted_rows


@dataclass(kw_only=True, repr=False, eq=False)
class BaCOUnClassifier(NestedSettings, BayesianClassifier):
    """A Bayesian classifier that knows what it has not seen.

    Parameters
    ----------
    boundary : "compact-shell", "flow-shell", BoundarySampler or None
        Step 1: draws points on the boundary of the data. "compact-shell" works on the inputs, or on
        their principal components if there are more than 128. None: a neural linear model.
    features : "auto", "tabular", "learned", torch.nn.Module or FeatureMap
        Step 2: a network that learns the K classes, and to tell data from boundary points. "auto":
        "tabular", small networks that also see a forest's votes, or "learned", convolutional, for
        images. A module becomes the body of a "learned" network.
    posterior : "hmc", "nuts", "mean-field", "laplace" or LastLayer
        Step 3: Bayesian logistic regression on the frozen features.
    ood_prior : float
        Prior probability that a scored point is out of distribution, from 0 to below 1. Far from
        the data the posterior probability, `ood_probability`, approaches 1, and epistemic
        uncertainty its maximum. 0 is the method of the paper, where only posterior draws disagree.
    n_boundary : "balanced" or int
        Number of boundary points. "balanced": about as many as in a class, more for few classes;
        for images half as many as there are; from 1000 to 100,000.
    contamination : float
        Share of the training points to leave out as outliers, from 0 to below 0.5: those of lowest
        density under one flow fitted to all points. A class much rarer than the others has a low
        density too; at least two points of each class are kept.
    class_weight : dict or "balanced", optional
        Weight of each class in steps 2 and 3, by label; a class that is not listed has weight 1.
        "balanced": inversely proportional to its frequency.
    categorical_features : sequence of int, optional
        Columns of X that hold categories, as whole numbers 0, 1, ... The network learns an
        embedding of each, and the boundary becomes a `MixedShell`. A value that `fit` did not see
        is rare, not an error.
    standardize : bool
        Bring every number, or every channel of images, to zero mean and unit variance first.
    random_state : int, RandomState, Generator or None
        Seed or generator; the same one gives the same model. Global random state is not touched.
    verbose : bool
        Draw progress bars on stderr.
    n_jobs : int, optional
        Processes that fit the flows of step 1, and threads that grow the trees of step 2.
    device : str
        Torch device of the tensors.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    n_features_in_ : int
    image_shape_ : (C, H, W), or None if the model was fitted to a table
    n_categories_ : list of int of length D, or None without categories
        Number of categories of each column; 0 if it is continuous.
    boundary_, features_, posterior_
        The fitted steps.
    doubt_ : Doubt, or None if there is no boundary or `ood_prior` is 0
    outliers_ : ndarray of int of shape (n,)
        Rows of the training set that were left out.
    health_ : Health
        How far the posterior draws can be trusted.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = BaCOUnClassifier.quick(random_state=0).fit(X, y)
    >>> near, far = model.uncertainty([[1.0, 0.5], [9.0, 9.0]]).epistemic
    >>> bool(far > 10 * near)
    True
    """

    boundary: str | BoundarySampler | None = "compact-shell"
    features: str | nn.Module | FeatureMap = "auto"
    posterior: str | LastLayer = "hmc"
    ood_prior: float = 0.01
    n_boundary: int | Literal["balanced"] = "balanced"
    contamination: float = 0.0
    class_weight: ClassWeight = None
    categorical_features: Sequence[int] | None = None
    standardize: bool = True
    random_state: RandomState = None
    verbose: bool = False
    n_jobs: int | None = None
    device: str = "cpu"
    # Nothing for a pipeline or a search to pass on.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"checkpoint": UNUSED, "all_rows": UNUSED}

    @classmethod
    def paper(cls, experiment: str, **settings: Any) -> Self:
        """The paper's hyperparameters for "gmm", "moons", "wine" or "mnist"."""
        from bacoun.presets import paper_settings

        return cls(**(paper_settings(experiment) | settings))

    @classmethod
    def quick(cls, **settings: Any) -> Self:
        """Small settings for tests and a first look: seconds instead of a minute."""
        from bacoun.presets import quick_settings

        return cls(**(quick_settings() | settings))

    def _default_part(self, name: str, value: Any) -> Any:
        known = name in STEPS and isinstance(value, str) and value in STEPS[name]
        return make_step(name, value) if known else None

    # --- fit -----------------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        all_rows: Callable[[Self], FeatureRows] | None = None,
    ) -> Self:
        """Learn from X and y.

        Parameters
        ----------
        X : table (N, D), or images (N, H, W) or (N, C, H, W)
            Finite numbers.
        y : (N,)
            Labels of at least two classes.
        sample_weight : (N,), optional
            How often each row counts in steps 2 and 3. Step 1 learns what has been seen, and for
            that weights are irrelevant; but a row of weight 0 is left out.
        checkpoint : path or Checkpoint, optional
            A folder in which the fit saves its state after each step, and once a minute while it
            samples. Called again with the same data and settings, an interrupted fit resumes there
            and, on the same machine, ends with the same model; `verbose` and `n_jobs` may change.
            The folder stays: delete it once the model is saved. A step of your own is loaded if it
            has `get_state` and `set_state`; otherwise it is fitted again.
        all_rows : callable, optional
            If X and y are a sample of rows that do not fit into memory: given this classifier after
            steps 1 and 2, which learn from the sample, it returns the features of all rows, for
            step 3. Weights and `contamination` are not supported then.
        """
        if all_rows is not None:
            self._check_unweighted(sample_weight)
        rows = weighted_rows(X, y, sample_weight)
        steps = self._fresh_steps(for_images=as_rows(rows.X)[1] is not None)
        boundary, features, posterior = steps
        points, labels = self._validated(rows.X, rows.y)
        generator = as_generator(self.random_state)
        if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(checkpoint)
        if checkpoint is not None:
            run = self._run(points, labels, rows.weights, *steps)
            checkpoint.begin(run if all_rows is None else run | {"rows": [all_rows]}, generator)
        self.outliers_ = np.empty(0, dtype=np.int64)
        with progress_bars(self.verbose) as bar_for, self._threads():
            if self.contamination > 0:
                outliers = find_outliers(
                    self._checked(rows.X),
                    labels,
                    self.contamination,
                    generator=generator,
                    on_epoch=bar_for("outliers"),
                )
                self.outliers_ = outliers if rows.places is None else rows.places[outliers]
                rows = rows.take(np.setdiff1d(np.arange(len(points)), outliers))
                points, labels = self._validated(rows.X, rows.y)
            weights = self._weights_of(rows, labels)

            def fit(name: str, step: Any, *data: Tensor, **offered: Any) -> Any:
                offered |= {"generator": generator, "on_epoch": bar_for(name)}
                offered |= {"n_categories": self.n_categories_}
                offered |= {"choose_prior_scale": held_out_prior_scale}
                return fit_step(name, step, *data, checkpoint=checkpoint, **offered)

            self.boundary_: Any = None
            self.doubt_: Doubt | None = None
            edge: dict[str, Tensor | None] = {}
            if boundary is not None:
                self.boundary_ = fit("boundary", boundary, points.flatten(1), labels)
                edge = self._draw_edge(points, generator)
            self.features_ = fit("features", features, points, labels, **edge, **weights)
            learned = features_of(self.features_, points, seen=True)
            offered: dict[str, Any] = {}
            n_rows = len(points)
            if all_rows is not None:
                offered["all_rows"] = all_rows(self)
                n_rows = offered["all_rows"].n_rows
            offered |= {"best_prior_scale": getattr(self.features_, "prior_scale_", None)}
            self.posterior_ = fit("posterior", posterior, learned, labels, **weights, **offered)
            if boundary is not None and self.ood_prior > 0:
                prior = float(self.ood_prior)
                self.doubt_ = learn_doubt(self._predictor, points, labels, learned, prior, n_rows)
        return self

    def _check_unweighted(self, sample_weight: ArrayLike | None) -> None:
        given = {
            "sample_weight": sample_weight is not None,
            "contamination": self.contamination > 0,
        }
        given |= {"class_weight": self.class_weight is not None}
        wrong = [name for name, is_given in given.items() if is_given]
        if wrong:
            raise ValueError(
                f"a fit to more rows than fit into memory must be without {wrong[0]}; got one. "
                "Leave it out, or fit to a sample."
            )

    def _threads(self) -> AbstractContextManager[None]:
        """One thread for tables, except where a step asks for more; all for images."""
        return threads_for(0 if self.image_shape_ is None else math.inf)

    def _draw_edge(self, points: Tensor, generator: Generator) -> dict[str, Tensor | None]:
        """Edge points, of the shape of points, and the class of each if the boundary knows it."""
        drawn = self.boundary_.sample(self._n_edge(len(points)), generator=generator)
        edge, labels = drawn if isinstance(drawn, tuple) else (drawn, None)
        return {"edge": edge.view(-1, *points.shape[1:]), "edge_labels": labels}

    def update(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Infer the posterior of step 3 again; flows and network stay as they are.

        Parameters
        ----------
        X, y
            All labeled rows, old and new: the model does not store its training set. They must
            hold each known class, and no other.
        sample_weight : (N,), optional
            How often each row counts. A row of weight 0 is left out.
        """
        check_is_fitted(self)
        rows = weighted_rows(X, y, sample_weight)
        table, given = self._checked(rows.X, rows.y)
        indices = self._indices(given)
        missing = np.delete(self.classes_, np.unique(indices)).tolist()
        if missing:
            raise ValueError(
                "y must hold each class at least once, because X and y replace the rows of fit; "
                f"got none of {missing[:5]}. Add old rows of it."
            )
        labels = torch.from_numpy(indices).to(self.device)
        posterior = clone(self.posterior_, safe=False)
        with progress_bars(self.verbose) as bar_for, self._threads():
            features = features_of(self.features_, self._standardized(table), seen=True)
            self.posterior_ = fit_step(
                "posterior",
                posterior,
                features,
                labels,
                **self._weights_of(rows, labels),
                best_prior_scale=getattr(self.features_, "prior_scale_", None),
                generator=as_generator(self.random_state),
                on_epoch=bar_for("posterior"),
            )
            if self.doubt_ is not None:
                some = features[reference_rows(len(features)).to(features.device)]
                disagreement = self._predictor.disagreement(some)
                self.doubt_ = self.doubt_.with_disagreement(disagreement)
        self.__dict__.pop("set_scores_", None)  # of the old posterior
        return self

    def _weights_of(self, rows: Rows, labels: Tensor) -> dict[str, Any]:
        """The argument for steps 2 and 3; none if all weights are 1."""
        given = self.classes_[labels.cpu().numpy()]
        weights = combined_weights(self.class_weight, given, rows.weights)
        if weights is None:
            return {}
        return {"sample_weight": torch.from_numpy(weights).to(self.device)}

    def _run(
        self, points: Tensor, labels: Tensor, weights: np.ndarray | None, *steps: Any
    ) -> dict[str, Any]:
        """What the outcome of `fit` depends on, by the name a refusal gives it."""
        return {
            "X": [points, self.mean_, self.scale_],
            "y": [labels, self.classes_],
            "sample_weight": [weights],
            "settings": [self, *steps],
            "version of bacoun": version("bacoun"),
        }

    def _fresh_steps(self, for_images: bool = False) -> tuple[Any, Any, Any]:
        """Clones of the three steps, names turned into objects and our own settings filled in."""
        check_share("ood_prior", self.ood_prior, below=1, example=0.01)
        check_share("contamination", self.contamination, below=0.5, example=0.05)
        boundary = clone(make_step("boundary", self.boundary), safe=False)
        is_auto = isinstance(self.features, str) and self.features == "auto"
        kind = "learned" if is_auto and for_images else self.features
        features = clone(make_step("features", kind), safe=False)
        posterior = clone(make_step("posterior", self.posterior), safe=False)
        for step in (boundary, features):
            if self.n_jobs is not None and hasattr(step, "get_params"):
                unset = [name for name, value in step.get_params().items() if value is None]
                own = {name: self.n_jobs for name in unset if name.rpartition("__")[2] == "n_jobs"}
                step.set_params(**own)
        if self.categorical_features is not None and len(self.categorical_features) > 0:
            boundary = None if boundary is None else MixedShell.around(boundary)
        elif isinstance(boundary, MixedShell):
            boundary = boundary._part("shell")
        told = isinstance(features, EdgeAwareFeatureMap) or hasattr(boundary, "log_prob")
        if boundary is not None and self.ood_prior > 0 and not told:
            raise ValueError(
                "ood_prior needs a boundary with log_prob, or a feature map with "
                f"transform_with_log_odds; {type(boundary).__name__} and {type(features).__name__} "
                "have neither. Pass ood_prior=0."
            )
        return boundary, features, posterior

    def _learn_categories(self, table: np.ndarray) -> None:
        columns = self.categorical_features
        self.n_categories_ = count_categories(
            table, [] if columns is None else columns, self.image_shape_
        )

    def _mean_and_spread(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, spread = super()._mean_and_spread(table)
        if self.n_categories_ is not None:
            is_category = np.array(self.n_categories_) > 0
            mean, spread = np.where(is_category, 0.0, mean), np.where(is_category, 1.0, spread)
        return mean, spread

    def _n_edge(self, n_points: int) -> int:
        """Number of edge points: the paper's balance heuristic, more for images, or as told."""
        if self.n_boundary == "balanced":
            n_classes = len(self.classes_)
            share = (1 + 3 / n_classes) / n_classes if self.image_shape_ is None else 0.5
            return min(100_000, max(1000, round(share * n_points)))
        whole = isinstance(self.n_boundary, int | np.integer)
        if not whole or isinstance(self.n_boundary, bool) or self.n_boundary < 1:
            raise ValueError(
                f"n_boundary must be 'balanced' or a positive number; got {self.n_boundary!r}."
            )
        return int(self.n_boundary)

    # --- predict -------------------------------------------------------------------------------

    def uncertainty(self, X: ArrayLike, split: bool = False) -> Uncertainty[np.ndarray]:
        """Total, aleatoric and epistemic uncertainty, each (N,), in nats.

        Parameters
        ----------
        split : bool
            Also split epistemic uncertainty into `model`, from the weights of step 3, and `ood`,
            because the row may be out of distribution. The two add up to it.
        """
        predictor = self._predictor
        return self._uncertainty(X, predictor.split_moments if split else predictor.moments)

    def ood_score(self, X: ArrayLike) -> np.ndarray:
        """OOD score (N,) of each row: small inside the data, growing without bound outside.

        It combines how rare the row is under the flows of step 1 with how much the draws of step 3
        disagree. Without a boundary, or with `ood_prior=0`, it is the epistemic uncertainty.
        """
        check_is_fitted(self)
        if self.doubt_ is None:
            return super().ood_score(X)
        return self._surprise(X)

    def ood_probability(self, X: ArrayLike) -> np.ndarray:
        """Probability (N,) that each row is out of distribution, given the prior `ood_prior`."""
        doubt = self._fitted_doubt("ood_probability")
        return doubt.probability(torch.from_numpy(self._surprise(X))).numpy()

    def rows_like_this(self, X: ArrayLike) -> np.ndarray:
        """Expected number (N,) of training rows that are at least as unusual as each row.

        About half of the rows for a typical one, about 1 at the edge of the data, and far less than
        1 outside: 0.01 means that a hundred such training sets would hold one row like this.
        """
        doubt = self._fitted_doubt("rows_like_this")
        return doubt.rows_like_this(torch.from_numpy(self._surprise(X))).numpy()

    def _fitted_doubt(self, name: str) -> Doubt:
        check_is_fitted(self)
        if self.doubt_ is None:
            raise ValueError(
                f"{name} needs a boundary and an ood_prior above 0; this model lacks one. "
                "Fit with boundary='compact-shell' and ood_prior=0.01."
            )
        return self.doubt_

    def _surprise(self, X: ArrayLike) -> np.ndarray:
        def surprise(points: Tensor) -> tuple[Any]:
            return (self._predictor.judge(points).surprise,)

        return self._score(X, surprise)[0]

    def region_proba(self, X: ArrayLike) -> np.ndarray:
        """Probabilities (N, K+1) of the network of step 2; the last column is the boundary."""
        check_is_fitted(self)
        if self.boundary_ is None or not hasattr(self.features_, "region_proba"):
            raise ValueError(
                "the network must have learned an edge class; this model has none. "
                "Fit with boundary='compact-shell' and features='learned'."
            )
        (probabilities,) = self._score(X, lambda points: (self.features_.region_proba(points),))
        return probabilities

    def log_density(self, X: ArrayLike) -> np.ndarray:
        """Log density (N,) of each row under the flow of step 1, in nats and the units of X."""
        predictor, log_units = self._predictor, self._log_units
        if not predictor.has_density:
            raise ValueError(
                "the boundary must have log_prob to give a density; this model has none such. "
                "Fit with boundary='compact-shell'."
            )
        (density,) = self._score(
            X, lambda points: (torch.as_tensor(predictor.log_density(points, log_units)),)
        )
        return density

    @property
    def _log_units(self) -> float:
        """Log of the factor between densities of X and of standardized inputs."""
        return float(np.log(self.scale_).sum())

    @property
    def health_(self) -> Health:
        """How far the posterior draws can be trusted."""
        check_is_fitted(self)
        health: Health = self.posterior_.health_
        return health

    @property
    def _predictor(self) -> Predictor:
        check_is_fitted(self)
        return Predictor(self.boundary_, self.features_, self.posterior_, self.doubt_)

    def _samples(self, points: Tensor, joint: bool = False) -> Tensor:
        return self._predictor.samples(points, joint)

    def _moments(self, points: Tensor) -> tuple[Tensor, Tensor]:
        return self._predictor.moments(points)

    def _evaluation(self, points: Tensor) -> Evaluation[Tensor]:
        return self._predictor.evaluation(points, self._log_units)

    # --- files ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted model atomically to the folder `path`, as JSON and safetensors.

        Parameters
        ----------
        overwrite : bool
            Replace a model that is there already; otherwise that is an error.
        """
        write_folder(to_state(self), path, overwrite=overwrite)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, body: nn.Module | None = None, device: str = "cpu"
    ) -> Self:
        """Read the model that `save` wrote to the folder `path`.

        Parameters
        ----------
        body : torch.nn.Module, optional
            A module built like the one the model was fitted with, if it was a module of yours:
            files hold its weights, not its code.
        device : str
            Where the model's tensors go, as torch names it.
        """
        with refuse_incomplete(path):
            return from_state(cls, read_folder(path), body=body, device=device)
