"""Laplace approximation: a Gaussian at the mode, with the curvature there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from bacoun.posterior.last_layer import ReducedLayer
from bacoun.posterior.logistic import SoftmaxRegression
from bacoun.posterior.whitening import whiten
from bacoun.protocols import FitContext


@dataclass(kw_only=True, repr=False, eq=False)
class Laplace(ReducedLayer):
    """Gaussian approximation of the posterior: fast, but inaccurate if the posterior is skewed.

    Settings that are not listed are those of `ReducedLayer`.

    Parameters
    ----------
    full : bool, optional
        One covariance for all contrasts (True) or one for each (False). None: full up to 10,000
        dimensions.
    """

    full: bool | None = None

    _draws_are_independent = True

    def _sample(
        self, posterior: SoftmaxRegression, mode: Tensor, generator: Generator, context: FitContext
    ) -> tuple[Tensor, dict[str, Any]]:
        whitening = whiten(posterior, mode[:, :, None], full=self.full)
        x = torch.randn(mode.numel(), self.n_draws, generator=generator, dtype=torch.float64)
        return whitening.to_weights(x.to(mode.device)).permute(2, 0, 1)[None], {}
