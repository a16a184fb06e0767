"""The prior scale by held-out rows and by the evidence, and weights in the posterior."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate

from bacoun.posterior import HMC, Laplace
from bacoun.posterior.prior_scale import held_out_prior_scale, log_evidence
from bacoun.posterior.reduction import reduce
from bacoun.protocols import FitContext


def members(noise, n_points=600, seed=0):
    """Features (3, N, 5) of three members, labels and folds; `noise` hides the labels."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(3, n_points, 5, generator=generator, dtype=torch.float64)
    signal = 5 * features.mean(dim=0)[:, 0]
    signal = signal + noise * torch.randn(n_points, generator=generator, dtype=torch.float64)
    return features, (signal > 0).long(), torch.arange(n_points) % 3


def scale_of(noise, weights=None, **size):
    features, labels, folds = members(noise, **size)
    weights = torch.ones(len(labels), dtype=torch.float64) if weights is None else weights
    return held_out_prior_scale(features, labels, weights, folds, 2)


def test_a_wide_prior_suits_clear_labels_and_a_narrow_one_noise():
    assert scale_of(0.0) > scale_of(20.0)
    assert scale_of(1000.0) <= 0.2


def test_three_rows_prove_nothing_about_the_prior():
    """A prior that makes every label look like noise would call ignorance aleatoric."""
    assert scale_of(0.0, n_points=3) == scale_of(1000.0, n_points=3) == 0.2


def test_rows_of_no_weight_have_no_say():
    features, labels, folds = members(1.0)
    weights = torch.ones(600, dtype=torch.float64)
    weights[300:] = 0
    spoiled = labels.clone()
    spoiled[300:] = 1 - spoiled[300:]
    assert held_out_prior_scale(features, labels, weights, folds, 2) == held_out_prior_scale(
        features, spoiled, weights, folds, 2
    )


@pytest.mark.parametrize("kind", [HMC, Laplace])
def test_auto_is_the_scale_that_the_features_know(kind):
    features, labels, _ = members(1.0)
    settings = {"n_draws": 50}
    told = kind(**settings).fit(features[0], labels, FitContext(best_prior_scale=0.07))
    assert told.prior_scale_ == 0.07
    own = kind(prior_scale=0.5, **settings).fit(
        features[0], labels, FitContext(best_prior_scale=0.07)
    )
    assert own.prior_scale_ == 0.5


def test_a_weight_counts_as_copies_in_the_posterior():
    features, labels, _ = members(2.0, n_points=60)
    weights = torch.where(labels == 1, 3, 1)
    rows = torch.arange(60).repeat_interleave(weights)
    same = {"generator": torch.Generator().manual_seed(0)}
    weighted = Laplace(prior_scale=0.5, n_draws=2000).fit(
        features[0], labels, FitContext(sample_weight=weights.double(), **same)
    )
    same = {"generator": torch.Generator().manual_seed(0)}
    copied = Laplace(prior_scale=0.5, n_draws=2000).fit(
        features[0][rows], labels[rows], FitContext(**same)
    )
    asked = features[0][:20]
    torch.testing.assert_close(
        weighted.predict_moments(asked)[0], copied.predict_moments(asked)[0], atol=0.02, rtol=0
    )
    plain = Laplace(prior_scale=0.5, n_draws=2000).fit(features[0], labels)
    assert (weighted.predict_moments(asked)[0][:, 1] > plain.predict_moments(asked)[0][:, 1]).all()


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_the_mode_is_a_stationary_point_also_of_separable_classes(scale):
    from bacoun.posterior.logistic import SoftmaxRegression
    from bacoun.posterior.reduction import Spectrum
    from bacoun.posterior.whitening import _lbfgs, find_mode

    features, labels, _ = members(0.0)
    spectrum = Spectrum(features[0])
    posterior = SoftmaxRegression(features[0] @ spectrum.directions, labels, 2, scale)
    mode = find_mode(posterior, spectrum.eigenvalues)
    assert posterior.gradient(mode[:, :, None]).abs().max() < 1e-3
    other = _lbfgs(posterior, spectrum.eigenvalues, torch.zeros_like(mode))
    torch.testing.assert_close(mode, other, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("tolerance", [1e-3, 1.0])
def test_the_log_density_of_a_mode_is_right_to_the_tolerance(tolerance):
    from bacoun.posterior.logistic import SoftmaxRegression
    from bacoun.posterior.reduction import Spectrum
    from bacoun.posterior.whitening import _lbfgs, find_mode

    features, labels, _ = members(0.5)
    spectrum = Spectrum(features[0])
    posterior = SoftmaxRegression(features[0] @ spectrum.directions, labels, 2, 1.0)
    exact = find_mode(posterior, spectrum.eigenvalues)
    start = torch.zeros_like(exact)
    rough = find_mode(posterior, spectrum.eigenvalues, tolerance=tolerance)
    other = _lbfgs(posterior, spectrum.eigenvalues, start, tolerance)
    value, *others = (float(posterior.log_density(m[:, :, None])) for m in (exact, rough, other))
    assert all(value - tolerance <= found <= value + 1e-9 for found in others)
    assert min(others) < value - 1e-9


def test_evidence_is_close_to_the_integral_it_approximates():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(60, 1, generator=generator, dtype=torch.float64)
    labels = (features[:, 0] + torch.randn(60, generator=generator) > 0).long()
    _, posterior, mode = reduce(features, labels, 2, 0.8, tol=0.0)

    def integrand(w):
        weights = torch.tensor([[[w]]], dtype=torch.float64)
        return math.exp(float(posterior.log_density(weights)) + 40)

    integral = integrate.quad(integrand, -6, 6, limit=200)[0]
    exact = math.log(integral) - 40 - math.log(0.8 * math.sqrt(2 * math.pi))
    assert log_evidence(posterior, mode) == pytest.approx(exact, abs=0.05)


@pytest.mark.parametrize("true_scale", [0.3, 3.0])
def test_the_scale_that_made_the_weights_is_found(true_scale):
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(1500, 40, generator=generator, dtype=torch.float64)
    weights = true_scale * torch.randn(40, 3, generator=generator, dtype=torch.float64)
    probabilities = (features @ weights).softmax(dim=1)
    labels = torch.multinomial(probabilities, 1, generator=generator)[:, 0]
    head = Laplace(prior_scale="evidence", fit_intercept=False).fit(features, labels)
    assert np.log(head.prior_scale_ / true_scale) == pytest.approx(0, abs=0.35)
    assert head.health_.prior_scale == head.prior_scale_


def test_hmc_takes_the_same_scale(small_head):
    features, labels, _ = small_head
    heads = [kind(prior_scale="evidence").fit(features, labels) for kind in (HMC, Laplace)]
    assert heads[0].prior_scale_ == heads[1].prior_scale_
