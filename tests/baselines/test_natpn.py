import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.distributions import Dirichlet

from bacoun.baselines import NatPN
from bacoun.baselines.natpn import RadialFlow, dirichlet_moments

GRID = np.random.default_rng(0).uniform(-2, 3, (40, 2))


def quick(**settings):
    small = {"hidden": (32, 32), "n_latent": 4, "n_flow_layers": 4, "epochs": 60}
    return NatPN(**(small | {"learning_rate": 1e-2, "random_state": 0} | settings))


@pytest.fixture(scope="module")
def model(moons):
    return quick(n_draws=2000).fit(*moons)


@pytest.fixture
def make_flow():
    def make(dimension, n_layers=5):
        torch.manual_seed(dimension)
        flow = RadialFlow(dimension, n_layers).double()
        for part in flow.parameters():
            part.data = 2 * torch.randn_like(part)
        return flow

    with torch.random.fork_rng():
        yield make


def test_moments_of_a_dirichlet_are_those_of_its_draws():
    alpha = torch.tensor([[1.0, 1.0, 1.0], [0.5, 3.0, 8.0], [200.0, 1.0, 30.0]]).double()
    mean, entropy = dirichlet_moments(alpha)
    for row in range(3):
        draws = np.random.default_rng(row).dirichlet(alpha[row], 200_000)
        np.testing.assert_allclose(mean[row], draws.mean(axis=0), atol=2e-3)
        entropies = torch.special.entr(torch.from_numpy(draws)).sum(dim=1)
        assert float(entropies.mean()) == pytest.approx(float(entropy[row]), abs=2e-3)


@pytest.mark.parametrize("dimension", [1, 2, 7])
def test_the_flows_log_determinant_matches_autograd(make_flow, dimension):
    flow = make_flow(dimension)
    points = torch.randn(6, dimension).double()
    _, log_det = flow(points)
    for point, expected in zip(points, log_det, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda p: flow(p[None])[0][0], point)
        torch.testing.assert_close(torch.linalg.slogdet(jacobian).logabsdet, expected)


@pytest.mark.parametrize("dimension", [1, 2])
def test_the_flows_density_integrates_to_one(make_flow, dimension):
    flow, step = make_flow(dimension, n_layers=3), 0.02
    axis = torch.arange(-15, 15, step).double()
    points = torch.cartesian_prod(*[axis] * dimension).view(-1, dimension)
    with torch.no_grad():
        mass = flow.log_prob(points).exp().sum() * step**dimension
    assert float(mass) == pytest.approx(1, abs=0.01)


def test_evidence_counts_a_standard_normals_latents(model):
    with torch.random.fork_rng():
        flow = RadialFlow(4, 1).double()
    flow.betas.data = flow.alphas.data.clone()  # beta is 0: the map is the identity
    evidence = quick()
    evidence.flow_ = flow
    found = evidence._log_evidence(torch.zeros(1, 4).double())
    assert float(found.detach()) == pytest.approx(2 * math.log(2))


def test_the_loss_is_the_expected_log_loss_of_draws(model, moons):
    points, targets = model._standardized(moons[0][:4]).double(), torch.from_numpy(moons[1][:4])
    alpha, _ = model._posterior(points)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        draws = Dirichlet(alpha).sample((50_000,))
    misfit = -draws.log().mean(dim=0).gather(1, targets[:, None]).mean()
    reward = model.entropy_weight * Dirichlet(alpha).entropy().mean()
    loss = float(model._bayesian_loss(points, targets).detach())
    assert loss == pytest.approx(float(misfit - reward), rel=0.03)


def test_draws_have_the_dirichlets_moments(model):
    draws = model.predict_proba_samples(GRID)
    np.testing.assert_allclose(draws.mean(axis=0), model.predict_proba(GRID), atol=0.02)
    entropy = torch.special.entr(torch.from_numpy(draws)).sum(dim=2).mean(dim=0)
    np.testing.assert_allclose(entropy, model.uncertainty(GRID).aleatoric, atol=0.02)


def test_far_away_the_evidence_vanishes_and_predictions_are_those_of_the_prior(model):
    far = [[300.0, -300.0], [-1e5, 2e4]]
    np.testing.assert_allclose(model.predict_proba(far), 0.5, atol=1e-6)
    np.testing.assert_allclose(model.uncertainty(far).aleatoric, 0.5, atol=1e-6)  # of a flat one
    scores = model.ood_score([[0.0, 1.0], *far])
    assert scores[0] < 0 < scores[1] < scores[2]


def test_the_moons_are_told_apart_and_from_points_far_away(model, moons):
    X, y = moons
    assert model.score(X, y) > 0.95
    angle = np.linspace(0, 2 * np.pi, 50)
    far = [0.5, 0.25] + 8 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    scores = model.ood_score(np.concatenate([X, far]))
    assert roc_auc_score(np.arange(len(scores)) >= len(X), scores) > 0.95


def test_batches_too_small_to_be_normalized_are_refused(moons):
    with pytest.raises(ValueError, match=r"batch_size must be at least 3, .*; got 2"):
        quick(batch_size=2).fit(*moons)
