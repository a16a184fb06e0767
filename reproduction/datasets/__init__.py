"""The paper's data sets: generated, shipped with bacoun, or downloaded."""

from collections.abc import Callable

from bacoun.datasets import (
    Dataset,
    load_gaussian_mixture,
    load_moons,
    load_moons_with_outliers,
    load_wine,
)
from reproduction.datasets.images import load_images, load_mnist

KINDS: dict[str, Callable[..., Dataset]] = {
    "gaussian-mixture": load_gaussian_mixture,
    "mnist": load_mnist,
    "moons": load_moons,
    "moons-with-outliers": load_moons_with_outliers,
    "wine": load_wine,
}

__all__ = ["KINDS", "load_images", "load_mnist"]
