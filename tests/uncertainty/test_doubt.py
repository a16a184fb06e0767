"""Doubt: a mixture of what the weights say and of not knowing at all."""

import json
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bacoun.files.persistence import from_state, to_state
from bacoun.uncertainty import (
    Doubt,
    Survival,
    Tail,
    decompose,
    doubted,
    doubted_draws,
    from_moments,
)

SHARES = torch.linspace(0, 1, 101, dtype=torch.float64)


TOTAL = Survival.of(-torch.linspace(1e-3, 1, 1000, dtype=torch.float64).log())


@st.composite
def predictions(draw, most_classes=10):
    """Draws (S, 1, K) of one point, from nearly one-hot to nearly flat, alike or at odds."""
    n_draws, n_classes = draw(st.integers(1, 12)), draw(st.integers(2, most_classes))
    sharpness = 10.0 ** draw(st.integers(-2, 2))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    logits = torch.randn(n_draws, 1, n_classes, generator=generator, dtype=torch.float64)
    return (sharpness * logits).softmax(dim=2)


def with_doubt(draws, kappa, unknown=None):
    """Uncertainty, split, of one prediction (S, 1, K) at each share kappa (n,)."""
    many = draws.expand(-1, len(kappa), -1)
    alone, known = decompose(many), 1 - (kappa if unknown is None else unknown)
    mean = doubted(many.mean(dim=0), kappa)
    return from_moments(mean, known * alone.aleatoric, known * alone.epistemic)


def doubt(ood_prior=0.01, n_rows=1000, **views):
    """With the median of each view at 0 and its 95 % quantile at 1, tails that are exponential."""
    usual = Tail(0.0, 1.0, 1e-3, 1 / math.log(19))
    known = views or {"density": usual, "residual": replace(usual, below=usual)}
    return Doubt(ood_prior, n_rows, known, usual, agreement=1e-3, total=TOTAL)


