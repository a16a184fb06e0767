"""One Gaussian per class: densities, and how training points would look if they were new."""

import pytest
import torch
from scipy.stats import multivariate_normal

from bacoun.boundary.gaussians import ClassGaussians


def clouds(n_rows, dimension, n_classes=2, seed=0, gap=4.0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n_rows) % n_classes
    points = torch.randn(n_rows, dimension, generator=generator)
    points[:, 0] += gap * labels
    return points @ torch.linspace(0.5, 2, dimension).diag(), labels


def test_with_many_rows_the_density_is_that_of_the_classes_own_gaussians():
    points, labels = clouds(20_000, 3)
    found = ClassGaussians().fit(points, labels).log_prob(points[:50])
    expected = torch.zeros(50, dtype=torch.float64)
    for label in (0, 1):
        own = points[labels == label].double().numpy()
        law = multivariate_normal(own.mean(axis=0), torch.from_numpy(own).T.cov().numpy())
        expected += 0.5 * torch.from_numpy(law.pdf(points[:50].double().numpy()))
    torch.testing.assert_close(found, expected.log(), atol=0.01, rtol=0)


@pytest.mark.parametrize(
    ("n_rows", "dimension", "n_components"),
    [(30, 2, None), (40, 90, None), (60, 300, 20), (2, 5, 3)],
)
def test_few_rows_of_many_columns_have_a_finite_density(n_rows, dimension, n_components):
    points, labels = clouds(n_rows, dimension)
    gaussians = ClassGaussians(n_components).fit(points, labels)
    for views in (gaussians.unfamiliarity(1e6 * points), gaussians.cross_fitted(points, labels)):
        assert list(views) == (["gaussian"] if n_components is None else ["gaussian", "residual"])
        assert all(scores.isfinite().all() for scores in views.values())


@pytest.mark.parametrize("n_components", [None, 10])
@pytest.mark.parametrize("n_rows", [60, 400])
def test_cross_fitted_training_points_look_like_new_ones(n_rows, n_components):
    """Fitted to the points themselves, the Gaussians find new points far more unusual."""
    points, labels = clouds(n_rows + 2000, 30, n_classes=3)
    new, points, labels = points[n_rows:], points[:n_rows], labels[:n_rows]
    gaussians = ClassGaussians(n_components).fit(points, labels)
    cross_fitted = gaussians.cross_fitted(points, labels)
    own, there = gaussians.unfamiliarity(points), gaussians.unfamiliarity(new)

    def beyond(name, reference):
        return float((there[name] > reference[name].quantile(0.9)).double().mean())

    for name in there:
        assert 0.005 < beyond(name, cross_fitted) < 0.2
    if n_components is None:
        assert beyond("gaussian", own) > beyond("gaussian", cross_fitted)


def test_copies_of_a_row_are_held_out_together():
    points, labels = clouds(50, 20)
    twice = ClassGaussians().cross_fitted(points.repeat(2, 1), labels.repeat(2))["gaussian"]
    assert torch.equal(twice[:50], twice[50:])
    assert (
        twice.mean() > ClassGaussians().fit(points, labels).unfamiliarity(points)["gaussian"].mean()
    )


def test_a_broken_dependency_between_columns_is_noticed_although_each_value_is_usual():
    points, labels = clouds(500, 4)
    points[:, 3] = points[:, 1] + points[:, 2]
    gaussians = ClassGaussians().fit(points, labels)
    broken = points.clone()
    broken[:, 3] = points[:, 1] - points[:, 2]
    usual, odd = (gaussians.unfamiliarity(each)["gaussian"] for each in (points, broken))
    assert float((odd > usual.max()).double().mean()) > 0.8


def test_constant_columns_and_single_rows_of_a_class_are_no_obstacle():
    points, labels = clouds(21, 3)
    points[:, 1] = 7.0
    labels[0] = 2  # alone in its class
    gaussians = ClassGaussians().fit(points, labels)
    assert gaussians.log_prob(points).isfinite().all()
    assert gaussians.cross_fitted(points, labels)["gaussian"].isfinite().all()
    moved = points + torch.tensor([0.0, 1.0, 0.0])
    assert (gaussians.log_prob(moved) < gaussians.log_prob(points) - 4).all()


def test_the_state_rebuilds_them():
    points, labels = clouds(60, 30)
    gaussians = ClassGaussians(5).fit(points, labels)
    again = ClassGaussians().set_state(gaussians.get_state())
    for name, scores in gaussians.unfamiliarity(points).items():
        assert torch.equal(again.unfamiliarity(points)[name], scores)
    assert again.n_components == 5


def test_components_of_all_directions_leave_out_nothing_not_even_rounding_errors():
    points, labels = clouds(60, 3)
    gaussians = ClassGaussians(3).fit(points, labels)
    for views in (gaussians.unfamiliarity(1e3 * points), gaussians.cross_fitted(points, labels)):
        assert (views["residual"] == 0).all()
