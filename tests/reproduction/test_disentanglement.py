"""What each part of the uncertainty follows, and whether a probability is one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reproduction.studies.disentanglement import (
    correlation,
    disentanglement_error,
    shuffled,
    some_of,
)
from reproduction.studies.ood_calibration import reliability

PERFECT = {
    "aleatoric size": 0.0,
    "epistemic size": 1.0,
    "aleatoric noise": 1.0,
    "epistemic noise": 0.0,
}


def test_parts_that_follow_what_they_should_have_no_error():
    assert disentanglement_error(PERFECT) == 0
    swapped = {key: 1 - value for key, value in PERFECT.items()}
    assert disentanglement_error(swapped) == 1


@pytest.mark.parametrize("key", PERFECT)
def test_each_correlation_counts_a_quarter(key):
    assert disentanglement_error(PERFECT | {key: PERFECT[key] - 0.4}) == pytest.approx(0.1)


def test_a_constant_correlates_with_nothing():
    assert correlation(np.ones(5), np.arange(5.0)) == 0
    assert correlation(np.arange(5.0), 3 - 2 * np.arange(5.0)) == pytest.approx(-1)


@given(st.floats(0, 1), st.integers(0, 100))
def test_shuffled_labels_are_the_same_ones_in_other_places(share, seed):
    labels = np.repeat(np.arange(4), 25)
    noisy = shuffled(labels, share, seed)
    assert sorted(noisy) == sorted(labels)
    assert (noisy != labels).sum() <= round(share * len(labels))


@given(st.floats(0.001, 1), st.integers(0, 100))
def test_some_rows_of_each_class_are_kept_and_at_least_one(share, seed):
    y = np.repeat([0, 1, 2], [3, 30, 60])
    X = np.arange(len(y))[:, None]
    rows, labels = some_of((X, y), share, seed)
    assert np.array_equal(y[rows[:, 0]], labels)
    for label, n_rows in zip(*np.unique(y, return_counts=True), strict=True):
        assert (labels == label).sum() == max(1, round(share * n_rows))


@given(st.floats(0.01, 0.99), st.integers(0, 1000))
def test_a_probability_that_is_one_is_reliable(share, seed):
    """Known and unknown rows whose log odds are shifted by exactly what the likelihood ratio is."""
    rng = np.random.default_rng(seed)
    known, unknown = rng.normal(0, 1, 20_000), rng.normal(2, 1, 20_000)
    odds = share / (1 - share)
    said = [odds * np.exp(2 * x - 2) / (1 + odds * np.exp(2 * x - 2)) for x in (known, unknown)]
    for mass, mean, found in reliability(*said, share):
        if mass > 0.02:
            assert found == pytest.approx(mean, abs=0.05)
    assert sum(reliability(*said, share)[:, 0]) == pytest.approx(1)
