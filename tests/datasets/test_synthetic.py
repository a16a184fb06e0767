"""The synthetic data obeys its own definition."""

import numpy as np
import pytest

from bacoun.datasets.synthetic import (
    gaussian_mixture,
    gaussian_mixture_entropy,
    gaussian_mixture_regions,
)

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
