"""Data sets of the paper: points, labels, and named regions."""

from bacoun.datasets.synthetic import (
    gaussian_mixture,
    gaussian_mixture_entropy,
    gaussian_mixture_regions,
)

__all__ = ["gaussian_mixture", "gaussian_mixture_entropy", "gaussian_mixture_regions"]
