import numpy as np
import pytest
import torch

from bacoun import decompose
from bacoun.baselines.networks import NetworkDraws


class LinearDraws(NetworkDraws):
    """A linear map for each of S seeds, made when its turn comes."""

    def __init__(self, n_draws=7, standardize=False, device="cpu"):
        self.n_draws = n_draws
        self.standardize = standardize
        self.device = device
        self.made = 0

    def fit(self, X, y):
        self._validated(X, y)
        self.seeds_ = list(range(self.n_draws))
        return self

    def _networks(self):
        for seed in self.seeds_:
            weights = torch.randn(2, 3, generator=torch.Generator().manual_seed(seed))
            self.made += 1
            yield lambda points, weights=weights: points @ weights


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    return LinearDraws().fit(rng.normal(size=(9, 2)), np.arange(9) % 3)


@pytest.mark.parametrize("n_rows", [1, 255, 256, 257, 700])
def test_rows_come_back_in_their_places_whatever_their_number(model, n_rows):
    X = np.random.default_rng(1).normal(size=(n_rows, 2))
    draws = model.predict_proba_samples(X)
    assert draws.shape == (7, n_rows, 3)
    for draw, network in zip(draws, model._networks(), strict=True):
        expected = network(torch.from_numpy(X).float()).double().softmax(dim=1)
        np.testing.assert_allclose(draw, expected, atol=1e-6)


def test_streamed_moments_are_those_of_all_draws_at_once(model):
    X = np.random.default_rng(1).normal(size=(300, 2))
    draws = model.predict_proba_samples(X)
    np.testing.assert_allclose(model.predict_proba(X), draws.mean(axis=0), atol=1e-14)
    expected = decompose(torch.from_numpy(draws)).parts()
    for name, part in model.uncertainty(X).parts().items():
        np.testing.assert_allclose(part, expected[name], atol=1e-14)


def test_each_network_is_made_once_for_all_rows(model):
    model.uncertainty(np.zeros((1000, 2)))
    assert model.made == 7


def test_a_single_network_is_not_divided_with_itself():
    X, y = np.random.default_rng(0).normal(size=(9, 2)), np.arange(9) % 3
    uncertainty = LinearDraws(n_draws=1).fit(X, y).uncertainty(X)
    assert uncertainty.epistemic.max() == 0


def test_joint_makes_no_difference(model):
    X = np.random.default_rng(1).normal(size=(10, 2))
    np.testing.assert_array_equal(
        model.predict_proba_samples(X, joint=True), model.predict_proba_samples(X)
    )
