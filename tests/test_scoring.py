import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

from bacoun import BaCOUnClassifier
from bacoun.deferral import prediction_set_threshold, prediction_sets
from bacoun.features import LearnedFeatures
from bacoun.posterior import HMC, Laplace, MeanField
from reproduction.datasets import gaussian_mixture, load_wine

PARTS = ("total", "aleatoric", "epistemic")


class OwnHead(BaseEstimator):
    def fit(self, features, labels, context):
        return self

    def predict_proba_samples(self, features):
        first = features[:, 0].sigmoid()
        return torch.stack([torch.stack([first, 1 - first], dim=1)] * 5)


class Identity(BaseEstimator):
    def fit(self, points, labels, context):
        return self

    def transform(self, points):
        return points.double()


def near_and_far(points, seed=0, n=150):
    """Rows on the data, around it, and a thousand standard deviations away."""
    rng = np.random.default_rng(seed)
    rows = points[rng.integers(len(points), size=n)]
    noise = rng.standard_normal(rows.shape) * points.std(axis=0)
    return np.concatenate([rows, rows + noise, rows + 5 * noise, rows + 1000 * noise])


def assert_agrees(model, X):
    found = model.evaluate(X)
    np.testing.assert_allclose(found.probabilities, model.predict_proba(X), rtol=0, atol=1e-4)
    expected = model.uncertainty(X)
    for part in PARTS:
        got = getattr(found, part)
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, getattr(expected, part), rtol=0, atol=1e-3, err_msg=part)
    # A score has no upper end; what overflows is infinitely unfamiliar either way.
    score, exact = (np.minimum(each, 1e30) for each in (found.ood_score, model.ood_score(X)))
    # It rises with the log of the disagreement, so 1e-6 in the latter may be more in the score.
    off = 1e-4 if model.doubt_ is None else 0.02
    np.testing.assert_allclose(score, exact, rtol=1e-4, atol=off)
    if model.doubt_ is not None:
        expected = model.ood_probability(X)
        np.testing.assert_allclose(found.ood_probability, expected, rtol=0, atol=1e-3)
        expected = model.rows_like_this(X)
        np.testing.assert_allclose(found.rows_like_this, expected, rtol=0.02, atol=1e-3)
    if found.log_density is not None:
        np.testing.assert_allclose(found.log_density, model.log_density(X), rtol=1e-4, atol=1e-4)


# --- one pass, all answers ------------------------------------------------------------------------


@pytest.mark.parametrize("ood_prior", [0.01, 0.5, 0.0])
def test_evaluate_agrees_on_the_mixture_near_and_far(mixture_model, ood_prior):
    X, _ = gaussian_mixture(500, 1)
    assert_agrees(mixture_model(ood_prior), near_and_far(X))


@pytest.mark.parametrize("ood_prior", [0.01, 0.0])
def test_evaluate_agrees_on_wine_near_and_far(ood_prior):
    wine = load_wine()
    wide = LearnedFeatures(hidden=(64, 64, 64, 1024), epochs=10)  # as the paper has it
    model = BaCOUnClassifier.quick(
        random_state=0, ood_prior=ood_prior, features=wide, posterior=Laplace(n_draws=200)
    ).fit(wine.points, wine.labels)
    assert_agrees(model, near_and_far(wine.points))
    assert_agrees(model, np.concatenate([region[:200] for region in wine.regions.values()]))


