"""BaCOUnClassifier: fits the steps in order; see `prediction` and `serialization` for the rest."""

import math
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from bacoun.base import BayesianClassifier, Evaluation
from bacoun.boundary.compact import MOST_INPUTS
from bacoun.engine.nested import NestedSettings
from bacoun.engine.progress import progress_bars
from bacoun.engine.randomness import RandomState, as_generator
from bacoun.engine.threads import threads_for
from bacoun.features.linear import best_spread
from bacoun.files.checkpoint import Checkpoint
from bacoun.files.model_folder import read_folder, refuse_incomplete, write_folder
from bacoun.fitting import Fit, FittedAttributes, known_of_last_layer, row_weights
from bacoun.posterior import Health
from bacoun.prediction import FeatureExtractor, Predictor, features_of, reference_rows
from bacoun.presets import paper_settings, quick_settings
from bacoun.protocols import (
    BoundarySampler,
    FeatureMap,
    FitContext,
    HasDensity,
    HasRegions,
    LastLayer,
)
from bacoun.serialization import pack_classifier, unpack_classifier
from bacoun.steps import STEPS, fit_step, make_step
from bacoun.uncertainty import Doubt, Uncertainty
from bacoun.validation import count_categories
from bacoun.weights import ClassWeight, weighted_rows


