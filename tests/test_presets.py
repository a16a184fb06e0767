"""The paper's settings: a start to change, not shared between models."""

import pytest

from bacoun import BaCOUnClassifier
from bacoun.boundary import FlowShell
from bacoun.features import LearnedFeatures
from bacoun.presets import PAPER, paper_settings


@pytest.mark.parametrize("experiment", PAPER)
def test_every_preset_makes_a_classifier(experiment):
    assert BaCOUnClassifier.paper(experiment).n_boundary > 0


def test_settings_of_ones_own_come_on_top():
    model = BaCOUnClassifier.paper("gmm", n_boundary=5, random_state=1, ood_prior=0.1)
    assert (model.n_boundary, model.random_state, model.ood_prior) == (5, 1, 0.1)
    assert BaCOUnClassifier.quick(ood_prior=0, verbose=True).verbose


def test_two_presets_do_not_share_their_steps():
    one, two = paper_settings("gmm"), paper_settings("gmm")
    assert one["boundary"] is not two["boundary"]
    assert isinstance(one["boundary"], FlowShell)
    assert isinstance(one["features"], LearnedFeatures)
