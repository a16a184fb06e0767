"""Images in: the same classifier, with convolutions and an edge in a compact space."""

import numpy as np
import pytest
from reproduction.datasets.images import load_images
from sklearn.base import clone
from torch import nn

from bacoun import BaCOUnClassifier
from bacoun.baselines import GP, NLM, DeepEnsemble, MCDropout
from bacoun.boundary import CompactShell, FlowShell
from bacoun.features import LearnedFeatures
from bacoun.posterior import Laplace

QUICK = {
    "boundary": CompactShell(n_components=8, shell=FlowShell(epochs=5, blocks=2, hidden=16)),
    "features": LearnedFeatures(hidden=(16, 32), epochs=30),
    "posterior": Laplace(n_draws=50),
    "n_boundary": 200,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def digits():
    X, y = load_images("digits")
    return X[:400], y[:400]


@pytest.fixture(scope="module")
def model(digits):
    return BaCOUnClassifier(**QUICK).fit(*digits)


def test_images_are_learned_by_convolutions(model, digits):
    X, y = digits
    assert model.image_shape_ == (1, 8, 8)
    assert model.n_features_in_ == 64
    assert isinstance(model.features_.module_[0][0], nn.Conv2d)
    assert model.score(X, y) > 0.8
    assert model.uncertainty(X).epistemic.mean() < model.uncertainty(1 - X).epistemic.mean()
    assert model.log_density(X).min() > model.log_density(1 - X).max()
    assert model.ood_probability(X).mean() < model.ood_probability(1 - X).mean()


def test_images_are_doubted_by_what_the_components_see_and_by_what_they_leave_over(model, digits):
    X, _ = digits
    assert set(model.doubt_.views) <= {"density", "gaussian", "residual"}
    shell = model.boundary_
    noise = np.random.default_rng(0).normal(size=(len(X), 64)).astype(np.float32)
    basis = shell.basis_.numpy()
    off = (noise - noise @ basis.T @ basis).reshape(X.shape)  # the components do not see it
    assert np.median(model.ood_probability(X)) < 0.01
    assert np.median(model.ood_probability(X + off)) > 0.1
    assert np.median(model.ood_probability(X + 100 * off)) > 0.5
    assert (model.ood_score(X + 100 * off) > model.ood_score(X)).all()


def test_a_channel_of_its_own_makes_no_difference(model, digits):
    X, y = digits
    again = clone(model).fit(X[:, None], y)
    np.testing.assert_array_equal(again.predict_proba(X[:9, None]), model.predict_proba(X[:9]))


def test_pixels_of_a_channel_share_one_scale(digits):
    X, y = digits
    colored = np.stack([X, 5 * X + 7], axis=1)
    model = BaCOUnClassifier(**QUICK | {"boundary": None}).fit(colored, y)
    assert model.image_shape_ == (2, 8, 8)
    np.testing.assert_allclose(model.scale_[:64], X.std())
    np.testing.assert_allclose(model.scale_[64:], 5 * X.std(), rtol=1e-5)
    np.testing.assert_allclose(model.mean_[64:], 5 * X.mean() + 7, rtol=1e-5)


def test_a_saved_model_still_takes_images(model, digits, tmp_path):
    X, _ = digits
    model.save(tmp_path / "model")
    loaded = BaCOUnClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.log_density(X), model.log_density(X))


def test_all_answers_in_one_pass(model, digits):
    X, _ = digits
    answers = model.evaluate(X)
    np.testing.assert_allclose(answers.epistemic, model.uncertainty(X).epistemic, atol=1e-4)
    np.testing.assert_allclose(answers.log_density, model.log_density(X), rtol=1e-4)


