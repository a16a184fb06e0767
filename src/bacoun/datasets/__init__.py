"""Data sets of the paper: points, labels, and named regions."""

from bacoun.datasets.synthetic import (
    gaussian_mixture,
    gaussian_mixture_entropy,
    gaussian_mixture_regions,
)
from bacoun.datasets.wine import Wine, load_wine

__all__ = [
    "Wine",
    "gaussian_mixture",
    "gaussian_mixture_entropy",
    "gaussian_mixture_regions",
    "load_wine",
]
