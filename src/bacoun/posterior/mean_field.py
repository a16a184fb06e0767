"""Mean-field Gaussian variational inference, the paper's fallback for images (its "BBVI")."""

from __future__ import annotations

import time
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from torch import Generator, Tensor, nn

from bacoun.posterior.diagnostics import Health
from bacoun.posterior.head import (
    PriorScale,
    check_training_set,
    resolved_prior_scale,
    with_bias,
)
from bacoun.randomness import as_generator, draw_seed, threads_for
from bacoun.training import OnEpoch, train


class MeanField(BaseEstimator):
    """An independent Gaussian for every weight, fitted by the reparameterised evidence bound.

    Parameters
    ----------
    prior_scale, n_draws, fit_intercept
        As in `HMC`.
    n_iterations, batch_size, learning_rate
        Steps of Adam, rows in each, and their length; the paper's values are the defaults.
    """

    def __init__(
        self,
        *,
        prior_scale: PriorScale = "auto",
        n_draws: int = 500,
        n_iterations: int = 30_000,
        batch_size: int = 256,
        learning_rate: float = 1e-2,
        fit_intercept: bool = True,
    ) -> None:
        self.prior_scale = prior_scale
        self.n_draws = n_draws
        self.n_iterations = n_iterations
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.fit_intercept = fit_intercept

    def fit(
        self,
        features: Tensor,
        labels: Tensor,
        *,
        generator: Generator | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> Self:
        """Fit to features (N, L) and labels (N,) in 0..K-1; the bound's trace is `elbo_`."""
        started = time.perf_counter()
        generator = as_generator(generator)
        n_classes = check_training_set(features, labels, self.prior_scale)
        if self.prior_scale == "evidence":
            raise ValueError(
                "prior_scale must be a number for MeanField; got 'evidence'. Fit Laplace with "
                "prior_scale='evidence' first and take its prior_scale_."
            )
        design = with_bias(features.float(), self.fit_intercept)
        prior_scale = resolved_prior_scale(self.prior_scale, design)
        n_points = len(design)
        weights = _GaussianWeights(design.shape[1], n_classes).to(design.device)

        def negative_bound(batch: Tensor, targets: Tensor) -> Tensor:
            # Noise on the logits instead of the weights: same law, less variance, less work.
            mean, scale = weights(batch)
            logits = mean + scale * torch.randn_like(mean)
            misfit = nn.functional.cross_entropy(logits, targets)
            return misfit + weights.divergence(prior_scale) / n_points

        batches = -(-n_points // self.batch_size)
        with threads_for(2 * self.batch_size * design.shape[1] * n_classes):
            history = train(
                weights,
                negative_bound,
                [design, labels],
                epochs=-(-self.n_iterations // batches),
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                generator=generator,
                on_epoch=on_epoch,
            )
        self.elbo_ = [-n_points * loss for loss in history.train]
        self.mean_ = weights.mean.detach()
        self.scale_ = weights.log_scale.detach().exp()
        self.eps_ = torch.randn(self.n_draws, 1, n_classes, generator=generator).to(design.device)
        self.joint_seed_ = draw_seed(generator)
        seconds = time.perf_counter() - started
        self.health_ = Health(
            "MeanField", self.n_draws, self.mean_.numel(), prior_scale, seconds=seconds
        )
        return self

    def predict_proba_samples(self, features: Tensor, joint: bool = False) -> Tensor:
        """Class probabilities (S, N, K) of features (N, L); `joint` as in `HMC`."""
        if not hasattr(self, "mean_"):
            raise NotFittedError("this MeanField is not fitted yet; call fit first.")
        design = with_bias(features, self.fit_intercept)
        mean, scale = self.mean_.to(design), self.scale_.to(design)
        if not joint:
            spread = (design.square() @ scale.square()).sqrt()
            return (design @ mean + spread * self.eps_.to(design)).softmax(dim=2)
        generator = torch.Generator().manual_seed(self.joint_seed_)
        shape = (self.n_draws, *mean.shape)
        draws = mean + scale * torch.randn(shape, generator=generator).to(design)
        return (design @ draws).softmax(dim=2)

    def diagnose(self, features: Tensor) -> Health:
        """The draws are independent, so features (N, L) have nothing to add to `health_`."""
        return self.health_

    def get_state(self) -> dict[str, Any]:
        """Tensors and plain values from which `set_state` rebuilds the fitted head."""
        return {
            "mean": self.mean_,
            "scale": self.scale_,
            "eps": self.eps_,
            "joint_seed": self.joint_seed_,
            "elbo": self.elbo_,
            "health": vars(self.health_),
        }

    def set_state(self, state: dict[str, Any]) -> Self:
        """Undo `get_state`."""
        self.mean_, self.scale_, self.eps_ = state["mean"], state["scale"], state["eps"]
        self.joint_seed_, self.elbo_ = state["joint_seed"], state["elbo"]
        self.health_ = Health(**state["health"])
        return self


class _GaussianWeights(nn.Module):
    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(n_features, n_classes))
        self.log_scale = nn.Parameter(torch.full((n_features, n_classes), -3.0))

    def forward(self, design: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (N, K) of the logits."""
        variance = design.square() @ (2 * self.log_scale).exp()
        return design @ self.mean, (variance + 1e-12).sqrt()

    def divergence(self, prior_scale: float) -> Tensor:
        """Kullback-Leibler divergence from the prior, in nats."""
        second_moment = (2 * self.log_scale).exp() + self.mean.square()
        log_ratio = self.log_scale - torch.tensor(prior_scale).log()
        return (second_moment / prior_scale**2 - 1).sum() / 2 - log_ratio.sum()
