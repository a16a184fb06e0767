"""The test of drift keeps its promise, and notices what it should."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from bacoun.watching.martingale import DriftTest, bets


def test_bets_are_fair():
    for number in range(bets(np.zeros(1)).shape[-1]):
        mean, _ = integrate.quad(lambda p, k=number: bets(np.array([p]))[0, k], 0, 1, limit=200)
        assert mean == pytest.approx(1, abs=1e-3)
    assert (bets(np.linspace(0, 1, 101)) > 0).all()


@given(seed=st.integers(0, 10**6), n_bins=st.integers(2, 30))
def test_p_values_of_exchangeable_rows_are_uniform_and_independent(seed, n_bins):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(n_bins))
    reference = rng.multinomial(200, weights)[None]
    test = DriftTest.start(reference, np.ones(1))
    p = test.update(rng.choice(n_bins, (600, 1), p=weights), rng)[:, 0]
    assert stats.kstest(p, "uniform").pvalue > 1e-7
    assert stats.spearmanr(p[1:], p[:-1]).pvalue > 1e-7


@given(seed=st.integers(0, 10**6), cut=st.integers(0, 300))
def test_rows_in_pieces_are_the_same_as_at_once(seed, cut):
    bins = np.random.default_rng(seed).integers(0, 8, (300, 3))
    start = np.ones((3, 8))
    whole, pieces = (DriftTest.start(start, np.ones(3)) for _ in range(2))
    whole.update(bins, np.random.default_rng(1))
    for part, rng in ((bins[:cut], 1), (bins[cut:], 1)):
        pieces.update(part, np.random.default_rng(rng))
    assert (pieces.counts == whole.counts).all()
    assert pieces.n_rows == whole.n_rows == 300


def test_false_alarms_are_within_the_promise():
    alarms, n_streams = 0, 120
    for seed in range(n_streams):
        rng = np.random.default_rng(seed)
        reference = rng.multinomial(150, np.full(12, 1 / 12), size=4)
        test = DriftTest.start(reference, np.ones(4), false_alarm=0.1)
        test.update(rng.integers(0, 12, (400, 4)), rng)
        alarms += test.alarm_row is not None
    assert stats.binomtest(alarms, n_streams, 0.1, alternative="greater").pvalue > 0.01


def test_a_change_is_noticed_by_the_quantity_that_changed():
    rng = np.random.default_rng(0)
    test = DriftTest.start(rng.multinomial(300, np.full(20, 0.05), size=5), np.ones(5))
    bins = rng.integers(0, 20, (400, 5))
    bins[100:, 3] = rng.integers(12, 20, 300)
    test.update(bins, rng)
    assert test.alarm_quantity == 3
    assert 100 < test.alarm_row < 180


def test_its_state_survives_a_file():
    rng = np.random.default_rng(0)
    test = DriftTest.start(rng.multinomial(50, np.full(6, 1 / 6), size=2), np.ones(2))
    test.update(rng.integers(0, 6, (50, 2)), rng)
    again = DriftTest.from_dict(json.loads(json.dumps(test.to_dict())))
    bins = rng.integers(3, 6, (200, 2))
    for each in (test, again):
        each.update(bins, np.random.default_rng(1))
    assert test.alarm_row == again.alarm_row
    np.testing.assert_allclose(test.log_capital, again.log_capital)


def test_a_promise_of_no_probability_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        DriftTest.start(np.ones((1, 2)), np.ones(1), false_alarm=0)
