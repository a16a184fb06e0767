"""Empirical Bayes: the prior standard deviation that maximizes the Laplace evidence."""

from __future__ import annotations

import math

from scipy import optimize
from torch import Tensor

from bacoun.posterior.logistic import SoftmaxRegression
from bacoun.posterior.reduction import Spectrum, reduce
from bacoun.posterior.whitening import whiten

_MIN_SCALE, _MAX_SCALE = 0.01, 100.0


def log_evidence(posterior: SoftmaxRegression, mode: Tensor) -> float:
    """Laplace approximation of log p(labels | features, prior_scale), in nats.

    Directions that keep their prior contribute nothing.
    """
    at_mode = float(posterior.log_density(mode[:, :, None]))
    log_prior_scale = mode.numel() * math.log(posterior.prior_scale)
    return at_mode - log_prior_scale + whiten(posterior, mode[:, :, None]).log_det


def best_prior_scale(
    features: Tensor,
    labels: Tensor,
    n_classes: int,
    tol: float,
    spectrum: Spectrum,
    sample_weight: Tensor | None = None,
) -> float:
    """The prior standard deviation from 0.01 to 100 with the largest evidence, to about 5 %."""

    def loss(log_scale: float) -> float:
        scale = math.exp(log_scale)
        _, posterior, mode = reduce(
            features, labels, n_classes, scale, tol, spectrum, sample_weight
        )
        return -log_evidence(posterior, mode)

    bounds = math.log(_MIN_SCALE), math.log(_MAX_SCALE)
    found = optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.05})
    return math.exp(found.x)
