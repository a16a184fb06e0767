import copy
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator
from sklearn.datasets import make_blobs, make_moons
from sklearn.utils.estimator_checks import _NotAnArray
from torch import nn

from bacoun import BaCOUnClassifier, decompose
from bacoun.boundary import sample_shell
from bacoun.fitting import fresh_steps, n_boundary_points
from bacoun.posterior import MeanField

GRID = np.random.default_rng(0).uniform(-4, 4, (300, 2))


class GaussianShell(BaseEstimator):
    """Edge points from one Gaussian: a shell stretched by the data's covariance."""

    def __init__(self, radii=(3.0, 3.1)):
        self.radii = radii

    def fit(self, points, labels, context):
        self.center_ = points.mean(dim=0)
        self.scale_ = torch.linalg.cholesky(points.T.cov())
        return self

    def sample(self, n_points, *, generator):
        z = sample_shell(n_points, len(self.center_), self.radii, generator=generator)
        return self.center_ + z @ self.scale_.T


@pytest.fixture(scope="module")
def more_moons():
    return make_moons(400, noise=0.1, random_state=0)


@pytest.fixture(scope="module")
def quick(more_moons):
    return BaCOUnClassifier.quick(random_state=0).fit(*more_moons)


@pytest.fixture(scope="module", params=["doubt", "paper", "nlm"])
def model(request, fast, moons):
    extra = {"doubt": {}, "paper": {"ood_prior": 0}, "nlm": {"boundary": None}}[request.param]
    return fast(**extra).fit(*moons)


@pytest.fixture(scope="module")
def pair(fast, moons):
    """The same steps to the bit, without doubt and with it."""
    return fast(ood_prior=0).fit(*moons), fast().fit(*moons)


def answers(model, X):
    parts = model.uncertainty(X).to_frame()
    return np.column_stack([model.predict_proba(X), parts, model.ood_score(X)])


# --- chance ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("posterior", ["hmc", "laplace"])
def test_one_random_state_gives_one_answer_to_the_bit(moons, posterior):
    one, two = (
        BaCOUnClassifier.quick(random_state=3).set_params(posterior__n_draws=40).fit(*moons)
        if posterior == "hmc"
        else BaCOUnClassifier.quick(random_state=3, posterior="laplace").fit(*moons)
        for _ in range(2)
    )
    np.testing.assert_array_equal(answers(one, GRID), answers(two, GRID))
    np.testing.assert_array_equal(one.log_density(GRID), two.log_density(GRID))


def test_another_random_state_gives_another_answer(fast, moons):
    one, two = (fast(random_state=seed).fit(*moons).predict_proba(GRID) for seed in (0, 1))
    assert np.abs(one - two).max() > 1e-3


@pytest.mark.parametrize("random_state", [0, None, np.random.default_rng(0)])
def test_fit_and_predict_leave_global_streams_and_threads_as_they_were(fast, moons, random_state):
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
    threads_before = torch.get_num_threads()
    fast(random_state=random_state).fit(*moons).uncertainty(GRID)
    assert torch.equal(torch.get_rng_state(), torch_before)
    numpy_after = np.random.get_state()  # noqa: NPY002
    np.testing.assert_array_equal(numpy_after[1], numpy_before[1])
    assert numpy_after[2] == numpy_before[2]
    assert torch.get_num_threads() == threads_before


def test_no_random_state_gives_a_fresh_answer_each_time(fast, moons):
    one, two = (fast(random_state=None).fit(*moons).predict_proba(GRID) for _ in range(2))
    assert np.abs(one - two).max() > 1e-3


# --- rows -----------------------------------------------------------------------------------------


