import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from bacoun import BaCOUnClassifier
from bacoun.baselines import NLM
from bacoun.features import LearnedFeatures
from bacoun.posterior import Laplace

GRID = np.random.default_rng(0).uniform(-4, 4, (50, 2))
STEPS = {
    "features": LearnedFeatures(hidden=(16, 16), epochs=20, learning_rate=1e-2),
    "posterior": Laplace(n_draws=50),
    "random_state": 0,
}


@pytest.fixture(scope="module")
def nlm(moons):
    return NLM(**STEPS).fit(*moons)


@pytest.mark.parametrize("ood_prior", [0.0, 0.3])
def test_it_is_bacoun_without_boundary(nlm, moons, ood_prior):
    same = BaCOUnClassifier(boundary=None, ood_prior=ood_prior, **STEPS).fit(*moons)
    pd.testing.assert_frame_equal(
        nlm.uncertainty(GRID).to_frame(), same.uncertainty(GRID).to_frame(), check_exact=True
    )


def test_its_settings_are_those_of_two_steps():
    names = set(NLM().get_params(deep=False))
    assert names == {"features", "posterior", "standardize", "random_state", "verbose", "device"}
    assert {"features__hidden", "posterior__n_draws"} <= set(NLM().get_params())


def test_nested_settings_can_be_set_and_cloned():
    model = clone(NLM().set_params(features__hidden=(8,), posterior__n_draws=9))
    assert model.features.hidden == (8,)
    assert model.posterior.n_draws == 9
    assert model.boundary is None


def test_a_loaded_model_is_an_nlm_and_answers_to_the_bit(nlm, tmp_path):
    nlm.save(tmp_path / "model")
    loaded = NLM.load(tmp_path / "model")
    assert type(loaded) is NLM
    assert loaded.get_params().keys() == nlm.get_params().keys()
    np.testing.assert_array_equal(loaded.predict_proba(GRID), nlm.predict_proba(GRID))


def test_a_loaded_model_can_be_fitted_again(nlm, moons, tmp_path):
    nlm.save(tmp_path / "model")
    again = clone(NLM.load(tmp_path / "model")).fit(*moons)
    np.testing.assert_array_equal(again.predict_proba(GRID), nlm.predict_proba(GRID))


def test_a_model_with_boundary_is_not_loaded_as_one(fast, moons, tmp_path):
    fast().fit(*moons).save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"without a boundary .* Use BaCOUnClassifier\.load\."):
        NLM.load(tmp_path / "model")


@pytest.mark.parametrize("experiment", ["gmm", "moons", "wine", "mnist"])
def test_the_papers_settings_are_those_of_bacoun_without_edge(experiment):
    own, whole = NLM.paper(experiment), BaCOUnClassifier.paper(experiment)
    assert repr(own.features) == repr(whole.features)
    assert repr(own.posterior) == repr(whole.posterior)
    assert own.standardize == whole.standardize
    assert own.boundary is None


def test_the_quick_settings_are_those_of_bacoun_without_edge():
    own, whole = NLM.quick(random_state=3), BaCOUnClassifier.quick()
    assert repr(own.features) == repr(whole.features)
    assert repr(own.posterior) == repr(whole.posterior)
    assert own.random_state == 3