def normal(n_rows, seed=0):
    return torch.randn(n_rows, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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
    assert torch.equal(doubted_draws(draws, none, none), draws)
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
        left = doubted(mean, doubt(prior).hedge({"density": score, "residual": score}))
        torch.testing.assert_close(left.sum(), torch.ones((), dtype=torch.float64))
        if first - second > 1e-6:  # what float64 can tell once a billionth of it is left
            assert torch.equal(left.argmax(dim=1), mean.argmax(dim=1))


@given(predictions(), st.floats(0, 1), st.floats(0, 1))
def test_evidence_moves_the_split_and_nothing_else(draws, one, two):
    kappa, unknown = (torch.tensor([each], dtype=torch.float64) for each in sorted((one, two)))
    without, parts = with_doubt(draws, kappa), with_doubt(draws, kappa, unknown)
    assert torch.equal(parts.total, without.total)
    assert (parts.aleatoric <= without.aleatoric).all()
    assert (parts.model <= without.model + 1e-12).all()
    torch.testing.assert_close(parts.model + parts.ood + parts.aleatoric, parts.total)


# --- draws ----------------------------------------------------------------------------------------


@given(st.integers(1, 300), st.integers(2, 10), st.floats(0, 1))
def test_doubted_draws_are_a_share_of_certain_ones_in_which_no_class_is_preferred(
    n_draws, n_classes, share
):
    flat = torch.full((n_draws, 1, n_classes), 1 / n_classes, dtype=torch.float64)
    unknown = torch.tensor([share], dtype=torch.float64)
    draws = doubted_draws(flat, unknown, unknown)
    torch.testing.assert_close(draws.sum(dim=2), torch.ones(n_draws, 1, dtype=torch.float64))
    counts = (draws[:, 0] == 1).sum(dim=0)
    assert abs(int(counts.sum()) - share * n_draws) <= 0.5 + 1e-9
    assert int(counts.max() - counts.min()) <= 4  # evenly spread, not dealt in turn


@given(st.floats(1e-3, 0.3), st.floats(0.05, 2))
def test_a_distance_is_the_standardized_score_up_to_1_and_then_grows_by_the_tail(shape, scale):
    scores = torch.linspace(-2, 100, 1000, dtype=torch.float64)
    distance = Tail(0.0, 1.0, shape, scale).distance(scores)
    inside = scores <= 1
    assert torch.equal(distance[inside], scores[inside].clamp(min=0))
    assert (distance <= scores.clamp(min=0) + 1e-9).all()
    assert (distance.diff() >= 0).all()
    heavier = Tail(0.0, 1.0, 2 * shape, scale).distance(scores)
    assert (heavier[~inside] <= distance[~inside]).all()


def test_a_view_that_often_fails_on_training_points_costs_no_prediction_of_shifted_ones():
    """Gaussians of nearly constant columns see far points everywhere."""
    usual = Tail(0.0, 1.0, 1e-3, 1 / math.log(19))
    heavy = replace(usual, shape=0.3, scale=0.5)
    score = {"density": torch.tensor([5.0]), "gaussian": torch.tensor([50.0])}
    sober = doubt(density=usual, gaussian=heavy).hedge(score)
    assert float(sober) < 0.35 < 0.9 < float(doubt(density=usual, gaussian=usual).hedge(score))


@given(st.floats(5, 30), st.floats(0.3, 3))
def test_far_away_gaussians_decide_and_inside_them_flows_are_heard(far, spike):
    """A flow that extrapolates in spikes leaves a round halo; a hole in the data is seen."""
    usual = Tail(0.0, 1.0, 1e-3, 1 / math.log(19))
    both = doubt(density=usual, gaussian=usual)

    def odds(density, gaussian):
        views = {"density": torch.tensor([density]), "gaussian": torch.tensor([gaussian])}
        kappa = both.hedge(views)
        return float(kappa / (1 - kappa))

    assert odds(spike * far, far) == pytest.approx(odds(far, far), rel=0.25)
    assert odds(far, 0.5) > 0.3 * odds(far, far)


def test_a_residual_counts_by_its_logarithm_and_unseen_categories_in_full():
    """Noise of twice the size is not four times as far from the data."""
    usual = Tail(0.0, 1.0, 1e-3, 1 / math.log(19))
    of = doubt(density=usual, residual=usual, categories=usual)
    inside = {name: torch.zeros(2) for name in of.views}
    far = torch.tensor([4.0, 9.0])
    odds = of.ood_prior / (1 - of.ood_prior)

    def squares(name):
        kappa = of.hedge(inside | {name: far})
        return kappa / (1 - kappa) / odds

    torch.testing.assert_close(squares("residual"), far.double().log().square())
    torch.testing.assert_close(squares("categories"), (far.double() - 1).square())


@pytest.mark.parametrize("hedged", [0.0, 0.3, 1.0])
@given(st.integers(0, 2**31), st.integers(2, 6))
def test_the_moments_of_doubted_draws_are_those_of_the_split(hedged, seed, n_classes):
    """Also if the draws drift from the first to the last, as those of a chain might."""
    generator = torch.Generator().manual_seed(seed)
    n_draws, kappa = 400, hedged * SHARES
    ends = torch.randn(2, len(SHARES), n_classes, generator=generator, dtype=torch.float64)
    along = torch.linspace(0, 1, n_draws, dtype=torch.float64)[:, None, None]
    draws = (3 * ((1 - along) * ends[0] + along * ends[1])).softmax(dim=2)
    found = doubted_draws(draws, kappa, SHARES)
    expected = doubted(draws.mean(dim=0), kappa)
    torch.testing.assert_close(found.mean(dim=0), expected, atol=0.015, rtol=0)
    expected = (1 - SHARES) * decompose(draws).aleatoric
    torch.testing.assert_close(decompose(found).aleatoric, expected, atol=0.015, rtol=0)


def test_a_draw_that_is_replaced_stays_so_as_doubt_grows():
    flat = torch.full((50, len(SHARES), 3), 1 / 3, dtype=torch.float64)
    certain = doubted_draws(flat, SHARES, SHARES).amax(dim=2) == 1
    assert (certain[:, 1:] >= certain[:, :-1]).all()
    assert not certain[:, 0].any()
    assert certain[:, -1].all()


# --- tails ----------------------------------------------------------------------------------------


@given(st.floats(-1e3, 1e3), st.floats(1e-2, 1e3), st.integers(0, 2**31))
def test_a_tail_is_0_at_the_median_and_1_where_5_percent_lie_beyond(center, width, seed):
    scores = center + width * normal(501, seed)
    tail = Tail.of(scores, two_sided=True)
    standard = tail.standardized(scores)
    assert float(standard.quantile(0.5)) == pytest.approx(0, abs=1e-9)
    assert float(standard.quantile(0.95)) == pytest.approx(1)
    assert (standard.argsort() == scores.argsort()).all()
    inside = (scores >= scores.quantile(0.05)) & (scores <= scores.quantile(0.95))
    assert ((tail.beyond(scores) > 1e-9) == ~inside).all()


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.8, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("shape", [0.0, 0.05, 0.1])
def test_surprise_is_minus_the_log_share_of_what_is_as_unusual(quantile, shape):
    """For evidence with tails that are exponential, and heavier."""
    surprise = -torch.linspace(1, 1e-5, 100_000, dtype=torch.float64).log()
    evidence = surprise if shape == 0 else torch.expm1(shape * surprise) / shape
    found = Survival.of(evidence).surprise(evidence.quantile(quantile)[None])
    assert float(found) == pytest.approx(-math.log(1 - quantile), rel=0.05)


def test_surprise_rises_with_evidence_although_much_of_it_is_equal():
    survival = Survival.of(torch.cat([torch.zeros(500), torch.rand(500)]).double())
    found = survival.surprise(torch.linspace(-1, 3, 100, dtype=torch.float64))
    assert (found.diff() >= 0).all()
    assert found[0] == pytest.approx(-math.log(0.95))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2), st.integers(0, 2**31))
