import numpy as np
import pytest
import torch
from scipy.stats import chi2, kstest
from sklearn.datasets import make_blobs
from sklearn.metrics import roc_auc_score
from torch.distributions import MultivariateNormal

from bacoun.baselines import VOS
from bacoun.baselines.vos import FeatureQueue, virtual_outliers

GRID = np.random.default_rng(0).uniform(-2, 3, (40, 2))


def quick(**settings):
    small = {"hidden": (32, 32), "epochs": 40, "learning_rate": 1e-2}
    return VOS(**(small | {"random_state": 0} | settings))


@pytest.fixture
def generator():
    with torch.random.fork_rng():
        yield torch.manual_seed(0)


def test_virtual_outliers_are_as_unlikely_as_the_least_likely_of_all_draws(generator):
    centers = 5 * torch.randn(300, 3).double()
    root = torch.tensor([[1.0, 0, 0], [0.5, 2, 0], [0.3, -1, 0.1]]).double()
    gaussians = MultivariateNormal(centers, scale_tril=root)
    found = gaussians.log_prob(virtual_outliers(centers, root, n_candidates=500))
    draws = gaussians.sample((500,))
    assert kstest(found, gaussians.log_prob(draws).amin(dim=0)).pvalue > 0.01


def test_most_draws_are_more_likely_than_a_virtual_outlier(generator):
    centers, root = torch.zeros(200, 64), torch.eye(64)
    squared = virtual_outliers(centers, root, n_candidates=10_000).square().sum(dim=1)
    assert (chi2.sf(squared, 64) < 1e-3).all()
    assert chi2.sf(squared, 64).mean() == pytest.approx(1e-4, rel=0.2)


def test_virtual_outliers_lie_in_all_directions(generator):
    outliers = virtual_outliers(torch.ones(2000, 2), torch.eye(2), n_candidates=100)
    torch.testing.assert_close(outliers.mean(dim=0), torch.ones(2), atol=0.2, rtol=0)


def test_the_queue_keeps_the_latest_of_each_class():
    features = torch.arange(10.0)[:, None]
    queue = FeatureQueue([features[:3], features[3:8]], size=4)
    assert [cloud.flatten().tolist() for cloud in queue.clouds] == [[0, 1, 2], [4, 5, 6, 7]]
    queue.push(torch.tensor([[20.0], [30.0], [21.0]]), torch.tensor([0, 1, 0]))
    assert [cloud.flatten().tolist() for cloud in queue.clouds] == [[2, 20, 21], [5, 6, 7, 30]]


def test_gaussians_have_the_classes_means_and_the_covariance_within_classes():
    rng = np.random.default_rng(0)
    one, two = rng.normal(3, 2, (30, 4)), rng.normal(-5, 1, (50, 4))
    centers, root = FeatureQueue([*map(torch.from_numpy, (one, two))], size=1000).gaussians()
    np.testing.assert_allclose(centers, [one.mean(axis=0), two.mean(axis=0)])
    within = 30 * np.cov(one.T, bias=True) + 50 * np.cov(two.T, bias=True)
    np.testing.assert_allclose(root @ root.T, within / 80 + 1e-4 * np.eye(4))


def test_the_ood_score_is_the_logistics_log_odds_of_outliers(moons):
    model = quick(epochs=10).fit(*moons)
    _, logits = model._features_and_logits(model._standardized(GRID))
    slope, offset = (part.item() for part in model.logistic_.parameters())
    expected = -(slope * logits.exp().sum(dim=1).log() + offset)
    np.testing.assert_allclose(model.ood_score(GRID), expected)
    assert slope > 0


def test_without_epochs_for_outliers_the_logistic_learns_nothing(moons):
    model = quick(epochs=5, outlier_start=1.0).fit(*moons)
    assert [part.item() for part in model.logistic_.parameters()] == [1, 0]


def test_the_loss_is_that_of_the_classes_and_a_tenth_of_the_logistics(generator, moons):
    model = quick(epochs=1).fit(*moons)
    points, labels = model._standardized(moons[0]).double(), torch.from_numpy(moons[1])
    features, logits = model._features_and_logits(points)
    loss = model._loss_with_outliers(points, labels)
    torch.manual_seed(1)
    found = loss(points, labels).item()
    torch.manual_seed(1)
    queue = FeatureQueue([features[labels == k] for k in range(2)], size=1000)
    outliers = virtual_outliers(*queue.gaussians(), n_candidates=10_000)
    data, outside = (model._log_odds(each) for each in (logits, model.module_[1](outliers)))
    of_classes = torch.nn.functional.cross_entropy(logits, labels)
    of_outliers = torch.cat([data.sigmoid().log(), (-outside).sigmoid().log()]).mean()
    assert found == pytest.approx(float((of_classes - 0.1 * of_outliers).detach()))


def test_classes_are_told_apart_and_from_points_between_them():
    X, y = make_blobs(300, centers=[(-4, 0), (4, 0), (0, 7)], random_state=0)
    model = quick().fit(X, y)
    assert model.score(X, y) > 0.97
    between = np.random.default_rng(0).normal((0, 2.3), 0.5, (50, 2))
    scores = model.ood_score(np.concatenate([X, between]))
    assert roc_auc_score(np.arange(len(scores)) >= len(X), scores) > 0.9


def test_a_class_of_one_row_does_no_harm(moons):
    X, y = moons
    one = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:1]])
    assert np.isfinite(quick(epochs=5).fit(X[one], y[one]).ood_score(GRID)).all()


def test_a_start_beyond_the_epochs_is_refused(moons):
    with pytest.raises(ValueError, match=r"0 <= outlier_start <= 1; got 1\.5"):
        quick(outlier_start=1.5).fit(*moons)
