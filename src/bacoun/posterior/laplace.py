"""Laplace: a Gaussian at the mode, with the curvature there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from bacoun.checkpoint import Checkpoint
from bacoun.posterior.head import PriorScale, ReducedHead
from bacoun.posterior.logistic import SoftmaxRegression
from bacoun.posterior.whitening import whiten
from bacoun.training import OnEpoch


class Laplace(ReducedHead):
    """Gaussian approximation of the posterior: quick, and off where the posterior is skewed.

    Parameters
    ----------
    prior_scale, n_draws, tol, fit_intercept
        As in `HMC`.
    full : bool, optional
        One covariance for all contrasts together (True) or one for each (False); None decides by
        size.
    """

    def __init__(
        self,
        *,
        prior_scale: PriorScale = "auto",
        n_draws: int = 500,
        tol: float = 0.01,
        fit_intercept: bool = True,
        full: bool | None = None,
    ) -> None:
        self.prior_scale = prior_scale
        self.n_draws = n_draws
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.full = full

    _draws_are_independent = True

    def _sample(
        self,
        posterior: SoftmaxRegression,
        mode: Tensor,
        generator: Generator,
        on_epoch: OnEpoch | None,
        checkpoint: Checkpoint | None,
    ) -> tuple[Tensor, dict[str, Any]]:
        whitening = whiten(posterior, mode[:, :, None], full=self.full)
        x = torch.randn(mode.numel(), self.n_draws, generator=generator, dtype=torch.float64)
        return whitening.to_weights(x.to(mode.device)).permute(2, 0, 1)[None], {}