@pytest.mark.parametrize(
    "settings",
    [
        {"boundary": None},
        {"posterior": HMC(n_draws=60, n_chains=8, n_warmup=10, n_iterations=20)},
        {"posterior": Laplace(n_draws=40, fit_intercept=False)},
        {"posterior": MeanField(n_draws=5, n_iterations=10)},
        {"posterior": OwnHead()},
        {"features": Identity()},
        {"standardize": False},
        {"posterior": Laplace(n_draws=40, prior_scale=0.2)},
    ],
    ids=["nlm", "hmc", "no bias", "mean field", "own head", "own features", "raw", "narrow"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_evaluate_agrees_whatever_the_steps(fast, moons, settings):
    assert_agrees(fast(**settings).fit(*moons), near_and_far(moons[0]))


@pytest.mark.parametrize("n_classes", [3, 10])
def test_evaluate_agrees_with_many_classes(fast, n_classes):
    X, y = make_blobs(30 * n_classes, centers=n_classes, n_features=4, random_state=0)
    assert_agrees(fast().fit(X, y), near_and_far(X))


@pytest.mark.parametrize("n_rows", [1, 64, 65, 300])
def test_blocks_and_threads_leave_the_answers_where_they_belong(
    fast_model, moons, monkeypatch, n_rows
):
    monkeypatch.setattr("bacoun.base.LARGE_CHUNK", 64)
    assert_agrees(fast_model, near_and_far(moons[0])[:n_rows])


def test_what_a_model_cannot_know_is_none(fast, moons):
    nlm = fast(boundary=None).fit(*moons).evaluate(moons[0])
    assert nlm.ood_probability is None
    assert nlm.log_density is None
    paper = fast(ood_prior=0.0).fit(*moons).evaluate(moons[0])
    assert paper.ood_probability is None
    assert paper.log_density is not None


@pytest.mark.parametrize("settings", [{"boundary": None}, {"ood_prior": 0.0}], ids=["nlm", "paper"])
def test_without_doubt_the_score_is_epistemic(fast, moons, settings):
    model = fast(**settings).fit(*moons)
    found = model.evaluate(moons[0])
    np.testing.assert_array_equal(found.ood_score, found.epistemic)
    np.testing.assert_array_equal(model.ood_score(moons[0]), model.uncertainty(moons[0]).epistemic)


def test_evaluate_keeps_the_laws_of_uncertainty(fast_model, moons):
    found = fast_model.evaluate(near_and_far(moons[0]))
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(found.aleatoric + found.epistemic, found.total, atol=1e-15)
    assert (found.epistemic >= 0).all()
    assert (found.total <= np.log(2)).all()


def test_evaluate_leaves_threads_and_streams_as_they_were(fast_model, moons):
    threads, stream = torch.get_num_threads(), torch.get_rng_state()
    fast_model.evaluate(moons[0])
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), stream)


def test_evaluate_needs_a_fit_and_numbers(fast, fast_model, moons):
    with pytest.raises(NotFittedError):
        fast().evaluate(moons[0])
    with pytest.raises(ValueError, match="contains NaN"):
        fast_model.evaluate([[np.nan, 0.0]])


# --- prediction sets ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def calibrated(fast):
    X, y = make_blobs(400, centers=[[-1, 0], [1, 0], [0, 2]], random_state=0)
    names = np.array(["a", "b", "c"])[y]
    return fast().fit(X[:150], names[:150]).calibrate(X[150:], names[150:]), X, y


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
def test_sets_are_those_of_the_conformal_rule_and_cover(calibrated, coverage):
    model, X, y = calibrated
    sets = model.predict_set(X[150:], coverage)
    threshold = prediction_set_threshold(model.predict_proba(X[150:]), y[150:], coverage)
    np.testing.assert_array_equal(sets, prediction_sets(model.predict_proba(X[150:]), threshold))
    assert sets.dtype == bool
    assert sets.shape == (250, 3)
    assert coverage <= sets[np.arange(250), y[150:]].mean() <= coverage + 0.02


def test_more_coverage_takes_larger_sets(calibrated):
    model, X, _ = calibrated
    small, large = model.predict_set(X, 0.8), model.predict_set(X, 0.95)
    assert (large | ~small).all()
    assert large.sum() > small.sum()
    assert model.predict_set(X, 0.999).all()  # more than 250 points can promise


def test_sets_need_calibration_and_a_share(fast_model, moons, calibrated):
    with pytest.raises(NotFittedError, match=r"this model has none\. Call calibrate"):
        fast_model.predict_set(moons[0])
    for coverage in (0, 1, 90):
        with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
            calibrated[0].predict_set(calibrated[1], coverage)


def test_a_new_fit_forgets_the_calibration(fast, moons):
    model = fast().fit(*moons).calibrate(*moons)
    assert hasattr(model, "set_scores_")
    assert not hasattr(model.fit(*moons), "set_scores_")


def test_calibration_is_saved_with_the_model(calibrated, tmp_path):
    model, X, _ = calibrated
    model.save(tmp_path / "model")
    loaded = BaCOUnClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_set(X), model.predict_set(X))


def test_calibration_refuses_unseen_labels_in_one_sentence(calibrated):
    model, X, _ = calibrated
    with pytest.raises(ValueError, match="got 'z'") as info:
        model.calibrate(X[:3], ["a", "z", "b"])
    assert "\n" not in str(info.value)
