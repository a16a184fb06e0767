"""Points between two spheres, and the radius of the sphere that holds a share of the data."""

import math

import torch
from scipy import stats
from torch import Generator, Tensor


def chi_radius(dimension: int, mass: float = 0.99) -> float:
    """The radius of the sphere that holds `mass` of a standard normal in `dimension` dimensions.

    Examples
    --------
    >>> round(chi_radius(2), 2), round(chi_radius(11), 2), round(chi_radius(784), 2)
    (3.03, 4.97, 29.65)
    """
    return math.sqrt(stats.chi2.ppf(mass, dimension))


def check_radii(radii: tuple[float, float]) -> tuple[float, float]:
    """Check that `radii` bound a shell; return them as floats."""
    inner, outer = map(float, radii)
    if not 0 < inner < outer < math.inf:
        raise ValueError(
            f"radii must satisfy 0 < inner < outer; got ({inner}, {outer}). "
            "Swap them, or widen the shell."
        )
    return inner, outer


def sample_shell(
    n_points: int, dimension: int, radii: tuple[float, float], *, generator: Generator
) -> Tensor:
    """Draw points (n_points, dimension) uniformly by volume from the shell between two radii."""
    inner, outer = check_radii(radii)
    direction = torch.randn(n_points, dimension, generator=generator, dtype=torch.float64)
    direction /= direction.norm(dim=1, keepdim=True)
    # outer ** D overflows at D = 784; the ratio of volumes does not.
    hollow = (inner / outer) ** dimension
    u = torch.rand(n_points, 1, generator=generator, dtype=torch.float64)
    radius = outer * (hollow + u * (1 - hollow)) ** (1 / dimension)
    return (direction * radius.clamp(inner, outer)).float()
