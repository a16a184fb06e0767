import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bacoun.posterior.predictive import (
    Predictive,
    Workspace,
    moments_against_last,
    moments_of_product,
    softmax_against_last,
)
from bacoun.uncertainty import decompose, from_moments


def moments(logits):
    """Of logits (N, K-1, S), all points at once."""
    return moments_against_last(logits / math.log(2), Workspace(*logits.shape, like=logits))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.sampled_from([0.1, 1.0, 30.0, 1e4]), st.integers(0, 99))
def test_moments_are_the_means_of_the_softmax(n_columns, scale, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(5, n_columns, 40, generator=generator, dtype=torch.float64)
    probabilities = softmax_against_last(logits)
    mean, entropy = moments(logits)
    torch.testing.assert_close(mean, probabilities.mean(dim=0))
    expected = torch.special.entr(probabilities).sum(dim=2).mean(dim=0)
    torch.testing.assert_close(entropy, expected, atol=1e-9, rtol=1e-7)


def test_steep_points_among_others_change_nothing_for_either():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(9, 2, 40, generator=generator, dtype=torch.float64)
    logits[::3] *= 1e5
    mean, entropy = moments(logits)
    for i, one in enumerate(logits):
        alone = moments(one[None])
        assert torch.equal(mean[i], alone[0][0])
        assert torch.equal(entropy[i], alone[1][0])


def test_of_two_classes_neither_becomes_impossible():
    logits = torch.tensor([[[-50.0] * 3], [[50.0] * 3]])
    mean, entropy = moments(logits)
    expected = torch.tensor([50.0]).double().neg().exp().float()
    torch.testing.assert_close(mean[0, 0], expected[0], rtol=1e-5, atol=0)
    torch.testing.assert_close(mean[1, 1], expected[0], rtol=1e-5, atol=0)
    assert entropy.abs().max() < 1e-5


@pytest.mark.parametrize("n_columns", [1, 2])
def test_chunks_of_a_product_give_the_same_moments(monkeypatch, n_columns):
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(70, 5, generator=generator, dtype=torch.float64)
    weights = torch.randn(5, n_columns * 30, generator=generator, dtype=torch.float64)
    whole = moments_of_product(points, weights, n_columns)
    monkeypatch.setattr("bacoun.posterior.predictive._CHUNK_ELEMENTS", 1000)
    for one, other in zip(whole, moments_of_product(points, weights, n_columns), strict=True):
        torch.testing.assert_close(one, other)
    logits = (points @ weights).unflatten(1, (n_columns, 30))
    torch.testing.assert_close(whole[0], softmax_against_last(logits).mean(dim=0))


def test_the_last_class_has_logit_zero():
    probabilities = softmax_against_last(torch.tensor([[[1.0], [2.0]]]))
    expected = torch.tensor([1.0, 2.0, 0.0]).softmax(dim=0)
    torch.testing.assert_close(probabilities[0, 0], expected)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("n_columns", [1, 3])
def test_the_logits_are_those_along_the_basis_plus_the_length_of_the_rest(n_columns, bias):
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    basis = torch.linalg.qr(normal(6 + bias, 4))[0]
    features, weights = normal(20, 6), normal(5, n_columns * 30)
    predictive = Predictive(basis, weights, n_columns, bias, torch.float64)
    design = torch.cat([features, torch.ones(20, int(bias), dtype=torch.float64)], dim=1)
    rest = (design - design @ basis @ basis.T).norm(dim=1, keepdim=True)
    logits = torch.cat([design @ basis, rest], dim=1) @ weights
    expected = softmax_against_last(logits.unflatten(1, (n_columns, 30)))
    torch.testing.assert_close(predictive.probabilities(features), expected)
    mean, entropy = predictive.moments(features)
    torch.testing.assert_close(mean, expected.mean(dim=0))
    torch.testing.assert_close(entropy, torch.special.entr(expected).sum(dim=2).mean(dim=0))


@pytest.mark.parametrize("n_columns", [1, 2, 30])
@pytest.mark.parametrize("n_directions", [4, 7])
@pytest.mark.parametrize("distance", [1.0, 1e2, 1e5])
def test_single_precision_moments_are_those_of_all_draws(n_columns, n_directions, distance):
    generator = torch.Generator().manual_seed(1)
    features = distance * torch.randn(50, 6, generator=generator)
    basis = torch.linalg.qr(torch.randn(7, n_directions, generator=generator).double())[0]
    weights = torch.randn(n_directions + 1, n_columns * 40, generator=generator).double()
    exact = Predictive(basis, weights, n_columns, True, torch.float64).probabilities(
        features.double()
    )
    found = Predictive(basis, weights, n_columns, True).moments(features)
    torch.testing.assert_close(found[0], exact.mean(dim=0), atol=1e-5, rtol=0)
    epistemic = from_moments(*found).epistemic
    torch.testing.assert_close(epistemic, decompose(exact).epistemic, atol=1e-5, rtol=0)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e5])
def test_rows_far_from_zero_lose_no_digits(offset):
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(50, 6, generator=generator, dtype=torch.float64) + offset
    basis = torch.linalg.qr(torch.randn(7, 4, generator=generator, dtype=torch.float64))[0]
    weights = torch.randn(5, 2 * 40, generator=generator, dtype=torch.float64) / (1 + offset)
    exact, quick = (
        Predictive(basis, weights, 2, True, dtype).moments(features.float().to(dtype))
        for dtype in (torch.float64, torch.float32)
    )
    for one, other in zip(exact, quick, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=0)


@pytest.mark.parametrize("n_directions", [4, 7])
def test_few_points_are_rough_in_single_precision(n_directions):
    """Nor are those that all directions are inferred of, whose remainder is zero."""
    generator = torch.Generator().manual_seed(2)
    basis = torch.linalg.qr(torch.randn(7, 7, generator=generator, dtype=torch.float64))[0]
    weights = torch.randn(n_directions + 1, 2 * 40, generator=generator, dtype=torch.float64)
    features = 3 * torch.randn(50, 6, generator=generator)
    predictive = Predictive(basis[:, :n_directions], weights, 2, True)
    expected = predictive.exact.moments(features)
    predictive.exact.moments = None  # would be called for rough points
    for one, other in zip(predictive.moments(features), expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)
