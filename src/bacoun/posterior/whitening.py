"""The mode of the posterior, and whitened coordinates in which it is close to N(0, I)."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import optimize
from torch import Tensor

from bacoun.posterior.logistic import SoftmaxRegression

_MAX_NEWTON = 1_000_000_000  # multiply-adds of a Hessian and its factor
_MAX_NEWTON_STEPS = 50
_TOLERANCE = 1e-8  # of the log density, in nats
_SMALLEST_STEP = 1e-3
# Up to so many dimensions, one factor for all contrasts, which knows how they are correlated. Its
# products cost more than those of the likelihood if there are more dimensions than rows.
_MOST_FULL, _FULL_ANYWAY = 10_000, 1000


def find_mode(
    posterior: SoftmaxRegression,
    eigenvalues: Tensor,
    *,
    start: Tensor | None = None,
    tolerance: float = _TOLERANCE,
) -> Tensor:
    """Mode (K-1, r) of the posterior, by Newton's method, or L-BFGS where a Hessian is expensive.

    The eigenvalues (r,) are those of the features' Gram matrix, which is diagonal. Its log density
    is right to about `tolerance`, in nats.
    """
    n_columns, r = posterior.shape
    if start is None:
        start = torch.zeros(n_columns, r, dtype=torch.float64, device=eigenvalues.device)
        start = start if posterior.prior_mean is None else start + posterior.prior_mean
    dimension = n_columns * r
    is_cheap = (len(posterior.features) + dimension / 3) * dimension**2 <= _MAX_NEWTON
    mode = newton(posterior, start, tolerance) if is_cheap else None
    return _lbfgs(posterior, eigenvalues, start, tolerance) if mode is None else mode


def newton(posterior: Any, start: Tensor, tolerance: float = _TOLERANCE) -> Tensor | None:
    """Mode (K-1, r) by damped Newton steps, at most 50; None if they do not converge.

    The posterior is a `SoftmaxRegression`, or has its `value_and_gradient` and `hessian`.
    """
    weights = start[:, :, None]
    value, gradient = posterior.value_and_gradient(weights)
    for _ in range(_MAX_NEWTON_STEPS):
        flat = gradient.double().reshape(-1, 1)
        factor = torch.linalg.cholesky(posterior.hessian(weights))
        step = torch.cholesky_solve(flat, factor)
        gain = float(flat.T @ step)  # twice the expected increase of the log density
        if gain < tolerance:
            return weights[:, :, 0]
        size = 1.0
        while True:
            proposal = weights + size * step.reshape(weights.shape)
            new_value, new_gradient = posterior.value_and_gradient(proposal)
            if bool(new_value >= value + 0.1 * size * gain):
                break
            size /= 2
            if size < _SMALLEST_STEP:  # rounding errors of a large sum
                return weights[:, :, 0] if gain < 1e-4 else None
        weights, value, gradient = proposal, new_value, new_gradient
    return None


def _lbfgs(
    posterior: SoftmaxRegression, eigenvalues: Tensor, start: Tensor, tolerance: float = _TOLERANCE
) -> Tensor:
    """L-BFGS in scaled coordinates.

    In the eigenbasis of the features, the diagonal matrix `eigenvalues / 2 + 1 / sigma^2` bounds
    the Hessian from above; about half of it is used as preconditioner.
    """
    scale = (eigenvalues.double() / 4 + 1 / posterior.prior_scale**2).rsqrt()

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        scaled = torch.from_numpy(flat).to(scale.device).reshape(posterior.shape)
        weights = (scaled * scale)[:, :, None].to(posterior.features)
        value, gradient = posterior.value_and_gradient(weights)
        return -float(value), -(gradient[:, :, 0].double() * scale).flatten().cpu().numpy()

    # Scaled coordinates have a posterior standard deviation of about 1 or more. Each is this far
    # from the mode, and what is left to gain is half the sum of their squares.
    largest_gradient = math.sqrt(tolerance)
    result = optimize.minimize(
        objective,
        (start / scale).flatten().cpu().numpy(),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": 2000,
            "maxfun": 4000,
            "gtol": largest_gradient,
            "ftol": 1e-5 * tolerance,
            "maxcor": 20,
        },
    )
    return torch.from_numpy(result.x).to(scale.device).reshape(posterior.shape) * scale


@dataclass(frozen=True)
class Whitening:
    """The affine map from whitened coordinates x to contrasts w = center + A x.

    A, the inverse of the Hessian's transposed Cholesky factor, is upper triangular.
    """

    center: Tensor  # (K-1, r)
    factor: Tensor  # (1, d, d), one A for all contrasts, or (K-1, r, r), one for each
    log_det: float  # log |det A|

    def to(self, dtype: torch.dtype) -> "Whitening":
        """The same map in another precision."""
        return Whitening(self.center.to(dtype), self.factor.to(dtype), self.log_det)

    def to_weights(self, x: Tensor) -> Tensor:
        """Contrasts (K-1, r, B) from whitened coordinates (d, B)."""
        offset = (self.factor @ x.reshape(len(self.factor), -1, x.shape[1])).flatten(0, 1)
        return self.center[:, :, None] + offset.reshape(*self.center.shape, x.shape[1])

    def from_weights(self, weights: Tensor) -> Tensor:
        """Whitened coordinates (d, B) of contrasts (K-1, r, B)."""
        offset = (weights - self.center[:, :, None]).reshape(len(self.factor), -1, weights.shape[2])
        return torch.linalg.solve_triangular(self.factor, offset, upper=True).flatten(0, 1)

    def pull_back(self, gradient: Tensor) -> Tensor:
        """Gradient (d, B) in whitened coordinates from one in contrasts (K-1, r, B)."""
        n_chains = gradient.shape[2]
        blocks = gradient.reshape(len(self.factor), -1, n_chains)
        return (self.factor.mT @ blocks).reshape(-1, n_chains)


def is_full(posterior: SoftmaxRegression) -> bool:
    """Whether one factor for all contrasts is worth its cost."""
    return math.prod(posterior.shape) <= max(_FULL_ANYWAY, min(len(posterior.features), _MOST_FULL))


def whiten(posterior: SoftmaxRegression, draws: Tensor, *, full: bool | None = None) -> Whitening:
    """Whiten by the mean Hessian over draws (K-1, r, B), around their mean.

    The draws may be the mode alone. `full`: one factor for all contrasts (True) or one for each
    (False); None: full up to 1000 dimensions or as many as rows, but at most 10,000.
    """
    full = is_full(posterior) if full is None else full
    hessians = posterior.hessian(draws)[None] if full else posterior.hessian_blocks(draws)
    lower = torch.linalg.cholesky(hessians)
    del hessians  # several hundred MB at 10,000 dimensions
    log_det = -float(lower.diagonal(dim1=1, dim2=2).log().sum())
    eye = torch.eye(lower.shape[1], dtype=lower.dtype, device=lower.device).expand_as(lower)
    factor = torch.linalg.solve_triangular(lower.mT, eye, upper=True)
    return Whitening(draws.double().mean(dim=2), factor, log_det)
