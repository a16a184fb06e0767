"""The gate hands features over from the first half to the second."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bacoun.features.gate import gated


def features(n_points: int, width: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n_points, width, generator=generator, dtype=torch.float64)


sizes = {"n_points": st.integers(0, 9), "width": st.integers(0, 9), "seed": st.integers(0, 99)}


@given(**sizes)
@settings(deadline=None)
def test_the_halves_share_out_features_and_bias(n_points, width, seed):
    phi = features(n_points, width, seed)
    g = features(n_points, 1, seed + 1)[:, 0].sigmoid()
    design = gated(phi, g)
    assert design.shape == (n_points, 2 * width + 2)
    first, second = design.split(width + 1, dim=1)
    with_bias = torch.cat([phi, torch.ones(n_points, 1, dtype=torch.float64)], dim=1)
    torch.testing.assert_close(first + second, with_bias)
    torch.testing.assert_close(second, g[:, None] * with_bias)


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