def test_row_order_does_not_matter(model):
    order = np.random.default_rng(1).permutation(len(GRID))
    np.testing.assert_allclose(
        answers(model, GRID)[order], answers(model, GRID[order]), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("size", [1, 7, 256, 257])
def test_batch_size_does_not_matter(model, size):
    some = GRID[: max(size + 1, 20)]
    pieces = [answers(model, some[at : at + size]) for at in range(0, len(some), size)]
    np.testing.assert_allclose(np.concatenate(pieces), answers(model, some), rtol=0, atol=1e-12)


def test_predicting_twice_gives_the_same_bits(model):
    np.testing.assert_array_equal(answers(model, GRID), answers(model, GRID))


def test_joint_draws_do_not_depend_on_the_batch(model):
    together = model.predict_proba_samples(GRID, joint=True)
    apart = model.predict_proba_samples(GRID[:5], joint=True)
    np.testing.assert_allclose(together[:, :5], apart, rtol=0, atol=1e-12)


# --- what the numbers mean ------------------------------------------------------------------------


def monte_carlo_error(model):
    """How far a mean over 50 draws may be off: where doubt replaces some, by a few draws."""
    return 1e-12 if model.doubt_ is None else 0.09


def test_predict_proba_is_the_mean_of_the_draws_and_sums_to_one(model):
    probabilities = model.predict_proba(GRID)
    for joint in (False, True):
        draws = model.predict_proba_samples(GRID, joint=joint)
        assert draws.shape == (50, len(GRID), 2)
        np.testing.assert_allclose(draws.sum(axis=2), 1, atol=1e-12)
    draws = model.predict_proba_samples(GRID)
    np.testing.assert_allclose(probabilities, draws.mean(axis=0), atol=monte_carlo_error(model))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-15)
    np.testing.assert_array_equal(np.log(probabilities), model.predict_log_proba(GRID))


def test_predict_names_the_most_likely_class(model):
    winners = model.predict_proba(GRID).argmax(axis=1)
    np.testing.assert_array_equal(model.predict(GRID), model.classes_[winners])


def test_uncertainty_is_the_decomposition_of_the_draws(model):
    parts = model.uncertainty(GRID)
    expected = decompose(torch.from_numpy(model.predict_proba_samples(GRID)))
    for name in ("total", "aleatoric", "epistemic"):
        np.testing.assert_allclose(
            getattr(parts, name), getattr(expected, name).numpy(), atol=monte_carlo_error(model)
        )


def test_total_is_aleatoric_plus_epistemic_and_at_most_log_k(model):
    parts = model.uncertainty(GRID)
    np.testing.assert_allclose(parts.total, parts.aleatoric + parts.epistemic, atol=1e-15)
    assert (parts.aleatoric >= 0).all()
    assert (parts.epistemic >= 0).all()
    assert (parts.total <= math.log(2)).all()


def test_to_frame_has_a_column_for_each_part_and_the_given_index(model):
    frame = model.uncertainty(GRID[:3]).to_frame(index=["a", "b", "c"])
    assert list(frame.columns) == ["total", "aleatoric", "epistemic"]
    assert list(frame.index) == ["a", "b", "c"]
    np.testing.assert_array_equal(frame["total"], model.uncertainty(GRID[:3]).total)


def test_marginal_and_joint_draws_agree_on_each_row(quick):
    marginal = quick.predict_proba(GRID)
    joint = quick.predict_proba_samples(GRID, joint=True).mean(axis=0)
    assert np.abs(marginal - joint).mean() < 0.1  # 100 draws each


def test_region_proba_ends_with_the_edge_which_is_likelier_outside_than_inside(quick, more_moons):
    regions = quick.region_proba(GRID)
    assert regions.shape == (len(GRID), 3)
    np.testing.assert_allclose(regions.sum(axis=1), 1, atol=1e-6)
    assert regions[:, -1].mean() > quick.region_proba(more_moons[0])[:, -1].mean()


def test_epistemic_is_high_far_away_in_every_direction_and_low_on_the_data(quick, more_moons):
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    ring = np.array([0.5, 0.25]) + 12 * np.column_stack([np.cos(angles), np.sin(angles)])
    far = quick.uncertainty(ring)
    assert quick.ood_probability(ring).min() > 0.9
    assert far.epistemic.min() > 0.35  # of log 2 = 0.69
    assert quick.uncertainty(more_moons[0]).epistemic.mean() < 0.05


def test_quick_settings_learn_the_moons_without_a_warning(quick, more_moons):
    assert quick.score(*more_moons) > 0.95
    assert quick.health_.inference == "HMC"
    assert quick.health_.rhat < 1.1


@pytest.mark.parametrize("size", [1e30, 1e300])
def test_huge_inputs_give_finite_answers(quick, size):
    points = size * np.array([[1, 0], [-1, 1], [0, -1], [1, 1]])
    assert np.isfinite(answers(quick, points)).all()
    assert np.isfinite(quick.ood_probability(points)).all()
    assert not np.isnan(quick.log_density(points)).any()


def test_density_is_in_the_units_of_x(fast, moons):
    X, y = moons
    units = np.array([8.0, 0.25])  # powers of two, so that standardizing gives the same bits
    here, there = fast().fit(X, y), fast().fit(X * units, y)
    np.testing.assert_array_equal(here.predict_proba(X), there.predict_proba(X * units))
    shift = here.log_density(X) - there.log_density(X * units)
    np.testing.assert_allclose(shift, np.log(units).sum(), rtol=1e-12)


