"""The requested number of least likely points are outliers, even if some are extreme."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_moons
from sklearn.utils.estimator_checks import parametrize_with_checks

from bacoun.boundary import FlowOutlierRemover, least_likely
from bacoun.uncertainty import auroc
from reproduction.datasets import load_moons_with_outliers


def quick(contamination=0.05, **settings):
    small = {"blocks": 3, "hidden": 16, "epochs": 10, "learning_rate": 1e-2, "random_state": 0}
    return FlowOutlierRemover(contamination, **small | settings)


@pytest.fixture(scope="module")
def cloud():
    return make_moons(300, noise=0.1, random_state=0)[0]


@parametrize_with_checks([quick(epochs=3, blocks=1, hidden=8)])
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def noisy():
    return load_moons_with_outliers(0, points_per_class=500, n_outliers=50, n_test=1000)


@pytest.fixture(scope="module")
def remover(noisy):
    return FlowOutlierRemover(50, epochs=30, learning_rate=3e-3, random_state=0).fit(noisy.points)


def test_outliers_are_less_likely_than_the_moons(noisy, remover):
    scores = -remover.score_samples(noisy.points)
    assert auroc(scores[:-50], scores[-50:]) > 0.9
    assert (remover.predict(noisy.points)[-50:] == -1).mean() > 0.6


def test_new_points_are_judged_by_the_same_threshold(noisy, remover):
    assert (remover.predict(noisy.test_points) == 1).mean() > 0.95
    assert (remover.predict(noisy.regions["far"]) == -1).all()


def test_the_density_integrates_to_one(cloud):
    axis = np.linspace(-6, 7, 300)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    mass = np.exp(quick().fit(cloud).score_samples(points)).sum() * (axis[1] - axis[0]) ** 2
    assert mass == pytest.approx(1, abs=0.03)


def test_the_density_of_one_column_with_long_tails_integrates_to_one():
    X = np.random.default_rng(0).standard_t(2, size=(400, 1))
    remover = quick().fit(X)
    axis = np.linspace(-400, 400, 400_001)
    mass = np.exp(remover.score_samples(axis[:, None])).sum() * (axis[1] - axis[0])
    assert mass == pytest.approx(1, abs=0.03)


def test_the_density_is_in_the_units_of_x(cloud):
    units = np.array([8.0, 0.25])
    here, there = quick().fit(cloud), quick().fit(cloud * units)
    shift = here.score_samples(cloud) - there.score_samples(cloud * units)
    np.testing.assert_allclose(shift, np.log(units).sum(), atol=1e-9)


@pytest.mark.parametrize(
    ("contamination", "expected"),
    [(0.1, 30), (0.05, 15), (0.0, 0), (0.5, 150), (7, 7), (1, 1), (0, 0), (np.int64(299), 299)],
)
def test_as_many_outliers_as_requested(cloud, contamination, expected):
    model = quick(contamination, epochs=2)
    labels = model.fit_predict(cloud)
    assert (labels == -1).sum() == expected
    scores = model.score_samples(cloud)
    if expected > 0:
        assert scores[labels == -1].max() < model.offset_ < scores[labels == 1].min()


@pytest.mark.parametrize("size", [1e3, 1e9, 1e150])
def test_an_extreme_value_does_not_mask_the_other_outliers(cloud, size):
    planted = [[4.0, 4.0], [0.5, -4.0], [-5.0, 0.0]]
    X = np.vstack([cloud, planted, [[size, 0.0]]])
    found = np.flatnonzero(quick(4).fit_predict(X) == -1)
    np.testing.assert_array_equal(found, [300, 301, 302, 303])


@pytest.mark.parametrize("value", [1e5, -1e308, 1.7e308])
def test_scores_of_the_farthest_points_are_numbers_and_low(remover, value):
    scores = remover.score_samples([[value, 0.0], [0.0, value], [value, value]])
    assert not np.isnan(scores).any()
    assert (scores < remover.offset_).all()


def test_the_score_of_a_row_does_not_depend_on_the_batch(cloud, remover):
    alone = np.concatenate([remover.score_samples(row[None]) for row in cloud[:20]])
    np.testing.assert_allclose(remover.score_samples(cloud)[:20], alone, rtol=0, atol=1e-9)


def test_one_random_state_gives_one_answer_and_leaves_torchs_stream_alone(cloud):
    before = torch.get_rng_state()
    one, two, other = (
        quick(random_state=seed).fit(cloud).score_samples(cloud) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, two)
    assert np.abs(one - other).max() > 1e-3
    assert torch.equal(torch.get_rng_state(), before)


def test_constant_and_mostly_constant_columns_do_no_harm(cloud):
    rare = np.zeros(len(cloud))
    rare[:20] = 1.0
    X = np.column_stack([cloud, np.full(len(cloud), 1e6 + 0.1), rare])
    assert np.isfinite(quick().fit(X).score_samples(X)).all()


@pytest.mark.parametrize("n_points", [1, 2, 19, 20])
def test_few_points_are_enough_to_fit(cloud, n_points):
    assert np.isfinite(quick().fit(cloud[:n_points]).score_samples(cloud)).all()


def test_on_epoch_is_called_after_every_epoch(cloud):
    calls = []
    quick(epochs=4).fit(cloud, on_epoch=lambda done, planned: calls.append((done, planned)))
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("bad", [-0.1, 0.51, 1.0, math.nan, -1, 300, True, "auto", None])
def test_a_bad_contamination_is_named(cloud, bad):
    with pytest.raises(ValueError, match=f"of the 300 points; got {bad!r}. Try 0.05.") as info:
        quick(bad).fit(cloud)
    assert "\n" not in str(info.value)


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 2)), min_size=1), st.integers(0, 50))
def test_the_least_likely_are_taken_and_two_of_each_class_stay(points, wanted):
    density, labels = np.array(points, dtype=float).T
    rows = least_likely(density, labels, wanted)
    assert (np.diff(rows) > 0).all()
    kept = np.setdiff1d(np.arange(len(points)), rows)
    possible = sum(max((labels == label).sum() - 2, 0) for label in np.unique(labels))
    assert len(rows) == min(wanted, possible)
    for label in np.unique(labels):
        stay = kept[labels[kept] == label]
        assert len(stay) >= min(2, (labels == label).sum())
        gone = rows[labels[rows] == label]
        if len(gone):
            assert density[gone].max() <= density[stay].min()


def test_points_of_latent_space_come_back_in_the_units_of_the_data(remover, noisy):
    rows = noisy.points[:50]
    latent = remover.flow_.to_latent(torch.from_numpy(remover._compressed(rows)))
    np.testing.assert_allclose(remover.from_latent(latent), rows, rtol=1e-6, atol=1e-8)
