import math

import pytest
import torch

from bacoun.posterior import HMC, Laplace
from bacoun.posterior import reduction as module
from bacoun.posterior.logistic import contrasts
from bacoun.posterior.reduction import MAX_SHIFT, reduce
from bacoun.protocols import FitContext


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
    assert reduction.dropped_directions == 0
    torch.testing.assert_close(posterior.features @ reduction.basis.T, features)
    gram = reduction.basis.T @ reduction.basis
    torch.testing.assert_close(gram, torch.eye(6, dtype=torch.float64))


def test_zero_columns_are_null_directions():
    features, labels = head()
    padded = torch.cat([features, torch.zeros_like(features)], dim=1)
    reduction, _, mode = reduce(padded, labels, 3, 1.0, tol=0.01)
    expected, _, expected_mode = reduce(features, labels, 3, 1.0, tol=0.01)
    assert not reduction.basis[features.shape[1] :].any()
    assert reduction.basis.shape[1] == expected.basis.shape[1]
    torch.testing.assert_close(mode.norm(), expected_mode.norm(), atol=1e-3, rtol=1e-3)


def test_a_weak_direction_that_knows_the_labels_is_inferred():
    features, labels = head(n_points=2000, weak=0.002)  # 2000 * 0.002^2 / 2 = 0.004 < tol
    blind, labels_blind = head(n_points=2000)
    with_it, _, _ = reduce(features, labels, 3, 1.0, tol=0.01)
    without, _, _ = reduce(blind, labels_blind, 3, 1.0, tol=0.01)
    assert with_it.dropped_shift <= MAX_SHIFT
    # Its pull at the mode is far above the limit, so it must have come back.
    last = torch.zeros(features.shape[1], dtype=torch.float64)
    last[-1] = 1.0
    captured = (with_it.basis.T @ last).norm()
    assert with_it.basis.shape[1] == without.basis.shape[1] + (captured > 0.99)
    pull = 0.002 * torch.nn.functional.one_hot(labels, 3).double().sub(1 / 3).norm()
    assert captured > 0.99 or pull < MAX_SHIFT


def test_what_was_given_up_is_stated():
    features, labels = head(n_points=500)
    noise = 1e-3 * torch.randn(500, 10, dtype=torch.float64)
    features = torch.cat([features, noise], dim=1)
    reduction, _, _ = reduce(features, labels, 3, 1.0, tol=0.01)
    assert reduction.dropped_directions == 10
    assert 0 < reduction.largest_dropped_information < 0.01
    assert 0 < reduction.dropped_shift < MAX_SHIFT


def many_weak_directions(n_points=800, n_weak=700):
    """Weak directions, each of which the labels pull a little, and all of them much; and the pull.

    Singular values stay below 0.13, so the data adds less than 1 % to the prior's precision.
    """
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n_points) % 2
    signs = (2 * labels - 1).double()
    noise = torch.randn(n_points, n_weak - 1, generator=generator, dtype=torch.float64)
    span = torch.linalg.qr(torch.cat([signs[:, None], noise], dim=1))[0]  # signs come first
    even = torch.randn(n_weak, n_weak, generator=generator, dtype=torch.float64)
    even[0] = 1
    even = torch.linalg.qr(even.T)[0].T  # the signs lie equally along all rows
    values = torch.linspace(0.1, 0.13, n_weak, dtype=torch.float64)
    features = span @ even * values
    return features, labels, features.T @ signs


def test_many_directions_that_the_labels_pull_together_are_not_dropped_one_by_one():
    features, labels, pull = many_weak_directions()
    asked = torch.tensor([[0.5], [1.0], [3.0]], dtype=torch.float64) * pull / pull.norm()
    loose, exact = (
        Laplace(prior_scale=1.0, n_draws=2000, tol=tol, fit_intercept=False).fit(
            features, labels, FitContext(generator=torch.Generator().manual_seed(1))
        )
        for tol in (0.01, 0.0)
    )
    assert exact.health_.dropped_directions == 0
    assert exact.health_.dropped_shift == 0
    assert 0 < loose.health_.dropped_shift <= MAX_SHIFT
    expected = exact.predict_proba_samples(asked).mean(dim=0)
    assert expected[-1, 1] > 0.9
    found = loose.predict_proba_samples(asked).mean(dim=0)
    torch.testing.assert_close(found, expected, atol=0.02, rtol=0)


def test_the_shift_is_that_of_all_dropped_directions_together():
    features, labels, _ = many_weak_directions(200, 120)
    reduction, posterior, mode = reduce(features, labels, 2, 0.7, tol=0.01)
    assert reduction.dropped_directions == 120 - reduction.basis.shape[1] > 0
    residuals = torch.nn.functional.one_hot(labels, 2) - posterior.probabilities(mode)
    pull = features.T @ residuals @ contrasts(2)
    dropped = pull - reduction.basis @ (reduction.basis.T @ pull)
    assert reduction.dropped_shift == pytest.approx(0.7 * float(dropped.norm()), rel=1e-6)


@pytest.mark.parametrize("kind", [Laplace, HMC])
def test_features_with_an_offset_far_above_their_spread_are_used(kind):
    """Their Gram matrix has a condition number of 1e14: in float64 it knows one direction only."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(200) % 2
    telling = 2 * labels - 1 + 0.3 * torch.randn(200, generator=generator, dtype=torch.float64)
    features = 1e7 + torch.stack([telling, torch.zeros_like(telling)], dim=1)
    head = kind(prior_scale=1.0).fit(features, labels, FitContext(generator=generator))
    assert 1e7 < head.health_.condition < 1e8
    assert head.health_.dimensions == 2
    for mean in (
        head.predict_proba_samples(features).mean(dim=0),
        head.predict_moments(features)[0],
    ):
        assert mean[torch.arange(200), labels].log().mean() > -0.1


def test_the_mode_has_no_slope():
    features, labels = head()
    _, posterior, mode = reduce(features, labels, 3, 1.0, tol=0.0)
    assert posterior.gradient(mode[:, :, None]).abs().max() < 0.01
    assert posterior.probabilities(mode).argmax(1).eq(labels).double().mean() > 0.8


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_problem_that_is_kept_in_single_precision_has_the_same_mode(monkeypatch, n_classes):
    features, labels = head(n_points=2000, n_classes=n_classes)
    _, wide, expected = reduce(features, labels, n_classes, 1.0, tol=0.0)
    monkeypatch.setattr(module, "_MAX_FLOAT64", 0)
    _, narrow, mode = reduce(features, labels, n_classes, 1.0, tol=0.0)
    assert (wide.features.dtype, narrow.features.dtype) == (torch.float64, torch.float32)
    torch.testing.assert_close(mode.double(), expected, atol=1e-2, rtol=0)
