"""Laws of all baselines; those of a single one are in its own file."""

import copy
import random

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from bacoun import decompose
from bacoun.baselines import (
    BNN,
    DDU,
    GP,
    KINDS,
    NLM,
    SNGP,
    VOS,
    DeepEnsemble,
    MCDropout,
    NatPN,
)
from bacoun.baselines.networks import Baseline, NetworkDraws, SingleNetwork
from bacoun.features import LearnedFeatures
from bacoun.posterior import Laplace

NETWORK = {"hidden": (16, 16), "epochs": 15, "learning_rate": 1e-2}
RESIDUAL = {"width": 16, "n_layers": 2, "epochs": 15, "learning_rate": 1e-2}
QUICK = {
    "nlm": NLM(features=LearnedFeatures(**NETWORK), posterior=Laplace(n_draws=20), random_state=0),
    "bnn": BNN(hidden=(8,), n_iterations=50, learning_rate=0.1, n_draws=20, random_state=0),
    "mc-dropout": MCDropout(
        network=LearnedFeatures(**NETWORK, dropout=0.2), n_draws=20, random_state=0
    ),
    "gp": GP(n_inducing=12, n_iterations=20, learning_rate=0.2, n_draws=20, random_state=0),
    "ensemble": DeepEnsemble(network=LearnedFeatures(**NETWORK), n_members=3, random_state=0),
    "natpn": NatPN(**NETWORK, n_latent=4, n_flow_layers=4, n_draws=20, random_state=0),
    "sngp": SNGP(**RESIDUAL, n_random_features=64, n_draws=20, random_state=0),
    "ddu": DDU(**RESIDUAL, random_state=0),
    "vos": VOS(**NETWORK, random_state=0),
}
GRID = np.random.default_rng(0).uniform(-4, 4, (300, 2))


@pytest.fixture(scope="module", params=QUICK)
def fitted(request, moons):
    return clone(QUICK[request.param]).fit(*moons)


def test_all_kinds_are_covered_here():
    assert QUICK.keys() == KINDS.keys()
    assert all(type(model) is KINDS[name] for name, model in QUICK.items())


# One for each base class: NetworkDraws and NestedSettings, SingleNetwork, Baseline alone.
ONE_OF_EACH_BASE = ("ensemble", "vos", "gp")
EXPECTED = {"check_sample_weight_equivalence_on_dense_data": "mini-batches of other rows are drawn"}


@parametrize_with_checks(
    [QUICK[name] for name in ONE_OF_EACH_BASE], expected_failed_checks=lambda _: EXPECTED
)
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.paper
@parametrize_with_checks(
    [model for name, model in QUICK.items() if name not in ONE_OF_EACH_BASE],
    expected_failed_checks=lambda _: EXPECTED,
)
def test_scikit_learn_estimator_checks_pass_for_all_others(estimator, check):
    check(estimator)


def test_every_base_class_is_among_those_whose_estimator_checks_run_first():
    checked = [type(QUICK[name]) for name in ONE_OF_EACH_BASE]
    for base in (Baseline, NetworkDraws, SingleNetwork):
        assert any(issubclass(kind, base) for kind in checked), base


def test_the_moons_are_separated(fitted, moons):
    assert fitted.score(*moons) > 0.8


def test_draws_are_probabilities(fitted):
    for joint in (False, True):
        draws = fitted.predict_proba_samples(GRID, joint=joint)
        assert draws.shape[1:] == (300, 2)
        assert draws.min() >= 0
        np.testing.assert_allclose(draws.sum(axis=2), 1, atol=1e-12)


def test_probabilities_and_uncertainty_are_those_of_the_draws(fitted):
    draws = fitted.predict_proba_samples(GRID)
    atol = 0.2 if isinstance(fitted, NatPN) else 1e-12  # its moments are exact, its draws are few
    np.testing.assert_allclose(fitted.predict_proba(GRID), draws.mean(axis=0), atol=atol)
    expected = decompose(torch.from_numpy(draws)).parts()
    for name, part in fitted.uncertainty(GRID).parts().items():
        np.testing.assert_allclose(part, expected[name], atol=atol)


def test_all_answers_in_one_pass_are_those_of_the_single_methods(fitted):
    rows = np.random.default_rng(2).uniform(-4, 4, (2100, 2))  # more than are taken at once
    answers = fitted.evaluate(rows)
    close = {"rtol": 0, "atol": 1e-4}
    np.testing.assert_allclose(answers.probabilities, fitted.predict_proba(rows), **close)
    parts = fitted.uncertainty(rows)
    for name in ("total", "aleatoric", "epistemic"):
        np.testing.assert_allclose(getattr(answers, name), getattr(parts, name), **close)
    np.testing.assert_allclose(answers.ood_score, fitted.ood_score(rows), **close)
    assert answers.ood_probability is None
    assert answers.log_density is None


def test_the_ood_score_is_the_epistemic_uncertainty_or_one_of_its_own(fitted):
    own = not np.array_equal(fitted.ood_score(GRID), fitted.uncertainty(GRID).epistemic)
    assert own == isinstance(fitted, SingleNetwork)


def test_order_and_number_of_rows_do_not_matter(fitted):
    order = np.random.default_rng(1).permutation(len(GRID))
    answer = fitted.uncertainty(GRID).to_frame().to_numpy()
    shuffled = fitted.uncertainty(GRID[order]).to_frame().to_numpy()
    some = fitted.uncertainty(GRID[40:47]).to_frame().to_numpy()
    np.testing.assert_allclose(shuffled, answer[order], atol=1e-6)
    np.testing.assert_allclose(some, answer[40:47], atol=1e-6)
    scores, order_free = fitted.ood_score(GRID), fitted.ood_score(GRID[order])
    np.testing.assert_allclose(order_free, scores[order], rtol=1e-6, atol=1e-6)


