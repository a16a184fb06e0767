import copy
import math

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
from bacoun.datasets import gaussian_mixture
from bacoun.posterior import Laplace, MeanField

GRID = np.random.default_rng(0).uniform(-4, 4, (300, 2))


class GaussianShell(BaseEstimator):
    """Edge points from one Gaussian: a shell stretched by the data's covariance."""

    def __init__(self, radii=(3.0, 3.1)):
        self.radii = radii

    def fit(self, points, labels, *, generator=None):
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


@pytest.fixture(scope="module", params=["gated", "paper", "nlm"])
def model(request, fast, moons):
    extra = {"gated": {}, "paper": {"gate": None}, "nlm": {"boundary": None}}[request.param]
    return fast(**extra).fit(*moons)


def answers(model, X):
    parts = model.uncertainty(X)
    return np.column_stack([model.predict_proba(X), parts.total, parts.aleatoric, parts.epistemic])


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


def test_predict_proba_is_the_mean_of_the_draws_and_sums_to_one(model):
    probabilities = model.predict_proba(GRID)
    draws = model.predict_proba_samples(GRID)
    assert draws.shape == (50, len(GRID), 2)
    np.testing.assert_allclose(draws.sum(axis=2), 1, atol=1e-12)
    np.testing.assert_allclose(probabilities, draws.mean(axis=0), atol=1e-12)
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
            getattr(parts, name), getattr(expected, name).numpy(), atol=1e-12
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


def test_region_proba_ends_with_the_edge_class_which_the_ood_probability_follows(quick):
    regions = quick.region_proba(GRID)
    assert regions.shape == (len(GRID), 3)
    np.testing.assert_allclose(regions.sum(axis=1), 1, atol=1e-6)
    order = regions[:, -1].argsort(kind="stable")
    assert (np.diff(quick.ood_probability(GRID)[order]) >= 0).all()


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
    units = np.array([8.0, 0.25])  # powers of two, so that standardising gives the same bits
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
def mixture():
    return BaCOUnClassifier.quick(random_state=0).fit(*gaussian_mixture(500, 1))


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
    def fit(self, features, labels, *, generator=None):
        return self

    def predict_proba_samples(self, features):
        return torch.full((5, len(features), 2), 0.5)


@pytest.mark.parametrize("posterior", [MeanField(n_draws=5, n_iterations=10), OwnHead()])
def test_a_head_that_cannot_split_says_so_in_one_sentence(fast, moons, posterior):
    model = fast(posterior=posterior).fit(*moons)
    with pytest.raises(ValueError, match=f"got {type(posterior).__name__}. Fit with") as info:
        model.uncertainty(GRID, split=True)
    assert str(info.value).startswith("split=True needs a posterior of 'hmc', 'nuts' or 'laplace'")
    assert "\n" not in str(info.value)
    assert model.uncertainty(GRID).model is None


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
    monkeypatch.setattr("bacoun.classifier.draw_seed", None)
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
    assert model.features_.transform_with_proba(torch.zeros(1, 2))[1].shape == (1, 2)  # K, not K+1
    with pytest.raises(ValueError, match="edge class; this model has none"):
        model.ood_probability(GRID)
    with pytest.raises(ValueError, match="log_prob to give a density; this model has none such"):
        model.log_density(GRID)


def test_the_gate_does_nothing_without_a_boundary(fast, moons):
    with_gate = fast(boundary=None, gate="ood").fit(*moons)
    without = fast(boundary=None, gate=None).fit(*moons)
    np.testing.assert_array_equal(answers(with_gate, GRID), answers(without, GRID))


def test_the_gate_raises_epistemic_where_the_network_says_ood(fast, moons):
    gated, plain = fast().fit(*moons), fast(gate=None).fit(*moons)
    ood = plain.ood_probability(GRID) > 0.5
    assert ood.sum() > 20
    change = gated.uncertainty(GRID[ood]).epistemic - plain.uncertainty(GRID[ood]).epistemic
    assert change.mean() > 0


@pytest.mark.parametrize("scale", [0.1, 3.0])
def test_the_prior_for_known_classes_is_not_that_for_the_unknown(moons, scale):
    standard, other = (
        BaCOUnClassifier.quick(random_state=0, posterior=Laplace(prior_scale=prior)).fit(*moons)
        for prior in (1.0, scale)
    )
    unknown = standard.ood_probability(far := 3 * GRID) > 0.9999
    assert unknown.sum() > 20
    np.testing.assert_allclose(
        other.uncertainty(far[unknown]).epistemic,
        standard.uncertainty(far[unknown]).epistemic,
        atol=0.05,
    )
    gap = other.uncertainty(moons[0]).total - standard.uncertainty(moons[0]).total
    assert gap.mean() * (1 - scale) > 0  # a wide prior lets known classes be told apart more surely


def test_changing_settings_after_fit_does_not_change_the_fitted_model(fast, moons):
    model = fast().fit(*moons)
    before = answers(model, GRID)
    model.set_params(gate=None, boundary=None, posterior="hmc", standardize=False, ood_share=0.5)
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
    assert model.posterior.fit_intercept  # the gate switches it off in its own copy


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
    assert model._n_edge(n_points) == expected


def test_a_boundary_of_ones_own_works_and_has_no_density(fast, moons):
    model = fast(boundary=GaussianShell()).set_params(features__epochs=100).fit(*moons)
    assert model.ood_probability([[30.0, 30.0]])[0] > 0.5
    assert model.ood_probability(moons[0]).mean() < 0.3
    with pytest.raises(ValueError, match="must have log_prob"):
        model.log_density(GRID)


def test_a_module_of_ones_own_becomes_the_body(fast, moons):
    body = nn.Sequential(nn.Linear(2, 24), nn.Tanh())
    before = copy.deepcopy(body.state_dict())
    model = fast(features=body).fit(*moons)
    assert model.score(*moons) > 0.8
    assert model.features_.transform(torch.zeros(1, 2)).shape == (1, 24)
    for name, value in body.state_dict().items():  # a copy is trained, not the module given
        assert torch.equal(value, before[name])


def test_a_feature_map_without_probabilities_needs_the_gate_off(fast, moons):
    class Identity(BaseEstimator):
        def fit(self, points, labels, *, generator=None):
            return self

        def transform(self, points):
            return points

    with pytest.raises(ValueError, match=r"Identity has none\. Pass gate=None\."):
        fast(features=Identity()).fit(*moons)
    model = fast(features=Identity(), gate=None).fit(*moons)
    assert model.score(*moons) > 0.8
    with pytest.raises(ValueError, match="edge class; this model has none"):
        model.region_proba(GRID)


def test_n_jobs_is_handed_to_the_boundary_unless_it_has_its_own(fast):
    assert fast(n_jobs=2)._fresh_steps()[0].n_jobs == 2
    assert fast(n_jobs=2).set_params(boundary__n_jobs=3)._fresh_steps()[0].n_jobs == 3


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
