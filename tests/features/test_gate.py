"""The gate hands features over from the first half to the second."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bacoun.features.gate import as_if_rare, gated


def features(n_points: int, width: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n_points, width, generator=generator, dtype=torch.float64)


sizes = {"n_points": st.integers(0, 9), "width": st.integers(0, 9), "seed": st.integers(0, 99)}


@given(**sizes, scale=st.floats(0.1, 10))
@settings(deadline=None)
def test_the_halves_share_out_features_and_bias(n_points, width, seed, scale):
    phi = features(n_points, width, seed)
    g = features(n_points, 1, seed + 1)[:, 0].sigmoid()
    design = gated(phi, g, scale)
    assert design.shape == (n_points, 2 * width + 2)
    first, second = design.split(width + 1, dim=1)
    with_bias = torch.cat([phi, torch.ones(n_points, 1, dtype=torch.float64)], dim=1)
    torch.testing.assert_close(first + second / scale, with_bias)
    torch.testing.assert_close(second, scale * g[:, None] * with_bias)


@given(**sizes)
@settings(deadline=None)
def test_a_closed_gate_leaves_the_second_half_zero_and_an_open_one_the_first(n_points, width, seed):
    phi = features(n_points, width, seed)
    with_bias = torch.cat([phi, torch.ones(n_points, 1, dtype=torch.float64)], dim=1)
    zeros, ones = (torch.full((n_points,), value, dtype=torch.float64) for value in (0.0, 1.0))
    nothing = torch.zeros_like(with_bias)
    assert torch.equal(gated(phi, zeros), torch.cat([with_bias, nothing], dim=1))
    assert torch.equal(gated(phi, ones), torch.cat([nothing, with_bias], dim=1))


def test_known_answer():
    design = gated(torch.tensor([[2.0, 4.0]]), torch.tensor([0.25]))
    assert design.tolist() == [[1.5, 3.0, 0.75, 0.5, 1.0, 0.25]]


@given(st.floats(0, 1), st.floats(0.05, 20), st.floats(0.001, 0.999))
def test_a_rarer_unknown_follows_bayes_rule(probability, odds, share):
    p = torch.tensor([probability], dtype=torch.float64)
    # The likelihood ratio is what the network knows; the odds before are what changes.
    ratio = probability / odds
    expected = ratio * share / (ratio * share + (1 - probability) * (1 - share))
    assert float(as_if_rare(p, odds, share)) == pytest.approx(expected, abs=1e-9)


def test_the_share_seen_in_training_changes_nothing():
    p = torch.linspace(0, 1, 11, dtype=torch.float64)
    torch.testing.assert_close(as_if_rare(p, trained_odds=3.0, share=0.75), p)


def test_certainty_stays_and_the_order_of_points_too():
    p = torch.linspace(0, 1, 101)
    rare = as_if_rare(p, trained_odds=1.25, share=0.01)
    assert rare[0] == 0
    assert rare[-1] == 1
    assert (rare.diff() > 0).all()


@pytest.mark.parametrize("share", [0, 1, -0.1, "some"])
def test_a_share_that_is_none_is_refused(fast, moons, share):
    with pytest.raises(ValueError, match="ood_share must lie between 0 and 1"):
        fast(ood_share=share).fit(*moons)


def test_a_larger_share_makes_new_points_unknown_sooner(fast, moons):
    rare, common = (fast(ood_share=share).fit(*moons) for share in (0.01, 0.5))
    before, after = (model.ood_probability(moons[0]) for model in (rare, common))
    assert (after >= before).all()
    assert after.mean() > before.mean()
