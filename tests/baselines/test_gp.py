import sys

import numpy as np
import pytest
import torch

from bacoun import decompose
from bacoun.baselines import GP, gp

GRID = np.random.default_rng(0).uniform(-3, 3, (40, 2))


def quick(**settings):
    small = {"n_inducing": 30, "n_iterations": 200, "learning_rate": 0.05, "random_state": 0}
    return GP(**(small | settings))


@pytest.fixture(scope="module")
def model(moons):
    return quick(n_draws=2000).fit(*moons)


@pytest.mark.parametrize("ard", [True, False])
def test_predictive_equations_are_gpytorchs(ard, moons, monkeypatch):
    built = []
    build = gp._latent_functions
    monkeypatch.setattr(
        gp, "_latent_functions", lambda *args: built.append(build(*args)) or built[0]
    )
    model = quick(n_iterations=20, ard=ard).fit(*moons)
    assert model.length_scale_.shape == (2, 1, 2 if ard else 1)
    points = model._standardized(GRID)
    mean, spread = model._latent_moments(points)
    with torch.no_grad():
        theirs = built[0](points.double())
    torch.testing.assert_close(mean.T, theirs.mean, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(spread.T, theirs.stddev, atol=1e-4, rtol=1e-4)


def test_far_away_the_latent_functions_are_those_of_the_prior(model):
    far = [[500.0, -500.0]]
    mean, spread = model._latent_moments(model._standardized(np.array(far)))
    torch.testing.assert_close(mean, torch.zeros_like(mean))
    torch.testing.assert_close(spread.square()[0], model.output_scale_.flatten())
    noise = torch.randn(20_000, 1, 2, generator=torch.Generator().manual_seed(1))
    prior = decompose((noise * model.output_scale_.flatten().sqrt()).softmax(dim=2))
    epistemic = model.uncertainty(far).epistemic
    assert epistemic[0] == pytest.approx(float(prior.epistemic), abs=0.03)
    assert epistemic[0] > 3 * model.uncertainty([[0.0, 1.0]]).epistemic[0]


def test_joint_draws_have_the_marginals_of_single_ones(model):
    one, together = (model.predict_proba_samples(GRID, joint=joint) for joint in (False, True))
    np.testing.assert_allclose(one.mean(axis=0), together.mean(axis=0), atol=0.06)
    np.testing.assert_allclose(one.std(axis=0), together.std(axis=0), atol=0.06)


def test_joint_draws_agree_nearby_and_go_their_own_ways_far_apart(model):
    X = [[3.0, 3.0], [3.001, 3.0], [400.0, 0.0], [-400.0, 0.0]]
    draws = model.predict_proba_samples(X, joint=True)[:, :, 0]
    correlation = np.corrcoef(draws.T)
    assert correlation[0, 1] > 0.99
    assert abs(correlation[2, 3]) < 0.1


def test_too_many_rows_for_a_joint_draw_are_refused(model):
    with pytest.raises(ValueError, match=r"at most 5000 rows.*; got 5001\. Pass fewer") as info:
        model.predict_proba_samples(np.zeros((5001, 2)), joint=True)
    assert "\n" not in str(info.value)


def test_rows_that_occur_many_times_do_no_harm():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]], 40, axis=0)
    y = np.repeat([0, 1, 0], 40)
    assert quick(n_inducing=60).fit(X, y).score(X, y) == 1


def test_without_gpytorch_one_sentence_says_what_to_install(moons, monkeypatch):
    monkeypatch.setitem(sys.modules, "gpytorch", None)
    with pytest.raises(ImportError) as info:
        quick().fit(*moons)
    assert str(info.value) == "GP needs GPyTorch: pip install 'bacoun[paper]'."
