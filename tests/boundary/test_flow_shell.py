"""Edge points: finite, as many as asked for, and outside every other class."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bacoun.boundary.flow_shell import FlowShell
from bacoun.boundary.shell import chi_radius
from bacoun.engine.randomness import seeded
from bacoun.protocols import FitContext

QUICK = {"blocks": 2, "hidden": 8, "epochs": 3, "learning_rate": 1e-2, "patience": None}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def clouds(sizes: list[int], dimension: int, distance: float = 6.0) -> tuple[Tensor, Tensor]:
    """Normal classes of the given sizes, `distance` apart along the first axis."""
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    points = torch.randn(len(labels), dimension, generator=generator())
    points[:, 0] += distance * labels
    return points, labels


def shell(points: Tensor, labels: Tensor, **changed) -> FlowShell:
    return FlowShell(**QUICK | changed).fit(points, labels, FitContext(generator=generator(1)))


def edge_of(boundary: FlowShell, n_points: int, seed: int = 0) -> Tensor:
    """Edge points without the class each belongs to."""
    return boundary.sample(n_points, generator=generator(seed))[0]


def assert_good_edge(edge: Tensor, n_points: int, dimension: int) -> None:
    assert edge.shape == (n_points, dimension)
    assert edge.isfinite().all()


@pytest.mark.parametrize("per_class", [True, False])
@pytest.mark.parametrize("dimension", [1, 2, 11, 784])
def test_edge_points_are_finite_in_any_dimension(dimension, per_class):
    boundary = shell(*clouds([60, 40], dimension, 20.0), per_class=per_class)
    assert len(boundary.flows_) == (2 if per_class else 1)
    assert_good_edge(edge_of(boundary, 101, 2), 101, dimension)


@given(
    sizes=st.lists(st.sampled_from([1, 2, 5, 19, 20, 33]), min_size=1, max_size=3),
    dimension=st.integers(1, 4),
    batch_norm=st.booleans(),
    n_points=st.integers(0, 40),
)
@settings(deadline=None, max_examples=20)
def test_classes_of_any_size_have_an_edge(sizes, dimension, batch_norm, n_points):
    points, labels = clouds(sizes, dimension, 30.0)
    boundary = shell(points, labels, batch_norm=batch_norm)
    assert_good_edge(edge_of(boundary, n_points), n_points, dimension)
    assert boundary.log_prob(points).isfinite().all()


@pytest.mark.parametrize(
    ("sizes", "changed"),
    [([60, 40, 30], {}), ([60, 5], {}), ([60], {}), ([60, 40], {"batch_norm": True})],
)
def test_flows_side_by_side_have_the_densities_of_each_alone(sizes, changed):
    points, labels = clouds(sizes, 3)
    boundary = shell(points, labels, **changed)
    asked = torch.cat([points, 5 * torch.randn(5000, 3, generator=generator(2))])
    alone = torch.stack([flow.log_prob(asked) for flow in boundary.flows_])
    expected = alone + boundary.log_weights_[:, None]
    torch.testing.assert_close(boundary.class_log_prob(asked), expected, rtol=1e-5, atol=1e-5)
    again = boundary.fit(points.flip(0), labels.flip(0), FitContext(generator=generator(3)))
    alone = torch.stack([flow.log_prob(asked) for flow in again.flows_])
    assert torch.allclose(again.class_log_prob(asked) - again.log_weights_[:, None], alone)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_tiny_class_borrows_the_common_spread(size):
    points, labels = clouds([200, size], 2, 50.0)
    tiny = shell(points, labels).flows_[1]
    centered = torch.cat([c - c.mean(dim=0) for c in (points[:200], points[200:])])
    torch.testing.assert_close(tiny.scale_, centered.square().mean(dim=0).sqrt())
    torch.testing.assert_close(tiny.center_, points[200:].mean(dim=0))


def test_constant_columns_and_duplicated_rows_have_an_edge():
    points, labels = clouds([60, 60], 4)
    points[:, 2] = 3.5
    points[:60] = points[0]
    boundary = shell(points, labels)
    assert_good_edge(edge_of(boundary, 50), 50, 4)
    assert boundary.log_prob(points).isfinite().all()


@pytest.mark.parametrize(
    ("changed", "bounds"),
    [
        ({"radii": (3.0, 3.1)}, [(3.0, 3.1)]),
        ({"radii": (3.0, 3.1), "factors": (1.0, 2.0)}, [(3.0, 3.1), (6.0, 6.2)]),
        ({"factors": (0.5, 1.0, 4.0)}, None),
    ],
)
def test_edge_points_come_from_the_shells_in_equal_parts(changed, bounds):
    boundary = shell(*clouds([100], 3), blocks=0, **changed)
    n_shells = len(changed.get("factors", (1.0,)))
    edge = edge_of(boundary, 30 * n_shells)
    norms = boundary.flows_[0].to_latent(edge).norm(dim=1)
    inner = boundary.inner_radii_[0]
    bounds = bounds or [(factor * inner, 1.03 * factor * inner) for factor in changed["factors"]]
    for low, high in bounds:
        assert int(((norms > low - 1e-4) & (norms < high + 1e-4)).sum()) == 30


def test_inner_radius_is_the_larger_of_the_chi_and_the_empirical_quantile():
    box = torch.rand(300, 2, generator=generator())
    normal = torch.randn(300, 2, generator=generator(1))
    heavy_tails = normal * normal.norm(dim=1, keepdim=True) ** 2
    labels = torch.tensor([0, 1]).repeat_interleave(300)
    boundary = shell(torch.cat([box, heavy_tails]), labels, blocks=0, mass=0.95)
    norms = boundary.flows_[1].to_latent(heavy_tails).norm(dim=1)
    empirical = float(norms.quantile(0.95))
    assert empirical > chi_radius(2, 0.95)
    assert boundary.inner_radii_ == pytest.approx([chi_radius(2, 0.95), empirical])


@pytest.mark.parametrize("distance", [1.5, 3.0, 6.0])
def test_edge_points_lie_outside_every_other_class(distance):
    points, labels = clouds([100, 100, 100], 2, distance)
    strict, loose = shell(points, labels), shell(points, labels, drop_overlap=False)

    def n_inside_a_class(edge: Tensor) -> int:
        """How many lie within the shell of some class, their own or another."""
        norms = torch.stack([flow.to_latent(edge).norm(dim=1) for flow in strict.flows_])
        radii = torch.tensor(strict.inner_radii_)[:, None]
        return int((norms < radii * (1 - 1e-3)).any(dim=0).sum())

    assert n_inside_a_class(edge_of(strict, 300)) == 0
    if distance < 6:
        assert n_inside_a_class(edge_of(loose, 300)) > 0


def test_classes_that_fill_one_another_are_reported_and_still_give_an_edge():
    points, labels = clouds([100, 100], 2, 0.0)
    points[labels == 1] = points[labels == 0]
    boundary = shell(points, labels, blocks=0, factors=(0.9,))
    with pytest.warns(UserWarning, match=r"only 0 of 40 boundary points lie .* per_class=False"):
        edge = edge_of(boundary, 40)
    assert_good_edge(edge, 40, 2)


def overflowing(boundary: FlowShell, factor: float) -> FlowShell:
    """Stretch the first flow so that points with a large latent coordinate become infinite."""
    flow = boundary.flows_[0]
    flow.scale_ = torch.full_like(flow.scale_, torch.finfo(torch.float32).max / factor)
    flow.center_ = torch.zeros_like(flow.center_)
    return boundary


@pytest.mark.parametrize("drop_overlap", [True, False])
def test_points_that_overflow_are_drawn_again(drop_overlap):
    boundary = shell(*clouds([100], 2), blocks=0, radii=(3.0, 3.1), drop_overlap=drop_overlap)
    overflowing(boundary, factor=2.5)  # of the circle, only the parts near the diagonals are left
    latent_edge = 2.5 / torch.finfo(torch.float32).max * edge_of(boundary, 500)
    assert_good_edge(latent_edge, 500, 2)
    assert (latent_edge.abs() <= 2.5 * (1 + 1e-5)).all()


def test_flow_weights_that_overflow_everywhere_are_reported():
    boundary = shell(*clouds([50], 2))
    for weight in boundary.flows_[0].module_.parameters():
        weight.data.fill_(math.nan)
    expected = r"must map their shells to finite points; only 0 of 9 were"
    with (
        pytest.warns(UserWarning, match="only 0 of 9"),
        pytest.raises(ValueError, match=expected),
    ):
        edge_of(boundary, 9)


def test_one_broken_flow_leaves_the_edge_of_the_others():
    boundary = shell(*clouds([50, 50], 2, 20.0))
    for weight in boundary.flows_[0].module_.parameters():
        weight.data.fill_(1e30)
    assert_good_edge(edge_of(boundary, 60), 60, 2)


def test_same_seed_gives_same_bits_whatever_the_global_stream_which_stays_untouched():
    points, labels = clouds([60, 60], 2)
    edges = []
    for global_seed in (1, 2):
        with seeded(generator(global_seed)):
            before = torch.get_rng_state()
            edges.append(edge_of(shell(points, labels), 50, 3))
            assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*edges)
    assert not torch.equal(edges[0], edge_of(shell(points, labels), 50, 4))


def test_two_processes_fit_the_same_flows_to_the_bit():
    points, labels = clouds([60, 60, 5], 2)
    one, two = shell(points, labels, n_jobs=1), shell(points, labels, n_jobs=2)
    assert one.inner_radii_ == two.inner_radii_
    assert torch.equal(one.log_prob(points), two.log_prob(points))
    edges = [edge_of(boundary, 30) for boundary in (one, two)]
    assert torch.equal(*edges)


def test_log_prob_is_the_class_weighted_mixture():
    points, labels = clouds([30, 60, 10], 2)
    boundary = shell(points, labels)
    densities = torch.stack([flow.log_prob(points).double().exp() for flow in boundary.flows_])
    expected = (torch.tensor([0.3, 0.6, 0.1], dtype=torch.float64) @ densities).log()
    torch.testing.assert_close(boundary.log_prob(points).double(), expected, atol=1e-4, rtol=0)
    assert (boundary.log_prob(torch.full((1, 2), 1e35)) == -math.inf).all()


@pytest.mark.parametrize("drop_overlap", [True, False])
def test_each_edge_point_has_the_class_whose_shell_it_is_on(drop_overlap):
    points, labels = clouds([60, 30, 5], 2, 9.0)
    names = torch.tensor([4, 7, 9])
    boundary = shell(points, names[labels], factors=(1.0, 1.5), drop_overlap=drop_overlap)
    edge, edge_labels = boundary.sample(120, generator=generator())
    assert edge_labels.shape == (120,)
    for index, name in enumerate(names):
        assert int((edge_labels == name).sum()) >= 30  # equal parts, also of a tiny class
        norms = boundary.flows_[index].to_latent(edge[edge_labels == name]).norm(dim=1)
        inner = boundary.inner_radii_[index]
        assert (norms > inner * 0.99).all()
        assert (norms < inner * 1.5 * 1.04).all()


def test_one_flow_for_all_classes_knows_no_class():
    boundary = shell(*clouds([40, 40], 2), per_class=False)
    assert boundary.sample(10, generator=generator())[1] is None


def test_edge_points_drawn_without_the_check_have_a_class_too():
    points, labels = clouds([100, 100], 2, 0.0)
    points[labels == 1] = points[labels == 0]
    boundary = shell(points, labels, blocks=0, factors=(0.9,))
    with pytest.warns(UserWarning, match="only 0 of 40"):
        edge, edge_labels = boundary.sample(40, generator=generator())
    assert len(edge) == len(edge_labels) == 40
    assert edge_labels.unique().tolist() == [0, 1]


@pytest.mark.parametrize("per_class", [True, False])
def test_held_out_rows_are_those_that_each_flow_was_judged_by(per_class):
    points, labels = clouds([60, 40, 5], 2, 9.0)
    order = torch.randperm(len(points), generator=generator(7))
    points, labels = points[order], labels[order]
    boundary = shell(points, labels, per_class=per_class, patience=5, epochs=1, jitter=0.0)
    rows = boundary.held_out_rows_
    assert len(rows.unique()) == len(rows) == 10
    groups = [rows] if not per_class else [rows[labels[rows] == k] for k in range(2)]
    assert [len(group) for group in groups] == ([6, 4] if per_class else [10])
    for flow, group in zip(boundary.flows_, groups, strict=False):  # the tiny class has no such row
        standard = flow.log_prob(points[group]) + flow.scale_.log().sum()
        assert flow.history_.held_out == pytest.approx([-float(standard.mean())], rel=1e-4)


def test_nothing_is_held_out_from_a_training_that_runs_to_the_end():
    assert len(shell(*clouds([40, 40], 2), patience=None).held_out_rows_) == 0


def test_unfamiliarity_is_minus_the_log_density():
    points, labels = clouds([40, 40], 2)
    boundary = shell(points, labels)
    found = boundary.unfamiliarity(points)
    assert list(found) == ["density"]
    assert torch.equal(found["density"], -boundary.log_prob(points))


def test_on_epoch_counts_through_all_flows():
    calls = []
    boundary = FlowShell(**QUICK)
    boundary.fit(
        *clouds([30, 30], 2),
        FitContext(on_epoch=lambda done, planned: calls.append((done, planned))),
    )
    assert calls == [(i, 6) for i in range(1, 7)]


def test_state_round_trip_keeps_every_bit():
    points, labels = clouds([40, 40, 3], 2)
    boundary = shell(points, labels, batch_norm=True)
    copy = FlowShell(**boundary.get_params()).set_state(boundary.get_state())
    assert torch.equal(copy.log_prob(points), boundary.log_prob(points))
    edges = [edge_of(each, 30) for each in (boundary, copy)]
    assert torch.equal(*edges)


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"radii": (3.1, 3.0)}, r"radii must satisfy 0 < inner < outer; got \(3\.1, 3\.0\)"),
        ({"mass": 1.0}, r"mass must lie between 0 and 1; got 1\.0"),
        ({"mass": math.nan}, r"mass must lie between 0 and 1; got nan"),
        ({"factors": ()}, r"factors must be positive numbers, at least one; got \(\)"),
        ({"factors": (1.0, 0.0)}, r"factors must be positive .*; got \(1\.0, 0\.0\)"),
    ],
)
def test_bad_settings_are_named(bad, sentence):
    with pytest.raises(ValueError, match=sentence):
        shell(*clouds([30], 2), **bad)