def test_evidence_never_falls_with_the_score_and_is_not_negative(pair, seed):
    tail = Tail.of(normal(100, seed))
    low, high = tail.evidence(torch.tensor(sorted(pair), dtype=torch.float64))
    assert 0 <= low <= high


def test_a_low_score_is_evidence_too_if_it_should_be_at_half_weight():
    tail = Tail.of(normal(2000), two_sided=True)
    low, high = tail.evidence(torch.tensor([-8.0, 8.0]), elbow=math.inf)
    assert float(low) == pytest.approx(float(high) / 2, rel=0.2)
    assert float(tail.evidence(torch.tensor([0.0]), elbow=math.inf)) == 0


def test_one_outlier_in_training_does_not_hide_others():
    scores = normal(500)
    spoiled = torch.cat([scores, torch.tensor([1e5])])
    (clean,), (after,) = (Tail.of(each).evidence(torch.tensor([8.0])) for each in (scores, spoiled))
    assert after > 0.5 * clean


def test_scores_that_are_all_alike_have_a_tail_too():
    tail = Tail.of(torch.full((30,), 2.5))
    assert tail.spread > 0
    assert tail.standardized(torch.tensor([2.5])) == 0
    assert tail.standardized(torch.tensor([2.6])) > 1


def test_a_tail_is_finite_although_a_density_is_zero():
    tail = Tail.of(torch.tensor([0.0, 1.0, 2.0, torch.inf]))
    assert math.isfinite(tail.median)
    assert math.isfinite(tail.spread)
    for found in (tail.standardized, tail.evidence):
        assert not torch.isnan(found(torch.tensor([0.0, torch.inf]))).any()


# --- how unusual ----------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2), st.floats(0, math.inf))
def test_surprise_and_hedge_grow_with_rarity_and_with_an_unusual_residual(values, more):
    first, second = (torch.tensor([value], dtype=torch.float64) for value in values)
    agreed = torch.zeros(1, dtype=torch.float64)

    def both(density, residual):
        views = {"density": density, "residual": residual}
        return torch.stack([doubt().surprise(views, agreed), doubt().hedge(views)])

    here = both(first, second)
    assert (here <= both(first + more, second)).all()
    further = more if second >= 0 else -more  # away from its median
    assert (here <= both(first, second + further)).all()
    assert not here.isnan().any()


def test_views_add_up():
    """Two that are each unusual are more so than one that is, and than one that disagrees."""
    views = {"density": [0.0, 3.0, 0.0, 3.0, 3.0], "residual": [0.0, 0.0, 3.0, 3.0, 3.0]}
    epistemic = torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0])
    one = doubt()
    found = one.surprise({k: torch.tensor(v) for k, v in views.items()}, epistemic).tolist()
    assert found[0] < min(found[1:3])
    assert max(found[1:3]) < found[3] < found[4]


@given(st.floats(1e-6, 0.99), st.floats(0, 1e6), st.floats(0, 1e6))
def test_the_probability_rises_with_surprise_and_with_the_prior(prior, one, two):
    asked = torch.tensor([0, min(one, two), max(one, two), 1e12], dtype=torch.float64)
    found = doubt(prior).probability(asked)
    assert (found.diff() >= 0).all()
    assert found[0] < prior
    assert 1 - 2e-9 < found[-1] < 1
    assert (doubt(min(0.999, 2 * prior)).probability(asked) >= found).all()