def test_a_list_of_images_is_as_good_as_an_array(model, digits):
    X, _ = digits
    np.testing.assert_array_equal(model.predict(list(X[:5])), model.predict(X[:5]))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda X: X[:, :4], "images of 1 x 8 x 8, as in fit; got images of 1 x 4 x 8"),
        (lambda X: X.reshape(len(X), -1), "images of 1 x 8 x 8, as in fit; got a table"),
        (lambda X: X[:, None, None], r"\(N, C, H, W\), none of them empty; got shape \(400, 1, 1"),
        (lambda X: X[:, :0], r"none of them empty; got shape \(400, 0, 8\)"),
        (lambda X: np.where(X > 0.9, np.nan, X), "contains NaN"),
    ],
)
def test_other_images_are_refused(model, digits, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        model.predict(change(digits[0]))


def test_a_table_model_refuses_images(digits):
    X, y = digits
    model = BaCOUnClassifier.quick(random_state=0, boundary=None)
    model.fit(X.reshape(len(X), -1)[:, :5], y % 2)
    with pytest.raises(ValueError, match="a table, as in fit; got images of 1 x 8 x 8"):
        model.predict(X)


def test_a_module_of_ones_own_sees_images(digits):
    X, y = digits
    body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten())
    model = BaCOUnClassifier(**QUICK | {"features": body}).fit(X, y)
    assert model.features_.transform(model._standardized(X[:3].reshape(3, -1))).shape == (3, 144)


def test_update_and_outliers_take_images(model, digits):
    X, y = digits
    updated = BaCOUnClassifier(**QUICK | {"contamination": 0.02}).fit(X, y)
    assert len(updated.outliers_) == 8
    before = updated.predict_proba(X)
    assert not np.array_equal(updated.update(X[:200], y[:200]).predict_proba(X), before)


@pytest.mark.parametrize(
    "baseline",
    [
        NLM(features=QUICK["features"], posterior=QUICK["posterior"]),
        MCDropout(network=LearnedFeatures(hidden=(16,), epochs=3), n_draws=5),
        DeepEnsemble(n_members=2, network=LearnedFeatures(hidden=(16,), epochs=3)),
        GP(n_inducing=20, n_iterations=20, n_draws=10),
    ],
    ids=lambda model: type(model).__name__,
)
def test_baselines_take_images(baseline, digits):
    X, y = digits
    model = clone(baseline).set_params(random_state=0).fit(X, y)
    assert model.predict_proba(X[:7]).shape == (7, 10)
    assert model.predict_proba_samples(X[:7]).shape[1:] == (7, 10)


def test_many_inputs_get_a_compact_edge_few_do_not():
    rng = np.random.default_rng(0)
    for width, is_compact in ((128, False), (129, True)):
        X = rng.normal(size=(60, width))
        model = BaCOUnClassifier(
            boundary=CompactShell(shell=FlowShell(epochs=1, blocks=1, hidden=4)),
            features=LearnedFeatures(hidden=(8,), epochs=1),
            posterior=Laplace(n_draws=10),
            n_boundary=50,
            random_state=0,
        ).fit(X, X[:, 0] > 0)
        assert model.boundary_.compact_ == is_compact


def test_the_prior_does_not_depend_on_how_the_posterior_is_given(digits):
    X, y = digits[0][:80], digits[1][:80]
    small = QUICK | {
        "features": LearnedFeatures(hidden=(8,), epochs=2),
        "boundary": CompactShell(n_components=4, shell=FlowShell(epochs=1, blocks=1, hidden=4)),
        "n_boundary": 40,
    }
    by_name = BaCOUnClassifier(**small | {"posterior": "laplace"})
    models = [
        by_name,
        BaCOUnClassifier(**small | {"posterior": Laplace()}),
        clone(by_name).set_params(posterior__n_draws=500),
        clone(by_name).set_params(posterior="laplace", posterior__tol=0.01),
    ]
    expected = by_name.fit(X, y)
    assert expected.posterior_.prior_scale_ > 0
    for model in models[1:]:
        model.fit(X, y)
        assert model.posterior_.prior_scale_ == expected.posterior_.prior_scale_
        np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    given = BaCOUnClassifier(**small | {"posterior": Laplace(prior_scale=2.0)}).fit(X, y)
    assert given.posterior_.prior_scale_ == 2.0