def test_the_density_integrates_to_one(quick):
    axis = np.linspace(-6, 7, 200)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    mass = np.exp(quick.log_density(points)).sum() * (axis[1] - axis[0]) ** 2
    assert mass == pytest.approx(1, abs=0.03)


def test_tiny_units_are_not_taken_for_constant_columns(fast, moons):
    X, y = moons
    small = 2.0**-60
    np.testing.assert_array_equal(
        fast().fit(X, y).predict_proba(X), fast().fit(X * small, y).predict_proba(X * small)
    )


def test_a_constant_column_does_no_harm(fast, moons):
    X, y = moons
    wide = np.column_stack([X, np.full(len(X), 1e6 + 0.1)])
    model = fast().fit(wide, y)
    assert model.scale_[2] == 1
    assert model.score(wide, y) > 0.8


# --- model and OOD --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixture(mixture_model):
    return mixture_model(0.01)


def test_model_and_ood_add_up_to_epistemic(model):
    parts = model.uncertainty(GRID, split=True)
    assert (parts.model >= 0).all()
    assert (parts.ood >= 0).all()
    np.testing.assert_allclose(parts.model + parts.ood, parts.epistemic, rtol=0, atol=1e-15)
    np.testing.assert_allclose(parts.aleatoric + parts.epistemic, parts.total, rtol=0, atol=1e-15)


def test_the_split_has_two_more_columns_and_only_if_asked_for(model):
    whole, parts = model.uncertainty(GRID[:3]), model.uncertainty(GRID[:3], split=True)
    assert whole.model is None
    assert whole.ood is None
    assert list(parts.to_frame()) == ["total", "aleatoric", "epistemic", "model", "ood"]


def test_the_split_does_not_depend_on_order_or_company(model):
    order = np.random.default_rng(1).permutation(len(GRID))
    together = model.uncertainty(GRID, split=True).to_frame().to_numpy()
    shuffled = model.uncertainty(GRID[order], split=True).to_frame().to_numpy()
    alone = model.uncertainty(GRID[:5], split=True).to_frame().to_numpy()
    np.testing.assert_array_equal(together, model.uncertainty(GRID, split=True).to_frame())
    np.testing.assert_allclose(together[order], shuffled, rtol=0, atol=1e-12)
    np.testing.assert_allclose(together[:5], alone, rtol=0, atol=1e-12)


def test_doubt_is_about_the_model_between_classes_and_ood_far_away(mixture):
    means = np.array([[0.0, 4.0], [-np.sqrt(12), -2.0], [np.sqrt(12), -2.0]])
    between = np.vstack([(means + np.roll(means, 1, axis=0)) / 2, means.mean(axis=0)])
    near = mixture.uncertainty(between, split=True)
    assert (near.model > near.ood).all()
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    far = mixture.uncertainty(30 * np.column_stack([np.cos(angle), np.sin(angle)]), split=True)
    assert (far.ood > 10 * far.model).all()


def test_a_loaded_model_splits_to_the_bit(mixture, tmp_path):
    mixture.save(tmp_path / "model")
    loaded = BaCOUnClassifier.load(tmp_path / "model")
    X = 5 * GRID
    pd.testing.assert_frame_equal(
        loaded.uncertainty(X, split=True).to_frame(),
        mixture.uncertainty(X, split=True).to_frame(),
        check_exact=True,
    )


class OwnHead(BaseEstimator):
    """Five draws, none of which has an opinion."""

    def fit(self, features, labels, context):
        return self

    def predict_proba_samples(self, features):
        return torch.full((5, len(features), 2), 0.5)


@pytest.mark.parametrize("posterior", ["hmc", MeanField(n_draws=9, n_iterations=10), OwnHead()])
def test_every_posterior_can_be_split_and_doubted(fast, moons, posterior):
    model = fast(posterior=posterior).fit(*moons)
    parts = model.uncertainty(100 * GRID, split=True)
    np.testing.assert_allclose(parts.model + parts.ood, parts.epistemic, rtol=0, atol=1e-15)
    np.testing.assert_allclose(parts.ood, math.log(2), atol=0.05)
    np.testing.assert_allclose(parts.total, model.uncertainty(100 * GRID).total, atol=1e-9)