@pytest.mark.parametrize("prior", [0.005, 0.01, 0.05, 0.2, 0.5])
def test_inside_the_data_the_mean_probability_is_at_most_the_prior(prior):
    """Surprise is exponential there; the odds are the prior odds on average."""
    one = doubt(prior)
    surprise = -torch.linspace(1e-7, 1, 1_000_001, dtype=torch.float64).log()
    probability = one.probability(surprise)
    assert float(probability.mean()) < prior
    odds = (probability / (1 - probability)).mean()
    assert float(odds) == pytest.approx(prior / (1 - prior), rel=0.3)  # rare rows have most of it


def test_rows_like_this_are_counted_in_training_rows():
    found = doubt(n_rows=1000).rows_like_this(-torch.tensor([0.5, 0.05, 1e-5]).log())
    torch.testing.assert_close(found, torch.tensor([500.0, 50.0, 0.01]))


@pytest.mark.parametrize("n_rows", [100, 5000])
def test_new_points_of_the_same_kind_are_as_surprising_as_they_should_be(n_rows):
    """Correlated views, heavy tails: the share of new points beyond a surprise e is exp(-e)."""

    def views(seed):
        common, own, noise = (normal(n_rows, 10 * seed + part) for part in range(3))
        return {"density": (common + own).exp(), "gaussian": common}, 0.01 * noise.exp()

    learned = Doubt.learn(*views(1), ood_prior=0.01, n_rows=n_rows, are_new=True)
    surprise = torch.cat([learned.surprise(*views(seed)) for seed in range(2, 12)])
    for share in (0.5, 0.2, 0.05):
        found = float((surprise > -math.log(share)).double().mean())
        assert found == pytest.approx(share, abs=0.06 if n_rows == 100 else 0.03)
    assert float(learned.probability(surprise).mean()) < (0.03 if n_rows == 100 else 0.012)


def test_five_rows_like_this_one_tell_noise_from_ignorance_and_many_leave_the_inside_alone():
    like_this = torch.tensor([5000.0, 5.0, 0.5], dtype=torch.float64)
    found = doubt(n_rows=10_000).enough(-(like_this / 10_000).log())
    torch.testing.assert_close(found, like_this**2 / (like_this**2 + 25))
    assert found[0] > 0.999999
    assert found[1] == pytest.approx(0.5)


def test_a_view_beside_a_density_counts_only_beyond_its_quantiles_and_alone_it_counts_in_full():
    usual = Tail(0.0, 1.0, 1e-3, 0.3)
    both, alone = doubt(density=usual, categories=usual), doubt(categories=usual)
    assert both.weights == {"density": (0.5, False), "categories": (1.0, True)}
    assert alone.weights == {"categories": (1.0, False)}


@pytest.mark.parametrize(
    ("n_rows", "agreement"), [(100, 1e-3), (100_000, 1e-3), (4_000_000, 2.5e-5), (10**12, 1e-6)]
)
def test_what_counts_as_agreement_falls_with_many_rows(n_rows, agreement):
    learned = Doubt.learn({"density": normal(50)}, normal(50).exp(), ood_prior=0.1, n_rows=n_rows)
    assert learned.agreement == pytest.approx(agreement)


def test_weights_may_disagree_more_about_new_points():
    views, epistemic = {"density": normal(500)}, (-5 + normal(500, 1)).exp()
    careful, sure = (
        Doubt.learn(views, epistemic, ood_prior=0.01, n_rows=500, are_new=are_new)
        for are_new in (False, True)
    )
    asked = {"density": torch.zeros(1)}, torch.tensor([0.3])
    assert careful.surprise(*asked) < sure.surprise(*asked)
    assert careful.total == sure.total


def test_state_survives_a_round_trip_through_json():
    one = doubt(0.05)
    assert from_state(Doubt, json.loads(json.dumps(to_state(one)))) == one


def test_a_tail_is_rarely_heavy_by_chance():
    """Squared distances in two normal columns have exponential tails; 75 of 1500 rows show it."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.empty(200, 1500, dtype=torch.float64).exponential_(generator=generator)
    far = torch.tensor([60.0], dtype=torch.float64)
    distances = [float(Tail.of(each).distance(far)) for each in scores]
    assert sum(distances) / len(distances) > 17  # 22 if the shape were known
    assert sum(distance < 8 for distance in distances) <= 10


def test_a_tail_that_is_heavy_beyond_doubt_stays_so():
    generator = torch.Generator().manual_seed(0)
    uniform = torch.rand(1500, generator=generator, dtype=torch.float64)
    assert Tail.of(uniform**-1).shape == 0.3
