"""DirectionShell: Gaussians of directions, and boundary points at the length of known ones."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.base import clone

from bacoun.boundary import DirectionShell
from bacoun.boundary.gaussians import ClassGaussians
from bacoun.engine.directions import directions
from bacoun.protocols import FitContext


def cloud(n_points=300, dimension=160, n_classes=3, seed=0, gap=0.5):
    """Rows around one center for each class, with log-normal lengths."""
    centers = gap * torch.randn(n_classes, dimension, generator=torch.Generator().manual_seed(99))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n_points) % n_classes
    points = centers[labels] + torch.randn(n_points, dimension, generator=generator)
    return points * (0.1 * torch.randn(n_points, 1, generator=generator)).exp(), labels


def drawn(shell, n_points=1000, seed=0):
    return shell.sample(n_points, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def rows():
    return cloud()


@pytest.fixture(scope="module")
def shell(rows):
    return DirectionShell().fit(*rows)


def test_with_many_rows_the_density_is_that_of_gaussian_directions_and_log_normal_lengths():
    points, labels = cloud(20_000, 3, 2, gap=1.5)
    points = points / points.std(dim=0, correction=0)
    found = DirectionShell().fit(points, labels).class_log_prob(points[:50])
    towards, lengths = directions(points).double().numpy(), points.norm(dim=1).log().numpy()
    asked = towards[:50], lengths[:50]
    of_length = stats.norm(lengths.mean(), lengths.std()).logpdf(asked[1])
    for label in (0, 1):
        own = towards[labels.numpy() == label]
        law = stats.multivariate_normal(own.mean(axis=0), np.cov(own, rowvar=False))
        expected = math.log(0.5) + law.logpdf(asked[0]) + of_length
        np.testing.assert_allclose(found[label].numpy(), expected, rtol=0, atol=0.05)


def test_a_column_of_small_spread_counts_half_as_much_more_in_logarithms(rows):
    points, labels = rows
    scale = torch.logspace(0, -2, points.shape[1])
    by_hand = points * scale / (points * scale).std(dim=0, correction=0).sqrt()
    gaussians = ClassGaussians(is_wide=True).fit(directions(by_hand), labels)
    found = DirectionShell().fit(points * scale, labels).unfamiliarity(points * scale)
    expected = gaussians.unfamiliarity(directions(by_hand))["gaussian"]
    torch.testing.assert_close(found["gaussian"], expected, rtol=1e-3, atol=1e-3)


def test_over_all_lengths_the_density_adds_up_to_that_of_the_direction(rows, shell):
    row = rows[0][:1].double()
    logs = torch.linspace(-4, 4, 4001, dtype=torch.float64) + row.norm().log()
    line = row / row.norm() * logs.exp()[:, None]
    total = torch.trapezoid(shell.log_prob(line).exp(), logs)
    expected = shell.gaussians_.log_prob(directions(row)).exp()[0]
    torch.testing.assert_close(total, expected)
    by_class = shell.class_log_prob(line)
    torch.testing.assert_close(by_class.logsumexp(dim=0), shell.log_prob(line))


@pytest.mark.parametrize(
    ("n_points", "dimension", "n_classes"),
    [(300, 160, 3), (1200, 160, 3), (150, 384, 5), (300, 20, 2)],
    ids=["shared covariance", "own covariances", "fewer rows than columns", "few columns"],
)
def test_boundary_points_lie_outside_the_mass_of_their_class(n_points, dimension, n_classes):
    """Brought to the length of directions, a shell would lie inside: its radius would be lost."""
    shell = DirectionShell().fit(*cloud(n_points, dimension, n_classes))
    boundary, of_class = drawn(shell, 500)
    new, labels = cloud(3000, dimension, n_classes, seed=1)
    assert torch.bincount(of_class).min() > 0.5 * 500 / n_classes
    for label in range(n_classes):
        known, edge = (
            shell.gaussians_.squared_distances(directions(each))[label]
            for each in (new[labels == label], boundary[of_class == label])
        )
        assert (known > edge.median()).double().mean() < 0.06
        assert edge.quantile(0.1) > known.quantile(0.8)
        assert edge.max() < 4 * known.median()  # and not far away


def test_a_larger_mass_is_farther_out(rows):
    medians = []
    for mass in (0.5, 0.9, 0.99):
        shell = DirectionShell(mass=mass).fit(*rows)
        medians.append(float(shell.unfamiliarity(drawn(shell)[0])["gaussian"].median()))
    assert medians[0] < medians[1] - 2 < medians[2] - 4


def test_boundary_points_have_the_lengths_of_known_rows(rows, shell):
    known, edge = (each.norm(dim=1).log() for each in (rows[0], drawn(shell, 5000)[0]))
    torch.testing.assert_close(edge.mean(), known.mean(), atol=0.01, rtol=0)
    torch.testing.assert_close(edge.std(), known.std(), atol=0.01, rtol=0)


def test_one_seed_gives_the_same_boundary_and_leaves_torchs_stream_alone(shell):
    before = torch.get_rng_state()
    points, labels = drawn(shell)
    for one, other in zip(drawn(shell), (points, labels), strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(drawn(shell, seed=1)[0], points)
    assert torch.equal(torch.get_rng_state(), before)
    assert points.isfinite().all()


def test_the_length_says_nothing_within_two_standard_deviations_and_grows_beyond(rows, shell):
    points, _ = rows
    mean, spread = shell.log_length_
    unit = points[:1] / points[:1].norm()
    standard = torch.tensor([-9.0, -3.0, -2.5, -1.9, 0.0, 1.9, 2.5, 3.0, 9.0])
    scaled = unit * (mean + spread * standard).exp()[:, None]
    view = shell.unfamiliarity(scaled)["length"].float()
    expected = torch.tensor([7.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.5, 1.0, 7.0])
    torch.testing.assert_close(view, expected, atol=1e-4, rtol=0)
    assert (shell.unfamiliarity(points)["length"] == 0).double().mean() > 0.9
    factors = torch.tensor([1.0, 2.0, 10.0, 1e3, 1e6])
    grown = shell.unfamiliarity(points[:1] * factors[:, None])["length"]
    assert (grown.diff() > 0).all()


def test_the_direction_is_judged_whatever_the_length(rows, shell):
    points, _ = rows
    views = shell.unfamiliarity(points)["gaussian"]
    torch.testing.assert_close(
        shell.unfamiliarity(1e4 * points)["gaussian"], views, rtol=1e-4, atol=0
    )
    others = torch.randn(300, 160, generator=torch.Generator().manual_seed(3))
    assert shell.unfamiliarity(others)["gaussian"].median() > views.quantile(0.9)


def test_seen_rows_are_judged_as_if_they_were_new(rows, shell):
    points, labels = rows
    seen = shell.held_out_unfamiliarity(points, labels)
    own, new = (shell.unfamiliarity(each) for each in (points, cloud(3000, seed=1)[0]))
    assert list(seen) == list(own) == ["gaussian", "length"]
    assert 0.02 < (new["gaussian"] > seen["gaussian"].quantile(0.9)).double().mean() < 0.2
    assert (new["gaussian"] > own["gaussian"].quantile(0.9)).double().mean() > 0.2


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_rows_that_are_all_alike_or_zero_do_no_harm(value):
    points, labels = torch.full((20, 150), value), torch.arange(20) % 2
    shell = DirectionShell().fit(points, labels)
    assert drawn(shell, 10)[0].isfinite().all()
    for asked in (points, points + 1, 1e6 * (points + 1)):
        assert shell.log_prob(asked).isfinite().all()
        assert all(view.isfinite().all() for view in shell.unfamiliarity(asked).values())
    assert (
        shell.unfamiliarity(points + 1)["length"].min()
        > shell.unfamiliarity(points)["length"].max()
    )


@pytest.mark.parametrize("mass", [0, 1, -0.5])
def test_a_mass_that_is_no_share_is_refused(rows, mass):
    with pytest.raises(ValueError, match=rf"mass must lie between 0 and 1; got {mass}"):
        DirectionShell(mass=mass).fit(*rows)


def test_the_state_rebuilds_it(rows, shell):
    points, labels = rows
    again = clone(shell).set_state(shell.get_state())
    assert torch.equal(again.log_prob(points), shell.log_prob(points))
    assert torch.equal(drawn(again)[0], drawn(shell)[0])
    same = DirectionShell().fit(points, labels, FitContext(generator=torch.Generator()))
    for name, view in shell.held_out_unfamiliarity(points, labels).items():
        assert torch.equal(again.held_out_unfamiliarity(points, labels)[name], view)
        assert torch.equal(same.held_out_unfamiliarity(points, labels)[name], view)
