import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

from bacoun.engine.randomness import as_generator
from bacoun.posterior import HMC
from bacoun.protocols import FitContext

CENTERS = [[-2, 0], [2, 0], [0, 3]]


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(300, centers=CENTERS, random_state=0)
    return X, np.array(["a", "b", "c"])[y]


def weights_of(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


@pytest.mark.parametrize("ood_prior", [0.01, 0])
def test_update_equals_a_fresh_posterior_on_the_same_features(fast, blobs, ood_prior):
    X, y = blobs
    model = fast(ood_prior=ood_prior).fit(X[:60], y[:60]).update(X, y)
    points = model._standardized(X)
    labels = torch.from_numpy(np.searchsorted(model.classes_, y))
    features = model.features_.transform(points).double()
    fresh = clone(model.posterior_).fit(features, labels, FitContext(generator=as_generator(0)))
    assert torch.equal(fresh.weights_, model.posterior_.weights_)
    assert torch.equal(fresh.reduction_.basis, model.posterior_.reduction_.basis)


def test_update_leaves_flow_network_and_units_alone(fast, blobs):
    X, y = blobs
    model = fast().fit(X[:60], y[:60])
    network, density = weights_of(model.features_.module_), model.log_density(X)
    doubt, mean = model.doubt_, model.mean_.copy()
    assert model.update(X, y) is model
    for name, value in weights_of(model.features_.module_).items():
        assert torch.equal(value, network[name])
    np.testing.assert_array_equal(model.log_density(X), density)
    assert (model.doubt_.views, model.doubt_.total) == (doubt.views, doubt.total)
    assert model.doubt_.disagreement != doubt.disagreement  # it speaks of the new posterior
    np.testing.assert_array_equal(model.mean_, mean)


def test_more_rows_leave_less_doubt_about_the_model(fast, blobs):
    X, y = blobs
    model = fast(ood_prior=0).fit(X[:30], y[:30])
    before = model.uncertainty(X).epistemic.mean()
    assert model.update(X, y).uncertainty(X).epistemic.mean() < before


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_one_random_state_gives_one_update(fast, blobs):
    X, y = blobs
    head = HMC(n_draws=40, n_chains=8, n_warmup=10, n_iterations=10)
    model = fast(posterior=head).fit(X[:60], y[:60])
    first = model.update(X, y).predict_proba(X)
    np.testing.assert_array_equal(model.update(X, y).predict_proba(X), first)


def test_update_with_the_rows_of_fit_changes_only_the_draws(fast, blobs):
    X, y = blobs
    model = fast().fit(X, y)
    before = model.predict_proba(X)
    assert np.abs(model.update(X, y).predict_proba(X) - before).mean() < 0.05


def test_rows_may_come_in_any_order_of_classes(fast, blobs):
    X, y = blobs
    order = np.argsort(y)[::-1]
    model = fast().fit(X, y).update(X[order], y[order].tolist())
    assert model.score(X, y) > 0.9


def test_unseen_and_missing_classes_are_refused_in_one_sentence(fast, blobs):
    X, y = blobs
    model = fast().fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="fitted on, 'a', 'b', 'c'; got 'd'") as unseen:
        model.update(X[:2], ["a", "d"])
    with pytest.raises(ValueError, match=r"got none of \['c'\]") as missing:
        model.update(X[:2], ["a", "b"])
    for info in (unseen, missing):
        assert "\n" not in str(info.value)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_update_needs_a_fit_and_the_same_columns(fast, blobs):
    X, y = blobs
    with pytest.raises(NotFittedError):
        fast().update(X, y)
    with pytest.raises(ValueError, match="3 features"):
        fast().fit(X, y).update(np.ones((3, 3)), ["a", "b", "c"])


def test_update_forgets_the_calibration_of_sets(fast, blobs):
    X, y = blobs
    model = fast().fit(X, y).calibrate(X, y)
    assert not hasattr(model.update(X, y), "set_scores_")
