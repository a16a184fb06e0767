"""The paper's data sets: generated, shipped with this folder, or downloaded."""

from collections.abc import Callable

from reproduction.datasets.dataset import Dataset
from reproduction.datasets.images import load_images, load_mnist
from reproduction.datasets.synthetic import (
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
from reproduction.datasets.wine import load_wine

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
