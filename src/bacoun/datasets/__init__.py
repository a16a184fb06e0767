"""Data sets of the paper: points, labels, and named regions."""

from collections.abc import Callable

from bacoun.datasets.dataset import Dataset
from bacoun.datasets.images import load_images, load_mnist
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

KINDS: dict[str, Callable[..., Dataset]] = {
    "gaussian-mixture": load_gaussian_mixture,
    "mnist": load_mnist,
    "moons": load_moons,
    "moons-with-outliers": load_moons_with_outliers,
    "wine": load_wine,
}

__all__ = [
    "KINDS",
    "Dataset",
    "gaussian_mixture",
    "gaussian_mixture_entropy",
    "gaussian_mixture_log_density",
    "gaussian_mixture_regions",
    "load_gaussian_mixture",
    "load_images",
    "load_mnist",
    "load_moons",
    "load_moons_with_outliers",
    "load_wine",
    "moons",
    "moons_regions",
]
