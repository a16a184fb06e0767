import numpy as np
import pytest
import torch

from bacoun.baselines import MCDropout
from bacoun.features import LearnedFeatures

GRID = np.random.default_rng(0).uniform(-4, 4, (50, 2))


def quick(n_draws=200, **settings):
    small = {"hidden": (32, 32), "dropout": 0.2, "epochs": 20, "learning_rate": 1e-2}
    network = LearnedFeatures(**small | settings, patience=None)
    return MCDropout(network=network, n_draws=n_draws, random_state=0)


def test_without_dropout_nothing_is_epistemic(moons):
    model = quick(dropout=0.0, n_draws=10).fit(*moons)
    assert model.uncertainty(GRID).epistemic.max() < 1e-12


def test_without_hidden_layers_nothing_is_epistemic(moons):
    model = quick(hidden=(), n_draws=10).fit(*moons)
    assert model.uncertainty(GRID).epistemic.max() < 1e-12


def test_with_dropout_draws_disagree(moons):
    assert quick().fit(*moons).uncertainty(GRID).epistemic.max() > 0.02


@pytest.mark.parametrize("dropout", [0.2, 0.5])
def test_masks_leave_out_the_given_share_and_keep_the_mean(moons, dropout):
    model = quick(dropout=dropout, n_draws=500, epochs=1).fit(*moons)
    masks = torch.stack([torch.cat(masks) for masks in model.masks_])
    assert masks.unique().tolist() == pytest.approx([0, 1 / (1 - dropout)])
    assert masks.mean() == pytest.approx(1, abs=0.03)


def test_a_draw_is_the_trained_network_with_those_units_cut_out(moons):
    model = quick(n_draws=3).fit(*moons)
    body, head = model.network_.module_
    first, second = body[0], body[3]
    points = torch.from_numpy((GRID - model.mean_) / model.scale_).float()
    for draw, (one, two) in zip(model.predict_proba_samples(GRID), model.masks_, strict=True):
        hidden = torch.nn.functional.leaky_relu(first(points)) * one
        hidden = torch.nn.functional.leaky_relu(second(hidden)) * two
        np.testing.assert_allclose(draw, head(hidden).softmax(dim=1).detach(), atol=1e-5)


def test_a_rate_out_of_bounds_is_refused(moons):
    with pytest.raises(ValueError, match=r"0 <= dropout < 1; got 1\.0"):
        quick(dropout=1.0).fit(*moons)


def test_many_inputs_are_dropped_too(moons):
    """A table of 64 columns has a dropout before its first layer."""
    X, y = moons
    wide = np.hstack([X, np.random.default_rng(1).normal(size=(len(X), 62))])
    model = quick(n_draws=20, epochs=1).fit(wide, y)
    widths = [len(mask) for mask in model.masks_[0]]
    assert widths == [64, 32, 32]
    assert model.predict_proba(wide).shape == (len(X), 2)
