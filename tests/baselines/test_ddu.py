import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.datasets import make_blobs
from sklearn.metrics import roc_auc_score

from bacoun.baselines import DDU
from bacoun.baselines.ddu import jittered_cholesky

GRID = np.random.default_rng(0).uniform(-2, 3, (40, 2))


def quick(**settings):
    small = {"width": 32, "n_layers": 3, "epochs": 100, "learning_rate": 1e-2}
    return DDU(**(small | {"random_state": 0} | settings))


@pytest.fixture(scope="module")
def model(moons):
    return quick().fit(*moons)


def test_the_density_is_that_of_a_mixture_of_the_classes_gaussians():
    X, y = make_blobs([200, 100, 50], n_features=8, random_state=0)
    model = quick(width=4).fit(X, y)
    assert model.jitter_ == 0
    rows = np.random.default_rng(0).normal(0, 8, (30, 8))
    features = model._features_and_logits(model._standardized(X))[0].numpy()
    queried = model._features_and_logits(model._standardized(rows))[0].numpy()
    density = 0
    for k in range(3):
        cloud = features[y == k]
        gaussian = multivariate_normal(cloud.mean(axis=0), np.cov(cloud.T))
        density += (y == k).mean() * gaussian.pdf(queried)
    likely = density > 1e-250
    assert likely.sum() > 10
    np.testing.assert_allclose(model.ood_score(rows)[likely], -np.log(density[likely]))


def test_nothing_is_epistemic_and_aleatoric_is_the_softmaxs_entropy(model):
    probabilities = torch.from_numpy(model.predict_proba(GRID))
    found = model.uncertainty(GRID)
    assert model.predict_proba_samples(GRID).shape == (1, 40, 2)
    np.testing.assert_array_equal(found.epistemic, 0)
    entropy = torch.special.entr(probabilities).sum(dim=1)
    np.testing.assert_allclose(found.aleatoric, entropy, atol=1e-14)


def test_the_jitter_is_the_least_that_is_enough():
    wide, flat = torch.eye(3).double(), torch.ones(3, 3).double()
    assert jittered_cholesky(torch.stack([wide, 2 * wide]))[0] == 0
    narrow = flat - 3e-5 * wide  # one variance of 3, two that are negative
    jitter, roots = jittered_cholesky(torch.stack([wide, narrow]))
    assert jitter == pytest.approx(1e-4)
    torch.testing.assert_close(roots @ roots.mT, torch.stack([wide, narrow]) + 1e-4 * wide)


def test_variances_within_rounding_errors_get_jitter():
    thin = torch.ones(3, 3).double() + 1e-9 * torch.eye(3).double()
    assert 1e-9 < jittered_cholesky(thin[None])[0] < 1e-5


def test_covariances_without_end_are_refused():
    with pytest.raises(ValueError, match="must have finite covariances"):
        jittered_cholesky(torch.full((1, 2, 2), torch.inf).double())


def test_a_class_of_one_row_does_no_harm(moons):
    X, y = moons
    one = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:1]])
    model = quick(epochs=2).fit(X[one], y[one])
    assert np.isfinite(model.ood_score(GRID)).all()


def test_the_moons_are_told_apart_and_from_points_far_away(model, moons):
    X, y = moons
    assert model.score(X, y) > 0.95
    angle = np.linspace(0, 2 * np.pi, 50)
    far = [0.5, 0.25] + 8 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    scores = model.ood_score(np.concatenate([X, far]))
    assert roc_auc_score(np.arange(len(scores)) >= len(X), scores) > 0.95
