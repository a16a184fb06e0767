"""What all last layers share, and the reduction to the directions that the data informs."""

import math
import time
import warnings
from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self

import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from torch import Generator, Tensor, nn

from bacoun.engine.randomness import as_generator, draw_seed
from bacoun.engine.threads import threads_for
from bacoun.files.persistence import SavesAttributes
from bacoun.posterior.all_rows import AllRows, choose_coreset, triangular_factor
from bacoun.posterior.diagnostics import Health, convergence
from bacoun.posterior.logistic import SoftmaxRegression, against_last, contrasts, mix
from bacoun.posterior.predictive import Predictive, softmax_against_last
from bacoun.posterior.prior_scale import most_evident_prior_scale
from bacoun.posterior.reduction import Reduction, Spectrum, reduce, weighted
from bacoun.protocols import FitContext

PriorScale = float | Literal["auto", "evidence"]
Sampled = tuple[Tensor, dict[str, Any]]  # chains of contrasts (C, T, K-1, r), fields for `Health`

_DEFAULT_PRIOR_SCALE = 0.3  # for features learned by a network
_MIN_LOGIT_SCALE = 3.0  # smallest prior standard deviation of a logit under "auto"
_DROPPED = [field.name for field in fields(Reduction)[1:]]  # reported in `Health`


@dataclass(kw_only=True, repr=False, eq=False)
class LinearLayer(SavesAttributes, BaseEstimator):
    """Settings, checks and state of every last layer.

    Parameters
    ----------
    prior_scale : float, "auto" or "evidence"
        Prior standard deviation of each weight; kept as `prior_scale_`. "auto": the one that the
        features predict held-out rows best with, if they know, otherwise 0.3, or larger for small
        features, so that it is at least 3 for logits. "evidence": maximizes the evidence.
    n_draws : int
        Number S of posterior draws; those of chains are evenly spaced.
    fit_intercept : bool
        Add a column of ones to the features.
    """

    prior_scale: PriorScale = "auto"
    n_draws: int = 500
    fit_intercept: bool = True

    honored: ClassVar[tuple[str, ...]] = ("sample_weight",)

    def _check(self, features: Tensor, labels: Tensor) -> int:
        """Check the training set and the prior; return the number of classes K."""
        if features.ndim != 2 or len(features) != len(labels):
            raise ValueError(
                f"features must be (N, L) and labels (N,); got {tuple(features.shape)} and "
                f"{tuple(labels.shape)}."
            )
        if not bool(features.isfinite().all()):
            raise ValueError("features must be finite; got NaN or infinity. Check the feature map.")
        if self.prior_scale not in ("auto", "evidence") and not (
            isinstance(self.prior_scale, int | float) and 0 < self.prior_scale < math.inf
        ):
            raise ValueError(
                "prior_scale must be a positive number, 'auto' or 'evidence'; got "
                f"{self.prior_scale!r}. Try 0.3."
            )
        n_classes = int(labels.max()) + 1
        if n_classes < 2:
            raise ValueError("labels must hold at least 2 classes; got 1. Add labeled rows.")
        return n_classes

    def _design(self, features: Tensor) -> Tensor:
        """Features (N, L), followed by a column of ones if there is an intercept."""
        ones = torch.ones_like(features[:, :1])
        return torch.cat([features, ones], dim=1) if self.fit_intercept else features

    def _prior_mean(self, context: FitContext) -> Tensor | None:
        """Contrasts (K-1, L) that the prior is centered on, with 0 for the intercept; None: 0."""
        if context.prior_mean is None:
            return None
        mean = context.prior_mean.T.double()  # (K, L)
        centered = contrasts(len(mean)).T.to(mean) @ mean
        return nn.functional.pad(centered, (0, int(self.fit_intercept)))

    def _resolved_prior_scale(self, design: Tensor, best: float | None) -> float:
        """The scale as set, or what "auto" stands for: the best one known, or a rule."""
        if self.prior_scale != "auto":
            return float(self.prior_scale)
        if best is not None:
            return best
        norm = float(design.double().square().sum(dim=1).mean().sqrt())
        return max(_DEFAULT_PRIOR_SCALE, _MIN_LOGIT_SCALE / max(norm, 1e-6))

    def _check_fitted(self) -> None:
        if "health_" not in vars(self):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first.")

    def _empty(self, name: str, state: Any) -> Any:
        return Health if name == "health_" else None