def test_with_ten_classes_a_far_row_is_all_ood(fast):
    """The weights leave nothing open where nothing is known: an estimate once left 0.18 nats."""
    angle = 2 * np.pi * np.arange(10) / 10
    centers = 10 * np.column_stack([np.cos(angle), np.sin(angle)])
    X, y = make_blobs(300, centers=centers, random_state=0)
    parts = fast().fit(X, y).uncertainty(1e4 * X[:50], split=True)
    np.testing.assert_allclose(parts.model, 0, atol=1e-3)
    np.testing.assert_allclose(parts.ood, math.log(10), atol=1e-3)


# --- doubt ----------------------------------------------------------------------------------------


def test_without_ood_prior_there_is_no_doubt(pair, moons):
    plain, _ = pair
    assert plain.doubt_ is None
    np.testing.assert_array_equal(plain.ood_score(GRID), plain.uncertainty(GRID).epistemic)
    with pytest.raises(ValueError, match="needs a boundary and an ood_prior above 0") as info:
        plain.ood_probability(GRID)
    assert "\n" not in str(info.value)
    parts = plain.uncertainty(GRID, split=True)
    np.testing.assert_allclose(parts.model, parts.epistemic, rtol=0, atol=1e-15)


@pytest.mark.parametrize("distance", [1, 10, 1e3, 1e6])
def test_doubt_changes_no_prediction_and_lowers_no_epistemic_uncertainty(pair, distance):
    plain, doubting = pair
    rows = distance * GRID
    before = plain.predict_proba(rows)
    told = np.abs(before[:, 0] - before[:, 1]) > 1e-6  # not by a tie of 25 draws to 25
    assert told.mean() > 0.9
    np.testing.assert_array_equal(doubting.predict(rows)[told], plain.predict(rows)[told])
    change = doubting.uncertainty(rows).epistemic - plain.uncertainty(rows).epistemic
    assert change.min() > -1e-12


@pytest.mark.parametrize("distance", [10, 1e3, 1e6])
def test_far_rows_are_unknown_in_every_direction_and_have_finite_answers(pair, distance):
    rows = distance * GRID / np.linalg.norm(GRID, axis=1, keepdims=True)
    _, doubting = pair
    assert doubting.uncertainty(rows).epistemic.min() > 0.9 * math.log(2)
    assert doubting.ood_probability(rows).min() > 0.9
    assert np.isfinite(answers(doubting, rows)).all()


def test_the_mean_is_that_of_known_and_unknown(pair):
    plain, doubting = pair
    points = doubting._standardized(GRID)
    kappa = doubting.doubt_.hedge(doubting._predictor.unfamiliarity(points)).numpy()
    expected = (1 - kappa[:, None]) * plain.predict_proba(GRID) + kappa[:, None] / 2
    np.testing.assert_allclose(doubting.predict_proba(GRID), expected, atol=1e-6)
    like_this = doubting.rows_like_this(GRID)
    familiar = 1 - np.maximum(kappa, doubting.ood_probability(GRID))
    known = familiar * like_this**2 / (like_this**2 + 25)
    parts, alone = doubting.uncertainty(GRID, split=True), plain.uncertainty(GRID)
    np.testing.assert_allclose(parts.aleatoric, known * alone.aleatoric, atol=1e-6)
    np.testing.assert_allclose(parts.model + parts.aleatoric, familiar * alone.total, atol=1e-6)


def test_evidence_decides_the_split_and_nothing_else(quick):
    """Probabilities, classes and total are the same to the bit whatever the evidence says."""
    few = copy.copy(quick)
    few.doubt_ = replace(quick.doubt_, n_rows=3)
    np.testing.assert_array_equal(few.predict_proba(GRID), quick.predict_proba(GRID))
    np.testing.assert_array_equal(few.predict(GRID), quick.predict(GRID))
    one, two = few.uncertainty(GRID, split=True), quick.uncertainty(GRID, split=True)
    np.testing.assert_array_equal(one.total, two.total)
    assert (one.aleatoric <= two.aleatoric).all()
    assert (one.aleatoric < two.aleatoric - 0.01).any()


def test_the_more_surprising_a_row_the_fewer_are_like_it_and_the_likelier_it_is_ood(quick):
    order = quick.ood_score(GRID).argsort()
    probability, like_this = quick.ood_probability(GRID)[order], quick.rows_like_this(GRID)[order]
    assert (np.diff(probability) >= 0).all()
    assert (np.diff(like_this) <= 0).all()
    assert probability[0] < 0.01 < 0.9 < probability[-1]
    assert like_this[-1] < 0.01 < 50 < like_this[0]


def test_half_of_the_rows_are_as_unusual_as_a_typical_one(quick, more_moons):
    X, _ = make_moons(1000, noise=0.1, random_state=1)
    typical = np.median(quick.rows_like_this(X)) / len(more_moons[0])
    assert 0.3 < typical < 0.7


