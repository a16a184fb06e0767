import numpy as np
import pytest
import torch

from bacoun.baselines import DeepEnsemble
from bacoun.features import LearnedFeatures

GRID = np.random.default_rng(0).uniform(-4, 4, (50, 2))


@pytest.fixture(scope="module")
def ensemble(moons):
    return DeepEnsemble(
        n_members=3,
        network=LearnedFeatures(hidden=(16, 16), epochs=30, learning_rate=1e-2, patience=None),
        random_state=0,
    ).fit(*moons)


def test_no_two_members_are_alike(ensemble):
    draws = ensemble.predict_proba_samples(GRID)
    for one, two in [(0, 1), (0, 2), (1, 2)]:
        assert np.abs(draws[one] - draws[two]).max() > 0.01


def test_every_member_is_a_classifier_of_its_own(ensemble, moons):
    X, y = moons
    for draw in ensemble.predict_proba_samples(X):
        assert (draw.argmax(axis=1) == y).mean() > 0.8


def test_members_weigh_the_same(ensemble):
    points = torch.from_numpy((GRID - ensemble.mean_) / ensemble.scale_).float()
    answers = [member.region_proba(points) for member in ensemble.members_]
    np.testing.assert_allclose(
        ensemble.predict_proba(GRID), torch.stack(answers).mean(dim=0), atol=1e-6
    )


def test_no_members_are_refused(moons):
    with pytest.raises(ValueError, match="n_members must be a positive whole number; got 0"):
        DeepEnsemble(n_members=0).fit(*moons)
