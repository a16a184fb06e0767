"""BaCOUnClassifier: the steps in order; the only file that knows them all."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import version
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted
from torch import Generator, Tensor, nn

from bacoun.boundary import FlowOutlierRemover, least_likely
from bacoun.checkpoint import Checkpoint
from bacoun.estimator import BayesianClassifier, Evaluation, evaluation_of
from bacoun.features import as_if_rare, gated
from bacoun.posterior import Health
from bacoun.progress import progress_bars
from bacoun.protocols import BoundarySampler, EdgeAwareFeatureMap, FeatureMap, LastLayer
from bacoun.randomness import RandomState, as_generator, draw_seed
from bacoun.steps import (
    STEPS,
    fit_step,
    make_step,
    pack_step,
    plain,
    settings_of,
    to_device,
    unpack_step,
)
from bacoun.storage import read_model, write_model
from bacoun.training import OnEpoch
from bacoun.uncertainty import Uncertainty
from bacoun.validation import checked

_PRIOR_FOR_IMAGES = 0.3  # chosen on left-out digits, see the experiment mnist-choice
_TRANSFORMED_AT_ONCE = 8192  # of images, convolutions make much more than what goes in


class BaCOUnClassifier(BayesianClassifier):
    """A Bayesian classifier that knows what it has not seen.

    Parameters
    ----------
    boundary : "compact-shell", "flow-shell", BoundarySampler or None
        Step 1, which draws points on the edge of the data: of all inputs, or, "compact-shell" with
        more than 128 of them, of their principal components. None: a neural linear model.
    features : "learned", torch.nn.Module or FeatureMap
        Step 2, which learns the K classes and the edge. A module becomes the network's body.
    posterior : "hmc", "nuts", "mean-field", "laplace" or LastLayer
        Step 3, which infers a posterior over linear classifiers on the frozen features. Given by
        name, it starts from a prior of scale 1, for images of 0.3.
    gate : "ood" or None
        "ood" hands the features over to weights that keep their prior wherever the network of
        step 2 says out of distribution, so that posterior draws disagree there. None is the paper.
    ood_share : float
        How many of the points to be scored are out of distribution, to begin with: the gate and
        `ood_probability` start from there. Larger: new points count as unknown sooner. The default
        is the share of the data's own mass that the shell of step 1 leaves outside.
    n_boundary : "balanced" or int
        Number of edge points. "balanced": at least as many as in a class, more for few classes; for
        images, half as many as there are.
    contamination : float
        Share of the training points, from 0 to below 0.5, to leave out as outliers: those of lowest
        density under one flow fitted to all points. A class much rarer than the others has a low
        density too; two points of each class stay in any case.
    standardize : bool
        Bring every input, or every channel of images, to zero mean and unit variance first.
    random_state : int, RandomState, Generator or None
        One state gives one answer; global streams are not touched.
    verbose : bool
        Draw progress bars on stderr.
    n_jobs : int, optional
        Processes that fit the flows of step 1 side by side.
    device : str
        Where tensors live, as torch names it.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    n_features_in_ : int
    image_shape_ : (C, H, W), or None if the model was fitted to a table
    boundary_, features_, posterior_
        The fitted steps.
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

    def __init__(
        self,
        *,
        boundary: str | BoundarySampler | None = "compact-shell",
        features: str | nn.Module | FeatureMap = "learned",
        posterior: str | LastLayer = "hmc",
        gate: Literal["ood"] | None = "ood",
        ood_share: float = 0.01,
        n_boundary: int | Literal["balanced"] = "balanced",
        contamination: float = 0.0,
        standardize: bool = True,
        random_state: RandomState = None,
        verbose: bool = False,
        n_jobs: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.boundary = boundary
        self.features = features
        self.posterior = posterior
        self.gate = gate
        self.ood_share = ood_share
        self.n_boundary = n_boundary
        self.contamination = contamination
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.device = device

    @classmethod
    def paper(cls, experiment: str, **settings: Any) -> Self:
        """The paper's hyperparameters for "gmm", "moons", "wine" or "mnist" (gate off)."""
        from bacoun.presets import paper_settings

        return cls(**(paper_settings(experiment) | settings))

    @classmethod
    def quick(cls, **settings: Any) -> Self:
        """Small and fast, for tests and first looks: seconds instead of a minute."""
        from bacoun.presets import quick_settings

        return cls(**(quick_settings() | settings))

    # --- fit -----------------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
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
        checkpoint : path or Checkpoint, optional
            A folder in which the fit leaves its state once a minute and after each part of the
            work. Called again with the same data and settings, a fit that was interrupted or killed
            goes on from there and, on the same machine, ends with the same model; `verbose` and
            `n_jobs` may change. The folder stays: delete it once the model is saved. A step of your
            own goes on too if its `fit` takes a `checkpoint`; if not, it is fitted again.
        """
        boundary, features, posterior = self._fresh_steps()
        points, labels = self._validated(X, y)
        if self.image_shape_ is not None and isinstance(self.posterior, str):
            posterior.set_params(prior_scale=_PRIOR_FOR_IMAGES)
        generator = as_generator(self.random_state)
        kept: Checkpoint | None = None
        if checkpoint is not None:
            kept = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
            kept.begin(self._run(points, labels, boundary, features, posterior), generator)
        self.outliers_ = np.empty(0, dtype=np.int64)
        with progress_bars(self.verbose) as bar_for:
            if self.contamination > 0:
                self.outliers_ = self._find_outliers(
                    X, labels, generator, bar_for("outliers"), kept
                )
                rows = np.setdiff1d(np.arange(len(points)), self.outliers_)
                points, labels = self._validated(_take(X, rows), _take(y, rows))
            n_edge = self._n_edge(len(points))

            def run(name: str, step: Any, *data: Tensor) -> Any:
                part = kept and kept.section(name)
                return fit_step(
                    step, *data, generator=generator, on_epoch=bar_for(name), checkpoint=part
                )

            inputs, targets = points, labels
            self.boundary_ = None
            self.gated_ = self.gate is not None and boundary is not None
            if boundary is not None:
                self.boundary_ = run("boundary", boundary, points.flatten(1), labels)
                edge = self.boundary_.sample(n_edge, generator=generator)
                edge = edge.view(-1, *points.shape[1:])
                self.edge_odds_, self.ood_share_ = n_edge / len(points), float(self.ood_share)
                inputs, targets = with_edge_class(points, labels, edge)
            self.features_ = run("features", features, inputs, targets)
            self.posterior_ = run("posterior", posterior, self._training_design(points), labels)
        return self

    def update(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Infer the posterior of step 3 anew; flow and network stay as they are.

        Parameters
        ----------
        X, y
            All labelled rows that are to count, old and new: the model keeps none of those it was
            fitted to. Each class it knows must be among them, and no other.
        """
        check_is_fitted(self)
        table, given = checked(self, X, y, reset=False)
        indices = self._indices(given)
        missing = np.delete(self.classes_, np.unique(indices)).tolist()
        if missing:
            raise ValueError(
                "y must hold each class at least once, because X and y replace the rows of fit; "
                f"got none of {missing[:5]}. Add old rows of it."
            )
        points, labels = self._standardised(table), torch.from_numpy(indices).to(self.device)
        posterior = clone(self.posterior_, safe=False)
        with progress_bars(self.verbose) as bar_for:
            self.posterior_ = fit_step(
                posterior,
                self._training_design(points),
                labels,
                generator=as_generator(self.random_state),
                on_epoch=bar_for("posterior"),
            )
        self.__dict__.pop("set_scores_", None)  # they speak of the old posterior
        return self

    def _run(self, points: Tensor, labels: Tensor, *steps: Any) -> dict[str, Any]:
        """What the outcome of `fit` depends on, by the name a refusal gives it."""
        return {
            "X": [points, self.mean_, self.scale_],
            "y": [labels, self.classes_],
            "settings": [self, *steps],
            "version of bacoun": version("bacoun"),
        }

    def _fresh_steps(self) -> tuple[Any, Any, Any]:
        """Clones of the three steps, names turned into objects and our own settings filled in."""
        if self.gate not in ("ood", None):
            raise ValueError(f"gate must be 'ood' or None; got {self.gate!r}.")
        if not isinstance(self.ood_share, Real) or not 0 < self.ood_share < 1:
            raise ValueError(
                f"ood_share must lie between 0 and 1; got {self.ood_share!r}. Try 0.01."
            )
        if not isinstance(self.contamination, Real) or not 0 <= self.contamination < 0.5:
            raise ValueError(
                "contamination must be a share from 0 to below 0.5; got "
                f"{self.contamination!r}. Try 0.05."
            )
        boundary = clone(make_step("boundary", self.boundary), safe=False)
        features = clone(make_step("features", self.features), safe=False)
        posterior = clone(make_step("posterior", self.posterior), safe=False)
        if "n_jobs" in settings_of(boundary) and boundary.n_jobs is None:
            boundary.set_params(n_jobs=self.n_jobs)
        gated = self.gate is not None and boundary is not None
        if gated and not isinstance(features, EdgeAwareFeatureMap):
            raise ValueError(
                "gate='ood' needs a feature map with transform_with_proba; "
                f"{type(features).__name__} has none. Pass gate=None."
            )
        if gated and "fit_intercept" in settings_of(posterior):
            posterior.set_params(fit_intercept=False)  # the gate brings its own two bias columns
        return boundary, features, posterior

    def _find_outliers(
        self,
        X: ArrayLike,
        labels: Tensor,
        generator: Generator,
        on_epoch: OnEpoch | None,
        checkpoint: Checkpoint | None,
    ) -> np.ndarray:
        """Rows (n,) of lowest density under one flow: the paper's "Robustness to Outliers"."""

        def find() -> Tensor:
            table = checked(self, X, reset=False)
            remover = FlowOutlierRemover(random_state=np.random.default_rng(draw_seed(generator)))
            log_density = remover.fit(table, on_epoch=on_epoch).score_samples(table)
            n_outliers = round(self.contamination * len(table))
            return torch.from_numpy(least_likely(log_density, labels.cpu().numpy(), n_outliers))

        rows = find() if checkpoint is None else checkpoint.once("outliers", generator, find)
        return rows.numpy()

    def _n_edge(self, n_points: int) -> int:
        """Number of edge points: the paper's balance heuristic, or as told.

        With more of them, images of known digits are less often doubted: experiment mnist-choice.
        """
        if self.n_boundary == "balanced":
            n_classes = len(self.classes_)
            share = (1 + 3 / n_classes) / n_classes if self.image_shape_ is None else 0.5
            return max(1000, round(share * n_points))
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
            Also split epistemic into `model`, doubt about the weights in which the data outweighs
            the prior, and `ood`, doubt about all others; for a posterior of "hmc", "nuts" or
            "laplace". All parts then come from nested draws: they add up exactly, and differ from
            those without split by Monte Carlo error and by a Gaussian approximation of the weights
            in which the prior outweighs the data.
        """
        return self._uncertainty(X, self._nested_moments if split else self._moments)

    def ood_probability(self, X: ArrayLike) -> np.ndarray:
        """How likely (N,) each row is out of distribution, if `ood_share` of all rows are."""
        raw = torch.from_numpy(self.region_proba(X)[:, -1].astype(np.float64))
        return as_if_rare(raw, self.edge_odds_, self.ood_share_).numpy()

    def region_proba(self, X: ArrayLike) -> np.ndarray:
        """Probabilities (N, K+1) of the network of step 2; the last column is the edge class."""
        check_is_fitted(self)
        if self.boundary_ is None or not isinstance(self.features_, EdgeAwareFeatureMap):
            raise ValueError(
                "the network must have learned an edge class; this model has none. "
                "Fit with boundary='compact-shell' and features='learned'."
            )
        (probabilities,) = self._score(
            X, lambda points: self.features_.transform_with_proba(points)[1:]
        )
        return probabilities

    def log_density(self, X: ArrayLike) -> np.ndarray:
        """Log density (N,) of each row under the flow of step 1, in nats and the units of X."""
        check_is_fitted(self)
        if not isinstance(self.boundary_, BoundarySampler):
            raise ValueError(
                "the boundary must have log_prob to give a density; this model has none such. "
                "Fit with boundary='compact-shell'."
            )
        flow = self.boundary_
        (standard,) = self._score(X, lambda points: (flow.log_prob(points.flatten(1)).double(),))
        return standard - np.log(self.scale_).sum()

    @property
    def health_(self) -> Health:
        """How far the posterior draws can be trusted."""
        check_is_fitted(self)
        health: Health = self.posterior_.health_
        return health

    # Step 3 works in float64: in float32 a matrix product rounds a row by its place in the block,
    # and the remainder rho, a difference of squares, would make that visible.

    def _training_design(self, points: Tensor) -> Tensor:
        """What step 3 learns from: features of points known to be in distribution."""
        blocks = points.split(_TRANSFORMED_AT_ONCE)
        features = torch.cat([self.features_.transform(block) for block in blocks]).double()
        return gated(features, features.new_zeros(len(features))) if self.gated_ else features

    def _design(self, points: Tensor) -> Tensor:
        """What step 3 sees of new points: features, gated if the gate is on."""
        features, rare = self._seen(points)
        return (
            gated(features.double(), rare, self.unknown_scale_)
            if self.gated_
            else features.double()
        )

    @property
    def unknown_scale_(self) -> float:
        """What gives the weights of the gate's second half a standard prior, whatever the first's.

        The prior that suits known classes, a narrow one for images, would have draws agree about
        the unknown.
        """
        scale = getattr(self.posterior_, "prior_scale_", getattr(self.posterior_, "prior_scale", 1))
        return 1 / float(scale)

    def _seen(self, points: Tensor) -> tuple[Tensor, Any]:
        """Features (N, L); p(OOD) (N,), or None if the network has learned no edge."""
        if self.boundary_ is None or not isinstance(self.features_, EdgeAwareFeatureMap):
            return self.features_.transform(points), None
        features, probabilities = self.features_.transform_with_proba(points)
        return features, as_if_rare(probabilities[:, -1].double(), self.edge_odds_, self.ood_share_)

    def _samples(self, points: Tensor, joint: bool = False) -> Tensor:
        extra = {"joint": True} if joint else {}
        return self.posterior_.predict_proba_samples(self._design(points), **extra)

    def _moments(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Mean over draws of the class probabilities (N, K) and of their entropy (N,)."""
        if hasattr(self.posterior_, "predict_moments"):
            return self.posterior_.predict_moments(self._design(points))
        return super()._moments(points)

    def _evaluator(self) -> Callable[[Tensor], Evaluation[Tensor]]:
        predictive: Any = None
        if hasattr(self.posterior_, "predictive"):
            scale = self.unknown_scale_ if self.gated_ else None
            predictive = self.posterior_.predictive(unknown_scale=scale)
        log_prob = self.boundary_.log_prob if isinstance(self.boundary_, BoundarySampler) else None
        units = float(np.log(self.scale_).sum())

        def evaluate(points: Tensor) -> Evaluation[Tensor]:
            features, rare = self._seen(points)
            if predictive is None:
                mean, mean_entropy = self._moments_in_parts(points)
            else:
                share = rare if self.gated_ else None
                mean, mean_entropy = predictive.moments(features, share)
            density = None if log_prob is None else log_prob(points.flatten(1)).double() - units
            return evaluation_of(mean, mean_entropy, rare, density)

        return evaluate

    def _nested_moments(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What `from_moments` needs to split epistemic: (N, K), (N,) and (N,)."""
        if not hasattr(self.posterior_, "predict_split"):
            raise ValueError(
                "split=True needs a posterior of 'hmc', 'nuts' or 'laplace'; got "
                f"{type(self.posterior_).__name__}. Fit with one of these, or pass split=False."
            )
        mean, inner_entropy, mean_entropy = self.posterior_.predict_split(self._design(points))
        return mean, mean_entropy, inner_entropy

    # --- settings and files --------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Settings; `deep` lists those of the steps too (`boundary__radii`), named or given."""
        params: dict[str, Any] = super().get_params(deep=deep)
        for name in STEPS if deep else ():
            if isinstance(params.get(name), str) and params[name] in STEPS[name]:
                nested = make_step(name, params[name]).get_params()
                params |= {f"{name}__{key}": value for key, value in nested.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change settings; a step given by name becomes an object when one of its own is set."""
        for name in STEPS:
            value = params.get(name, getattr(self, name))
            nested = next((key for key in params if key.startswith(f"{name}__")), None)
            if nested is not None and value is None:
                raise ValueError(f"{nested} needs a {name}; it is None. Set {name} as well.")
            if nested is not None and isinstance(value, str):
                params[name] = make_step(name, value)
        super().set_params(**params)
        return self

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted model to a new folder of JSON and safetensors, whole or not at all."""
        write_model(self._content(), path, overwrite=overwrite)

    def _content(self) -> dict[str, Any]:
        """The fitted model as nested plain values and tensors."""
        check_is_fitted(self)
        return {
            "bacoun": version("bacoun"),
            "settings": {
                "gate": self.gate,
                "ood_share": float(getattr(self, "ood_share_", self.ood_share)),
                "n_boundary": plain(self.n_boundary),
                "contamination": plain(self.contamination),
                "standardize": self.standardize,
                "random_state": self.random_state if isinstance(self.random_state, int) else None,
                "n_jobs": self.n_jobs,
            },
            "classes": {"dtype": self.classes_.dtype.str, "values": self.classes_.tolist()},
            "n_features_in": self.n_features_in_,
            "image_shape": plain(self.image_shape_),
            "feature_names_in": list(getattr(self, "feature_names_in_", [])) or None,
            "mean": torch.from_numpy(self.mean_),
            "scale": torch.from_numpy(self.scale_),
            "outliers": torch.from_numpy(self.outliers_),
            "edge_odds": getattr(self, "edge_odds_", None),
            "set_scores": torch.from_numpy(self.set_scores_)
            if hasattr(self, "set_scores_")
            else None,
            "steps": {name: pack_step(name, getattr(self, f"{name}_")) for name in STEPS},
        }

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, body: nn.Module | None = None, device: str = "cpu"
    ) -> Self:
        """Read a model that `save` wrote.

        Parameters
        ----------
        body : torch.nn.Module, optional
            A module built like the one the model was fitted with, if it was a module of yours:
            files hold its weights, not its code.
        """
        content = to_device(read_model(path), device)
        try:
            return cls._from_content(content, body, device)
        except (KeyError, TypeError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"'{path}' does not hold a whole model: {reason}.") from error

    @classmethod
    def _from_content(cls, content: dict[str, Any], body: nn.Module | None, device: str) -> Self:
        """Undo `_content`; its tensors are on `device` already."""
        model = cls(**content["settings"], device=device)
        dtype, values = content["classes"]["dtype"], content["classes"]["values"]
        model.classes_ = np.array(values, dtype=np.dtype(dtype))
        model.n_features_in_ = content["n_features_in"]
        shape = content["image_shape"]
        model.image_shape_ = None if shape is None else tuple(shape)
        if content["feature_names_in"] is not None:
            model.feature_names_in_ = np.array(content["feature_names_in"], dtype=object)
        model.mean_ = content["mean"].cpu().numpy()
        model.scale_ = content["scale"].cpu().numpy()
        model.outliers_ = content["outliers"].cpu().numpy()
        for name in STEPS:
            step = unpack_step(name, content["steps"][name], body)
            setattr(model, f"{name}_", step)
            setattr(model, name, None if step is None else clone(step))
        if content["edge_odds"] is not None:
            model.edge_odds_, model.ood_share_ = content["edge_odds"], model.ood_share
        if content.get("set_scores") is not None:
            model.set_scores_ = content["set_scores"].cpu().numpy()
        model.gated_ = model.gate is not None and model.boundary_ is not None
        return model


def _take(table: Any, rows: np.ndarray) -> Any:
    """Rows of an array, a DataFrame, a list, or whatever NumPy can read, of the same kind."""
    return _safe_indexing(table if hasattr(table, "__getitem__") else np.asarray(table), rows)


def with_edge_class(points: Tensor, labels: Tensor, edge: Tensor) -> tuple[Tensor, Tensor]:
    """Points and edge together (N + n, D), the edge as one more class (N + n,)."""
    edge_class = labels.new_full((len(edge),), int(labels.max()) + 1)
    return torch.cat([points, edge]), torch.cat([labels, edge_class])
