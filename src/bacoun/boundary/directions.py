"""DirectionShell: Gaussians of the directions of points, for embeddings and wide tables."""

import math
from dataclasses import dataclass
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator
from torch import Generator, Tensor

from bacoun.boundary.gaussians import ClassGaussians
from bacoun.boundary.shell import chi_radius, sample_shell
from bacoun.engine.directions import directions
from bacoun.files.persistence import SavesAttributes
from bacoun.protocols import FitContext

_STRETCH = 1.03  # of the outer radius of a shell
_USUAL = 2.0  # standard deviations of the log length, within which it says nothing


@dataclass(kw_only=True, repr=False, eq=False)
class DirectionShell(SavesAttributes, BaseEstimator):
    """Boundary points: shells of class Gaussians of the directions, at the length of known points.

    Vectors of pretrained encoders differ in direction; their length says little, but one that no
    known point has is unusual. In hundreds of dimensions few rows suffice for a Gaussian, and not
    for a flow.

    Parameters
    ----------
    mass : float
        Share of a class inside its shell.
    """

    mass: float = 0.99

    _saved = ("gaussians_", "log_length_")

    def fit(self, points: Tensor, labels: Tensor, context: FitContext = FitContext()) -> Self:
        """Learn from points (N, D) with labels (N,)."""
        if not 0 < self.mass < 1:
            raise ValueError(f"mass must lie between 0 and 1; got {self.mass}. Try 0.99.")
        self.gaussians_ = ClassGaussians(is_wide=True).fit(directions(points), labels)
        lengths = _log_lengths(points)
        self.log_length_ = [float(lengths.mean()), max(float(lengths.std()), 1e-3)]
        return self

    def sample(self, n_points: int, *, generator: Generator) -> tuple[Tensor, Tensor]:
        """Draw boundary points (n_points, D), and the class (n_points,) of each."""
        gaussians = self.gaussians_
        n_classes, dimension = gaussians.centers_.shape
        radius = chi_radius(dimension, self.mass)
        latent = sample_shell(n_points, dimension, (radius, _STRETCH * radius), generator=generator)
        labels = torch.randint(n_classes, (n_points,), generator=generator)
        labels = labels.to(gaussians.centers_.device)
        drawn = gaussians.unwhitened(latent.to(gaussians.centers_), labels)
        mean, spread = self.log_length_
        lengths = (mean + spread * torch.randn(n_points, 1, generator=generator)).exp()
        scaled = directions(drawn) / math.sqrt(dimension) * lengths.to(drawn)
        return scaled.float(), labels

    def class_log_prob(self, points: Tensor, wanted: Tensor | None = None) -> Tensor:
        """Log of p(class) times the density (K, N) of the direction in each class and the length.

        The length is log-normal.
        """
        spread, standard = self.log_length_[1], self._standardized_length(points)
        length = -standard.square() / 2 - math.log(spread * math.sqrt(2 * math.pi))
        return self.gaussians_.class_log_prob(directions(points)) + length

    def log_prob(self, points: Tensor) -> Tensor:
        """Log density (N,) of the directions and lengths of points (N, D)."""
        return torch.logsumexp(self.class_log_prob(points), dim=0)

    def unfamiliarity(self, points: Tensor) -> dict[str, Tensor]:
        """How unusual (N,) the directions of points (N, D) are, and their lengths."""
        length = (self._standardized_length(points).abs() - _USUAL).clamp(min=0)
        return self.gaussians_.unfamiliarity(directions(points)) | {"length": length}

    def held_out_unfamiliarity(self, points: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The same of the points (N, D) of `fit`, by Gaussians that were not fitted to them."""
        return self.unfamiliarity(points) | self.gaussians_.cross_fitted(directions(points), labels)

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
