"""Sampling problems (heads): features without a bias column, labels, and query points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bacoun import BaCOUnClassifier
from bacoun.features import LearnedFeatures
from reproduction.datasets import gaussian_mixture, gaussian_mixture_regions, load_wine


@dataclass(frozen=True)
class Head:
    """Features (N, L), labels (N,), and features of in- and out-of-distribution points."""

    name: str
    features: Tensor
    labels: Tensor
    asked_in: Tensor
    asked_out: Tensor

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.labels.max()) + 1

    @property
    def design(self) -> np.ndarray:
        """Features with the bias column (N, L + 1), as every rival takes them."""
        return np.c_[self.features.numpy(), np.ones(len(self.features))].astype(np.float64)

    @property
    def asked(self) -> Tensor:
        """Sixteen points at whose logits samplers are compared: half in, half out."""
        return torch.cat([self.asked_in[:8], self.asked_out[:8]])


def gmm_head() -> Head:
    """1500 x 1025 x 3: the network of step 2 on the GMM data, as wide as in the paper."""
    points, labels = gaussian_mixture(500, 0)
    model = _wide_model().fit(points, labels)
    regions = gaussian_mixture_regions()
    return Head(
        "GMM head",
        _features(model, points),
        torch.from_numpy(labels),
        _features(model, regions["in"]),
        _features(model, regions["out"]),
    )


def wine_head() -> Head:
    """2476 x 1025 x 2: a network as wide as the paper's on white wine, classes 5 and 7."""
    wine = load_wine()
    model = _wide_model().fit(wine.points, wine.labels)
    return Head(
        "Wine head",
        _features(model, wine.points),
        torch.from_numpy((wine.labels == 7).astype(np.int64)),
        _features(model, wine.regions["in"][:100]),
        _features(model, wine.regions["ood"][:100]),
    )


def _wide_model() -> BaCOUnClassifier:
    wide = LearnedFeatures(hidden=(64, 64, 64, 1024), joint_softmax=True)
    return BaCOUnClassifier(features=wide, posterior="laplace", ood_prior=0.0, random_state=0)


def _features(model: BaCOUnClassifier, points: np.ndarray) -> Tensor:
    return model.features_.transform(model._standardized(points))


def synthetic_head(
    n_points: int, n_features: int = 64, n_classes: int = 3, overlap: float = 1.0, seed: int = 0
) -> Head:
    """Gaussian classes seen through a random layer of LeakyReLU units."""
    generator = torch.Generator().manual_seed(seed)
    n_inputs = min(50, n_features)
    means = torch.randn(n_classes, n_inputs, generator=generator) / overlap
    layer = torch.randn(n_inputs, n_features, generator=generator) / n_inputs**0.5
    labels = torch.randint(n_classes, (n_points,), generator=generator)
    labels[:n_classes] = torch.arange(n_classes)
    inputs = means[labels] + torch.randn(n_points, n_inputs, generator=generator)
    far = 10 * torch.randn(100, n_inputs, generator=generator)

    def features(x: Tensor) -> Tensor:
        return torch.nn.functional.leaky_relu(x @ layer) / 4

    seen = features(inputs)
    return Head(f"synthetic N = {n_points}", seen, labels, seen[:100], features(far))


def mnist_size_head() -> Head:
    """60,000 x 1025 x 10, stand-in features."""
    return synthetic_head(60_000, 1024, 10, overlap=2.0)
