"""Binomial numbers by hand; the guarantee in simulations with known error rates."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from bacoun.deferral.risk import Acceptance, largest_acceptance, points_needed, upper_bound

shares = st.floats(0.005, 0.6)


@pytest.mark.parametrize(
    ("max_error", "confidence", "needed"),
    [(0.01, 0.95, 299), (0.05, 0.95, 59), (0.1, 0.9, 22), (0.5, 0.75, 2), (0.001, 0.95, 2995)],
)
def test_points_needed_without_an_error(max_error, confidence, needed):
    assert points_needed(max_error, confidence) == needed
    assert (1 - max_error) ** needed <= 1 - confidence < (1 - max_error) ** (needed - 1)


@given(st.integers(0, 30), shares, st.floats(0.5, 0.99))
def test_points_needed_is_where_the_bound_meets_the_error(n_errors, max_error, confidence):
    needed = points_needed(max_error, confidence, n_errors)
    assert upper_bound(n_errors, needed, confidence) <= max_error + 1e-9
    assert upper_bound(n_errors, needed - 1, confidence) >= max_error - 1e-9


@given(st.integers(0, 50), st.integers(1, 500), st.floats(0.5, 0.999))
def test_the_upper_bound_is_clopper_and_pearson(n_errors, n_points, confidence):
    assume(n_errors <= n_points)
    test = stats.binomtest(n_errors, n_points, alternative="less")
    expected = test.proportion_ci(confidence, method="exact").high
    assert upper_bound(n_errors, n_points, confidence) == pytest.approx(expected, abs=1e-9)


def test_299_points_without_an_error_support_one_per_cent_and_298_do_not():
    enough = largest_acceptance(np.arange(299), np.full(299, True), 0.01, 0.95)
    assert enough.threshold == math.inf
    assert (enough.n_accepted, enough.n_errors) == (299, 0)
    assert enough.upper_bound <= 0.01
    short = largest_acceptance(np.arange(298), np.full(298, True), 0.01, 0.95)
    assert short.threshold is None
    assert "needs 299 accepted calibration points without an error" in short.statement
    assert "there were 298" in short.statement


def test_an_error_among_the_least_uncertain_points_is_named():
    correct = np.full(400, True)
    correct[[3, 7]] = False
    found = largest_acceptance(np.arange(400), correct, 0.01, 0.95)
    assert found.threshold is None
    assert "the 299 least uncertain had 2" in found.statement


def test_regions_grow_until_one_fails_and_the_last_good_one_is_kept():
    correct = np.arange(1000) < 650  # then nothing is right any more
    found = largest_acceptance(np.arange(1000), correct, 0.01, 0.95)
    # 299, 473 and 628 points may hold 0, 1 and 2 errors; 773 may not hold 123.
    assert (found.n_accepted, found.n_errors) == (628, 0)
    assert 627 <= found.threshold < 628


def test_a_later_good_region_does_not_count_once_one_has_failed():
    correct = np.full(1000, True)
    correct[300:302] = False  # 2 of 473 are too many, 2 of 628 would not be
    assert largest_acceptance(np.arange(1000), correct, 0.01, 0.95).n_accepted == 299


def test_many_points_start_with_the_least_uncertain_tenth():
    correct = np.full(10_000, True)
    correct[10] = False  # one of 299 would be too many
    assert largest_acceptance(np.arange(10_000), correct, 0.01, 0.95).threshold == math.inf


def test_thresholds_chosen_beforehand_are_tested_in_order():
    correct = np.arange(1000) < 650
    found = largest_acceptance(np.arange(1000), correct, 0.01, 0.95, thresholds=[500, 400, 900])
    assert (found.threshold, found.n_accepted) == (500, 501)
    few = largest_acceptance(np.arange(1000), correct, 0.01, 0.95, thresholds=[100, 500])
    assert few.threshold is None
    assert "there were 101" in few.statement


def test_equal_scores_are_accepted_or_deferred_together():
    total = np.repeat([0.0, 1.0], [500, 500])
    correct = np.arange(1000) < 500
    found = largest_acceptance(total, correct, 0.01, 0.95)
    assert (found.n_accepted, found.n_errors) == (500, 0)
    assert 0 <= found.threshold < 1


@given(
    st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=200),
    st.floats(0.05, 0.5),
    st.floats(0.5, 0.95),
)
def test_counts_and_bound_of_the_region_are_correct(points, max_error, confidence):
    total, correct = (np.array(column) for column in zip(*points, strict=True))
    found = largest_acceptance(total, correct, max_error, confidence)
    assert found.n_points == len(total)
    if found.threshold is None:
        assert found.upper_bound > max_error - 1e-9
        return
    inside = total <= found.threshold
    assert (found.n_accepted, found.n_errors) == (inside.sum(), (inside & ~correct).sum())
    assert found.upper_bound <= max_error + 1e-9
    assert found.n_accepted >= points_needed(max_error, confidence)


@given(st.permutations(range(120)))
def test_the_order_of_points_does_not_matter(order):
    rng = np.random.default_rng(0)
    total, correct = rng.integers(0, 40, 120), rng.random(120) < 0.97
    again = largest_acceptance(total[order], correct[order], 0.1, 0.9)
    assert again == largest_acceptance(total, correct, 0.1, 0.9)


# --- simulations: scores are uniform on (0, 1); the chance of an error at score s is known --------

MAX_ERROR = 0.05


def rising(s):
    return 0.4 * s**3  # below t the error is 0.1 t^3: too large beyond t = 0.79


def flat(s):
    return np.full_like(s, 1.001 * MAX_ERROR)  # too large everywhere, by as little as can be


def stepped(s):
    return np.where(s < 0.3, 0.0, 0.2)  # 0.05 on average below t = 0.4


def failures(chance, n_points=400, n_splits=500, choose=largest_acceptance):
    """Share of splits in which the true error exceeds the promise; mean accepted share."""
    rng = np.random.default_rng(1)
    fine = (np.arange(10_000) + 0.5) / 10_000
    true_error = np.cumsum(chance(fine)) / np.arange(1, len(fine) + 1)
    failed, accepted = [], []
    for _ in range(n_splits):
        total = rng.random(n_points)
        threshold = choose(total, rng.random(n_points) >= chance(total), MAX_ERROR, 0.95).threshold
        share = min(threshold or 0.0, 1.0)
        last = round(share * len(fine)) - 1
        failed.append(last >= 0 and true_error[last] > MAX_ERROR)
        accepted.append(share)
    return np.mean(failed), np.mean(accepted)


@pytest.mark.parametrize("chance", [rising, flat, stepped])
def test_the_error_bound_fails_in_at_most_five_per_cent_of_splits(chance):
    failed, accepted = failures(chance)
    assert failed <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 500)
    if chance is not flat:
        assert accepted > 0.25  # the promise is not kept by deferring everything


def test_the_observed_error_alone_would_break_the_guarantee():
    def naive(total, correct, max_error, confidence):
        order = np.argsort(total)
        observed = np.cumsum(~correct[order]) / np.arange(1, len(total) + 1)
        last = np.flatnonzero(observed <= max_error)[-1]
        return Acceptance(max_error, confidence, total[order][last], len(total), 0, 0, 0.0)

    assert failures(rising, choose=naive)[0] > 0.3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([1.0], [True], 0.0), "max_error must lie between 0 and 1.*got 0.0"),
        (([1.0], [True], 0.01, 95), "confidence must lie between 0 and 1.*got 95"),
        (([1.0], [True, False], 0.01), "total, correct must be equally long; got 1, 2"),
        (([np.nan], [True], 0.01), "total must hold finite numbers; 1 of 1"),
        (([1.0], [2], 0.01), "correct must hold True or False"),
        (([1.0], ["yes"], 0.01), "correct must hold True or False"),
    ],
)
def test_bad_values_are_refused_in_one_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        largest_acceptance(*arguments)
    assert "\n" not in str(refused.value)


def test_no_points_support_nothing():
    none = largest_acceptance([], np.array([], dtype=bool), 0.01)
    assert none.threshold is None
    assert "needs 299 accepted calibration points without an error; there were 0." in none.statement
