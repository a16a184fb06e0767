"""Doubt: a mixture of what the weights say and of not knowing at all."""

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bacoun.uncertainty import Doubt, Tail, decompose, doubted, doubted_draws, from_moments

SHARES = torch.linspace(0, 1, 101, dtype=torch.float64)


@st.composite
def predictions(draw, most_classes=10):
    """Draws (S, 1, K) of one point, from nearly one-hot to nearly flat, alike or at odds."""
    n_draws, n_classes = draw(st.integers(1, 12)), draw(st.integers(2, most_classes))
    sharpness = 10.0 ** draw(st.integers(-2, 2))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    logits = torch.randn(n_draws, 1, n_classes, generator=generator, dtype=torch.float64)
    return (sharpness * logits).softmax(dim=2)


def with_doubt(draws, kappa):
    """Uncertainty, split, of one prediction (S, 1, K) at each share kappa (n,)."""
    many = draws.expand(-1, len(kappa), -1)
    alone = decompose(many)
    given_weights = torch.special.entr(doubted(many, kappa)).sum(dim=2).mean(dim=0)
    return from_moments(
        doubted(many.mean(dim=0), kappa), (1 - kappa) * alone.aleatoric, given_weights
    )


def doubt(ood_prior=0.01, **tails):
    known = tails or {"density": Tail(10.0, 4.0, 2.0), "residual": Tail(0.0, 0.5, 1.0)}
    return Doubt(ood_prior, known, disagreement=0.1)


# --- what doubt leaves of a prediction ------------------------------------------------------------


@given(predictions())
def test_parts_add_up_and_stay_in_bounds_at_any_doubt(draws):
    parts = with_doubt(draws, SHARES)
    for part in parts.parts().values():
        assert (part >= 0).all()
    torch.testing.assert_close(parts.total, parts.aleatoric + parts.epistemic, atol=1e-15, rtol=0)
    torch.testing.assert_close(parts.model + parts.ood, parts.epistemic, atol=1e-15, rtol=0)
    assert (parts.total <= math.log(draws.shape[2])).all()


@given(predictions())
def test_epistemic_rises_with_doubt_to_log_k_and_aleatoric_falls_to_nothing(draws):
    parts = with_doubt(draws, SHARES)
    assert (parts.epistemic.diff() > -1e-12).all()
    assert (parts.ood.diff() > -1e-12).all()
    assert (parts.aleatoric.diff() < 1e-12).all()
    assert float(parts.epistemic[-1]) == pytest.approx(math.log(draws.shape[2]))
    assert float(parts.aleatoric[-1]) == 0


def test_a_confident_prediction_is_doubted_strictly_more_with_each_step():
    sure = torch.eye(3, dtype=torch.float64)[:1, None].expand(5, 1, 3)
    epistemic = with_doubt(sure, SHARES).epistemic
    assert epistemic[0] == 0
    assert (epistemic.diff() > 0).all()


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_near_certain_doubt_leaves_nothing_to_the_weights(n_classes):
    """Draws that say one class each, all at odds: the model's part must vanish all the same."""
    draws = torch.eye(n_classes, dtype=torch.float64)[:, None].repeat(20, 1, 1)
    parts = with_doubt(draws, torch.tensor([0.0, 0.9999, 1.0], dtype=torch.float64))
    log_k = math.log(n_classes)
    torch.testing.assert_close(parts.model.tolist(), [log_k, 0.0, 0.0], atol=1e-3, rtol=0)
    torch.testing.assert_close(parts.ood.tolist(), [0.0, log_k, log_k], atol=1e-3, rtol=0)


@given(predictions())
def test_without_doubt_everything_stays_as_it_was(draws):
    none = torch.zeros(1, dtype=torch.float64)
    assert torch.equal(doubted(draws, none), draws)
    assert torch.equal(doubted_draws(draws, none), draws)
    plain, parts = decompose(draws), with_doubt(draws, none)
    for name in ("total", "aleatoric", "epistemic"):
        torch.testing.assert_close(getattr(parts, name), getattr(plain, name), atol=1e-12, rtol=0)
    torch.testing.assert_close(parts.model, plain.epistemic, atol=1e-12, rtol=0)


@given(predictions(), st.floats(0, math.inf))
def test_the_likeliest_class_stays_so_at_any_score(draws, unfamiliar):
    mean = draws.mean(dim=0)
    first, second = mean.topk(2).values[0]
    score = torch.tensor([unfamiliar], dtype=torch.float64)
    for prior in (1e-6, 0.01, 0.999):
        left = doubted(mean, doubt(prior).probability(score))
        torch.testing.assert_close(left.sum(), torch.ones((), dtype=torch.float64))
        if first - second > 1e-6:  # what float64 can tell once a billionth of it is left
            assert torch.equal(left.argmax(dim=1), mean.argmax(dim=1))


# --- draws ----------------------------------------------------------------------------------------


@given(st.integers(1, 300), st.integers(2, 10), st.floats(0, 1))
def test_doubted_draws_are_a_share_of_certain_ones_in_which_no_class_is_preferred(
    n_draws, n_classes, share
):
    flat = torch.full((n_draws, 1, n_classes), 1 / n_classes, dtype=torch.float64)
    draws = doubted_draws(flat, torch.tensor([share], dtype=torch.float64))
    torch.testing.assert_close(draws.sum(dim=2), torch.ones(n_draws, 1, dtype=torch.float64))
    counts = (draws[:, 0] == 1).sum(dim=0)
    assert abs(int(counts.sum()) - share * n_draws) <= 0.5 + 1e-9
    assert int(counts.max() - counts.min()) <= 1


