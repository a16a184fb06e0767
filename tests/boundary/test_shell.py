"""Points between two spheres."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bacoun.boundary.shell import check_radii, chi_radius, sample_shell


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(
    dimension=st.integers(1, 784),
    inner=st.floats(1e-3, 1e3),
    thickness=st.floats(1e-4, 10.0),
    seed=st.integers(0, 2**31),
)
@settings(deadline=None, max_examples=60)
def test_radii_stay_in_bounds_in_any_dimension(dimension, inner, thickness, seed):
    outer = inner * (1 + thickness)
    points = sample_shell(50, dimension, (inner, outer), generator=generator(seed))
    norms = points.double().norm(dim=1)
    assert points.shape == (50, dimension)
    assert (norms >= inner * (1 - 1e-6)).all()  # points are rounded to float32
    assert (norms <= outer * (1 + 1e-6)).all()


@pytest.mark.parametrize("dimension", [1, 2, 11, 784])
@pytest.mark.parametrize("radii", [(3.0, 3.1), (1.0, 4.0)])
def test_the_draw_is_uniform_by_volume(dimension, radii):
    """The volume within radius r, as a share of the shell, must be uniform on [0, 1]."""
    inner, outer = radii
    points = sample_shell(4000, dimension, radii, generator=generator(1))
    hollow = (inner / outer) ** dimension
    share = ((points.double().norm(dim=1) / outer) ** dimension - hollow) / (1 - hollow)
    assert stats.kstest(share.numpy(), "uniform").pvalue > 0.01


@pytest.mark.parametrize("dimension", [2, 11, 784])
def test_directions_favor_no_side(dimension):
    points = sample_shell(4000, dimension, (1.0, 2.0), generator=generator(2)).double()
    direction = points / points.norm(dim=1, keepdim=True)
    cosine = direction[:, 0].numpy()  # (1 + cosine) / 2 of a uniform direction is a Beta
    law = stats.beta((dimension - 1) / 2, (dimension - 1) / 2)
    assert stats.kstest((1 + cosine) / 2, law.cdf).pvalue > 0.01


def test_one_dimension_has_two_sides():
    points = sample_shell(1000, 1, (3.0, 3.1), generator=generator())
    assert 400 < int((points > 0).sum()) < 600


def test_same_seed_gives_same_bits():
    draws = [sample_shell(9, 5, (3.0, 3.1), generator=generator(s)) for s in (4, 4, 5)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_chi_radius_at_known_values():
    assert chi_radius(2) == pytest.approx(math.sqrt(-2 * math.log(0.01)))  # Rayleigh
    assert chi_radius(1, 0.95) == pytest.approx(1.959964, abs=1e-6)
    assert chi_radius(11) == pytest.approx(4.9725, abs=1e-3)
    assert chi_radius(784) == pytest.approx(29.6488, abs=1e-3)


@given(dimension=st.integers(1, 783), mass=st.floats(0.01, 0.98))
def test_chi_radius_grows_with_dimension_and_mass(dimension, mass):
    assert chi_radius(dimension, mass) < chi_radius(dimension + 1, mass)
    assert chi_radius(dimension, mass) < chi_radius(dimension, mass + 0.01)


def test_chi_radius_holds_its_share_of_a_normal():
    normal = torch.randn(200_000, 5, generator=generator(), dtype=torch.float64)
    inside = (normal.norm(dim=1) < chi_radius(5, 0.9)).double().mean()
    assert float(inside) == pytest.approx(0.9, abs=0.003)


@pytest.mark.parametrize(
    "radii", [(3.1, 3.0), (3.0, 3.0), (0.0, 1.0), (-1.0, 1.0), (1.0, math.inf), (math.nan, 1.0)]
)
def test_radii_that_bound_no_shell_are_refused(radii):
    with pytest.raises(ValueError, match=r"radii must satisfy 0 < inner < outer; got \("):
        check_radii(radii)


def test_good_radii_become_floats():
    assert check_radii((3, 4)) == (3.0, 4.0)
    assert all(isinstance(radius, float) for radius in check_radii((3, 4)))
