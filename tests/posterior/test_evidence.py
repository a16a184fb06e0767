import math

import numpy as np
import pytest
import torch
from scipy import integrate

from bacoun.posterior import HMC, Laplace
from bacoun.posterior.evidence import log_evidence
from bacoun.posterior.reduction import reduce


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
