import sys

import numpy as np
import pyro
import pytest
import torch

from bacoun.baselines import BNN, bnn
from bacoun.posterior import MeanField
from bacoun.protocols import FitContext

GRID = np.random.default_rng(0).uniform(-4, 4, (50, 2))


def quick(**settings):
    small = {"hidden": (8,), "n_iterations": 200, "batch_size": 64, "n_draws": 20}
    return BNN(**(small | {"random_state": 0} | settings))


def test_without_hidden_layers_it_finds_the_mean_field_posterior_of_logistic_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    y = (X[:, 0] + 0.5 * rng.normal(size=200) > 0.3).astype(int)
    settings = {"n_iterations": 2000, "batch_size": 200}
    model = quick(hidden=(), standardize=False, **settings).fit(X, y)
    points, labels = torch.from_numpy(X).float(), torch.from_numpy(y)
    generator = torch.Generator().manual_seed(0)
    exact = MeanField(prior_scale=1.0, **settings).fit(
        points, labels, FitContext(generator=generator)
    )
    # Theirs is weight and bias (2, K); ours the weight (K, 1), then the bias (K,).
    means, spreads = model.loc_.view(2, 2), model.spread_.view(2, 2)
    torch.testing.assert_close(means, exact.mean_, atol=0.15, rtol=0.1)
    torch.testing.assert_close(spreads, exact.scale_, atol=0.03, rtol=0.15)


def test_with_hidden_layers_the_prior_is_that_of_the_fan_in_or_one_for_all(moons):
    model = quick(n_iterations=2).fit(*moons)
    sizes = [part.numel() for part in model.module_.parameters()]
    by_layer = bnn._prior_scales(model.module_, 2.0, fan_in=True).split(sizes)
    # 2 inputs to 8 units to 2 classes; biases are not scaled.
    expected = [2 / 2**0.5, 2.0, 2 / 8**0.5, 2.0]
    for scales, value in zip(by_layer, expected, strict=True):
        torch.testing.assert_close(scales, torch.full_like(scales, value))
    assert (bnn._prior_scales(model.module_, 2.0, fan_in=False) == 2.0).all()


def test_without_warm_up_the_bound_has_its_full_kl_term_from_the_start(moons):
    # The first likelihoods are the same; only the weight of the KL term differs.
    warm, cold = (quick(n_iterations=10, kl_warmup=share).fit(*moons).elbo_ for share in (0.9, 0.0))
    assert cold[0] < warm[0]
    with pytest.raises(ValueError, match="kl_warmup must satisfy 0 <= kl_warmup < 1; got 1"):
        quick(kl_warmup=1).fit(*moons)


def test_the_bound_rises(moons):
    elbo = quick().fit(*moons).elbo_
    assert len(elbo) == 200
    assert np.mean(elbo[-20:]) > np.mean(elbo[40:60])  # after the warm-up


def test_draws_have_the_posteriors_mean_and_spread(moons):
    model = quick(n_draws=400).fit(*moons)
    noise = []
    for network in model._networks():
        weights = network.args[1]
        noise.append((weights - model.loc_) / model.spread_)
    assert abs(torch.stack(noise).mean()) < 0.02
    assert torch.stack(noise).std() == pytest.approx(1, abs=0.02)


def test_draws_are_made_again_and_not_kept(moons):
    model = quick().fit(*moons)
    kept = [value for value in vars(model).values() if isinstance(value, torch.Tensor)]
    assert sum(value.numel() for value in kept) == 2 * len(model.loc_)


def test_pyro_is_left_as_it_was(moons):
    pyro.param("mine", torch.ones(2))
    before = pyro.distributions.is_validation_enabled()
    try:
        quick(n_iterations=3).fit(*moons)
        assert list(pyro.get_param_store().keys()) == ["mine"]
        assert pyro.distributions.is_validation_enabled() == before
    finally:
        pyro.clear_param_store()


def test_a_prior_without_width_is_refused(moons):
    with pytest.raises(ValueError, match="prior_scale must be positive; got 0"):
        quick(prior_scale=0).fit(*moons)


def test_without_pyro_one_sentence_says_what_to_install(moons, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyro", None)
    with pytest.raises(ImportError) as info:
        quick().fit(*moons)
    assert str(info.value) == "BNN needs Pyro: pip install 'bacoun[paper]'."
