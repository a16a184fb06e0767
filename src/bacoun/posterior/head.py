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
from bacoun.posterior.predictive import (
    Predictive,
    moments_of_product,
    softmax_against_last,
)
from bacoun.posterior.reduction import Reduction, Spectrum, reduce
from bacoun.posterior.split import (
    CUT,
    LARGEST,
    N_INNER,
    Conditional,
    condition,
    inner_noise,
    is_weak,
    n_entries,
    nested_moments,
)
from bacoun.randomness import as_generator, draw_seed, threads_for
from bacoun.training import OnEpoch

PriorScale = float | Literal["evidence"]

_PROBES = 16


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
    if prior_scale != "evidence" and not (
        isinstance(prior_scale, int | float) and 0 < prior_scale < math.inf
    ):
        raise ValueError(
            f"prior_scale must be a positive number or 'evidence'; got {prior_scale!r}. Try 1.0."
        )
    n_classes = int(labels.max()) + 1
    if n_classes < 2:
        raise ValueError("labels must hold at least 2 classes; got 1. There is nothing to decide.")
    return n_classes


class ReducedHead(BaseEstimator):
    """A posterior inferred where the data speaks, and left at its prior elsewhere.

    The predictive of a point with coordinates q and remainder rho is exact: the logits of draw s
    are `q . w_s + sigma * rho * eps_s`, with eps drawn once in `fit` and shared by all points.
    """

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
                else float(self.prior_scale)
            )
            self.reduction_, posterior, mode = reduce(
                design, labels, self.n_classes_, self.prior_scale_, self.tol, spectrum
            )
            self.chains_, facts = self._sample(posterior, mode, generator, on_epoch, checkpoint)
            draws = self._keep_draws(generator)
            self._keep_split(posterior, mode, draws, generator)
        facts |= {"seconds": time.perf_counter() - started}
        self.health_ = self._health(facts, posterior.features)
        self.health_.warn_if_unsettled()
        return self

    def _keep_draws(self, generator: Generator) -> Tensor:
        """Thin the chains to draws (S, K-1, r); put them where `predict_proba_samples` looks."""
        pooled = self.chains_.transpose(0, 1).flatten(0, 1)  # iteration by iteration
        rows = torch.linspace(0, len(pooled) - 1, self.n_draws).round().long()
        to_logits = against_last(self.n_classes_)
        draws = pooled[rows]
        weights = mix(to_logits, draws.permute(1, 2, 0))  # (K-1, r, S)
        eps = torch.randn(self.n_classes_ - 1, 1, self.n_draws, generator=generator)
        tail = self.prior_scale_ * mix(to_logits, eps.to(weights))
        stacked = torch.cat([weights, tail], dim=1)  # (K-1, r + 1, S)
        self.weights_ = stacked.permute(1, 0, 2).flatten(1).float().contiguous()
        self.joint_seed_ = draw_seed(generator)
        return draws

    def _keep_split(
        self,
        posterior: SoftmaxRegression,
        mode: Tensor,
        draws: Tensor,
        generator: Generator,
        cut: float = CUT,
    ) -> None:
        """Keep what `predict_split` needs, for directions weaker than `cut`; None if too large."""
        weak = is_weak(self.reduction_.eigenvalues, self.prior_scale_, cut)
        self.split_ = condition(posterior, mode, weak, draws, draw_seed(generator))

    def _logits(self, features: Tensor) -> Tensor:
        """Logits against the last class (N, K-1, S)."""
        flat = self._coordinates(features) @ self.weights_.to(features)
        return flat.unflatten(1, (self.n_classes_ - 1, self.n_draws))

    def _coordinates(self, features: Tensor) -> Tensor:
        """What the draws are multiplied with: q and rho side by side (N, r + 1)."""
        return self.reduction_.coordinates(features, bias=self.fit_intercept)

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
        return softmax_against_last(
            self._joint_logits(features) if joint else self._logits(features)
        )

    def predict_moments(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean over draws of the class probabilities (N, K) and of their entropy (N,), in nats."""
        self._check_fitted()
        weights = self.weights_.to(features)
        return moments_of_product(self._coordinates(features), weights, self.n_classes_ - 1)

    def predictive(self, *, unknown_scale: float | None = None) -> Predictive:
        """The predictive laid out for many points, in float32 where that is enough.

        Parameters
        ----------
        unknown_scale : float, optional
            Given as s, the head was fitted to features [x, 1, 0, 0] of shape (N, 2L + 2), and is to
            be asked about [(1-g) x, 1-g, s g x, s g]; the predictive then takes x (N, L), g (N,).
        """
        self._check_fitted()
        basis = self.reduction_.basis
        if unknown_scale is None:
            return Predictive(basis, self.weights_, self.n_classes_ - 1, self.fit_intercept)
        known = basis[: len(basis) // 2]
        return Predictive(known, self.weights_, self.n_classes_ - 1, True, unknown_scale)

    def predict_split(
        self, features: Tensor, n_inner: int = N_INNER
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Moments that split epistemic uncertainty into model and OOD; see `split.py`.

        Parameters
        ----------
        features : Tensor of shape (N, L)
        n_inner : int
            Inner draws M of the directions in which the prior outweighs the data, for each of the
            S posterior draws of the others. The cut between them is at equal weight.

        Returns
        -------
        Mean probabilities (N, K), mean over S of the entropy of the mean over M (N,), and mean
        entropy (N,), in nats
        """
        self._check_fitted()
        if self.split_ is None:
            weak = is_weak(self.reduction_.eigenvalues, self.prior_scale_)
            raise ValueError(
                f"split=True needs a head with at most {LARGEST} numbers between its weak and all "
                f"directions, kept by fit; this one has {n_entries(self.n_classes_, weak)} and "
                "kept none. Fit again with a larger tol, such as 1.0."
            )
        q, rho = self.reduction_.split(with_bias(features, self.fit_intercept))
        return nested_moments(
            self.split_.logits(q, self.weights_[:-1]),
            self.split_.spread(q, rho, self.prior_scale_),
            inner_noise(self.n_classes_ - 1, n_inner, self.n_draws, self.split_.seed),
        )

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
        q, _ = self.reduction_.split(with_bias(features.double(), self.fit_intercept))
        return self._health({}, q)

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
        rows = torch.linspace(0, len(q) - 1, min(_PROBES, len(q))).round().long()
        n_chains, n_iterations = self.chains_.shape[:2]
        facts = {
            "inference": type(self).__name__,
            "n_draws": self.n_draws,
            "prior_scale": self.prior_scale_,
            "dimensions": self.chains_[0, 0].numel(),
            "dropped_directions": self.reduction_.n_weak,
            "largest_dropped_information": self.reduction_.largest_information,
            "largest_dropped_shift": self.reduction_.largest_shift,
            **getattr(self, "facts_", {}),
            **facts,
        }
        self.facts_ = facts
        if not self._draws_are_independent:
            columns = contrasts(self.n_classes_).to(self.chains_)
            along = self.chains_ @ q[rows].to(self.chains_).T  # (C, T, K-1, P)
            logits = torch.einsum("ctjp,kj->ctkp", along, columns).flatten(2).cpu().numpy()
            facts |= chain_statistics(logits.astype(np.float64))
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
            "eigenvalues": self.reduction_.eigenvalues,
            "weights": self.weights_,
            "joint_seed": self.joint_seed_,
            "split": None if self.split_ is None else self.split_.get_state(),
            "health": vars(self.health_),
        }

    def set_state(self, state: dict[str, Any]) -> Self:
        """Undo `get_state`."""
        self.n_classes_ = state["n_classes"]
        self.prior_scale_ = state["prior_scale"]
        self.health_ = Health(**state["health"])
        self.reduction_ = Reduction(
            state["basis"],
            state["eigenvalues"],
            self.health_.dropped_directions,
            self.health_.largest_dropped_information,
            self.health_.largest_dropped_shift,
        )
        self.weights_ = state["weights"]
        self.joint_seed_ = state["joint_seed"]
        self.split_ = None if state["split"] is None else Conditional(**state["split"])
        return self


@lru_cache(maxsize=32)
def _independent_rhat(n_chains: int, n_iterations: int, n_quantities: int) -> float:
    """The worst R-hat that independent draws of this shape show."""
    shape = n_chains, n_iterations, n_quantities
    return chain_statistics(np.random.default_rng(0).standard_normal(shape))["rhat"]
