import math

import pytest
import torch

from bacoun.posterior.logistic import contrasts
from bacoun.posterior.reduction import LARGEST_SHIFT, reduce


def head(n_points=200, n_features=30, rank=6, n_classes=3, seed=0, weak=0.0):
    """Features of low rank, and optionally a weak direction behind them that knows the labels."""
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn(n_points, rank, generator=generator, dtype=torch.float64)
    right = torch.randn(rank, n_features, generator=generator, dtype=torch.float64)
    features = left @ right / math.sqrt(rank)
    labels = (
        left[:, :n_classes]
        + 0.3 * torch.randn(n_points, n_classes, generator=generator, dtype=torch.float64)
    ).argmax(dim=1)
    if weak:
        aligned = (labels == 0).double() - (labels != 0).double()
        features = torch.cat([features, weak * aligned[:, None]], dim=1)
    return features, labels


@pytest.mark.parametrize(("n_points", "n_features"), [(200, 30), (20, 90)])
def test_without_tolerance_only_the_null_space_is_dropped(n_points, n_features):
    features, labels = head(n_points, n_features, rank=6)
    reduction, posterior, _ = reduce(features, labels, 3, 1.0, tol=0.0)
    assert reduction.basis.shape == (n_features, 6)
    assert reduction.n_weak == 0
    torch.testing.assert_close(posterior.features @ reduction.basis.T, features)
    gram = reduction.basis.T @ reduction.basis
    torch.testing.assert_close(gram, torch.eye(6, dtype=torch.float64))


def test_split_keeps_the_length_of_every_feature_vector():
    features, labels = head()
    reduction, _, _ = reduce(features, labels, 3, 1.0, tol=0.0)
    others = torch.randn(50, features.shape[1], dtype=torch.float64)
    q, rho = reduction.split(others)
    torch.testing.assert_close(q.square().sum(1) + rho[:, 0].square(), others.square().sum(1))
    left = others - q @ reduction.basis.T
    torch.testing.assert_close(left.norm(dim=1), rho[:, 0])


def test_zero_columns_are_null_directions():
    features, labels = head()
    padded = torch.cat([features, torch.zeros_like(features)], dim=1)
    reduction, _, mode = reduce(padded, labels, 3, 1.0, tol=0.01)
    expected, _, expected_mode = reduce(features, labels, 3, 1.0, tol=0.01)
    assert not reduction.basis[features.shape[1] :].any()
    torch.testing.assert_close(reduction.eigenvalues, expected.eigenvalues)
    torch.testing.assert_close(mode.norm(), expected_mode.norm(), atol=1e-3, rtol=1e-3)


def test_a_weak_direction_that_knows_the_labels_is_inferred():
    features, labels = head(n_points=2000, weak=0.002)  # 2000 * 0.002^2 / 2 = 0.004 < tol
    blind, labels_blind = head(n_points=2000)
    with_it, _, _ = reduce(features, labels, 3, 1.0, tol=0.01)
    without, _, _ = reduce(blind, labels_blind, 3, 1.0, tol=0.01)
    assert with_it.largest_shift <= LARGEST_SHIFT
    # Its pull at the mode is far above the limit, so it must have come back.
    last = torch.zeros(features.shape[1], dtype=torch.float64)
    last[-1] = 1.0
    captured = (with_it.basis.T @ last).norm()
    assert with_it.basis.shape[1] == without.basis.shape[1] + (captured > 0.99)
    pull = 0.002 * torch.nn.functional.one_hot(labels, 3).double().sub(1 / 3).norm()
    assert captured > 0.99 or pull < LARGEST_SHIFT


def test_what_was_given_up_is_stated():
    features, labels = head(n_points=500)
    noise = 1e-3 * torch.randn(500, 10, dtype=torch.float64)
    features = torch.cat([features, noise], dim=1)
    reduction, _, _ = reduce(features, labels, 3, 1.0, tol=0.01)
    assert reduction.n_weak == 10
    assert 0 < reduction.largest_information < 0.01
    assert 0 < reduction.largest_shift < LARGEST_SHIFT


def test_the_mode_has_no_slope():
    features, labels = head()
    _, posterior, mode = reduce(features, labels, 3, 1.0, tol=0.0)
    assert posterior.gradient(mode[:, :, None]).abs().max() < 0.01
    assert posterior.probabilities(mode).argmax(1).eq(labels).double().mean() > 0.8
    assert contrasts(3).shape == (3, 2)
