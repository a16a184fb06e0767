"""Small data sets with named regions: two that are drawn, and Wine."""

from bacoun.datasets.dataset import Dataset
from bacoun.datasets.synthetic import (
    gaussian_mixture,
    gaussian_mixture_entropy,
    gaussian_mixture_log_density,
    gaussian_mixture_regions,
    load_gaussian_mixture,
    load_moons,
    load_moons_with_outliers,
    moons,
    moons_regions,
)
from bacoun.datasets.wine import load_wine

__all__ = [
    "Dataset",
    "gaussian_mixture",
    "gaussian_mixture_entropy",
    "gaussian_mixture_log_density",
    "gaussian_mixture_regions",
    "load_gaussian_mixture",
    "load_moons",
    "load_moons_with_outliers",
    "load_wine",
    "moons",
    "moons_regions",
]
