"""A rule follows its thresholds, survives JSON, and keeps both guarantees at once."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bacoun.deferral.rule import DeferralRule


def calibration(n_points, seed, slope=0.3):
    """Scores of three predicted classes, and errors that rise with total uncertainty."""
    rng = np.random.default_rng(seed)
    predicted = rng.choice(3, size=n_points, p=[0.5, 0.4, 0.1])
    ood_score = rng.normal(0.2 * predicted, 0.6)
    total = rng.beta(0.5, 3.0, size=n_points) + 0.05 * np.maximum(ood_score, 0)
    return ood_score, total, rng.random(n_points) >= slope * total**2, predicted


def with_some_infinite(ood_score):
    """Every tenth point is infinitely unfamiliar."""
    return np.where(np.arange(len(ood_score)) % 10 == 0, np.inf, ood_score)


@st.composite
def rules(draw):
    ood_score, *others = calibration(draw(st.integers(1, 300)), draw(st.integers(0, 99)))
    return DeferralRule.calibrate(
        with_some_infinite(ood_score) if draw(st.booleans()) else ood_score,
        *others,
        false_alarm=draw(st.sampled_from([0.01, 0.05, 0.3])),
        max_error=draw(st.sampled_from([None, 0.01, 0.1, 0.5])),
        confidence=draw(st.sampled_from([0.8, 0.95])),
        per_class=draw(st.booleans()),
    )


@given(rules(), st.integers(0, 99))
def test_a_point_is_deferred_if_and_only_if_there_is_a_reason(rule, seed):
    ood_score, total, _, predicted = calibration(50, seed)
    ood_score = with_some_infinite(ood_score)
    decision, reason = rule.decide(ood_score, total, predicted)
    assert set(decision) <= {"accept", "defer"}
    assert set(reason) <= {"", "unfamiliar", "ambiguous"}
    np.testing.assert_array_equal(decision == "accept", reason == "")
    own = rule.class_thresholds or {}
    limit = np.array([own.get(index, rule.ood_threshold) for index in predicted.tolist()])
    expected = (ood_score > limit) | (ood_score == np.inf)
    np.testing.assert_array_equal(reason == "unfamiliar", expected)


@given(rules())
def test_json_gives_the_same_rule_back(rule):
    again = DeferralRule.from_dict(json.loads(json.dumps(rule.to_dict(), allow_nan=False)))
    assert again == rule
    assert again.summary() == rule.summary()


@given(rules(), st.integers(0, 99))
def test_less_uncertainty_never_leads_to_deferral(rule, seed):
    ood_score, total, _, predicted = calibration(50, seed)
    accepted = rule.decide(ood_score, total, predicted).decision == "accept"
    surer = rule.decide(ood_score - 1, total / 2, predicted).decision == "accept"
    assert (surer | ~accepted).all()


def test_the_error_bound_counts_the_calibration_points_that_are_accepted():
    columns = calibration(2000, 0)
    rule = DeferralRule.calibrate(*columns, max_error=0.02)
    ood_score, total, correct, _ = columns
    accepted = rule.decide(ood_score, total).decision == "accept"
    assert accepted.sum() == rule.acceptance.n_accepted
    assert (~correct[accepted]).sum() == rule.acceptance.n_errors
    assert rule.acceptance.n_points == (ood_score <= rule.ood_threshold).sum() == 1901


def test_nothing_is_accepted_without_evidence_for_the_bound():
    ood_score, total, correct, _ = calibration(100, 0)
    rule = DeferralRule.calibrate(ood_score, total, correct, max_error=0.01)
    assert rule.acceptance.threshold is None
    assert set(rule.decide(ood_score, total).decision) == {"defer"}
    assert "needs 299 accepted calibration points" in rule.summary()


def test_without_an_error_bound_all_that_is_familiar_is_accepted():
    ood_score, total, _, _ = calibration(100, 0)
    rule = DeferralRule.calibrate(ood_score, total)
    decision, reason = rule.decide([0.0, 9.0], [50.0, 50.0])
    assert decision.tolist() == ["accept", "defer"]
    assert reason.tolist() == ["", "unfamiliar"]


def test_too_few_points_flag_nothing_and_say_so():
    rule = DeferralRule.calibrate(np.arange(18.0), np.arange(18.0))
    assert rule.ood_threshold == math.inf
    assert rule.to_dict()["ood_threshold"] is None
    assert "needs 19 calibration points; there were 18" in rule.summary()
    assert rule.decide([1e9], [1e9]).decision.tolist() == ["accept"]


def test_an_infinite_score_is_unfamiliar_under_every_rule():
    few = DeferralRule.calibrate(np.arange(18.0), np.arange(18.0))
    none = DeferralRule.calibrate([np.inf] * 20, np.arange(20.0))
    for rule in (few, none):
        assert rule.ood_threshold == math.inf
        assert rule.decide([1e9, np.inf], [0.0, 0.0]).reason.tolist() == ["", "unfamiliar"]
    assert "there were 0. 20 more have an infinite ood_score and are always" in none.summary()


@pytest.mark.parametrize("n_infinite", [0, 1, 2, 3, 5, 10, 500])
def test_infinite_scores_are_false_alarms_too_but_never_more_than_half_of_them(n_infinite):
    ood_score = np.append(np.linspace(0, 1, 95), [np.inf] * n_infinite)
    rule = DeferralRule.calibrate(ood_score, np.zeros(len(ood_score)), false_alarm=0.1)
    flagged = (ood_score > rule.ood_threshold).mean()
    if n_infinite <= 5:
        assert 0.07 < flagged <= 0.1
    finite = DeferralRule.calibrate(ood_score[:95], np.zeros(95), false_alarm=0.05)
    assert rule.ood_threshold <= finite.ood_threshold < 1
    assert (rule.n_calibration, rule.n_infinite) == (95, n_infinite)


@given(st.floats(0.01, 0.49), st.integers(2, 12), st.integers(0, 2**31))
def test_without_a_bound_all_that_is_likelier_wrong_than_the_level_is_ambiguous(level, k, seed):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(k, 0.3), size=200)
    total = -(probabilities * np.log(np.maximum(probabilities, 1e-300))).sum(axis=1)
    rule = DeferralRule(0.05, 99, 1.0, max_error_probability=level)
    reason = rule.decide(np.zeros(200), total).reason
    assert (reason[1 - probabilities.max(axis=1) > level + 1e-9] == "ambiguous").all()
    assert DeferralRule.from_dict(json.loads(json.dumps(rule.to_dict()))) == rule


def test_scores_may_be_negative():
    rule = DeferralRule.calibrate(np.linspace(-3, -2, 99), np.zeros(99))
    assert -3 < rule.ood_threshold < -2
    assert rule.decide([-2.5, -1.0], [0.0, 0.0]).reason.tolist() == ["", "unfamiliar"]


def test_an_unseen_or_rare_class_falls_back_on_the_pooled_threshold():
    ood_score, total, _, predicted = calibration(110, 0)
    rule = DeferralRule.calibrate(ood_score, total, predicted=predicted, per_class=True)
    assert set(rule.class_thresholds) == {0, 1}
    between = (rule.class_thresholds[0] + rule.ood_threshold) / 2
    reasons = rule.decide([between] * 3, [between] * 3, [0, 2, 7]).reason
    assert reasons.tolist() == ["unfamiliar", "", ""]
    assert "fewer than 19 points" in rule.summary()


def test_no_points_give_no_decisions():
    rule = DeferralRule.calibrate(np.arange(50.0), np.arange(50.0))
    assert [len(column) for column in rule.decide([], [])] == [0, 0]


@pytest.mark.parametrize("per_class", [False, True])
def test_both_guarantees_hold_over_random_splits(per_class):
    rng = np.random.default_rng(5)
    ood_score, total, correct, predicted = calibration(60_000, 9)
    flagged, failed, accepted = [], [], []
    for _ in range(100):
        order = rng.permutation(len(total))
        seen, new = order[:600], order[600:]
        rule = DeferralRule.calibrate(
            ood_score[seen],
            total[seen],
            correct[seen],
            predicted[seen],
            max_error=0.02,
            per_class=per_class,
        )
        decision, reason = rule.decide(ood_score[new], total[new], predicted[new])
        flagged.append((reason == "unfamiliar").mean())
        accepted.append((decision == "accept").mean())
        wrong = ~correct[new][decision == "accept"]
        failed.append(len(wrong) > 0 and wrong.mean() > 0.02)
    assert np.mean(flagged) <= 0.05 + 3 * np.std(flagged) / 10
    assert np.mean(flagged) > 0.03
    assert np.mean(failed) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 100)
    assert np.mean(accepted) > 0.5


@pytest.mark.parametrize(
    ("columns", "settings", "sentence"),
    [
        (([0.1], [0.1, 0.2]), {}, "ood_score, total must be equally long; got 1, 2"),
        (([], []), {}, "ood_score must hold at least one calibration point"),
        (([np.nan], [0.1]), {}, "ood_score must hold finite numbers; 1 of 1"),
        (([np.inf, -np.inf], [0.1, 0.1]), {}, "ood_score must hold finite numbers; 1 of 2"),
        (([0.1], [np.inf]), {}, "total must hold finite numbers"),
        (([0.1], [0.1]), {"false_alarm": 1.5}, "false_alarm must lie between 0 and 1"),
        (([0.1], [0.1]), {"max_error": 0.1}, "max_error needs correct; got None"),
        (([0.1], [0.1]), {"per_class": True}, "per_class needs predicted; got None"),
        (([0.1], [0.1], [True, True]), {"max_error": 0.1}, "total, correct must be equally long"),
        (([0.1], [0.1], [True]), {"max_error": 1}, "max_error must lie between 0 and 1"),
    ],
)
def test_bad_calibration_is_refused_in_one_sentence(columns, settings, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        DeferralRule.calibrate(*columns, **settings)
    assert "\n" not in str(refused.value)


def test_decide_refuses_scores_that_do_not_fit():
    ood_score, total, _, predicted = calibration(100, 0)
    rule = DeferralRule.calibrate(ood_score, total, predicted=predicted, per_class=True)
    with pytest.raises(ValueError, match="per_class needs predicted"):
        rule.decide(ood_score, total)
    with pytest.raises(ValueError, match="equally long; got 100, 99"):
        rule.decide(ood_score, total[1:], predicted)
    with pytest.raises(ValueError, match="total must hold finite numbers"):
        rule.decide([0.1], [np.nan], [0])


@pytest.mark.parametrize("plain", [{}, {"false_alarm": 0.05}, []])
def test_an_invalid_dictionary_is_refused(plain):
    with pytest.raises(ValueError, match="written by to_dict"):
        DeferralRule.from_dict(plain)
