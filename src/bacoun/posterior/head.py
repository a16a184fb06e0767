"""What every exact or Laplace head shares: the bias, the reduction, and the predictive."""

from __future__ import annotations

import math
import time
import warnings
from abc import abstractmethod
from functools import lru_cache
from typing import Any, Literal, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from torch import Generator, Tensor

from bacoun.checkpoint import Checkpoint
from bacoun.posterior.diagnostics import Health, chain_statistics
from bacoun.posterior.evidence import best_prior_scale
from bacoun.posterior.logistic import SoftmaxRegression, against_last, contrasts, mix
from bacoun.posterior.predictive import Predictive, softmax_against_last
from bacoun.posterior.reduction import Reduction, Spectrum, reduce
from bacoun.randomness import as_generator, draw_seed, threads_for
from bacoun.training import OnEpoch

PriorScale = float | Literal["auto", "evidence"]

_PROBES = 16
_USUAL_SCALE = 0.3  # of a weight, for features that a network has learned
_SMALLEST_LOGIT = (
    3.0  # prior standard deviation that a logit must be allowed, whatever the features
)


def with_bias(features: Tensor, fit_intercept: bool) -> Tensor:
    """Features (N, L) with a column of ones behind them, if there is to be an intercept."""
    if not fit_intercept:
        return features
    return torch.cat([features, torch.ones_like(features[:, :1])], dim=1)


def check_training_set(features: Tensor, labels: Tensor, prior_scale: PriorScale) -> int:
    """Refuse what no head can be fitted to; return the number of classes K."""
    if features.ndim != 2 or len(features) != len(labels):
        raise ValueError(
            f"features must be (N, L) and labels (N,); got {tuple(features.shape)} and "
            f"{tuple(labels.shape)}."
        )
    if not bool(features.isfinite().all()):
        raise ValueError("features must be finite; got NaN or infinity. Check the feature map.")
    if prior_scale not in ("auto", "evidence") and not (
        isinstance(prior_scale, int | float) and 0 < prior_scale < math.inf
    ):
        raise ValueError(
            "prior_scale must be a positive number, 'auto' or 'evidence'; got "
            f"{prior_scale!r}. Try 0.3."
        )
    n_classes = int(labels.max()) + 1
    if n_classes < 2:
        raise ValueError("labels must hold at least 2 classes; got 1. There is nothing to decide.")
    return n_classes


def resolved_prior_scale(prior_scale: float | str, design: Tensor) -> float:
    """A number as it is; for "auto" the one that suits features (N, L)."""
    if prior_scale != "auto":
        return float(prior_scale)
    size = float(design.double().square().sum(dim=1).mean().sqrt())
    return max(_USUAL_SCALE, _SMALLEST_LOGIT / max(size, 1e-6))


