"""DirectionShell: Gaussians of the directions of points, for embeddings and wide tables."""

import math
from dataclasses import dataclass
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator
from torch import Generator, Tensor

from bacoun.boundary.gaussians import ClassGaussians
from bacoun.boundary.shell import sample_shell
from bacoun.engine.directions import directions
from bacoun.files.persistence import SavesAttributes
from bacoun.protocols import FitContext

_STRETCH = 1.03  # of the outer radius of a shell
_FARTHEST, _N_BISECTIONS = 100.0, 40  # radii that are looked at, at most, and how often
_USUAL = 2.0  # standard deviations of the log length, within which it says nothing


@dataclass(kw_only=True, repr=False, eq=False)
class DirectionShell(SavesAttributes, BaseEstimator):
    """Boundary points: directions at the edge of class Gaussians, at the length of known points.

    Vectors of pretrained encoders differ in direction; their length says little, but one that no
    known point has is unusual. In hundreds of dimensions few rows suffice for a Gaussian, and not
    for a flow.

    Parameters
    ----------
    mass : float
        Share of new points whose direction is nearer to a class than that of a boundary point.
    """

    mass: float = 0.99

    _saved = ("gain_", "gaussians_", "radius_", "log_length_")

    def fit(self, points: Tensor, labels: Tensor, context: FitContext = FitContext()) -> Self:
        """Learn from points (N, D) with labels (N,)."""
        if not 0 < self.mass < 1:
            raise ValueError(f"mass must lie between 0 and 1; got {self.mass}. Try 0.99.")
        spread = points.std(dim=0, correction=0)
        self.gain_ = torch.where(spread > 0, spread, 1.0).rsqrt()
        towards = self._towards(points)
        self.gaussians_ = ClassGaussians(is_wide=True).fit(towards, labels)
        new, fitted = next(self.gaussians_.without_each_fold(towards, labels))
        squares = fitted.squared_distances(towards[new]).amin(dim=0)
        self.radius_ = max(float(squares.quantile(self.mass).sqrt()), 1e-3)
        lengths = _log_lengths(points)
        self.log_length_ = [float(lengths.mean()), max(float(lengths.std()), 1e-3)]
        return self

    def sample(self, n_points: int, *, generator: Generator) -> tuple[Tensor, Tensor]:
        """Draw boundary points (n_points, D), and the class (n_points,) of each."""
        gaussians = self.gaussians_
        n_classes, dimension = gaussians.centers_.shape
        radii = (self.radius_, _STRETCH * self.radius_)
        latent = sample_shell(n_points, dimension, radii, generator=generator)
        labels = torch.randint(n_classes, (n_points,), generator=generator)
        labels = labels.to(gaussians.centers_.device)
        steps = self._steps(latent.to(gaussians.centers_), labels)
        drawn = gaussians.unwhitened(steps, labels)
        mean, spread = self.log_length_
        lengths = (mean + spread * torch.randn(n_points, 1, generator=generator)).exp()
        towards = torch.nn.functional.normalize(drawn / self.gain_, dim=1)
        return (towards * lengths.to(drawn)).float(), labels

    def _towards(self, points: Tensor) -> Tensor:
        """Directions; a column of small spread counts half as much more, in logarithms.

        If all columns were of unit variance, nothing changes. If they have a common unit, as
        principal components have, an unknown point may differ in the smallest of them only.
        """
        return directions(points * self.gain_.to(points))

    def _steps(self, latent: Tensor, labels: Tensor) -> Tensor:
        """The latent points (n, D), moved in or out until their directions are as far as they were.

        That is, in units of the class, as far from its mean as the latent point is from 0; or far
        away, if no direction is. After a step t along a unit vector u one is at m + t v, which is
        a + t u whitened. The factor s gives it the length of directions, and leaves it at the
        distance |s (a + t u) - a|. So t is found by bisection.
        """
        gaussians = self.gaussians_
        n_classes, dimension = gaussians.centers_.shape
        radius = latent.norm(dim=1)
        u = latent / radius[:, None]
        origins, of_class = latent.new_zeros(n_classes, dimension), torch.arange(n_classes)
        m = gaussians.unwhitened(origins, of_class.to(labels.device))[labels]
        v = gaussians.unwhitened(u, labels) - m
        a = (gaussians.centers_ + gaussians.whitening_ @ gaussians.mean_)[labels]
        mm, mv, vv = m.square().sum(dim=1), (m * v).sum(dim=1), v.square().sum(dim=1)
        aa, au = a.square().sum(dim=1), (a * u).sum(dim=1)
        low, high = torch.zeros_like(radius), _FARTHEST * radius
        for _ in range(_N_BISECTIONS):
            t = (low + high) / 2
            s = math.sqrt(dimension) * (mm + 2 * t * mv + t.square() * vv).rsqrt()
            square = (s - 1).square() * aa + 2 * s * (s - 1) * t * au + (s * t).square()
            is_outside = square >= radius.square()
            low, high = torch.where(is_outside, low, t), torch.where(is_outside, t, high)
        return high[:, None] * u

    def class_log_prob(self, points: Tensor, wanted: Tensor | None = None) -> Tensor:
        """Log of p(class) times the density (K, N) of the direction in each class and the length.

        The length is log-normal.
        """
        spread, standard = self.log_length_[1], self._standardized_length(points)
        length = -standard.square() / 2 - math.log(spread * math.sqrt(2 * math.pi))
        return self.gaussians_.class_log_prob(self._towards(points)) + length

    def log_prob(self, points: Tensor) -> Tensor:
        """Log density (N,) of the directions and lengths of points (N, D)."""
        return torch.logsumexp(self.class_log_prob(points), dim=0)

    def unfamiliarity(self, points: Tensor) -> dict[str, Tensor]:
        """How unusual (N,) the directions of points (N, D) are, and their lengths."""
        length = (self._standardized_length(points).abs() - _USUAL).clamp(min=0)
        return self.gaussians_.unfamiliarity(self._towards(points)) | {"length": length}

    def held_out_unfamiliarity(self, points: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The same of the points (N, D) of `fit`, by Gaussians that were not fitted to them."""
        return self.unfamiliarity(points) | self.gaussians_.cross_fitted(
            self._towards(points), labels
        )

    def _standardized_length(self, points: Tensor) -> Tensor:
        mean, spread = self.log_length_
        return (_log_lengths(points) - mean) / spread

    def log_prob_from(self, points: Tensor, unfamiliarity: dict[str, Tensor]) -> Tensor:
        """`log_prob` (N,) of points of known `unfamiliarity`."""
        return self.log_prob(points)

    def _empty(self, name: str, state: Any) -> Any:
        return ClassGaussians() if name == "gaussians_" else None


def _log_lengths(points: Tensor) -> Tensor:
    smallest = torch.finfo(points.dtype).tiny
    return torch.linalg.vector_norm(points, dim=1).clamp(min=smallest).double().log()
