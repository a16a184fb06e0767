"""ClassGaussians: one Gaussian per class, which few rows of many columns can afford."""

import math
from collections.abc import Iterator
from typing import Self

import torch
from torch import Generator, Tensor

from bacoun.engine.training import assign_folds
from bacoun.files.persistence import SavesAttributes

_RIDGE = 1e-3  # of the mean variance, for constant columns
_N_FOLDS = 5  # of cross-fitting
_ENOUGH_ROWS = 0.5  # of a class for each dimension, for a covariance of its own
_MIN_SINGULAR_VALUE = 1e-6  # relative to the largest


class ClassGaussians(SavesAttributes):
    """One Gaussian per class; covariances are shrunk to a shared one, and that to a sphere.

    The shared covariance, shrunk after Ledoit and Wolf, counts as one more row of each class; of
    principal components or `is_wide` points, as many rows as there are dimensions. Wide points of
    few rows have no other: covariances of their own would cost time and say nothing.

    With `n_components`, points are reduced to at most so many principal components; the norm of
    what these leave out is a view of its own.
    """

    _of_fit = ("mean_", "basis_", "whitening_", "centers_", "log_weights_")
    _saved = ("n_components", "is_wide", *_of_fit)

    def __init__(self, n_components: int | None = None, *, is_wide: bool = False) -> None:
        self.n_components, self.is_wide = n_components, is_wide

    def fit(self, points: Tensor, labels: Tensor) -> Self:
        """Learn from points (N, D) with labels (N,)."""
        if self.n_components is None:
            points = points.double()
        self.mean_ = points.mean(dim=0)
        self.basis_: Tensor | None = None
        if self.n_components is not None:
            self.basis_ = principal_directions(points - self.mean_, self.n_components)
        codes = self._codes(points)
        present, groups = labels.unique(return_inverse=True)
        counts = torch.bincount(groups).to(codes)
        centers = codes.new_zeros(len(present), codes.shape[1]).index_add(0, groups, codes)
        centers = centers / counts[:, None]
        within = codes - centers[groups]
        shared = _shared_covariance(within, len(present))
        own = [within[groups == group] for group in range(len(present))]
        if self.is_wide and len(points) < _ENOUGH_ROWS * len(present) * codes.shape[1]:
            covariances = [shared]
        else:
            covariances = [self._covariance(rows, shared) for rows in own]
        self.whitening_ = torch.stack([_inverse_factor(covariance) for covariance in covariances])
        of_class = self.whitening_.expand(len(present), -1, -1)
        self.centers_ = torch.einsum("kij,kj->ki", of_class, centers)
        self.log_weights_ = (counts / counts.sum()).log()
        return self

    def _covariance(self, within: Tensor, shared: Tensor) -> Tensor:
        """Covariance (D, D) of one class, of which these are rows around its mean."""
        n_rows, dimension = within.shape
        n_pseudo = 1 if self.n_components is None and not self.is_wide else dimension
        covariance = (within.T @ within + n_pseudo * shared) / (n_rows - 1 + n_pseudo)
        return covariance * (1 + 1 / n_rows)  # the mean is estimated too

    def _codes(self, points: Tensor) -> Tensor:
        if self.basis_ is None:
            return points.double() - self.mean_
        return ((points - self.mean_) @ self.basis_.T).double()

    def log_prob(self, points: Tensor) -> Tensor:
        """Log density (N,) of points (N, D), or of their principal components."""
        return torch.logsumexp(self.class_log_prob(points), dim=0)

    def unwhitened(self, white: Tensor, groups: Tensor) -> Tensor:
        """Points (n, D) of the classes `groups` (n,), from whitened ones around their means."""
        points = torch.empty_like(white)
        for group, center in enumerate(self.centers_):
            own = groups == group
            factor = self.whitening_[group if len(self.whitening_) > 1 else 0]
            around = (white[own] + center).T
            points[own] = torch.linalg.solve_triangular(factor, around, upper=False).T
        return points + self.mean_

    def class_log_prob(self, points: Tensor) -> Tensor:
        """Log of p(class) times the density of points (N, D) in each class, (K, N)."""
        return self.constants[:, None] - self.squared_distances(points) / 2

    def squared_distances(self, points: Tensor) -> Tensor:
        """Squared Mahalanobis distances (K, N) of points (N, D) from the mean of each class."""
        white = self._codes(points) @ self.whitening_.flatten(0, 1).T
        if len(self.whitening_) == 1:  # one covariance of all classes
            around = white.square().sum(dim=1, keepdim=True) - 2 * white @ self.centers_.T
            squares = around + self.centers_.square().sum(dim=1)
        else:
            squares = (white - self.centers_.flatten()).unflatten(1, self.centers_.shape)
            squares = squares.square().sum(dim=2)
        return squares.T

    @property
    def constants(self) -> Tensor:
        """Log density (K,) at the mean of each class, plus the log of its share."""
        log_det = self.whitening_.diagonal(dim1=1, dim2=2).log().sum(dim=1)
        return self.log_weights_ + log_det - len(self.centers_[0]) / 2 * math.log(2 * math.pi)

    def unfamiliarity(self, points: Tensor) -> dict[str, Tensor]:
        """How unusual (N,) points (N, D) are, by name: minus log density, and norm of the rest."""
        views = {"gaussian": -self.log_prob(points)}
        if self.basis_ is not None:
            centered = points - self.mean_
            rest = centered - (centered @ self.basis_.T) @ self.basis_
            norm = torch.linalg.vector_norm(rest, dim=1).double()
            leaves_nothing = len(self.basis_) == points.shape[1]  # but rounding errors
            views["residual"] = torch.zeros_like(norm) if leaves_nothing else norm
        return views

    def cross_fitted(self, points: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The same of training points, each judged by Gaussians that were not fitted to it."""
        views: dict[str, Tensor] = {}
        for own, fitted in self.without_each_fold(points, labels):
            for name, scores in fitted.unfamiliarity(points[own]).items():
                views.setdefault(name, scores.new_zeros(len(points)))[own] = scores
        return views

    def without_each_fold(
        self, points: Tensor, labels: Tensor
    ) -> Iterator[tuple[Tensor, "ClassGaussians"]]:
        """Parts (N,) of training points, and Gaussians that were fitted to the others."""
        folds = assign_folds(points, _N_FOLDS, Generator().manual_seed(0))
        for fold in folds.unique():
            own = folds == fold
            others = ~own if bool((~own).any()) else own  # all points may be the same one
            gaussians = ClassGaussians(self.n_components, is_wide=self.is_wide)
            yield own, gaussians.fit(points[others], labels[others])


def _inverse_factor(covariance: Tensor) -> Tensor:
    """Inverse Cholesky factor (D, D), which whitens."""
    factor = torch.linalg.cholesky(covariance)
    identity = torch.eye(len(factor), dtype=factor.dtype, device=factor.device)
    return torch.linalg.solve_triangular(factor, identity, upper=False)


def _shared_covariance(within: Tensor, n_classes: int) -> Tensor:
    """Covariance (D, D) of points (N, D) around their class means, shrunk to a sphere."""
    from sklearn.covariance import ledoit_wolf_shrinkage  # slow to import, and only fits need it

    n_rows, dimension = within.shape
    covariance = within.T @ within / max(n_rows - n_classes, 1)
    variance = covariance.diagonal().mean().clamp(min=1e-12)
    share = 0.0
    if dimension > 1 and n_rows > 1:
        share = float(ledoit_wolf_shrinkage(within.cpu().numpy(), assume_centered=True))
    sphere = variance * torch.eye(dimension, dtype=within.dtype, device=within.device)
    return (1 - share) * covariance + (share + _RIDGE) * sphere


def principal_directions(centered: Tensor, most: int) -> Tensor:
    """Orthonormal rows (n, D) of largest variance; n is `most`, or fewer if the rank is lower."""
    matrix = centered.double()
    n_points, dimension = matrix.shape
    if n_points < dimension:
        _, values, directions = torch.linalg.svd(matrix, full_matrices=False)
    else:  # the same from a smaller matrix, in ascending order
        eigenvalues, columns = torch.linalg.eigh(matrix.T @ matrix)
        values, directions = eigenvalues.clamp(min=0).sqrt().flip(0), columns.T.flip(0)
    rank = int((values > _MIN_SINGULAR_VALUE * values[0]).sum())
    n_kept = max(1, min(most, n_points - 1, rank))
    return directions[:n_kept].to(centered.dtype).contiguous()