class ReducedHead(BaseEstimator):
    """A posterior inferred where the data speaks, and left at its prior elsewhere."""

    prior_scale: PriorScale
    n_draws: int
    tol: float
    fit_intercept: bool

    @abstractmethod
    def _sample(
        self,
        posterior: SoftmaxRegression,
        mode: Tensor,
        generator: Generator,
        on_epoch: OnEpoch | None,
        checkpoint: Checkpoint | None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Chains of contrasts (C, T, K-1, r) and fields for `Health`."""

    def fit(
        self,
        features: Tensor,
        labels: Tensor,
        *,
        generator: Generator | None = None,
        on_epoch: OnEpoch | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Self:
        """Infer the posterior from features (N, L) and labels (N,) in 0..K-1."""
        started = time.perf_counter()
        generator = as_generator(generator)
        self.n_classes_ = check_training_set(features, labels, self.prior_scale)
        design = with_bias(features, self.fit_intercept)
        with threads_for(design.numel() * design.shape[1]):
            spectrum = Spectrum(design)
            self.prior_scale_ = (
                best_prior_scale(design, labels, self.n_classes_, self.tol, spectrum)
                if self.prior_scale == "evidence"
                else resolved_prior_scale(self.prior_scale, design)
            )
            self.reduction_, posterior, mode = reduce(
                design, labels, self.n_classes_, self.prior_scale_, self.tol, spectrum
            )
            self.chains_, facts = self._sample(posterior, mode, generator, on_epoch, checkpoint)
            self._keep_draws(generator)
        facts |= {"seconds": time.perf_counter() - started}
        self.health_ = self._health(facts, posterior.features)
        self.health_.warn_if_unsettled()
        return self

    def _keep_draws(self, generator: Generator) -> None:
        """Thin the chains to `n_draws`; put them where the predictive looks."""
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

        Parameters
        ----------
        joint : bool
            False: each point's predictive is exact, and smooth from point to point. True: whole
            weight draws, so that one draw is one classifier; dearer, for decision boundaries of
            single draws and for decisions about batches.
        """
        self._check_fitted()
        if joint:
            return softmax_against_last(self._joint_logits(features))
        return self._predictive(features.dtype).probabilities(features)

    def predict_moments(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean over draws of the class probabilities (N, K) and of their entropy (N,), in nats.

        In float64 exact to the last digit; features (N, L) in float32 are answered to about 1e-4,
        several times faster.
        """
        self._check_fitted()
        return self._predictive(features.dtype).moments(features)

    def _predictive(self, dtype: torch.dtype) -> Predictive:
        made: dict[torch.dtype, Predictive] = self.__dict__.setdefault("_predictives", {})
        if dtype not in made:
            basis, n_columns = self.reduction_.basis, self.n_classes_ - 1
            made[dtype] = Predictive(basis, self.weights_, n_columns, self.fit_intercept, dtype)
        return made[dtype]

    def _joint_logits(self, features: Tensor) -> Tensor:
        features = with_bias(features, self.fit_intercept)
        basis = self.reduction_.basis.to(features)
        q = features @ basis
        n_columns = self.n_classes_ - 1
        logits = (q @ self.weights_[:-1].to(q)).unflatten(1, (n_columns, self.n_draws))
        rest = features - q @ basis.T
        generator = torch.Generator().manual_seed(self.joint_seed_)
        to_logits = self.prior_scale_ * against_last(self.n_classes_).to(features)
        for s in range(self.n_draws):  # one draw at a time: all of them would not fit in memory
            prior = torch.randn(n_columns, features.shape[1], generator=generator).to(features)
            logits[:, :, s] += rest @ (to_logits @ prior).T
        return logits

    def diagnose(self, features: Tensor) -> Health:
        """Health at the logits of the given features (N, L); keep N in the tens."""
        self._check_chains()
        design = with_bias(features.double(), self.fit_intercept)
        return self._health({}, design @ self.reduction_.basis)

    def to_arviz(self) -> Any:
        """The unthinned chains for ArviZ: `weights` of shape (chain, draw, contrast, direction)."""
        self._check_chains()
        try:
            import arviz
        except ImportError as error:
            raise ImportError("to_arviz needs ArviZ: pip install arviz.") from error
        groups: Any = {"posterior": {"weights": self.chains_.double().cpu().numpy()}}
        with warnings.catch_warnings():
            # More chains than draws is what lock-step chains look like, not a swapped axis.
            warnings.filterwarnings("ignore", message="More chains", category=UserWarning)
            if int(arviz.__version__.split(".")[0]) >= 1:
                return arviz.from_dict(groups)
            return arviz.from_dict(**groups)

    def _check_chains(self) -> None:
        self._check_fitted()
        if not hasattr(self, "chains_"):
            raise NotFittedError("the chains are not kept in files; fit again to look at them.")

    def _health(self, facts: dict[str, Any], q: Tensor) -> Health:
        """Health at up to 16 evenly spaced rows of coordinates q (N, r)."""
        n_chains, n_iterations = self.chains_.shape[:2]
        facts = {
            "inference": type(self).__name__,
            "n_draws": self.n_draws,
            "prior_scale": self.prior_scale_,
            "dimensions": self.chains_[0, 0].numel(),
            "dropped_directions": self.reduction_.n_weak,
            "largest_dropped_information": self.reduction_.largest_information,
            "dropped_shift": self.reduction_.shift,
            "condition": self.reduction_.condition,
            **getattr(self, "facts_", {}),
            **facts,
        }
        self.facts_ = facts
        if not self._draws_are_independent:
            logits = probed_logits(self.chains_, q, self.n_classes_)
            facts |= chain_statistics(logits)
            facts |= {
                "n_chains": n_chains,
                "n_iterations": n_iterations,
                "n_quantities": logits.shape[2],
                "rhat_iid": _independent_rhat(n_chains, n_iterations, logits.shape[2]),
            }
        return Health(**facts)

    _draws_are_independent = False

    def _check_fitted(self) -> None:
        if not hasattr(self, "weights_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first.")

    def get_state(self) -> dict[str, Any]:
        """Tensors and plain values from which `set_state` rebuilds the fitted head."""
        return {
            "n_classes": self.n_classes_,
            "prior_scale": self.prior_scale_,
            "basis": self.reduction_.basis,
            "weights": self.weights_,
            "joint_seed": self.joint_seed_,
            # Of a few draws R-hat is NaN, which JSON does not have.
            "health": {k: None if v != v else v for k, v in vars(self.health_).items()},
        }

    def set_state(self, state: dict[str, Any]) -> Self:
        """Undo `get_state`."""
        self.n_classes_ = state["n_classes"]
        self.prior_scale_ = state["prior_scale"]
        self.health_ = Health(**state["health"])
        self.reduction_ = Reduction(
            state["basis"],
            self.health_.dropped_directions,
            self.health_.largest_dropped_information,
            self.health_.dropped_shift,
        )
        self.weights_ = state["weights"]
        self.joint_seed_ = state["joint_seed"]
        self.__dict__.pop("_predictives", None)
        return self


def probed_logits(chains: Tensor, q: Tensor, n_classes: int) -> np.ndarray:
    """Centred logits (C, T, M) of chains (C, T, K-1, r) at up to 16 spaced rows of q (N, r)."""
    rows = torch.linspace(0, len(q) - 1, min(_PROBES, len(q))).round().long()
    along = chains @ q[rows].to(chains).T  # (C, T, K-1, P)
    logits = torch.einsum("ctjp,kj->ctkp", along, contrasts(n_classes).to(chains)).flatten(2)
    return logits.cpu().numpy().astype(np.float64)


@lru_cache(maxsize=32)
def _independent_rhat(n_chains: int, n_iterations: int, n_quantities: int) -> float:
    """The worst R-hat that independent draws of this shape show."""
    shape = n_chains, n_iterations, n_quantities
    return chain_statistics(np.random.default_rng(0).standard_normal(shape))["rhat"]