@dataclass(kw_only=True, repr=False, eq=False)
class BaCOUnClassifier(FittedAttributes, NestedSettings, BayesianClassifier):
    """A Bayesian classifier that knows what it has not seen.

    Parameters
    ----------
    boundary : "auto", "compact-shell", "direction-shell", "flow-shell", BoundarySampler or None
        Step 1: draws points on the boundary of the data. "auto": "direction-shell", Gaussians of
        directions, for tables of more than 128 numbers with linear features, such as embeddings;
        else "compact-shell", flows of the inputs, or their principal components if they are many.
        None: a neural linear model.
    features : "auto", "tabular", "linear", "learned", torch.nn.Module or FeatureMap
        Step 2: a network that learns the K classes, and to tell data from boundary points. "auto":
        "tabular", small networks that also see a forest's votes; "learned", convolutional, for
        images; "linear", a linear classifier of directions, for tables of more than 128 numbers if
        it predicts held-out rows at least as well as a forest. A module becomes the body of a
        "learned" network.
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
        embedding of each, and the boundary becomes a `MixedShell`. Unseen values are no error.
    standardize : bool
        Bring every number, or every channel of images, to zero mean and unit variance first. More
        than 128 numbers are divided by one common scale if that tells classes apart better.
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

    boundary: str | BoundarySampler | None = "auto"
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
    __metadata_request__fit: ClassVar[dict[str, str]] = {"checkpoint": UNUSED}

    @classmethod
    def paper(cls, experiment: str, **settings: Any) -> Self:
        """The paper's hyperparameters for "gmm", "moons", "wine" or "mnist"."""
        return cls._preset(paper_settings(experiment), settings)

    @classmethod
    def quick(cls, **settings: Any) -> Self:
        """Small settings for tests and a first look: seconds instead of a minute."""
        return cls._preset(quick_settings(), settings)

    @classmethod
    def _preset(cls, preset: dict[str, Any], settings: dict[str, Any]) -> Self:
        own = cls._get_param_names()  # a subclass may lack a setting
        return cls(**({name: preset[name] for name in own if name in preset} | settings))

    def _default_part(self, name: str, value: Any) -> Any:
        known = name in STEPS and isinstance(value, str) and value in STEPS[name]
        return make_step(name, value) if known else None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
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
        """
        fit = Fit(self, X, y, sample_weight, checkpoint=checkpoint)
        fit.learn_features()
        fit.infer_posterior()
        return self

    def _threads(self) -> AbstractContextManager[None]:
        """One thread for tables, except where a step asks for more; all for images."""
        return threads_for(0 if self.image_shape_ is None else math.inf)

    def update(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Infer the posterior of step 3 again; boundary and features stay as they are.

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
        table, own_labels = self._checked(rows.X, rows.y)
        indices = self._indices(own_labels)
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
            context = FitContext(
                generator=as_generator(self.random_state),
                on_epoch=bar_for("posterior"),
                sample_weight=row_weights(self, rows, labels),
                **known_of_last_layer(self.features_),
            )
            self.posterior_ = fit_step("posterior", posterior, features, labels, context=context)
            if self.doubt_ is not None:
                some = features[reference_rows(len(features)).to(features.device)]
                self.doubt_ = self.doubt_.with_disagreement(self._predictor.disagreement(some))
        self.__dict__.pop("set_scores_", None)  # of the old posterior
        return self

    def _learn_categories(self, table: np.ndarray) -> None:
        columns = () if self.categorical_features is None else self.categorical_features
        self.n_categories_ = count_categories(table, columns, self.image_shape_)

    def _mean_and_spread(
        self, table: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        mean, spread = super()._mean_and_spread(table, labels)
        if self.image_shape_ is None:
            is_number = np.array(self.n_categories_ or [0] * len(mean)) == 0
            mean, spread = np.where(is_number, mean, 0.0), np.where(is_number, spread, 1.0)
            if is_number.sum() > MOST_INPUTS:
                spread[is_number] = best_spread((table - mean)[:, is_number], labels)
        return mean, spread

    def uncertainty(self, X: ArrayLike, split: bool = False) -> Uncertainty[np.ndarray]:
        """Total, aleatoric and epistemic uncertainty, each (N,), in nats.

        Parameters
        ----------
        split : bool
            Also split epistemic uncertainty into `model`, from the weights of step 3, and `ood`,
            because the row may be out of distribution. The two add up to it.
        """
        judge: Any = self._predictor.judge
        n_moments = 3 if split else 2  # mean, mean entropy, and the part due to the weights
        return self._uncertainty(X, lambda points: judge(points)[:n_moments])

    def ood_score(self, X: ArrayLike) -> np.ndarray:
        """OOD score (N,) of each row: small inside the data, growing without bound outside.

        It combines how rare the row is under the densities of step 1 with how much the draws of
        step 3 disagree. Without a boundary, or with `ood_prior=0`, it is the epistemic uncertainty.
        """
        check_is_fitted(self)
        return super().ood_score(X) if self.doubt_ is None else self._surprise(X).numpy()

    def ood_probability(self, X: ArrayLike) -> np.ndarray:
        """Probability (N,) that each row is out of distribution, given the prior `ood_prior`."""
        return self._fitted_doubt("ood_probability").probability(self._surprise(X)).numpy()

    def rows_like_this(self, X: ArrayLike) -> np.ndarray:
        """Expected number (N,) of training rows that are at least as unusual as each row.

        About half of the rows for a typical one, about 1 at the edge of the data, and far less than
        1 outside: 0.01 means that a hundred such training sets would hold one row like this.
        """
        return self._fitted_doubt("rows_like_this").rows_like_this(self._surprise(X)).numpy()

    def _fitted_doubt(self, name: str) -> Doubt:
        check_is_fitted(self)
        if self.doubt_ is None:
            raise ValueError(
                f"{name} needs a boundary and an ood_prior above 0; this model lacks one. "
                "Fit with boundary='auto' and ood_prior=0.01."
            )
        return self.doubt_

    def _surprise(self, X: ArrayLike) -> Tensor:
        judge: Any = self._predictor.judge
        (surprise,) = self._score(X, lambda points: (judge(points).surprise,))
        return torch.from_numpy(surprise)

    def region_proba(self, X: ArrayLike) -> np.ndarray:
        """Probabilities (N, K+1) of the networks of step 2; the last column is the boundary."""
        check_is_fitted(self)
        if self.boundary_ is None or not isinstance(self.features_, HasRegions):
            raise ValueError(
                "the network must have learned a boundary class; this model has none. "
                "Fit with boundary='auto' and features='learned'."
            )
        (probabilities,) = self._score(X, lambda points: (self.features_.region_proba(points),))
        return probabilities

    def log_density(self, X: ArrayLike) -> np.ndarray:
        """Log density (N,) of each row under the boundary of step 1, in nats and the units of X.

        That of a "direction-shell" is of a row's direction and length, which ranks rows.
        """
        predictor, log_units = self._predictor, self._log_units
        if not isinstance(self.boundary_, HasDensity):
            raise ValueError(
                "the boundary must have log_prob to give a density; this model has none such. "
                "Fit with boundary='auto'."
            )
        log_density: Any = predictor.log_density
        (density,) = self._score(X, lambda points: (log_density(points, log_units),))
        return density

    @property
    def _log_units(self) -> float:
        """Log of the factor between densities of X and of standardized inputs."""
        return float(np.log(self.scale_).sum())

    @property
    def health_(self) -> Health:
        """How far the posterior draws can be trusted."""
        check_is_fitted(self)
        return self.posterior_.health_

    @property
    def feature_extractor(self) -> FeatureExtractor:
        """What turns the rows of a table into the features that step 3 learns from."""
        check_is_fitted(self)
        return FeatureExtractor(self.mean_, self.scale_, self.features_)

    @property
    def _predictor(self) -> Predictor:
        check_is_fitted(self)
        return Predictor(self.boundary_, self.features_, self.posterior_, self.doubt_)

    def _samples(self, points: Tensor, joint: bool = False) -> Tensor:
        return self._predictor.samples(points, joint)

    def _moments(self, points: Tensor) -> tuple[Tensor, Tensor]:
        return self._predictor.judge(points)[:2]

    def _evaluation(self, points: Tensor) -> Evaluation[Tensor]:
        return self._predictor.evaluation(points, self._log_units)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted model atomically to the folder `path`, as JSON and safetensors.

        Parameters
        ----------
        overwrite : bool
            Replace a model that is there already; otherwise that is an error.
        """
        write_folder(pack_classifier(self), path, overwrite=overwrite)

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
            return unpack_classifier(cls, read_folder(path, device), body=body, device=device)
