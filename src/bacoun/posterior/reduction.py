"""Dimension reduction: which directions of weight space to infer, and which keep their prior.

The likelihood depends on the weights W only through Phi W. With right singular vectors V of Phi and
W = V w + V_perp v, the posterior factorizes: w is inferred, v keeps its prior N(0, sigma^2 I). In
the null space of Phi this is exact. Weak directions are dropped too, if the data narrows none of
them by more than `tol` and moves their joint mean by less than `MAX_SHIFT`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bacoun.posterior.logistic import SoftmaxRegression, contrasts
from bacoun.posterior.whitening import find_mode

_MAX_FLOAT64 = 20_000_000  # numbers; larger problems are kept in float32
_ROUNDING = 1e-9  # of a mean
MAX_SHIFT = 0.1  # of the joint mean of the dropped directions, in prior standard deviations


class Spectrum:
    """Singular values of Phi (N, L), in descending order, and directions, without the null space.

    Computed in float64 and not from Phi' Phi, so that a feature whose offset is a million times its
    standard deviation is not mistaken for a constant.

    `eigenvalues` (m,) are the squared singular values, `directions` (L, m) orthonormal columns of
    weight space, and `condition` is the largest over the smallest singular value. What the prior
    mean (K-1, L) has in the null space comes last, with eigenvalues of 0: it is not lost.
    """

    def __init__(self, features: Tensor, prior_mean: Tensor | None = None) -> None:
        self._features = features
        wide = features.double()
        if len(wide) > wide.shape[1]:
            wide = torch.linalg.qr(wide, mode="r").R  # the same right singular vectors
        _, values, rows = torch.linalg.svd(wide, full_matrices=False)
        rounding = torch.finfo(torch.float64).eps * max(features.shape) * values[0]
        rank = max(1, int((values > rounding).sum()))
        self.eigenvalues = values[:rank].square()
        self.directions = rows[:rank].T.contiguous()
        self.condition = float(values[0] / values[rank - 1].clamp(min=1e-300))
        if prior_mean is not None:
            rest = prior_mean - prior_mean @ self.directions @ self.directions.T
            _, values, rows = torch.linalg.svd(rest, full_matrices=False)
            unseen = rows[values > _ROUNDING * float(prior_mean.norm())]
            self.directions = torch.cat([self.directions, unseen.T], dim=1)
            self.eigenvalues = torch.cat([self.eigenvalues, values.new_zeros(len(unseen))])

    def project(self, residuals: Tensor) -> Tensor:
        """Phi' times residuals (N, J), along each direction: shape (m, J)."""
        return self.directions.T @ (self._features.T @ residuals.to(self._features)).double()


@dataclass(frozen=True)
class Reduction:
    """The directions to infer, and the error made by dropping the others."""

    basis: Tensor  # (L, r), orthonormal columns V
    dropped_directions: int = 0  # outside the null space, which keep their prior
    # The largest bound, over those, on (precision gained from the data) / (prior precision).
    largest_dropped_information: float = 0.0
    dropped_shift: float = 0.0  # of their joint mean, first order, in prior standard deviations
    condition: float | None = None  # condition number of the features


def reduce(
    features: Tensor,
    labels: Tensor,
    n_classes: int,
    prior_scale: float,
    tol: float,
    spectrum: Spectrum | None = None,
    sample_weight: Tensor | None = None,
    prior_mean: Tensor | None = None,
) -> tuple[Reduction, SoftmaxRegression, Tensor]:
    """The directions to infer, the density on features (N, r) in them, and its mode (K-1, r).

    A direction is weak if eigenvalue * prior_scale^2 / 2 < `tol`; 0 drops only the null space. The
    `spectrum` is that of the features times the roots of their weights.
    """
    spectrum = spectrum or Spectrum(weighted(features, sample_weight), prior_mean)
    eigenvalues = spectrum.eigenvalues
    information = eigenvalues * prior_scale**2 / 2  # softmax weights are at most 1/2 for any K
    strong = information >= tol
    strong[0] = True  # at least one direction, even if all features are 0
    mode = None
    while True:
        basis = spectrum.directions[:, strong]
        is_small = len(features) * basis.shape[1] <= _MAX_FLOAT64
        precision = torch.float64 if is_small else torch.float32
        coordinates = features.to(precision) @ basis.to(precision)
        weight = None if sample_weight is None else sample_weight.to(precision)
        mean = None if prior_mean is None else prior_mean @ basis
        posterior = SoftmaxRegression(coordinates, labels, n_classes, prior_scale, weight, mean)
        mode = find_mode(posterior, eigenvalues[strong], start=mode)
        shift = torch.zeros_like(eigenvalues)
        if not bool(strong.all()):
            gradient = spectrum.project(_residuals(posterior, mode)).norm(dim=1)
            shift = (prior_scale * gradient).masked_fill(strong, 0)
        restored = _largest_beyond(shift, MAX_SHIFT)
        if not bool(restored.any()):
            reduction = Reduction(
                basis,
                dropped_directions=int((~strong).sum()),
                largest_dropped_information=float(information.masked_fill(strong, 0).max()),
                dropped_shift=float(shift.norm()),
                condition=spectrum.condition,
            )
            return reduction, posterior, mode
        start = mode.new_zeros(len(mode), len(strong))
        start[:, strong] = mode
        strong = strong | restored
        mode = start[:, strong]


def weighted(rows: Tensor, sample_weight: Tensor | None) -> Tensor:
    """Rows (N, J) times the roots of their weights (N,)."""
    return rows if sample_weight is None else rows * sample_weight.to(rows)[:, None].sqrt()


def _largest_beyond(shift: Tensor, limit: float) -> Tensor:
    """Mask (m,) of the fewest, largest shifts (m,) without which the norm is within the limit."""
    ascending, order = shift.sort()
    beyond = ascending.square().cumsum(dim=0) > limit**2
    return torch.zeros_like(beyond).scatter(0, order, beyond)


def _residuals(posterior: SoftmaxRegression, mode: Tensor) -> Tensor:
    """Labels minus probabilities at the mode, in contrasts and weighted: shape (N, K-1)."""
    one_hot = torch.nn.functional.one_hot(posterior.labels, posterior.n_classes)
    residual = weighted(one_hot - posterior.probabilities(mode), posterior.sample_weight)
    return residual @ contrasts(posterior.n_classes).to(residual)
