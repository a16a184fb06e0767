"""What the README says of the GMM data, on one seed; `python -m reproduction gmm` has three."""

import numpy as np
import pytest

from bacoun import BaCOUnClassifier
from reproduction.datasets import gaussian_mixture, gaussian_mixture_regions


def circle(radius):
    angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


@pytest.fixture(scope="module")
def regions():
    return gaussian_mixture_regions()


@pytest.fixture(scope="module")
def default():
    return BaCOUnClassifier(random_state=1).fit(*gaussian_mixture(500, 1))


def test_the_classes_are_told_apart_as_well_as_they_can_be(default):
    points, labels = gaussian_mixture(10_000, np.random.default_rng(99))
    assert default.score(points, labels) >= 0.945
    assert default.uncertainty(points).epistemic.mean() <= 0.035


@pytest.mark.parametrize(("radius", "least"), [(15, 0.6), (20, 0.7), (30, 0.8)])
def test_no_direction_away_from_the_data_is_trusted(default, radius, least):
    assert default.uncertainty(circle(radius)).epistemic.min() >= least


def test_the_far_corner_of_the_paper_is_unknown(default, regions):
    assert default.uncertainty(regions["out"]).epistemic.mean() >= 0.9


def test_noise_is_largest_between_the_classes(default, regions):
    aleatoric = {name: default.uncertainty(x).aleatoric.mean() for name, x in regions.items()}
    assert max(aleatoric, key=aleatoric.get) == "middle"


def test_a_neural_linear_model_is_sure_of_itself_far_away():
    model = BaCOUnClassifier(boundary=None, random_state=1).fit(*gaussian_mixture(500, 1))
    assert model.uncertainty(circle(20)).epistemic.mean() <= 0.3