def test_flows_alone_are_what_there_is_to_doubt_by(quick, pair):
    assert len(quick.boundary_.held_out_rows_) == 40
    assert list(quick.doubt_.views) == ["density"]
    few = pair[1]
    assert len(few.boundary_.held_out_rows_) < 20
    assert list(few.doubt_.views) == ["density"]  # there is no other view


def test_most_new_rows_are_no_likelier_unknown_than_before_they_were_seen(quick):
    """The prior is what 5 % of the rows that no flow was fitted to exceed."""
    X, _ = make_moons(1000, noise=0.1, random_state=1)
    assert 0.005 < (quick.ood_probability(X) > quick.ood_prior).mean() < 0.25


def test_the_ood_score_ranks_far_rows_above_near_ones_and_each_above_the_nearer(quick, more_moons):
    inside = quick.ood_score(more_moons[0])
    ray = np.array([0.5, 0.25]) + np.array([[3.0], [10.0], [100.0], [1e4]]) * [0.6, 0.8]
    outside = quick.ood_score(ray)
    assert (np.diff(outside) > 0).all()
    assert outside[0] > np.quantile(inside, 0.99)


def test_a_larger_prior_doubts_more_and_ranks_the_same(fast, moons):
    small, large = (fast(ood_prior=prior).fit(*moons) for prior in (0.001, 0.3))
    there = small.ood_probability(GRID), large.ood_probability(GRID)
    assert (there[0] <= there[1]).all()
    assert (there[1] - there[0]).max() > 0.1
    np.testing.assert_array_equal(small.ood_score(GRID), large.ood_score(GRID))


def test_asking_in_one_pass_gives_the_same_ood_score_and_probability(quick):
    found = quick.evaluate(GRID)
    np.testing.assert_allclose(found.ood_score, quick.ood_score(GRID), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found.ood_probability, quick.ood_probability(GRID), atol=1e-4)


# --- outliers -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spoiled(moons):
    """The moons with six points far away, two of them wildly."""
    X, y = moons
    far = np.array([[6, 6], [-7, 1], [1, -8], [9, 0], [1e4, 0], [0, -1e4]])
    return np.vstack([X[:60], far, X[60:]]), np.concatenate([y[:60], [0, 1, 0, 1, 0, 1], y[60:]])


def test_outliers_are_left_out_and_the_rest_is_learned_as_if_alone(fast, moons, spoiled):
    model = fast(contamination=6 / 126).fit(*spoiled)
    np.testing.assert_array_equal(model.outliers_, np.arange(60, 66))
    assert model.outliers_.dtype.kind == "i"
    np.testing.assert_array_equal(model.mean_, moons[0].mean(axis=0))
    assert model.score(*moons) > 0.8
    assert model.score(*moons) > fast().fit(*spoiled).score(*moons)


def test_no_contamination_leaves_nothing_out(fast, moons):
    model = fast(contamination=0.0).fit(*moons)
    assert model.outliers_.shape == (0,)
    np.testing.assert_array_equal(answers(model, GRID), answers(fast().fit(*moons), GRID))


def test_no_contamination_draws_no_random_number(fast, moons, monkeypatch):
    monkeypatch.setattr("bacoun.fitting.find_outliers", None)
    fast(contamination=0).fit(*moons)


def test_outliers_of_tables_of_any_kind_are_the_same(fast, spoiled):
    X, y = spoiled
    names = np.array(["ham", "spam"])
    plain = fast(contamination=0.1).fit(X, y)
    frame = fast(contamination=0.1).fit(
        pd.DataFrame(X, columns=["length", "width"], index=np.arange(len(X))[::-1]),
        pd.Series(names[y]),
    )
    lists = fast(contamination=0.1).fit(X.tolist(), y.tolist())
    readable = fast(contamination=0.1).fit(_NotAnArray(X), _NotAnArray(y))
    assert len(plain.outliers_) == 13
    for model in (frame, lists, readable):
        np.testing.assert_array_equal(model.outliers_, plain.outliers_)
        np.testing.assert_allclose(model.scale_, plain.scale_)
    assert list(frame.feature_names_in_) == ["length", "width"]
    assert list(frame.classes_) == ["ham", "spam"]


def test_a_class_far_from_the_others_keeps_two_points(fast, moons):
    X = np.vstack([moons[0], [[50, 50], [51, 51], [90, 90]]])
    y = np.concatenate([moons[1], [2, 2, 2]])
    model = fast(contamination=0.02).fit(X, y)
    assert list(model.classes_) == [0, 1, 2]
    assert 122 in model.outliers_
    assert not {120, 121} & set(model.outliers_)