def test_repeated_calls_give_the_same_numbers(fitted):
    for joint in (False, True):
        np.testing.assert_array_equal(
            fitted.predict_proba_samples(GRID, joint=joint),
            fitted.predict_proba_samples(GRID, joint=joint),
        )
    np.testing.assert_array_equal(
        fitted.uncertainty(GRID).epistemic, fitted.uncertainty(GRID).epistemic
    )


def test_one_random_state_gives_one_answer(fitted, moons):
    again = clone(fitted).fit(*moons)
    other = clone(fitted).set_params(random_state=1).fit(*moons)
    np.testing.assert_array_equal(again.predict_proba(GRID), fitted.predict_proba(GRID))
    assert not np.array_equal(other.predict_proba(GRID), fitted.predict_proba(GRID))


def test_global_streams_are_left_as_they_were(fitted, moons):
    before_numpy = np.random.get_state()[1].copy()  # noqa: NPY002
    before_torch, before_python = torch.get_rng_state(), random.getstate()
    clone(fitted).fit(*moons).uncertainty(GRID)
    np.testing.assert_array_equal(np.random.get_state()[1], before_numpy)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before_torch)
    assert random.getstate() == before_python


def test_far_away_numbers_stay_finite(fitted):
    far = [[1e12, -1e12], [1e300, 0]]
    parts = fitted.uncertainty(far).parts().values()
    assert all(np.isfinite(part).all() for part in [*parts, fitted.ood_score(far)])


@pytest.mark.parametrize("way", ["deepcopy", "joblib"])
def test_a_copied_model_answers_to_the_bit(fitted, tmp_path, way):
    if way == "deepcopy":
        copied = copy.deepcopy(fitted)
    else:
        joblib.dump(fitted, tmp_path / "model.joblib")
        copied = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_array_equal(copied.predict_proba(GRID), fitted.predict_proba(GRID))


def test_verbose_draws_bars_on_stderr_alone(fitted, moons, capsys):
    clone(fitted).set_params(verbose=True).fit(*moons)
    out, err = capsys.readouterr()
    assert out == ""
    assert "/" in err


@pytest.mark.parametrize("name", QUICK)
def test_before_fit_there_is_no_answer(name):
    with pytest.raises(NotFittedError):
        clone(QUICK[name]).uncertainty(GRID)
    with pytest.raises(NotFittedError):
        clone(QUICK[name]).predict_proba_samples(GRID, joint=True)


@pytest.mark.parametrize("name", ["bnn", "mc-dropout", "gp", "natpn", "sngp"])
def test_no_draws_are_refused_in_one_sentence(name, moons):
    model = clone(QUICK[name]).set_params(n_draws=0)
    with pytest.raises(ValueError, match=r"n_draws must be a positive whole number; got 0\."):
        model.fit(*moons)


@pytest.mark.parametrize("name", ["bnn", "mc-dropout", "ensemble"])
def test_an_unknown_body_is_refused_in_one_sentence(name, moons):
    setting = "body" if name == "bnn" else "network__body"
    model = clone(QUICK[name]).set_params(**{setting: "transformer"})
    with pytest.raises(ValueError, match=r"body must be one of .*; got 'transformer'\."):
        model.fit(*moons)


@pytest.mark.parametrize("name", ["bnn", "mc-dropout", "ensemble"])
def test_images_as_rows_go_through_convolutions(name):
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    X = rng.normal(size=(30, 256)) + y[:, None]
    small = {"epochs": 2, "n_iterations": 2, "hidden": (8,), "n_draws": 3, "n_members": 2}
    small |= {"body": "convolutional"}
    model = clone(QUICK[name])
    names = [name for name in model.get_params() if name.rpartition("__")[2] in small]
    model.set_params(**{name: small[name.rpartition("__")[2]] for name in names}).fit(X, y)
    assert model.predict_proba_samples(X[:5]).shape[1:] == (5, 2)


@pytest.mark.parametrize("name", ["natpn", "sngp", "ddu", "vos"])
def test_images_are_rows_of_pixels_to_dense_layers(name):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 5, 4)) + y[:, None, None]
    model, flat = (clone(QUICK[name]).set_params(standardize=False) for _ in range(2))
    model.fit(X, y)
    flat.fit(X.reshape(40, 20), y)
    np.testing.assert_array_equal(model.ood_score(X), flat.ood_score(X.reshape(40, 20)))


@pytest.mark.parametrize("name", ["natpn", "sngp", "ddu", "vos"])
@pytest.mark.parametrize("setting", ["epochs", "batch_size"])
def test_no_epochs_and_empty_batches_are_refused_in_one_sentence(name, setting, moons):
    model = clone(QUICK[name]).set_params(**{setting: 0})
    with pytest.raises(ValueError, match=rf"{setting} must be a positive whole number; got 0\."):
        model.fit(*moons)


@pytest.mark.parametrize(
    ("name", "grid"),
    [
        ("nlm", {"features__hidden": [(8,), (4, 4)], "posterior__n_draws": [16]}),
        ("mc-dropout", {"network__dropout": [0.1, 0.3]}),
    ],
)
def test_grid_search_reaches_the_settings(name, grid, moons):
    search = GridSearchCV(QUICK[name], grid, cv=2, scoring="neg_log_loss").fit(*moons)
    assert search.best_estimator_.score(*moons) > 0.75