@given(st.integers(0, 2**31), st.integers(2, 6))
def test_the_mean_of_doubted_draws_is_the_doubted_mean(seed, n_classes):
    """Also if the draws drift from the first to the last, as those of a chain might."""
    generator = torch.Generator().manual_seed(seed)
    n_draws = 400
    ends = torch.randn(2, len(SHARES), n_classes, generator=generator, dtype=torch.float64)
    along = torch.linspace(0, 1, n_draws, dtype=torch.float64)[:, None, None]
    draws = (3 * ((1 - along) * ends[0] + along * ends[1])).softmax(dim=2)
    found = doubted_draws(draws, SHARES)
    torch.testing.assert_close(
        found.mean(dim=0), doubted(draws.mean(dim=0), SHARES), atol=0.01, rtol=0
    )
    expected = (1 - SHARES) * decompose(draws).aleatoric
    torch.testing.assert_close(decompose(found).aleatoric, expected, atol=0.01, rtol=0)


def test_a_draw_that_is_replaced_stays_so_as_doubt_grows():
    flat = torch.full((50, len(SHARES), 3), 1 / 3, dtype=torch.float64)
    certain = doubted_draws(flat, SHARES).amax(dim=2) == 1
    assert (certain[:, 1:] >= certain[:, :-1]).all()
    assert not certain[:, 0].any()
    assert certain[:, -1].all()


# --- how unfamiliar -------------------------------------------------------------------------------


@given(st.floats(-1e3, 1e3), st.floats(1e-2, 1e3), st.integers(0, 2**31))
def test_a_tail_is_0_at_the_median_and_1_where_5_percent_lie_beyond(center, width, seed):
    generator = torch.Generator().manual_seed(seed)
    scores = center + width * torch.randn(501, generator=generator, dtype=torch.float64)
    tail = Tail.of(scores)
    standard = tail.standardized(scores)
    assert float(standard.quantile(0.5)) == pytest.approx(0, abs=1e-9)
    assert float(standard.quantile(0.95)) == pytest.approx(1)
    assert (standard.argsort() == scores.argsort()).all()
    inside = (scores >= scores.quantile(0.05)) & (scores <= scores.quantile(0.95))
    assert ((tail.beyond(scores) > 1e-9) == ~inside).all()


def test_scores_that_are_all_alike_have_a_tail_too():
    tail = Tail.of(torch.full((30,), 2.5))
    assert tail.spread > 0
    assert tail.standardized(torch.tensor([2.5])) == 0
    assert tail.standardized(torch.tensor([2.6])) > 1


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2), st.floats(0, math.inf))
def test_the_score_grows_with_rarity_and_with_an_unusual_residual(values, more):
    first, second = (torch.tensor([value], dtype=torch.float64) for value in values)

    def score(density, residual):
        return doubt().score({"density": density, "residual": residual})

    here = score(first, second)
    assert here <= score(first + more, second)
    further = more if second >= 0 else -more  # away from its median
    assert here.clamp(min=0) <= score(first, second + further).clamp(min=0)
    assert not here.isnan()


def test_the_first_score_leads_and_another_counts_from_1_on_and_half_below():
    scores = {
        "density": torch.tensor([10.0, 14.0, 10.0, 10.0, 10.0]),
        "residual": torch.tensor([0.0, 0.0, 0.5, 2.0, -5.0]),
    }
    assert doubt().score(scores).tolist() == pytest.approx([0, 1, 0, 3, 2])
    shuffled = dict(reversed(scores.items()))  # which leads is said by the tails
    assert torch.equal(doubt().score(shuffled), doubt().score(scores))


@given(st.floats(1e-6, 0.99), st.floats(0, 1e6), st.floats(0, 1e6))
def test_the_probability_of_being_unknown_rises_with_the_score_through_its_prior(prior, one, two):
    asked = torch.tensor([-math.inf, -1, 0, 1, min(one, two), max(one, two), math.inf])
    kappa = doubt(prior).probability(asked.double()).tolist()
    assert kappa[:3] == [0, 0, 0]
    assert kappa[3] == pytest.approx(prior)
    assert kappa[4] <= kappa[5] <= kappa[6]
    assert 1 - 2e-9 < kappa[6] < 1


def test_ranking_grows_with_unfamiliarity_and_with_disagreement():
    score = torch.tensor([0.0, 0.0, 5.0, 5.0, math.inf]).double()
    epistemic = torch.tensor([0.0, 0.3, 0.0, 0.3, 0.3]).double()
    ranked = doubt().ood_score(score, epistemic)
    assert ranked[0] == 0
    assert ranked[2] == 5
    assert (ranked.diff() > 0).all()


def test_state_survives_a_round_trip_through_json():
    one = doubt(0.05)
    assert Doubt.from_state(json.loads(json.dumps(one.get_state()))) == one
    steep = Doubt(0.05, one.tails, 0.2, power=4.0)
    assert Doubt.from_state(steep.get_state()) == steep
    assert list(Doubt.from_state(one.get_state()).tails) == ["density", "residual"]


def test_a_tail_is_finite_although_a_density_is_zero():
    tail = Tail.of(torch.tensor([0.0, 1.0, 2.0, torch.inf]))
    assert math.isfinite(tail.median)
    assert math.isfinite(tail.spread)
    assert not torch.isnan(tail.standardized(torch.tensor([0.0, torch.inf]))).any()
