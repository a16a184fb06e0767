"""Detectors of unusual rows, on points whose distances are known."""

import numpy as np
import pytest

from bacoun.comparison.detectors import (
    isolation_forest,
    knn_distance,
    local_outlier_factor,
    mahalanobis,
    one_class_svm,
)


def test_knn_distance_is_that_to_the_kth_neighbor():
    line = np.arange(5.0)[:, None]  # 0, 1, 2, 3, 4
    rows = np.array([[0.0], [1.4], [10.0]])
    one, two = (knn_distance(line, np.zeros(5), 0, n_neighbors=k).score(rows) for k in (1, 2))
    np.testing.assert_allclose(one, [0, 0.4, 6])
    np.testing.assert_allclose(two, [1, 0.6, 7])


def test_mahalanobis_forgives_steps_along_the_data():
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(500, 2)) * [10, 1]
    score = mahalanobis(cloud, np.zeros(500), 0).score
    along, across = score(np.array([[15.0, 0.0], [0.0, 5.0]]))
    assert across > 5 * along
    center = cloud.mean(axis=0)
    once, twice = score(center + np.array([[1.0, 1.0], [2.0, 2.0]]))
    assert score(center[None]) == pytest.approx(0, abs=1e-12)
    assert twice == pytest.approx(4 * once)  # it is squared


def test_mahalanobis_is_measured_from_the_nearest_class_in_its_own_units():
    rng = np.random.default_rng(0)
    narrow, wide = rng.normal(size=(300, 2)), rng.normal([1000, 0], 10, size=(300, 2))
    labels = np.repeat([0, 1], 300)
    score = mahalanobis(np.concatenate([narrow, wide]), labels, 0).score
    means = np.stack([narrow.mean(axis=0), wide.mean(axis=0)])
    np.testing.assert_allclose(score(means), 0, atol=1e-12)
    from_narrow, from_wide = score(means + np.array([10.0, 0.0]))
    assert from_narrow > 50 * from_wide


@pytest.mark.parametrize("n_points", [12, 20])
def test_the_local_outlier_factor_is_a_ratio_of_distances(n_points):
    angle = 2 * np.pi * np.arange(n_points) / n_points
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    side = 2 * np.sin(np.pi / n_points)
    score = local_outlier_factor(ring, np.zeros(n_points), 0, n_neighbors=2).score
    # On the ring all is equally dense; its center is a radius from all, they a side from another.
    np.testing.assert_allclose(score(np.array([ring[0], [0.0, 0.0]])), [1, 1 / side], rtol=1e-6)


@pytest.mark.parametrize(
    "detect", [isolation_forest, knn_distance, local_outlier_factor, mahalanobis, one_class_svm]
)
def test_far_rows_score_higher_than_nearly_all_training_rows(detect):
    rng = np.random.default_rng(0)
    detector = detect(rng.normal(size=(200, 3)), np.repeat([0, 1], 100), 0)
    assert detector.known.shape == (200,)
    assert (detector.score(np.full((1, 3), 8.0)) > np.quantile(detector.known, 0.95)).all()


def test_a_training_row_is_not_its_own_neighbor():
    line = np.arange(5.0)[:, None]
    detector = knn_distance(line, np.zeros(5), 0, n_neighbors=1)
    np.testing.assert_allclose(detector.known, 1)
    np.testing.assert_allclose(detector.score(line), 0)
