"""A fit in its parts, as a fit to more rows than fit into memory calls them."""

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, clone

from bacoun.files.model_folder import read_folder, write_folder
from bacoun.fitting import Fit
from bacoun.serialization import pack_extractor, unpack_extractor


class InMemory:
    """All rows, in two chunks."""

    def __init__(self, features, labels):
        self.features, self.labels = features, labels

    @property
    def n_rows(self):
        return len(self.labels)

    def reduce(self, function, merge):
        halves = zip(self.features.chunk(2), self.labels.chunk(2), strict=True)
        return merge([function(*half) for half in halves])


def test_the_parts_of_a_fit_are_the_fit(fast, moons):
    whole, model = fast().fit(*moons), fast()
    fit = Fit(model, *moons)
    fit.learn_features()
    fit.infer_posterior()
    np.testing.assert_array_equal(model.predict_proba(moons[0]), whole.predict_proba(moons[0]))
    np.testing.assert_array_equal(model.ood_score(moons[0]), whole.ood_score(moons[0]))


def test_the_features_of_all_rows_come_between_the_parts(fast, moons):
    X, y = moons
    fit = Fit(model := fast(), X[::2], y[::2], sample_of="the moons")
    fit.learn_features()
    fit.infer_posterior(InMemory(model.feature_extractor(X), torch.from_numpy(y)))
    assert model.health_.coreset_rows == len(X[::2])
    assert model.doubt_.n_rows == len(X)
    assert model.score(X, y) > 0.8


def test_an_extractor_is_the_same_after_it_was_saved(fast, moons, tmp_path):
    extractor = fast().fit(*moons).feature_extractor
    write_folder(pack_extractor(extractor), tmp_path / "map", overwrite=False)
    again = unpack_extractor(read_folder(tmp_path / "map"))
    assert torch.equal(again(moons[0]), extractor(moons[0]))


class Indifferent(BaseEstimator):
    """A feature map that honors weights, by its own account."""

    def __init__(self, honored=()):
        self.honored = honored

    def fit(self, points, labels, context):
        self.weights_ = context.sample_weight
        return self

    def transform(self, points):
        return points


def test_weights_reach_a_step_that_says_so_and_are_refused_by_others(fast, moons):
    weights = np.arange(1.0, len(moons[0]) + 1)
    model = fast(features=Indifferent(("sample_weight",))).fit(*moons, sample_weight=weights)
    np.testing.assert_allclose(model.features_.weights_, weights)
    with pytest.raises(ValueError, match="features must take sample_weight in fit"):
        clone(model).set_params(features=Indifferent()).fit(*moons, sample_weight=weights)
