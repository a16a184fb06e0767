"""Which directions of weight space the data sees, and which keep their prior.

The likelihood sees the weights W only through Phi W. With right singular vectors V of Phi,
W = V w + V_perp v, the posterior factorises: w is inferred, v keeps its prior N(0, sigma^2 I).
In the null space of Phi this is exact. Weak directions may join v as well, if the data narrows the
prior of none, and moves the mean of all of them together, by no more than a stated amount.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bacoun.posterior.logistic import SoftmaxRegression, contrasts
from bacoun.posterior.whitening import find_mode

_SMALL = 20_000_000  # numbers; larger heads are kept in float32
LARGEST_SHIFT = 0.1
"""Directions keep their prior only if their joint mean moves by less than this many prior sd."""


class Spectrum:
    """Singular values of Phi (N, L), largest first and the null space left out, and directions.

    Worked out in float64 and without squaring the matrix, so that a feature whose offset is a
    million times its spread is not taken for a constant.

    Attributes
    ----------
    eigenvalues : Tensor of shape (m,)
        Of Phi' Phi: squared singular values.
    directions : Tensor of shape (L, m)
        Orthonormal columns of weight space.
    condition : float
        Largest over smallest singular value.
    """

    def __init__(self, features: Tensor) -> None:
        self._features = features
        wide = features.double()
        if len(wide) > wide.shape[1]:
            wide = torch.linalg.qr(wide, mode="r").R  # the same right singular vectors
        _, values, rows = torch.linalg.svd(wide, full_matrices=False)
        rounding = torch.finfo(torch.float64).eps * max(features.shape) * values[0]
        n_seen = max(1, int((values > rounding).sum()))
        self.eigenvalues = values[:n_seen].square()
        self.directions = rows[:n_seen].T.contiguous()
        self.condition = float(values[0] / values[n_seen - 1].clamp(min=1e-300))

    def pull(self, residuals: Tensor) -> Tensor:
        """Phi' times residuals (N, J), along each direction: shape (m, J)."""
        return self.directions.T @ (self._features.T @ residuals.to(self._features)).double()


@dataclass(frozen=True)
class Reduction:
    """Leading directions, and what was given up for the rest.

    Attributes
    ----------
    basis : Tensor of shape (L, r)
        Orthonormal columns V.
    n_weak : int
        Directions outside the null space that keep their prior.
    largest_information : float
        Over those, the largest bound on (precision gained from the data) / (prior precision).
    shift : float
        First-order shift of the mean of all of those together, in prior sd.
    condition : float, optional
        Condition number of the features.
    """

    basis: Tensor
    n_weak: int = 0
    largest_information: float = 0.0
    shift: float = 0.0
    condition: float | None = None


def reduce(
    features: Tensor,
    labels: Tensor,
    n_classes: int,
    prior_scale: float,
    tol: float,
    spectrum: Spectrum | None = None,
) -> tuple[Reduction, SoftmaxRegression, Tensor]:
    """Find the directions to infer, the density on them, and its mode.

    Parameters
    ----------
    features : Tensor of shape (N, L)
    tol : float
        A direction is weak if eigenvalue * prior_scale^2 / 2 < tol; 0 drops only the null space.
    spectrum : Spectrum, optional
        Of the features, if it is known already.

    Returns
    -------
    Reduction, SoftmaxRegression over (N, r) features, mode of shape (K-1, r)
    """
    spectrum = spectrum or Spectrum(features)
    eigenvalues = spectrum.eigenvalues
    information = eigenvalues * prior_scale**2 / 2  # softmax weights are at most 1/2 for any K
    strong = information >= tol
    strong[0] = True  # a head that the data does not touch at all still has one direction
    mode = None
    while True:
        basis = spectrum.directions[:, strong]
        precision = torch.float64 if len(features) * basis.shape[1] <= _SMALL else torch.float32
        seen = features.to(precision) @ basis.to(precision)
        posterior = SoftmaxRegression(seen, labels, n_classes, prior_scale)
        mode = find_mode(posterior, eigenvalues[strong], start=mode)
        pull = spectrum.pull(_residuals(posterior, mode)).norm(dim=1)
        shift = (prior_scale * pull).masked_fill(strong, 0)
        returning = _largest_beyond(shift, LARGEST_SHIFT)
        if not bool(returning.any()):
            reduction = Reduction(
                basis,
                n_weak=int((~strong).sum()),
                largest_information=float(information.masked_fill(strong, 0).max()),
                shift=float(shift.norm()),
                condition=spectrum.condition,
            )
            return reduction, posterior, mode
        start = mode.new_zeros(len(mode), len(strong))
        start[:, strong] = mode
        strong = strong | returning
        mode = start[:, strong]


def _largest_beyond(shift: Tensor, limit: float) -> Tensor:
    """Mask (m,) of the largest shifts (m,), so many that the norm of the others is in the limit."""
    rising, order = shift.sort()
    beyond = rising.square().cumsum(dim=0) > limit**2
    return torch.zeros_like(beyond).scatter(0, order, beyond)


def _residuals(posterior: SoftmaxRegression, mode: Tensor) -> Tensor:
    """Labels minus probabilities at the mode, in contrasts: shape (N, K-1)."""
    one_hot = torch.nn.functional.one_hot(posterior.labels, posterior.n_classes)
    residual = one_hot - posterior.probabilities(mode)
    return residual @ contrasts(posterior.n_classes).to(residual)
