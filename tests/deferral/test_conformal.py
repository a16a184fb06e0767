"""Ranks by hand, false alarm rates by counting, prediction sets against MAPIE."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mapie.classification import SplitConformalClassifier
from sklearn.base import BaseEstimator, ClassifierMixin

from bacoun.deferral.conformal import (
    class_thresholds,
    conformal_threshold,
    fewest_scores,
    prediction_set_threshold,
    prediction_sets,
)

shares = st.sampled_from([0.01, 0.05, 0.1, 0.29, 0.3, 0.5, 0.7, 0.9, 0.99])
scores = st.lists(st.integers(0, 30).map(float), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("n_points", "false_alarm", "rank"),
    [
        (19, 0.05, 19),  # 20 * 0.95 = 19
        (20, 0.05, 20),  # 19.95
        (39, 0.05, 38),
        (100, 0.05, 96),  # 95.95
        (9, 0.7, 3),  # exactly 3, although 10 * (1 - 0.7) is 3.0000000000000004 in floats
        (99, 0.29, 71),  # exactly 71
        (1, 0.5, 1),
    ],
)
def test_the_threshold_has_the_rank_computed_by_hand(n_points, false_alarm, rank):
    shuffled = np.random.default_rng(0).permutation(n_points) + 1
    assert conformal_threshold(shuffled, false_alarm) == rank


@given(shares)
def test_the_threshold_is_finite_from_the_fewest_scores_on(false_alarm):
    fewest = fewest_scores(false_alarm)
    assert math.isfinite(conformal_threshold(np.arange(max(fewest, 1)), false_alarm))
    if fewest > 1:
        assert conformal_threshold(np.arange(fewest - 1), false_alarm) == math.inf


@given(scores, shares, shares)
def test_the_threshold_falls_as_more_false_alarms_are_allowed(values, one, other):
    low, high = sorted([one, other])
    assert conformal_threshold(values, low) >= conformal_threshold(values, high)


@given(scores, shares)
def test_at_most_the_false_alarm_is_flagged_when_each_point_is_left_out_in_turn(values, share):
    # N + 1 exchangeable points: each is equally likely to be the new one. Ties are welcome.
    if len(values) == 1:
        return
    flagged = sum(
        values[i] > conformal_threshold(values[:i] + values[i + 1 :], share)
        for i in range(len(values))
    )
    assert Fraction(flagged, len(values)) <= Fraction(str(share))


@given(st.integers(19, 200))
def test_without_ties_the_false_alarm_rate_is_nearly_used_up(n_points):
    threshold = conformal_threshold(np.arange(n_points), 0.05)
    flagged = Fraction(
        n_points - int(threshold), n_points + 1
    )  # of the N + 1 places of a new point
    assert Fraction(5, 100) - Fraction(1, n_points + 1) < flagged <= Fraction(5, 100)


def test_each_class_has_its_own_threshold_if_it_has_enough_points():
    values = np.concatenate([np.arange(19), 100 + np.arange(39), 1000 + np.arange(18)])
    predicted = np.repeat([0, 2, 5], [19, 39, 18])
    assert class_thresholds(values, predicted, 0.05) == {0: 18.0, 2: 137.0}


def test_a_class_of_too_many_infinite_scores_has_no_threshold():
    scores = np.concatenate([np.arange(50.0), np.arange(40.0), [np.inf] * 10])
    found = class_thresholds(scores, np.repeat([0, 1], 50), 0.1)
    assert found == {0: 45.0}


def test_the_false_alarm_holds_on_average_over_splits_and_within_classes():
    rng = np.random.default_rng(0)
    overall, within = [], []
    for _ in range(300):
        classes = rng.choice(2, size=300, p=[0.7, 0.3])
        drawn = rng.gamma(1.0 + 4 * classes)  # the second class is far more uncertain
        pooled = conformal_threshold(drawn[:100], 0.1)
        own = class_thresholds(drawn[:100], classes[:100], 0.1)
        flagged, second = drawn[100:] > pooled, classes[100:] == 1
        overall.append(flagged.mean())
        within.append([flagged[second].mean(), (drawn[100:] > own[1])[second].mean()])
    error = np.std(overall) / np.sqrt(len(overall))
    assert 0.1 - 1 / 101 - 3 * error <= np.mean(overall) <= 0.1 + 3 * error
    pooled_rate, own_rate = np.mean(within, axis=0)
    assert pooled_rate > 0.2  # what the thresholds for each class are there to repair
    assert own_rate <= 0.1 + 3 * np.std(within, axis=0)[1] / np.sqrt(len(within))


class Table(ClassifierMixin, BaseEstimator):
    """A fitted classifier that reads its probabilities off X."""

    def __init__(self, n_classes=4):
        self.n_classes = n_classes

    def fit(self, X, y):
        self.classes_ = np.arange(self.n_classes)
        self.n_features_in_ = self.n_classes
        return self

    def predict_proba(self, X):
        return np.asarray(X)

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)


def draw(n_points, seed):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(4, 0.5), size=n_points)
    labels = np.array([rng.choice(4, p=row) for row in probabilities])
    return probabilities, labels


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95])
@pytest.mark.parametrize("n_points", [50, 99, 100, 137, 500])
def test_prediction_sets_are_those_of_mapie(n_points, coverage):
    probabilities, labels = draw(n_points, n_points)
    labels[:4] = range(4)  # MAPIE wants to see each class
    asked = np.concatenate([probabilities, draw(200, 1)[0]])
    theirs = SplitConformalClassifier(
        Table().fit(None, None), confidence_level=coverage, conformity_score="lac", prefit=True
    ).conformalize(probabilities, labels)
    expected = theirs.predict_set(asked)[1][:, :, 0]
    threshold = prediction_set_threshold(probabilities, labels, coverage)
    np.testing.assert_array_equal(prediction_sets(asked, threshold), expected)


def test_prediction_sets_have_the_requested_coverage():
    rng = np.random.default_rng(0)
    probabilities, labels = draw(4000, 2)
    covered = []
    for _ in range(200):
        order = rng.permutation(len(labels))
        seen, new = order[:200], order[200:]
        threshold = prediction_set_threshold(probabilities[seen], labels[seen], 0.9)
        covered.append(prediction_sets(probabilities[new], threshold)[np.arange(3800), labels[new]])
    rates = np.mean(covered, axis=1)
    error = np.std(rates) / np.sqrt(len(rates))
    assert 0.9 - 3 * error <= rates.mean() <= 0.9 + 1 / 201 + 3 * error


def test_too_few_points_rule_nothing_out():
    threshold = prediction_set_threshold([[0.9, 0.1]] * 5, [0] * 5, 0.95)
    assert prediction_sets([[1.0, 0.0]], threshold).all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: conformal_threshold([1.0], 0), "false_alarm must lie between 0 and 1.*got 0"),
        (lambda: conformal_threshold([1.0], 5), "Write 5 % as 0.05"),
        (lambda: conformal_threshold([1.0], "0.05"), "false_alarm must lie"),
        (lambda: conformal_threshold([], 0.1), "at least one calibration point; got none"),
        (lambda: conformal_threshold([1.0, np.nan], 0.1), "1 of 2 are NaN or infinite"),
        (lambda: conformal_threshold([[1.0]], 0.1), r"got shape \(1, 1\)"),
        (lambda: conformal_threshold(["a"], 0.1), "scores must hold numbers"),
        (lambda: class_thresholds([1.0], [0, 1], 0.1), "must be equally long; got 1, 2"),
        (lambda: class_thresholds([1.0], ["a"], 0.1), "predicted must hold a class index"),
        (lambda: class_thresholds([1.0], [-1], 0.1), "predicted must hold a class index"),
        (lambda: prediction_sets([0.5, 0.5], 0.1), "a column for each class"),
        (lambda: prediction_set_threshold([[0.5, 0.5]], [2], 0.9), "below 2.*got 2"),
        (lambda: prediction_set_threshold([[0.5, 0.5]], [0], 1.0), "coverage must lie"),
    ],
)
def test_bad_values_are_refused_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        call()
    assert "\n" not in str(refused.value)
