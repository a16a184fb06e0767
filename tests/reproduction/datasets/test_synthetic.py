"""The synthetic data obeys its own definition."""

import numpy as np
import pytest
from reproduction.datasets.synthetic import (
    gaussian_mixture,
    gaussian_mixture_entropy,
    gaussian_mixture_regions,
    load_gaussian_mixture,
    load_moons,
    load_moons_with_outliers,
    moons,
    moons_regions,
)

from reproduction.datasets import KINDS, load_wine

MEANS = 2 * np.array([[0.0, 2.0], [-np.sqrt(3), -1.0], [np.sqrt(3), -1.0]])


def test_the_best_possible_accuracy_is_as_documented():
    points, labels = gaussian_mixture(100_000, random_state=5)
    nearest = ((points[:, None] - MEANS) ** 2).sum(axis=2).argmin(axis=1)  # Bayes: equal spheres
    assert np.mean(nearest == labels) == pytest.approx(0.959, abs=0.0015)


def test_classes_have_the_stated_moments():
    points, labels = gaussian_mixture(100_000, random_state=1)
    for label, mean in enumerate(MEANS):
        cloud = points[labels == label]
        np.testing.assert_allclose(cloud.mean(axis=0), mean, atol=0.03)
        np.testing.assert_allclose(np.cov(cloud.T), 3 * np.eye(2), atol=0.06)


def test_shapes_counts_and_seeds():
    points, labels = gaussian_mixture(7, random_state=3)
    assert points.shape == (21, 2)
    assert np.bincount(labels).tolist() == [7, 7, 7]
    np.testing.assert_array_equal(points, gaussian_mixture(7, random_state=3)[0])
    assert not np.array_equal(points, gaussian_mixture(7, random_state=4)[0])


def test_true_entropy_at_points_of_symmetry():
    between = (MEANS[1] + MEANS[2]) / 2  # the third class has weight exp(-36 / 6 + 12 / 6) there
    third = np.exp(-((between - MEANS[0]) ** 2).sum() / 6)
    others = np.exp(-((between - MEANS[1]) ** 2).sum() / 6)
    p = np.array([third, others, others]) / (third + 2 * others)
    points = np.array([[0.0, 0.0], between, [0.0, 1e4]])
    expected = [np.log(3), -(p * np.log(p)).sum(), 0.0]
    np.testing.assert_allclose(gaussian_mixture_entropy(points), expected, atol=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_regions_obey_their_definition(seed):
    regions = gaussian_mixture_regions(seed)
    assert {name: len(points) for name, points in regions.items()} == {
        "in": 100,
        "out": 100,
        "middle": 100,
    }
    assert gaussian_mixture_entropy(regions["in"]).max() < 0.05
    assert gaussian_mixture_entropy(regions["middle"]).min() > 0.5
    for coordinate in regions["out"].T:
        np.testing.assert_allclose(np.unique(coordinate), np.linspace(15, 17.5, 10))
    assert len(np.unique(regions["out"], axis=0)) == 100


def test_regions_share_no_point_with_the_training_data():
    training, _ = gaussian_mixture(2000, random_state=0)
    for points in gaussian_mixture_regions(0).values():
        assert not (points[:, None] == training).all(axis=2).any()


def distance_to_moons(points):
    """Distance (N,) to two half circles, from their equations."""

    def to_arc(x, y):  # the upper half of the unit circle
        ends = np.minimum(np.hypot(x - 1, y), np.hypot(x + 1, y))
        return np.where(y >= 0, np.abs(np.hypot(x, y) - 1), ends)

    x, y = points.T
    return np.minimum(to_arc(x, y), to_arc(1 - x, 0.5 - y))


def test_moons_scatter_around_their_half_circles():
    points, labels = moons(20_000, noise=0.05, random_state=1)
    assert np.bincount(labels).tolist() == [20_000, 20_000]
    distance = distance_to_moons(points)
    assert np.sqrt((distance**2).mean()) == pytest.approx(0.05, rel=0.02)
    assert points[labels == 0, 1].mean() > points[labels == 1, 1].mean()


@pytest.mark.parametrize("noise", [0.05, 0.1])
def test_regions_of_the_moons_obey_their_definition(noise):
    regions = moons_regions(noise)
    distance = distance_to_moons(regions["between"]) / noise
    assert len(distance) > 500
    assert distance.min() > 5.99
    assert distance.max() < 10.01
    radii = np.linalg.norm(regions["far"] - [0.5, 0.25], axis=1)
    np.testing.assert_allclose(radii, 3 * np.hypot(1.5, 0.25), rtol=1e-3)
    assert len(np.unique(regions["far"].round(9), axis=0)) == 200


def test_some_points_between_lie_in_the_gap_and_not_only_around():
    between = moons_regions()["between"]
    assert (np.linalg.norm(between - [0.5, 0.25], axis=1) < 0.15).any()


def test_moons_without_noise_have_no_regions():
    with pytest.raises(ValueError, match=r"noise must be positive; got 0\. Try 0\.05\."):
        load_moons(noise=0)


SYNTHETIC = [load_gaussian_mixture, load_moons, load_moons_with_outliers]


@pytest.mark.parametrize("load", SYNTHETIC)
def test_the_seed_changes_the_points_to_fit_and_nothing_else(load):
    one, again, other = load(1, n_test=600), load(1, n_test=600), load(2, n_test=600)
    np.testing.assert_array_equal(one.points, again.points)
    assert not np.array_equal(one.points, other.points)
    np.testing.assert_array_equal(one.test_points, other.test_points)
    for name in one.regions.keys() - {"outliers"}:
        np.testing.assert_array_equal(one.regions[name], other.regions[name])


@pytest.mark.parametrize("load", SYNTHETIC)
@pytest.mark.parametrize("seed", [0, 3])
def test_no_test_point_was_learned_from(load, seed):
    data = load(seed, n_test=600)
    assert not np.isin(data.test_points, data.points).any()


@pytest.mark.parametrize("load", [*SYNTHETIC, load_wine])
def test_every_data_set_has_the_same_form_and_a_name(load):
    assert load in KINDS.values()
    data = load(random_state=0)
    width = len(data.feature_names)
    for points in (data.points, data.test_points, *data.regions.values()):
        assert points.ndim == 2
        assert points.shape[1] == width
        assert len(points) > 0
        assert np.isfinite(points).all()
    assert data.labels.shape == data.points.shape[:1]
    assert data.test_labels.shape == data.test_points.shape[:1]
    np.testing.assert_array_equal(np.unique(data.test_labels), np.unique(data.labels))
    assert "in" in data.regions


def test_sizes_are_the_papers():
    assert len(load_gaussian_mixture().points) == 1500
    assert len(load_gaussian_mixture().test_points) == 30_000
    assert len(load_moons().points) == 4000
    assert len(load_moons_with_outliers().points) == 4200


def test_outliers_are_moved_copies_that_follow_the_moons():
    data, clean = load_moons_with_outliers(3), load_moons(3)
    np.testing.assert_array_equal(data.points[:4000], clean.points)
    np.testing.assert_array_equal(data.points[4000:], data.regions["outliers"])
    np.testing.assert_array_equal(data.test_points, clean.test_points)
    assert 0.9 < np.sqrt((distance_to_moons(data.points[4000:]) ** 2).mean()) < 1.3
    by_class = [data.regions["outliers"][data.labels[4000:] == label, 1].mean() for label in (0, 1)]
    assert by_class[0] > by_class[1]