# --- kinds of labels and tables -------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["ham", "spam"]),
        np.array(["ham", "spam"], dtype=object),
        np.array([False, True]),
        np.array([-3, 7]),
        np.array([1.0, 2.0]),
    ],
    ids=["str", "object", "bool", "int", "float"],
)
def test_labels_of_any_kind_come_back_as_given(fast, moons, labels):
    X, y = moons
    model = fast().fit(X, labels[y])
    plain = fast().fit(X, y)
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.classes_.dtype == labels.dtype
    assert model.predict(X).dtype == labels.dtype
    np.testing.assert_array_equal(model.predict(X), labels[plain.predict(X)])
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


def test_columns_of_probabilities_follow_classes_whatever_the_order_of_labels(fast):
    X, y = make_blobs(90, centers=[[-5, 0], [0, 5], [5, 0]], random_state=0)
    names = np.array(["z", "a", "m"])
    model = fast().fit(X, names[y])
    assert list(model.classes_) == ["a", "m", "z"]
    assert model.score(X, names[y]) > 0.95
    assert model.predict_proba(X).shape == (90, 3)


def test_data_frames_are_read_like_arrays_and_names_are_kept(fast, moons):
    X, y = moons
    frame = pd.DataFrame(X, columns=["length", "width"])
    model = fast().fit(frame, pd.Series(y))
    assert list(model.feature_names_in_) == ["length", "width"]
    np.testing.assert_array_equal(model.predict_proba(frame), fast().fit(X, y).predict_proba(X))


def test_float32_input_gives_nearly_the_float64_answer(fast, moons):
    X, y = moons
    model = fast().fit(X, y)
    assert model.predict_proba(X.astype(np.float32)).dtype == np.float64
    np.testing.assert_allclose(
        model.predict_proba(X.astype(np.float32)), model.predict_proba(X), atol=1e-4
    )
    single = fast().fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.mean_, model.mean_, rtol=1e-5)
    assert single.score(X, y) > 0.8


