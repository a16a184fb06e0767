import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from bacoun.baselines import SNGP
from bacoun.baselines.residual import BoundedLinear, ResidualNetwork
from bacoun.baselines.sngp import RandomFeatures

GRID = np.random.default_rng(0).uniform(-2, 3, (40, 2))


def quick(**settings):
    small = {"width": 32, "n_layers": 3, "n_random_features": 128, "epochs": 60}
    return SNGP(**(small | {"learning_rate": 1e-2, "random_state": 0} | settings))


@pytest.fixture(scope="module")
def model(moons):
    return quick().fit(*moons)


@pytest.fixture
def generator():
    with torch.random.fork_rng():
        yield torch.manual_seed(0)


def test_spectral_norms_are_within_their_bound(moons):
    model = quick(spectral_bound=0.5, n_layers=2).fit(*moons)
    layers = [layer for layer in model.module_.modules() if isinstance(layer, BoundedLinear)]
    norms = [torch.linalg.matrix_norm(layer.weight.detach(), ord=2).item() for layer in layers]
    assert len(norms) == 2
    assert max(norms) <= 0.5 + 1e-12
    assert max(norms) == pytest.approx(0.5)  # training pushes against it


def test_the_power_method_finds_the_spectral_norm(generator):
    layer = BoundedLinear(20, bound=0.1)
    for _ in range(200):
        layer._iterate()
    used = (layer(torch.eye(20)) - layer.bias).detach()
    assert float(torch.linalg.matrix_norm(used, ord=2)) == pytest.approx(0.1, rel=1e-3)


def test_small_weights_are_left_alone(generator):
    layer = BoundedLinear(20, bound=100.0)
    torch.testing.assert_close(layer(torch.eye(20)) - layer.bias, layer.weight.T)


def test_residual_layers_keep_distances_within_factors(generator):
    network = ResidualNetwork(3, 50, 2, bound=0.6, dropout=0.0).double()
    for layer in network.layers:
        layer.weight.data *= 10
        layer.settle()
    one, two = torch.randn(2, 100, 3).double()
    before = ((one - two) @ network.projection).norm(dim=1)
    after = (network(one) - network(two)).norm(dim=1)
    assert (after >= 0.4**2 * before).all()
    assert (after <= 1.6**2 * before).all()


def test_random_features_approximate_the_kernel(generator):
    features = RandomFeatures(5, 20_000, length_scale=1.5)
    points = torch.randn(30, 5)
    kernel = (-torch.cdist(points, points).square() / (2 * 1.5**2)).exp()
    phi = features(points)
    torch.testing.assert_close(phi @ phi.T, kernel, atol=0.04, rtol=0)


def test_the_precision_is_laplaces(model, moons):
    phi, logits = model._features_and_logits(model._standardized(moons[0]))
    largest = logits.softmax(dim=1).amax(dim=1)
    expected = torch.eye(128).double()
    for row, p in zip(phi, largest, strict=True):
        expected += p * (1 - p) * torch.outer(row, row)
    torch.testing.assert_close(model.root_ @ model.root_.T, expected)


def test_the_weights_maximize_the_posterior(moons):
    model = quick(epochs=400, patience=None, dropout=0.0, batch_size=120).fit(*moons)
    phi, logits = model._features_and_logits(model._standardized(moons[0]))
    targets = torch.nn.functional.one_hot(torch.from_numpy(moons[1]))
    gradient = (targets - logits.softmax(dim=1)).T @ phi  # of the log likelihood
    torch.testing.assert_close(gradient, model.module_[1].weight, atol=0.3, rtol=0.1)


def test_variance_grows_with_the_distance_from_the_data_up_to_the_priors(model):
    ray = np.array([[0.5, 0.25 + distance] for distance in (0, 0.5, 1, 2, 100)])
    _, variance = model._latent_moments(model._standardized(ray))
    assert (variance.diff(dim=0)[:3] > 0).all()
    assert float(variance[0]) < 0.5
    assert float(variance[-1]) == pytest.approx(1, abs=0.2)


def test_the_ood_score_is_dempster_shafers(model):
    mean, variance = model._latent_moments(model._standardized(GRID))
    adjusted = mean / torch.sqrt(1 + torch.pi / 8 * variance)
    expected = 2 / (2 + adjusted.exp().sum(dim=1))
    np.testing.assert_allclose(model.ood_score(GRID), expected)


def test_the_moons_are_told_apart_and_from_points_far_away(model, moons):
    X, y = moons
    assert model.score(X, y) > 0.95
    angle = np.linspace(0, 2 * np.pi, 50)
    far = [0.5, 0.25] + 8 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    scores = model.ood_score(np.concatenate([X, far]))
    assert roc_auc_score(np.arange(len(scores)) >= len(X), scores) > 0.9


@pytest.mark.parametrize("name", ["ridge", "spectral_bound"])
def test_settings_that_must_be_positive_are_refused_if_not(name, moons):
    with pytest.raises(ValueError, match=f"{name} must be positive; got 0"):
        quick(**{name: 0}).fit(*moons)
