import numpy as np

from reproduction.datasets import load_wine


def test_the_split_is_the_papers():
    wine = load_wine()
    assert wine.points.shape == (2 * 1238, 11)
    assert (wine.labels == 5).sum() == (wine.labels == 7).sum() == 1238
    assert len(np.unique(wine.points[wine.labels == 7], axis=0)) <= 748
    assert (wine.test_labels == 5).sum() == 219
    assert (wine.test_labels == 7).sum() == 132
    assert len(wine.regions["held-out"]) == 363
    assert len(wine.regions["6"]) == 2198
    assert wine.feature_names[0] == "fixed acidity"


def test_ood_wines_differ_from_test_wines_in_the_first_column_alone():
    wine = load_wine()
    moved = wine.regions["ood"] - wine.regions["in"]
    assert not moved[:, 1:].any()
    original = np.unique(wine.points[wine.labels == 5], axis=0)[:, 0].std()
    assert 8 < (moved[:, 0] / original).mean() < 12


def test_unseen_test_wines_are_those_without_a_twin_in_training():
    wine = load_wine()
    np.testing.assert_array_equal(wine.regions["in"], wine.test_points)
    twins = (wine.test_points[:, None] == wine.points).all(axis=2).any(axis=1)
    assert twins.sum() == 100
    np.testing.assert_array_equal(wine.regions["in, unseen"], wine.test_points[~twins])


def test_one_seed_gives_one_split():
    first, second, other = load_wine(1), load_wine(1), load_wine(2)
    assert np.array_equal(first.points, second.points)
    assert not np.array_equal(first.points, other.points)
