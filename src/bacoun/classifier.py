"""BaCOUnClassifier: the steps in order; the only file that knows them all."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.metadata import version
from numbers import Real
from typing import Any, Literal, NamedTuple, Self

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
from bacoun.uncertainty import (
    Doubt,
    Tail,
    Uncertainty,
    decompose,
    doubted,
    doubted_draws,
    from_moments,
)
from bacoun.validation import checked

_FEWEST_HELD_OUT = 20  # points to take a 95 % quantile from
_SMALLEST_DISAGREEMENT = 1e-3  # in nats; what is below is agreement
_TRANSFORMED_AT_ONCE = 8192  # of images, convolutions make much more than what goes in


class _Look(NamedTuple):
    """What steps 1 and 2 say about N points: the last two are None without doubt."""

    features: Tensor  # (N, L)
    scores: dict[str, Tensor]  # of unfamiliarity, (N,) each
    score: Any  # (N,), unfamiliarity, all of them in one
    kappa: Any  # (N,), probability of being unknown


class BaCOUnClassifier(BayesianClassifier):
    """A Bayesian classifier that knows what it has not seen.

    Parameters
    ----------
    boundary : "compact-shell", "flow-shell", BoundarySampler or None
        Step 1, which draws points on the edge of the data: of all inputs, or, "compact-shell" with
        more than 128 of them, of their principal components. None: a neural linear model.
    features : "learned", torch.nn.Module or FeatureMap
        Step 2, which learns the K classes and to tell data from edge. A module becomes the
        network's body.
    posterior : "hmc", "nuts", "mean-field", "laplace" or LastLayer
        Step 3, which infers a posterior over linear classifiers on the frozen features.
    ood_prior : float
        Prior probability, from 0 to below 1, that a scored point is out of distribution. It rises
        with the distance from the data to `ood_probability`, and epistemic uncertainty with it:
        see `bacoun.uncertainty.Doubt`. Larger: new points are doubted sooner. 0 is the paper, in
        which only the draws of step 3 can disagree.
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

    def __init__(
        self,
        *,
        boundary: str | BoundarySampler | None = "compact-shell",
        features: str | nn.Module | FeatureMap = "learned",
        posterior: str | LastLayer = "hmc",
        ood_prior: float = 0.01,
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
        self.ood_prior = ood_prior
        self.n_boundary = n_boundary
        self.contamination = contamination
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.device = device

    @classmethod
    def paper(cls, experiment: str, **settings: Any) -> Self:
        """The paper's hyperparameters for "gmm", "moons", "wine" or "mnist"."""
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

            def run(name: str, step: Any, *data: Tensor, **offered: Any) -> Any:
                part = kept and kept.section(name)
                offered |= {"on_epoch": bar_for(name), "checkpoint": part}
                return fit_step(step, *data, generator=generator, **offered)

            self.boundary_: Any = None
            self.doubt_: Doubt | None = None
            edge: dict[str, Tensor | None] = {}
            if boundary is not None:
                self.boundary_ = run("boundary", boundary, points.flatten(1), labels)
                edge = self._draw_edge(points, generator)
            self.features_ = run("features", features, points, labels, **edge)
            self.posterior_ = run("posterior", posterior, self._features_of(points), labels)
            self.doubt_ = self._learn_doubt(points)
        return self

    def _draw_edge(self, points: Tensor, generator: Generator) -> dict[str, Tensor | None]:
        """Edge points, of the shape of points, and the class of each if the boundary knows it."""
        drawn = self.boundary_.sample(self._n_edge(len(points)), generator=generator)
        edge, labels = drawn if isinstance(drawn, tuple) else (drawn, None)
        return {"edge": edge.view(-1, *points.shape[1:]), "edge_labels": labels}

    def _learn_doubt(self, points: Tensor) -> Doubt | None:
        """Doubt from how unfamiliar those points look that a step was not fitted to."""
        if self.boundary_ is None or self.ood_prior == 0:
            return None
        rows = self._held_out_rows().to(points.device)
        known = points[rows] if len(rows) >= _FEWEST_HELD_OUT else points
        looks = [self._look(block) for block in known.split(_TRANSFORMED_AT_ONCE)]
        tails = {
            name: Tail.of(torch.cat([look.scores[name] for look in looks]))
            for name in looks[0].scores
        }
        features = torch.cat([look.features for look in looks]).double()
        return Doubt(float(self.ood_prior), tails, self._usual_disagreement(features))

    def _usual_disagreement(self, features: Tensor) -> float:
        """Epistemic uncertainty of the weights that 5 % of known points exceed, in nats."""
        epistemic = from_moments(*self._moments_of_weights(features)).epistemic
        return max(float(epistemic.quantile(0.95)), _SMALLEST_DISAGREEMENT)

    def _held_out_rows(self) -> Tensor:
        """Indices of training points that the step which tells the unfamiliar was not fitted to."""
        step = self.boundary_ if _tells_density(self.boundary_) else self.features_
        return getattr(step, "held_out_rows_", torch.empty(0, dtype=torch.int64))

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
        features = self._features_of(self._standardised(table))
        posterior = clone(self.posterior_, safe=False)
        with progress_bars(self.verbose) as bar_for:
            self.posterior_ = fit_step(
                posterior,
                features,
                torch.from_numpy(indices).to(self.device),
                generator=as_generator(self.random_state),
                on_epoch=bar_for("posterior"),
            )
        if self.doubt_ is not None:
            disagreement = self._usual_disagreement(features)
            self.doubt_ = replace(self.doubt_, disagreement=disagreement)
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
        if not isinstance(self.ood_prior, Real) or not 0 <= self.ood_prior < 1:
            raise ValueError(
                "ood_prior must be a probability, from 0 to below 1; got "
                f"{self.ood_prior!r}. Try 0.01."
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
        told = isinstance(features, EdgeAwareFeatureMap) or _tells_density(boundary)
        if boundary is not None and self.ood_prior > 0 and not told:
            raise ValueError(
                "ood_prior needs a boundary with log_prob, or a feature map with "
                f"transform_with_log_odds; {type(boundary).__name__} and {type(features).__name__} "
                "have neither. Pass ood_prior=0."
            )
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
        """Number of edge points: the paper's balance heuristic, more for images, or as told."""
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
            Also split epistemic, without remainder, into `model`, what the weights of step 3 leave
            open, and `ood`, what is added because the row may be unlike anything learned.
        """
        return self._uncertainty(X, self._nested_moments if split else self._moments)

    def ood_score(self, X: ArrayLike) -> np.ndarray:
        """How unfamiliar (N,) each row is: small inside the data, growing without bound outside.

        How rare the row is under the flows of step 1, more if the draws of step 3 disagree; see
        `bacoun.uncertainty.Doubt`. Without a boundary, or with `ood_prior=0`, it is epistemic
        uncertainty.
        """
        check_is_fitted(self)
        doubt = self.doubt_
        if doubt is None:
            return super().ood_score(X)

        def score(points: Tensor) -> tuple[Tensor]:
            seen = self._look(points)
            moments = self._moments_of_weights(seen.features.double())
            return (doubt.ood_score(seen.score, from_moments(*moments).epistemic),)

        return self._score(X, score)[0]

    def ood_probability(self, X: ArrayLike) -> np.ndarray:
        """How likely (N,) each row is out of distribution, if `ood_prior` of all rows are."""
        check_is_fitted(self)
        if self.doubt_ is None:
            raise ValueError(
                "ood_probability needs a boundary and an ood_prior above 0; this model lacks one. "
                "Fit with boundary='compact-shell' and ood_prior=0.01."
            )
        (kappa,) = self._score(X, lambda points: (self._look(points).kappa,))
        return kappa

    def region_proba(self, X: ArrayLike) -> np.ndarray:
        """Probabilities (N, K+1) of the network of step 2; the last column is the edge."""
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
        check_is_fitted(self)
        if not _tells_density(self.boundary_):
            raise ValueError(
                "the boundary must have log_prob to give a density; this model has none such. "
                "Fit with boundary='compact-shell'."
            )
        (standard,) = self._score(X, lambda points: (self._log_prob(points, {}),))
        return standard - self._log_units

    @property
    def _log_units(self) -> float:
        """What a log density loses between standardised inputs and the units of X."""
        return float(np.log(self.scale_).sum())

    @property
    def health_(self) -> Health:
        """How far the posterior draws can be trusted."""
        check_is_fitted(self)
        health: Health = self.posterior_.health_
        return health

    def _features_of(self, points: Tensor) -> Tensor:
        """Features (N, L) for step 3, which works in float64: what it subtracts nearly cancels."""
        blocks = points.split(_TRANSFORMED_AT_ONCE)
        return torch.cat([self.features_.transform(block) for block in blocks]).double()

    def _look(self, points: Tensor) -> _Look:
        """What steps 1 and 2 have to say about standardised points."""
        flat, scores = points.flatten(1), {}
        features = self.features_.transform(points)
        if hasattr(self.boundary_, "unfamiliarity"):
            scores = self.boundary_.unfamiliarity(flat)
        elif _tells_density(self.boundary_):
            scores = {"density": -self.boundary_.log_prob(flat)}
        elif self.boundary_ is not None and isinstance(self.features_, EdgeAwareFeatureMap):
            scores = {"edge": self.features_.transform_with_log_odds(points)[1]}
        if self.doubt_ is None:
            return _Look(features, scores, None, None)
        score = self.doubt_.score(scores)
        return _Look(features, scores, score, self.doubt_.probability(score))

    def _samples(self, points: Tensor, joint: bool = False) -> Tensor:
        seen, extra = self._look(points), {"joint": True} if joint else {}
        draws: Tensor = self.posterior_.predict_proba_samples(seen.features.double(), **extra)
        return draws if seen.kappa is None else doubted_draws(draws, seen.kappa)

    def _moments(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Mean over draws of the class probabilities (N, K) and of their entropy (N,)."""
        seen = self._look(points)
        return _with_doubt(*self._moments_of_weights(seen.features.double()), seen.kappa)

    def _moments_of_weights(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """The same over draws of step 3 alone, of features (N, L)."""
        if hasattr(self.posterior_, "predict_moments"):
            mean, mean_entropy = self.posterior_.predict_moments(features)
            return mean, mean_entropy
        draws = self.posterior_.predict_proba_samples(features)
        return draws.mean(dim=0, dtype=torch.float64), decompose(draws).aleatoric

    def _evaluation(self, points: Tensor) -> Evaluation[Tensor]:
        seen, density, ood_score = self._look(points), None, None
        moments = self._moments_of_weights(seen.features)
        if self.doubt_ is not None:
            ood_score = self.doubt_.ood_score(seen.score, from_moments(*moments).epistemic)
        if _tells_density(self.boundary_):
            density = self._log_prob(points, seen.scores) - self._log_units
        return evaluation_of(
            *_with_doubt(*moments, seen.kappa),
            ood_score=ood_score,
            ood_probability=seen.kappa,
            log_density=density,
        )

    def _log_prob(self, points: Tensor, scores: dict[str, Tensor]) -> Tensor:
        """Log density (N,) in standardised inputs; not worked out twice where scores hold it."""
        if scores.keys() == {"density"}:
            return -scores["density"].double()
        log_prob: Tensor = self.boundary_.log_prob(points.flatten(1))
        return log_prob.double()

    def _nested_moments(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What `from_moments` needs to split epistemic: (N, K), (N,) and (N,)."""
        seen = self._look(points)
        draws = self.posterior_.predict_proba_samples(seen.features.double())
        mean, mean_entropy = draws.mean(dim=0), decompose(draws).aleatoric
        if seen.kappa is None:
            return mean, mean_entropy, mean_entropy
        given_weights = torch.special.entr(doubted(draws, seen.kappa)).sum(dim=2).mean(dim=0)
        return *_with_doubt(mean, mean_entropy, seen.kappa), given_weights

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
                "ood_prior": plain(self.ood_prior),
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
            "doubt": None if self.doubt_ is None else self.doubt_.get_state(),
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
        doubt = content["doubt"]
        model.doubt_ = None if doubt is None else Doubt.from_state(doubt)
        if content.get("set_scores") is not None:
            model.set_scores_ = content["set_scores"].cpu().numpy()
        return model


def _take(table: Any, rows: np.ndarray) -> Any:
    """Rows of an array, a DataFrame, a list, or whatever NumPy can read, of the same kind."""
    return _safe_indexing(table if hasattr(table, "__getitem__") else np.asarray(table), rows)


def _with_doubt(mean: Tensor, mean_entropy: Tensor, kappa: Tensor | None) -> tuple[Tensor, Tensor]:
    """Moments (N, K) and (N,) over draws, of points that are unknown with probability kappa."""
    if kappa is None:
        return mean, mean_entropy
    return doubted(mean, kappa), (1 - kappa) * mean_entropy


def _tells_density(boundary: Any) -> bool:
    """Whether a boundary, which may be None or a user's own, gives a log density."""
    return hasattr(boundary, "log_prob")
