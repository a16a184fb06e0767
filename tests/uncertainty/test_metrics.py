"""Metrics against values by hand, their definitions, and invariants."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bacoun.uncertainty.metrics import (
    augrc,
    aupr,
    aurc,
    auroc,
    change_from,
    coverage_at_risk,
    expected_calibration_error,
    fpr_at_tpr,
    negative_log_likelihood,
    rank_correlation,
    risk_at_coverage,
    risk_coverage,
)

few = settings(max_examples=30)
few_values = st.integers(-3, 3).map(float)  # so that there are ties
scores = arrays(np.float64, st.integers(1, 12), elements=few_values)


@st.composite
def judged(draw):
    """Uncertainty and correctness of up to a dozen points."""
    uncertainty = draw(scores)
    return uncertainty, draw(arrays(np.bool_, len(uncertainty)))


def monotone(values):
    return np.exp(values / 2) - 5


# --- detection ------------------------------------------------------------------------------------


@few
@given(scores, scores)
def test_auroc_counts_pairs_and_halves_ties(inside, outside):
    pairs = [(o > i) + 0.5 * (o == i) for i, o in itertools.product(inside, outside)]
    assert auroc(inside, outside) == pytest.approx(np.mean(pairs), abs=1e-12)


@few
@given(scores, scores)
def test_auroc_of_the_two_sides_add_up_to_one(a, b):
    assert auroc(a, b) + auroc(b, a) == pytest.approx(1, abs=1e-12)


@few
@given(scores, scores)
@pytest.mark.parametrize("score", [auroc, aupr, fpr_at_tpr])
def test_detection_sees_only_the_order(score, inside, outside):
    assert score(monotone(inside), monotone(outside)) == pytest.approx(score(inside, outside))


@few
@given(scores, scores, st.randoms(use_true_random=False))
@pytest.mark.parametrize("score", [auroc, aupr, fpr_at_tpr, change_from])
def test_the_order_of_rows_does_not_matter_to_detection(score, inside, outside, random):
    shuffled = [random.sample(list(side), len(side)) for side in (inside, outside)]
    assert score(*shuffled) == pytest.approx(score(inside, outside), nan_ok=True)


@pytest.mark.parametrize(
    ("score", "best", "worst"), [(auroc, 1, 0), (aupr, 1, None), (fpr_at_tpr, 0, 1)]
)
def test_detection_at_its_best_and_worst(score, best, worst):
    assert score([1, 2, 3], [4, 5, math.inf]) == best
    if worst is not None:
        assert score([4, 5, math.inf], [1, 2, 3]) == worst


def test_aupr_by_hand():
    # From the top: 0.9 out (1/1), 0.8 in, 0.7 out (2/3), 0.6 out (3/4), 0.1 in.
    assert aupr([0.8, 0.1], [0.9, 0.7, 0.6]) == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    assert aupr([1, 1, 1], [1]) == 0.25


@pytest.mark.parametrize(("tpr", "expected"), [(0.5, 0.0), (0.8, 0.2), (0.95, 0.4), (1.0, 0.4)])
def test_fpr_at_tpr_by_hand(tpr, expected):
    outside = [0.3, 0.6, 0.7, 0.8, 0.9]
    assert fpr_at_tpr([0.1, 0.1, 0.2, 0.5, 0.65], outside, tpr) == expected


@few
@given(scores, scores, st.floats(0.01, 1))
def test_fpr_at_tpr_is_the_smallest_over_all_thresholds(inside, outside, tpr):
    assume(all(abs(tpr * len(outside) - k) > 1e-6 for k in range(13)))
    good = [t for t in outside if np.mean(outside >= t) >= tpr]
    assert fpr_at_tpr(inside, outside, tpr) == min(np.mean(inside >= t) for t in good)


def test_change_from_by_hand():
    assert change_from([1, 3], [1, 2, 3, 10]) == 1.0
    assert change_from([4], [1]) == -0.75
    assert change_from([0, 0], [1]) == math.inf
    assert math.isnan(change_from([0], [0]))


# --- calibration ----------------------------------------------------------------------------------


def test_calibration_error_by_hand():
    probabilities = [[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.45, 0.55]]
    # Ten bins: 0.9 twice, one right; 0.6 right; 0.55 wrong falls in the same bin as 0.6.
    expected = (2 * abs(0.9 - 0.5) + 2 * abs(0.575 - 0.5)) / 4
    error = expected_calibration_error(probabilities, [0, 1, 1, 0], n_bins=10)
    assert error == pytest.approx(expected)


@few
@given(st.integers(1, 200), st.integers(2, 5), st.integers(1, 30), st.integers(0, 99))
def test_calibration_error_lies_between_the_overall_gap_and_one(n_points, n_classes, n_bins, seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n_classes), n_points)
    labels = rng.integers(n_classes, size=n_points)
    error = expected_calibration_error(p, labels, n_bins)
    gap = abs(p.max(axis=1).mean() - (p.argmax(axis=1) == labels).mean())
    assert gap - 1e-12 <= error <= 1
    assert expected_calibration_error(p, labels, n_bins=1) == pytest.approx(gap)


def test_labels_drawn_from_the_probabilities_are_calibrated():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 100_000)
    labels = (rng.random(len(p))[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(max=2)
    assert expected_calibration_error(p, labels) < 0.01
    entropy = -(p * np.log(p)).sum(axis=1).mean()
    assert negative_log_likelihood(p, labels) == pytest.approx(entropy, abs=0.01)


def test_certain_predictions_have_zero_or_infinite_loss():
    assert negative_log_likelihood([[1, 0], [0, 1]], [0, 1]) == 0
    assert negative_log_likelihood([[1, 0], [0, 1]], [0, 0]) == math.inf
    assert expected_calibration_error([[1, 0], [0, 1]], [0, 1]) == 0
    assert expected_calibration_error([[1, 0], [0, 1]], [1, 0]) == 1


# --- deferral -------------------------------------------------------------------------------------


def test_risk_coverage_by_hand():
    coverages, risks = risk_coverage([3, 1, 2, 1], [False, True, True, False])
    np.testing.assert_allclose(coverages, [0.5, 0.75, 1])
    np.testing.assert_allclose(risks, [1 / 2, 1 / 3, 1 / 2])


@few
@given(judged())
def test_risk_coverage_ends_at_the_error_rate(points):
    uncertainty, correct = points
    coverages, risks = risk_coverage(*points)
    assert len(coverages) == len(np.unique(uncertainty))
    assert (np.diff(coverages) > 0).all()
    assert coverages[-1] == 1
    assert risks[-1] == pytest.approx(1 - correct.mean())


@few
@given(judged(), st.randoms(use_true_random=False))
@pytest.mark.parametrize("score", [aurc, augrc])
def test_deferral_sees_only_the_order_of_uncertainty(score, points, random):
    uncertainty, correct = points
    rows = random.sample(range(len(correct)), len(correct))
    expected = pytest.approx(score(uncertainty, correct), abs=1e-12)
    assert score(uncertainty[rows], correct[rows]) == expected
    assert score(monotone(uncertainty), correct) == expected


@few
@given(arrays(np.bool_, st.integers(1, 6)), arrays(np.int64, 6, elements=st.integers(0, 2)))
def test_aurc_is_the_mean_over_all_orders_of_ties(correct, levels):
    uncertainty = levels[: len(correct)]
    areas = []
    for order in itertools.permutations(range(len(correct))):
        rows = np.array(order)
        if (np.diff(uncertainty[rows]) >= 0).all():
            areas.append(((~correct[rows]).cumsum() / np.arange(1, len(rows) + 1)).mean())
    assert aurc(uncertainty, correct) == pytest.approx(np.mean(areas), abs=1e-12)


@few
@given(judged())
def test_augrc_counts_pairs_of_a_mistake_and_a_threshold(points):
    uncertainty, correct = points
    pairs = [
        (not correct[i]) * ((uncertainty[i] < u) + 0.5 * (uncertainty[i] == u))
        for i in range(len(correct))
        for u in uncertainty
    ]
    assert augrc(*points) == pytest.approx(np.mean(pairs), abs=1e-12)


@few
@given(judged())
def test_augrc_follows_from_accuracy_and_auroc_of_mistakes(points):
    uncertainty, correct = points
    assume(0 < correct.sum() < len(correct))
    accuracy, found = correct.mean(), auroc(uncertainty[correct], uncertainty[~correct])
    expected = (1 - found) * accuracy * (1 - accuracy) + 0.5 * (1 - accuracy) ** 2
    assert augrc(*points) == pytest.approx(expected, abs=1e-12)


@few
@given(judged())
@pytest.mark.parametrize("score", [aurc, augrc])
def test_no_order_beats_mistakes_last_and_none_is_worse_than_mistakes_first(score, points):
    uncertainty, correct = points
    mistakes_last = score(np.argsort(np.argsort(~correct, kind="stable")), correct)
    mistakes_first = score(np.argsort(np.argsort(correct, kind="stable")), correct)
    assert mistakes_last - 1e-12 <= score(uncertainty, correct) <= mistakes_first + 1e-12


@few
@given(arrays(np.bool_, st.integers(1, 12)))
def test_a_constant_uncertainty_is_no_better_than_chance(correct):
    constant = np.zeros(len(correct))
    error_rate = 1 - correct.mean()
    assert aurc(constant, correct) == pytest.approx(error_rate)
    assert augrc(constant, correct) == pytest.approx(error_rate / 2)


def test_areas_of_a_small_example_by_hand():
    uncertainty, correct = [0.1, 0.2, 0.2, 0.9], [True, True, False, False]
    # Of the tied pair half a mistake comes second and one third; then the last point errs as well.
    assert aurc(uncertainty, correct) == pytest.approx((0 + 0.5 / 2 + 1 / 3 + 2 / 4) / 4)
    assert augrc(uncertainty, correct) == pytest.approx((0 + 0.5 / 2 + 1.5 / 2 + 3 / 2) / 16)


@few
@given(st.integers(0, 12), st.integers(1, 12))
def test_areas_of_a_perfect_ranking(n_right, n_wrong):
    n_points = n_right + n_wrong
    uncertainty, correct = np.arange(n_points), np.arange(n_points) < n_right
    risks = [max(0, n - n_right) / n for n in range(1, n_points + 1)]
    assert aurc(uncertainty, correct) == pytest.approx(np.mean(risks))
    assert augrc(uncertainty, correct) == pytest.approx((n_wrong / n_points) ** 2 / 2)


def test_areas_of_a_random_ranking_are_those_of_a_constant():
    rng = np.random.default_rng(0)
    correct = rng.random(20_000) < 0.7
    error_rate = 1 - correct.mean()
    assert aurc(rng.random(20_000), correct) == pytest.approx(error_rate, rel=0.05)
    assert augrc(rng.random(20_000), correct) == pytest.approx(error_rate / 2, rel=0.05)


@few
@given(judged(), st.floats(0.01, 1))
def test_risk_at_coverage_is_that_of_the_first_threshold_that_covers(points, coverage):
    coverages, risks = risk_coverage(*points)
    assume(np.abs(coverages - coverage).min() > 1e-6)
    assert risk_at_coverage(*points, coverage) == risks[coverages >= coverage][0]


@few
@given(judged(), st.floats(0, 1))
def test_coverage_at_risk_is_reached_and_cannot_be_exceeded(points, risk):
    coverages, risks = risk_coverage(*points)
    best = coverage_at_risk(*points, risk)
    assert best == 0 or risks[coverages == best] <= risk
    assert (risks[coverages > best] > risk).all()
    assert coverage_at_risk(*points, 1.0) == 1


def test_a_share_is_met_exactly_in_spite_of_rounding():
    uncertainty, correct = np.arange(100), np.arange(100) < 55
    assert 0.55 * 100 > 55  # in floating point
    assert risk_at_coverage(uncertainty, correct, 0.55) == 0


# --- rank correlation -----------------------------------------------------------------------------


def test_rank_correlation_by_hand():
    assert rank_correlation([1, 2, 3], [10, 20, math.inf]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [9, 4, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(1 - 6 * 4 / 120)
    assert math.isnan(rank_correlation([1, 2, 3], [7, 7, 7]))


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: auroc([], [1]), r"inside must be a 1-D array of numbers; got shape \(0,\)"),
        (lambda: aupr([1], [[2]]), r"outside must be a 1-D array of numbers; got shape \(1, 1\)"),
        (lambda: change_from([1, math.nan], [2]), "inside must hold numbers; got NaN"),
        (lambda: fpr_at_tpr([1], [2], tpr=0), r"tpr must lie in \(0, 1\]; got 0"),
        (lambda: risk_at_coverage([1], [1], 95), r"coverage must lie in \(0, 1\]; got 95"),
        (lambda: aurc([1, 2], [True]), r"got shape \(1,\) for 2 points"),
        (lambda: rank_correlation([1, 2], [1]), "equally long; got 2 and 1 numbers"),
        (lambda: negative_log_likelihood([0.5], [0]), r"got shapes \(1,\) and \(1,\)"),
        (lambda: negative_log_likelihood([[0.5, 0.5]], [7]), r"from 0 to 1; got \[7\]"),
        (lambda: expected_calibration_error([[1.0]], [0], n_bins=0), "at least 1; got 0"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence) as info:
        call()
    assert "\n" not in str(info.value)
