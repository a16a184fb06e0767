"""Which directions of weight space the data sees, and which keep their prior.

The likelihood sees the weights W only through Phi W. With the leading eigenvectors V of Phi' Phi,
W = V w + V_perp v, the posterior factorises: w is inferred, v keeps its prior N(0, sigma^2 I).
In the null space of Phi this is exact. A weak direction may join v as well, if the data neither
narrows its prior nor moves its mean by more than a stated amount.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bacoun.posterior.logistic import SoftmaxRegression, contrasts
from bacoun.posterior.whitening import find_mode

Spectrum = tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]
"""Left singular vectors (N, m), squared singular values (m,), right vectors (L, kept) by mask."""

_NULL = 1e-12
LARGEST_SHIFT = 0.1
"""A direction keeps its prior only if its mean moves by less than this many prior sd."""


@dataclass(frozen=True)
class Reduction:
    """Leading directions, and what was given up for the rest.

    Attributes
    ----------
    basis : Tensor of shape (L, r)
        Orthonormal columns V.
    eigenvalues : Tensor of shape (r,)
        Of Phi' Phi along them.
    n_weak : int
        Directions outside the null space that keep their prior.
    largest_information : float
        Over those, the largest bound on (precision gained from the data) / (prior precision).
    largest_shift : float
        Over those, the largest first-order shift of the mean, in prior sd.
    """

    basis: Tensor
    eigenvalues: Tensor
    n_weak: int = 0
    largest_information: float = 0.0
    largest_shift: float = 0.0

    def split(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates q (N, r) of features (N, L) and the length rho (N, 1) of what is left."""
        q = features @ self.basis.to(features)
        left = features.square().sum(dim=1, keepdim=True) - q.square().sum(dim=1, keepdim=True)
        return q, left.clamp(min=0).sqrt()


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
    features : Tensor of shape (N, L), float64
    tol : float
        A direction is weak if eigenvalue * prior_scale^2 / 2 < tol; 0 drops only the null space.
    spectrum : Spectrum, optional
        Of the features, if it is known already.

    Returns
    -------
    Reduction, SoftmaxRegression over (N, r) features, mode of shape (K-1, r)
    """
    left, eigenvalues, right = spectrum or eigen(features)
    information = eigenvalues * prior_scale**2 / 2  # softmax weights are at most 1/2 for any K
    strong = information >= tol
    strong[0] = True  # a head that the data does not touch at all still has one direction
    mode = None
    while True:
        basis = right(strong)
        posterior = SoftmaxRegression(features @ basis, labels, n_classes, prior_scale)
        mode = find_mode(posterior, eigenvalues[strong], start=mode)
        if bool(strong.all()):
            return Reduction(basis, eigenvalues), posterior, mode
        weak = ~strong
        shift = torch.zeros_like(eigenvalues)
        shift[weak] = prior_scale * _pull(posterior, mode, left[:, weak]) * eigenvalues[weak].sqrt()
        returning = weak & (shift > LARGEST_SHIFT)
        if not bool(returning.any()):
            reduction = Reduction(
                basis,
                eigenvalues[strong],
                n_weak=int(weak.sum()),
                largest_information=float(information[weak].max()),
                largest_shift=float(shift[weak].max()),
            )
            return reduction, posterior, mode
        start = mode.new_zeros(len(mode), len(strong))
        start[:, strong] = mode
        strong = strong | returning
        mode = start[:, strong]


def _pull(posterior: SoftmaxRegression, mode: Tensor, left: Tensor) -> Tensor:
    """Largest component over contrasts (J,) of the residuals Y - P along left vectors (N, J)."""
    one_hot = torch.nn.functional.one_hot(posterior.labels, posterior.n_classes)
    residual = one_hot - posterior.probabilities(mode)
    along = left.T @ residual @ contrasts(posterior.n_classes).to(residual)
    return along.norm(dim=1)


def eigen(features: Tensor) -> Spectrum:
    """Spectrum of features (N, L).

    Largest first, the null space left out; worked out on the smaller side of the matrix.
    """
    used = features.any(dim=0)  # the gate leaves half of the columns zero: null directions for free
    used[0] = True
    n_all, features = len(used), features[:, used]
    n_points, n_features = features.shape
    wide = n_points < n_features
    gram = features @ features.T if wide else features.T @ features
    eigenvalues, vectors = torch.linalg.eigh(gram)
    eigenvalues, vectors = eigenvalues.flip(0), vectors.flip(1)
    seen = eigenvalues > _NULL * eigenvalues[0]
    seen[0] = True
    eigenvalues, vectors = eigenvalues[seen].clamp(min=0), vectors[:, seen]
    root = eigenvalues.sqrt().clamp(min=1e-150)

    def right(keep: Tensor) -> Tensor:
        basis = features.new_zeros(n_all, int(keep.sum()))
        if not wide:
            basis[used] = vectors[:, keep]
        else:  # squaring the matrix cost half the digits of small directions; QR makes up for it
            basis[used] = torch.linalg.qr(features.T @ vectors[:, keep] / root[keep])[0]
        return basis

    return (vectors if wide else features @ vectors / root), eigenvalues, right
