"""Which directions of weight space the data sees, and which keep their prior.

The likelihood sees the weights W only through Phi W. With the leading eigenvectors V of Phi' Phi,
W = V w + V_perp v, the posterior factorises: w is inferred, v keeps its prior N(0, sigma^2 I).
In the null space of Phi this is exact. A weak direction may join v as well, if the data neither
narrows its prior nor moves its mean by more than a stated amount.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bacoun.posterior.logistic import SoftmaxRegression, contrasts
from bacoun.posterior.whitening import find_mode

_NULL = 1e-12
_ROWS = 8192
_SMALL = 20_000_000  # numbers; larger heads are kept in float32
LARGEST_SHIFT = 0.1
"""A direction keeps its prior only if its mean moves by less than this many prior sd."""


class Spectrum:
    """Eigenvalues of Phi' Phi, largest first and the null space left out, and their directions.

    Worked out on the smaller side of the matrix, in float64.

    Attributes
    ----------
    eigenvalues : Tensor of shape (m,)
    """

    def __init__(self, features: Tensor) -> None:
        self._used = features.any(dim=0)  # the gate leaves half of the columns zero: null for free
        self._used[0] = True
        self._features = features if bool(self._used.all()) else features[:, self._used]
        n_points, n_features = self._features.shape
        self._wide = n_points < n_features
        eigenvalues, vectors = torch.linalg.eigh(self._gram())
        eigenvalues, vectors = eigenvalues.flip(0), vectors.flip(1)
        seen = eigenvalues > _NULL * eigenvalues[0]
        seen[0] = True
        self.eigenvalues = eigenvalues[seen].clamp(min=0)
        self._vectors = vectors[:, seen]
        self._root = self.eigenvalues.sqrt().clamp(min=1e-150)

    def _gram(self) -> Tensor:
        if self._wide:
            return self._features.double() @ self._features.double().T
        n_features = self._features.shape[1]
        gram = torch.zeros(n_features, n_features, dtype=torch.float64).to(self._features.device)
        for rows in self._features.split(_ROWS):
            gram.addmm_(rows.double().T, rows.double())
        return gram

    def basis(self, keep: Tensor) -> Tensor:
        """Orthonormal directions (L, kept) of weight space, chosen by a mask (m,)."""
        basis = self._vectors.new_zeros(len(self._used), int(keep.sum()))
        if self._wide:
            # Squaring the matrix cost half the digits of small directions; QR makes up for it.
            right = self._features.double().T @ self._vectors[:, keep] / self._root[keep]
            basis[self._used] = torch.linalg.qr(right)[0]
        else:
            basis[self._used] = self._vectors[:, keep]
        return basis

    def pull(self, residuals: Tensor) -> Tensor:
        """Phi' times residuals (N, J), along each direction: shape (m, J)."""
        if self._wide:
            return self._root[:, None] * (self._vectors.T @ residuals.double())
        return self._vectors.T @ (self._features.T @ residuals.to(self._features)).double()


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
        both = self.coordinates(features)
        return both[:, :-1], both[:, -1:]

    def coordinates(self, features: Tensor, bias: bool = False) -> Tensor:
        """What draws are multiplied with, q and rho side by side (N, r + 1), of features (N, L).

        With `bias` the features lack their last column, which is all ones.
        """
        # A column of zeros makes room for rho: gluing it on later would copy everything.
        basis = torch.nn.functional.pad(self.basis.to(features), (0, 1))
        both = torch.addmm(basis[-1], features, basis[:-1]) if bias else features @ basis
        norm, seen = (torch.linalg.vector_norm(x, dim=1).square() for x in (features, both))
        both[:, -1] = (norm + float(bias) - seen).clamp(min=0).sqrt()
        return both


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
        basis = spectrum.basis(strong)
        precision = torch.float64 if len(features) * basis.shape[1] <= _SMALL else torch.float32
        seen = features.to(precision) @ basis.to(precision)
        posterior = SoftmaxRegression(seen, labels, n_classes, prior_scale)
        mode = find_mode(posterior, eigenvalues[strong], start=mode)
        if bool(strong.all()):
            return Reduction(basis, eigenvalues), posterior, mode
        weak = ~strong
        shift = torch.zeros_like(eigenvalues)
        pull = spectrum.pull(_residuals(posterior, mode)).norm(dim=1)
        shift[weak] = prior_scale * pull[weak]
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


def _residuals(posterior: SoftmaxRegression, mode: Tensor) -> Tensor:
    """Labels minus probabilities at the mode, in contrasts: shape (N, K-1)."""
    one_hot = torch.nn.functional.one_hot(posterior.labels, posterior.n_classes)
    residual = one_hot - posterior.probabilities(mode)
    return residual @ contrasts(posterior.n_classes).to(residual)