@dataclass(kw_only=True, repr=False, eq=False)
class ReducedLayer(LinearLayer):
    """A posterior inferred in the directions the data informs; the others keep their prior.

    Settings that are not listed are those of `LinearLayer`.

    Parameters
    ----------
    tol : float
        Directions in which the data adds less than this share to the prior precision keep their
        prior. 0: only the null space does.
    """

    tol: float = 0.01

    honored = ("sample_weight", "all_rows")
    _saved = ("n_classes_", "prior_scale_", "weights_", "joint_seed_", "reduction_", "health_")
    _draws_are_independent: ClassVar[bool] = False

    @abstractmethod
    def _sample(self, posterior: SoftmaxRegression, mode: Tensor, context: FitContext) -> Sampled:
        """Draw chains, with the generator of the context, which is set."""

    def fit(self, features: Tensor, labels: Tensor, context: FitContext = FitContext()) -> Self:
        """Infer the posterior from features (N, L) and labels (N,) in 0..K-1.

        With `all_rows` in the context, it has the mode of all rows and its curvature; its shape
        beyond that is learned from the sample.
        """
        started, generator = time.perf_counter(), as_generator(context.generator)
        context = replace(context, generator=generator)
        sample_weight, all_rows = context.sample_weight, context.all_rows
        self.n_classes_ = self._check(features, labels)
        if all_rows is not None:
            coreset = choose_coreset(features, labels, all_rows.n_rows, generator)
            features, labels, sample_weight = coreset
        design = self._design(features)
        data = design, labels, self.n_classes_
        with threads_for(0):  # what is large shares its work among independent threads
            prior_mean = self._prior_mean(context)
            rows = (
                weighted(design, sample_weight)
                if all_rows is None
                else triangular_factor(all_rows, self.fit_intercept)
            )
            spectrum = Spectrum(rows, prior_mean)
            # So many rows inform all directions; and a mean must not be lost in any.
            drops_nothing = all_rows is not None or prior_mean is not None
            tol = 0.0 if drops_nothing else self.tol
            options: Any = tol, spectrum, sample_weight, prior_mean
            if self.prior_scale == "evidence":
                self.prior_scale_ = most_evident_prior_scale(*data, *options)
            else:
                self.prior_scale_ = self._resolved_prior_scale(design, context.best_prior_scale)
            self.reduction_, posterior, mode = reduce(*data, self.prior_scale_, *options)
            whole = None  # too many weights are refused before anything is sampled
            if all_rows is not None:
                whole = AllRows(all_rows, posterior, self.reduction_.basis, self.fit_intercept)
            self.chains_, facts = self._sample(posterior, mode, context)
            if whole is not None:
                self.chains_, difference = whole.move(self.chains_, mode)
                facts |= {"coreset_rows": len(features), "coreset_difference": difference}
            self._keep_draws(generator)
        health = Health(
            type(self).__name__,
            self.n_draws,
            mode.numel(),
            self.prior_scale_,
            seconds=time.perf_counter() - started,
            **{name: getattr(self.reduction_, name) for name in _DROPPED},
            **facts,
        )
        self.health_ = self._probed(health, posterior.features)
        self.health_.warn_if_not_converged()
        return self

    def _keep_draws(self, generator: Generator) -> None:
        """Thin the chains to `n_draws` and add a draw of the prior for the remainder rho."""
        pooled = self.chains_.transpose(0, 1).flatten(0, 1)  # iteration by iteration
        rows = torch.linspace(0, len(pooled) - 1, self.n_draws).round().long()
        to_logits = against_last(self.n_classes_)
        weights = mix(to_logits, pooled[rows].permute(1, 2, 0))  # (K-1, r, S)
        eps = torch.randn(self.n_classes_ - 1, 1, self.n_draws, generator=generator)
        tail = self.prior_scale_ * mix(to_logits, eps.to(weights))
        stacked = torch.cat([weights, tail], dim=1)  # (K-1, r + 1, S)
        self.weights_ = stacked.permute(1, 0, 2).flatten(1).float().contiguous()
        self.joint_seed_ = draw_seed(generator)
        self.__dict__.pop("_predictives", None)

    def predict_proba_samples(self, features: Tensor, joint: bool = False) -> Tensor:
        """Class probabilities (S, N, K) of features (N, L) under each posterior draw.

        They are exact for each point on its own, and smooth from point to point. With `joint`, draw
        s is one linear classifier for all points: slower, for decisions about batches.
        """
        self._check_fitted()
        if joint:
            return softmax_against_last(self._joint_logits(features))
        return self._predictive(features.dtype).probabilities(features)

    def predict_moments(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean over draws of the class probabilities (N, K) and of their entropy (N,), in nats.

        Features (N, L) in float32 are several times faster than in float64, and accurate to 1e-4.
        """
        self._check_fitted()
        return self._predictive(features.dtype).moments(features)

    def _predictive(self, dtype: torch.dtype) -> Predictive:
        cached: dict[torch.dtype, Predictive] = self.__dict__.setdefault("_predictives", {})
        if dtype not in cached:
            basis, n_columns = self.reduction_.basis, self.n_classes_ - 1
            cached[dtype] = Predictive(basis, self.weights_, n_columns, self.fit_intercept, dtype)
        return cached[dtype]

    def _joint_logits(self, features: Tensor) -> Tensor:
        """Logits (N, K-1, S) against the last class, from whole weight vectors."""
        design = self._design(features)
        basis, n_columns = self.reduction_.basis.to(design), self.n_classes_ - 1
        q = design @ basis
        logits = (q @ self.weights_[:-1].to(q)).unflatten(1, (n_columns, self.n_draws))
        remainder = design - q @ basis.T
        generator = torch.Generator().manual_seed(self.joint_seed_)
        to_logits = self.prior_scale_ * against_last(self.n_classes_).to(design)
        for s in range(self.n_draws):  # one draw at a time: all of them would not fit in memory
            prior = torch.randn(n_columns, design.shape[1], generator=generator).to(design)
            logits[:, :, s] += remainder @ (to_logits @ prior).T
        return logits

    def diagnose(self, features: Tensor) -> Health:
        """Health, probed at the logits of up to 16 of the given features (N, L)."""
        self._check_chains()
        return self._probed(self.health_, self._design(features.double()) @ self.reduction_.basis)

    def _probed(self, health: Health, q: Tensor) -> Health:
        if self._draws_are_independent:
            return health
        return replace(health, **convergence(self.chains_, q, self.n_classes_))

    def to_arviz(self) -> Any:
        """The unthinned chains for ArviZ: `weights` of shape (chain, draw, contrast, direction)."""
        self._check_chains()
        try:
            import arviz
        except ImportError as error:
            raise ImportError("to_arviz needs ArviZ: pip install arviz.") from error
        groups: Any = {"posterior": {"weights": self.chains_.double().cpu().numpy()}}
        with warnings.catch_warnings():
            # More chains than draws is intended here, not a swapped axis.
            warnings.filterwarnings("ignore", message="More chains", category=UserWarning)
            if int(arviz.__version__.split(".")[0]) >= 1:
                return arviz.from_dict(groups)
            return arviz.from_dict(**groups)

    def _check_chains(self) -> None:
        self._check_fitted()
        if "chains_" not in vars(self):
            raise NotFittedError("the chains are not kept in files; fit again to look at them.")

    def _empty(self, name: str, state: Any) -> Any:
        self.__dict__.pop("_predictives", None)
        return Reduction if name == "reduction_" else super()._empty(name, state)