def test_lists_and_integers_are_tables_too(fast):
    X = [[i % 7, i // 7] for i in range(49)]
    y = [int(i // 7 > 3) for i in range(49)]
    assert fast().fit(X, y).score(X, y) > 0.8


def test_standardize_false_leaves_the_inputs_alone(fast, moons):
    model = fast(standardize=False).fit(*moons)
    np.testing.assert_array_equal(model.mean_, 0)
    np.testing.assert_array_equal(model.scale_, 1)


# --- steps ----------------------------------------------------------------------------------------


def test_without_a_boundary_it_is_a_neural_linear_model(fast, moons):
    model = fast(boundary=None).fit(*moons)
    assert model.boundary_ is None
    assert model.doubt_ is None
    assert model.features_.region_proba(torch.zeros(1, 2)).shape == (1, 2)  # K, not K+1
    with pytest.raises(ValueError, match="needs a boundary and an ood_prior above 0"):
        model.ood_probability(GRID)
    with pytest.raises(ValueError, match="boundary class; this model has none"):
        model.region_proba(GRID)
    with pytest.raises(ValueError, match="log_prob to give a density; this model has none such"):
        model.log_density(GRID)


def test_the_prior_of_being_unknown_does_nothing_without_a_boundary(fast, moons):
    one, other = (fast(boundary=None, ood_prior=prior).fit(*moons) for prior in (0, 0.3))
    np.testing.assert_array_equal(answers(one, GRID), answers(other, GRID))


def test_changing_settings_after_fit_does_not_change_the_fitted_model(fast, moons):
    model = fast().fit(*moons)
    before = answers(model, GRID)
    model.set_params(ood_prior=0.0, boundary=None, posterior="hmc", standardize=False)
    np.testing.assert_array_equal(answers(model, GRID), before)


def test_fit_leaves_the_given_steps_as_they_were(fast, moons):
    model = fast()
    steps = copy.deepcopy(model.get_params())
    model.fit(*moons)
    after = model.get_params()
    for name, value in steps.items():
        if not hasattr(value, "get_params"):
            assert after[name] == value, name
    assert not hasattr(model.boundary, "flows_")


@pytest.mark.parametrize(
    ("n_boundary", "n_points", "n_classes", "image_shape", "expected"),
    [
        (7, 100, 2, None, 7),
        ("balanced", 120, 2, None, 1000),
        ("balanced", 10_000, 10, None, 1300),
        ("balanced", 10_000, 10, (1, 28, 28), 5000),
        (7, 10_000, 10, (1, 28, 28), 7),
    ],
)
def test_n_boundary_is_as_told_or_balanced_with_the_classes(
    fast, n_boundary, n_points, n_classes, image_shape, expected
):
    model = fast(n_boundary=n_boundary)
    model.classes_, model.image_shape_ = np.arange(n_classes), image_shape
    assert n_boundary_points(model, n_points) == expected


class LabeledShell(GaussianShell):
    """The same, knowing whose edge each point is on, or saying that it does not."""

    def __init__(self, radii=(3.0, 3.1), knows=True):
        super().__init__(radii)
        self.knows = knows

    def sample(self, n_points, *, generator):
        edge = super().sample(n_points, generator=generator)
        return edge, (edge[:, 1] < self.center_[1]).long() if self.knows else None


@pytest.mark.parametrize(
    "boundary", [GaussianShell(), LabeledShell(), LabeledShell(knows=False)], ids=repr
)
def test_a_boundary_of_ones_own_works_and_has_no_density(fast, moons, boundary):
    model = fast(boundary=boundary, n_boundary=1000).set_params(features__epochs=100).fit(*moons)
    drawn = model.boundary_.sample(200, generator=torch.Generator().manual_seed(0))
    edge = (drawn[0] if isinstance(drawn, tuple) else drawn).numpy() * model.scale_ + model.mean_
    assert model.score(*moons) > 0.8
    assert model.ood_probability(edge).mean() > 5 * model.ood_probability(moons[0]).mean()
    assert model.ood_score(edge).mean() > model.ood_score(moons[0]).mean() + 1
    assert model.evaluate(GRID).log_density is None
    with pytest.raises(ValueError, match="must have log_prob"):
        model.log_density(GRID)


class DensityAlone(GaussianShell):
    """The same, with the density of its Gaussian."""

    def log_prob(self, points):
        law = torch.distributions.MultivariateNormal(self.center_, scale_tril=self.scale_)
        return law.log_prob(points)


def test_a_density_of_ones_own_is_what_doubt_grows_with(fast, moons):
    model = fast(boundary=DensityAlone()).fit(*moons)
    assert list(model.doubt_.views) == ["density"]
    assert model.ood_probability(100 * GRID).min() > 0.9
    assert model.evaluate(GRID).log_density == pytest.approx(model.log_density(GRID), rel=1e-4)


def test_a_module_of_ones_own_becomes_the_body(fast, moons):
    body = nn.Sequential(nn.Linear(2, 24), nn.Tanh())
    before = copy.deepcopy(body.state_dict())
    model = fast(features=body).fit(*moons)
    assert model.score(*moons) > 0.8
    assert model.features_.transform(torch.zeros(1, 2)).shape == (1, 24)
    for name, value in body.state_dict().items():  # a copy is trained, not the module given
        assert torch.equal(value, before[name])


class Identity(BaseEstimator):
    """A feature map that learns nothing and knows no edge."""

    def fit(self, points, labels, context):
        return self

    def transform(self, points):
        return points


def test_features_that_know_no_edge_are_doubted_by_the_density_alone(fast, moons):
    model = fast(features=Identity()).fit(*moons)
    assert model.score(*moons) > 0.8
    assert model.uncertainty(100 * GRID).epistemic.min() > 0.9 * math.log(2)
    with pytest.raises(ValueError, match="boundary class; this model has none"):
        model.region_proba(GRID)


def test_with_neither_density_nor_edge_there_is_nothing_to_doubt_by(fast, moons):
    settings = {"features": Identity(), "boundary": GaussianShell()}
    with pytest.raises(ValueError, match=r"GaussianShell and Identity have neither\.") as info:
        fast(**settings).fit(*moons)
    assert str(info.value).endswith("Pass ood_prior=0.")
    assert "\n" not in str(info.value)
    model = fast(**settings, ood_prior=0).fit(*moons)
    assert model.doubt_ is None
    assert model.score(*moons) > 0.8


def test_n_jobs_is_handed_to_the_boundary_unless_it_has_its_own(fast):
    assert fresh_steps(fast(n_jobs=2))[0].n_jobs == 2
    assert fresh_steps(fast(n_jobs=2).set_params(boundary__n_jobs=3))[0].n_jobs == 3
    assert fresh_steps(BaCOUnClassifier(n_jobs=2))[0].shell.n_jobs == 2


# --- progress -------------------------------------------------------------------------------------


def test_verbose_draws_a_bar_for_each_step_on_stderr_alone(fast, moons, capsys):
    fast(verbose=True, posterior="hmc").set_params(posterior__n_draws=100).fit(*moons)
    out, err = capsys.readouterr()
    assert out == ""
    for step in ("boundary", "features", "posterior"):
        assert step in err


def test_the_library_is_silent_by_default(fast, moons, capsys):
    fast().fit(*moons).predict(GRID)
    assert capsys.readouterr() == ("", "")


# --- weights --------------------------------------------------------------------------------------


def rare_and_common(seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(["common", "rare"], [380, 20])
    X = rng.normal(size=(400, 2)) + np.where(y == "rare", 1.5, 0.0)[:, None]
    return X, y


def test_rows_of_weight_zero_are_as_if_they_were_not_there(fast, moons):
    X, y = moons
    kept = np.arange(len(X)) % 3 > 0
    weighted = fast().fit(X, y, sample_weight=kept.astype(float) * 2)
    same = fast().fit(X[kept], y[kept], sample_weight=np.full(kept.sum(), 2.0))
    np.testing.assert_array_equal(weighted.predict_proba(GRID), same.predict_proba(GRID))


@pytest.mark.parametrize("features", ["learned", "tabular"])
def test_heavy_classes_are_predicted_more_often(fast, features):
    X, y = rare_and_common()
    plain = fast(features=features).fit(X, y)
    balanced = fast(features=features, class_weight="balanced").fit(X, y)
    told = fast(features=features, class_weight={"rare": 19.0}).fit(X, y)
    by_row = fast(features=features).fit(X, y, sample_weight=np.where(y == "rare", 19.0, 1.0))
    rare = [(model.predict(X) == "rare").mean() for model in (plain, balanced, told, by_row)]
    assert min(rare[1:]) > 2 * rare[0]


def test_an_update_takes_weights_too(fast):
    X, y = rare_and_common()
    model = fast().fit(X, y)
    before = (model.predict(X) == "rare").mean()
    model.update(X, y, sample_weight=np.where(y == "rare", 19.0, 1.0))
    assert (model.predict(X) == "rare").mean() > before


@pytest.mark.parametrize(
    ("settings", "weights", "sentence"),
    [
        ({"class_weight": {"other": 2.0}}, None, "class_weight must be 'balanced' or a dict"),
        ({"class_weight": {"rare": -1.0}}, None, "class_weight must be 'balanced' or a dict"),
        ({"class_weight": "even"}, None, "class_weight must be 'balanced' or a dict"),
        ({}, np.zeros(400), "must contain at least one non-zero"),
        ({}, np.full(400, -1.0), "[Nn]egative"),
        ({}, np.ones(3), "sample_weight"),
        ({}, np.full(400, 1e300), "sample_weight must be at most 1e"),  # 30.15
        ({"class_weight": {"rare": 1e300}}, None, "class_weight must be at most 1e"),
    ],
)
def test_bad_weights_are_refused(fast, settings, weights, sentence):
    with pytest.raises(ValueError, match=sentence):
        fast(**settings).fit(*rare_and_common(), sample_weight=weights)


def test_a_step_that_knows_no_weights_is_not_fitted_without_them(fast, moons):
    class Constant:
        def fit(self, points, labels, context):
            return self

        def transform(self, points):
            return points

    model = fast(boundary=None, features=Constant())
    model.fit(*moons)
    with pytest.raises(ValueError, match="features must take sample_weight in fit"):
        model.fit(*moons, sample_weight=np.ones(len(moons[0])))


def test_outliers_are_numbered_among_all_rows_also_if_some_have_no_weight(fast, moons):
    X, y = np.vstack([moons[0], [[50.0, 50.0]]]), np.append(moons[1], 0)
    weights = np.ones(len(X))
    weights[:20] = 0
    model = fast(contamination=1 / 150).fit(X, y, sample_weight=weights)
    assert len(X) - 1 in model.outliers_
    assert model.outliers_.min() >= 20


@pytest.mark.parametrize("posterior", ["hmc", "laplace", MeanField(n_iterations=2000)])
def test_every_posterior_knows_weights(fast, posterior):
    X, y = rare_and_common()
    plain, balanced = (
        fast(boundary=None, posterior=posterior, class_weight=weight).fit(X, y)
        for weight in (None, "balanced")
    )
    rare = list(plain.classes_).index("rare")
    assert balanced.predict_proba(X)[:, rare].mean() > 2 * plain.predict_proba(X)[:, rare].mean()
