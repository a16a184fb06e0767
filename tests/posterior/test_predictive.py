import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bacoun.posterior.predictive import (
    moments_against_last,
    moments_of_product,
    softmax_against_last,
)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.sampled_from([0.1, 1.0, 30.0, 1e4]), st.integers(0, 99))
def test_moments_are_the_means_of_the_softmax(n_columns, scale, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(5, n_columns, 40, generator=generator, dtype=torch.float64)
    probabilities = softmax_against_last(logits)
    mean, entropy = moments_against_last(logits.clone())
    torch.testing.assert_close(mean, probabilities.mean(dim=0))
    expected = torch.special.entr(probabilities).sum(dim=2).mean(dim=0)
    torch.testing.assert_close(entropy, expected, atol=1e-9, rtol=1e-7)


def test_steep_points_among_others_change_nothing_for_either():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(9, 2, 40, generator=generator, dtype=torch.float64)
    logits[::3] *= 1e5
    mean, entropy = moments_against_last(logits.clone())
    for i, one in enumerate(logits):
        alone = moments_against_last(one[None].clone())
        assert torch.equal(mean[i], alone[0][0])
        assert torch.equal(entropy[i], alone[1][0])


def test_of_two_classes_neither_becomes_impossible():
    logits = torch.tensor([[[-50.0] * 3], [[50.0] * 3]])
    mean, entropy = moments_against_last(logits.clone())
    expected = torch.tensor([50.0]).double().neg().exp().float()
    torch.testing.assert_close(mean[0, 0], expected[0], rtol=1e-5, atol=0)
    torch.testing.assert_close(mean[1, 1], expected[0], rtol=1e-5, atol=0)
    assert entropy.abs().max() < 1e-5


@pytest.mark.parametrize("n_columns", [1, 2])
def test_slices_of_a_product_give_the_same_moments(monkeypatch, n_columns):
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(70, 5, generator=generator, dtype=torch.float64)
    weights = torch.randn(5, n_columns * 30, generator=generator, dtype=torch.float64)
    whole = moments_of_product(points, weights, n_columns)
    monkeypatch.setattr("bacoun.posterior.predictive._SLICE_ELEMENTS", 1000)
    monkeypatch.setattr("bacoun.posterior.predictive._SMALL_SLICE_ELEMENTS", 300)
    for one, other in zip(whole, moments_of_product(points, weights, n_columns), strict=True):
        torch.testing.assert_close(one, other)
    logits = (points @ weights).unflatten(1, (n_columns, 30))
    torch.testing.assert_close(whole[0], softmax_against_last(logits).mean(dim=0))


def test_the_last_class_has_logit_zero():
    probabilities = softmax_against_last(torch.tensor([[[1.0], [2.0]]]))
    expected = torch.tensor([1.0, 2.0, 0.0]).softmax(dim=0)
    torch.testing.assert_close(probabilities[0, 0], expected)
