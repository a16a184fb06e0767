"""Each value as the paper's appendices print it."""

import pytest

from bacoun import BaCOUnClassifier
from bacoun.boundary import FlowShell
from bacoun.features import LearnedFeatures
from bacoun.posterior import NUTS, MeanField
from bacoun.presets import PAPER, paper_settings

SYNTHETIC_NETWORK = {
    "features__hidden": (64, 64, 64, 1024),
    "features__batch_size": 256,
    "features__l2": 1,
    "features__dropout": 0.1,
    "features__epochs": 500,
    "features__learning_rate": 1e-3,
    "posterior__n_iterations": 1000,
    "posterior__n_warmup": 100,
    "posterior__n_draws": 200,
    "boundary__per_class": False,
    "boundary__batch_size": 256,
}
PUBLISHED = {
    "gmm": SYNTHETIC_NETWORK | {"n_boundary": 2000, "boundary__l2": 4, "boundary__epochs": 200},
    "moons": SYNTHETIC_NETWORK | {"n_boundary": 3000, "boundary__l2": 5, "boundary__epochs": 100},
    "wine": {
        "n_boundary": 1400,
        "standardize": True,
        "features__hidden": (64, 64, 64, 64),
        "features__epochs": 500,
        "features__learning_rate": 1e-4,
        "features__l2": 1,
        "posterior__n_iterations": 1000,
        "posterior__n_warmup": 100,
        "posterior__n_draws": 500,
        "boundary__radii": (5, 5.1),
        "boundary__per_class": True,
        "boundary__epochs": 100,
        "boundary__batch_size": 256,
        "boundary__l2": 1,
    },
    "mnist": {
        "n_boundary": 10_000,
        "features__body": "convolutional",
        "features__hidden": (50, 1024),
        "features__batch_size": 64,
        "features__l2": 1,
        "features__dropout": 0.5,
        "features__epochs": 15,
        "features__learning_rate": 1e-3,
        "posterior__learning_rate": 1e-2,
        "posterior__n_iterations": 30_000,
        "boundary__radii": (3, 3.1),
        "boundary__per_class": True,
        "boundary__epochs": 250,
        "boundary__batch_size": 512,
        "boundary__l2": 2,
    },
}
EVERYWHERE = {
    "ood_prior": 0,
    "boundary__blocks": 5,
    "boundary__hidden": 64,
    "boundary__batch_norm": True,
    "boundary__learning_rate": 1e-3,
    "boundary__jitter": 0,
    "boundary__patience": None,
    "boundary__drop_overlap": False,
    "features__patience": None,
    "features__joint_softmax": True,
    "features__boundary_weight": 1,
    "posterior__prior_scale": 1,
}


@pytest.mark.parametrize(
    ("experiment", "name", "value"),
    [
        (experiment, name, value)
        for experiment, published in PUBLISHED.items()
        for name, value in (EVERYWHERE | published).items()
    ],
)
def test_a_preset_holds_the_published_value(experiment, name, value):
    assert BaCOUnClassifier.paper(experiment).get_params()[name] == value


@pytest.mark.parametrize("experiment", ["gmm", "moons"])
def test_the_synthetic_shell_starts_at_radius_three(experiment):
    inner, outer = BaCOUnClassifier.paper(experiment).boundary.radii
    assert inner == 3
    assert outer > inner


def test_the_inference_is_nuts_but_variational_for_images():
    for experiment in PAPER:
        posterior = BaCOUnClassifier.paper(experiment).posterior
        assert isinstance(posterior, MeanField if experiment == "mnist" else NUTS), experiment


def test_every_preset_is_covered_here():
    assert set(PUBLISHED) == set(PAPER)


def test_settings_of_ones_own_come_on_top():
    model = BaCOUnClassifier.paper("gmm", n_boundary=5, random_state=1, ood_prior=0.1)
    assert (model.n_boundary, model.random_state, model.ood_prior) == (5, 1, 0.1)
    assert BaCOUnClassifier.quick(ood_prior=0, verbose=True).verbose


def test_two_presets_do_not_share_their_steps():
    one, two = paper_settings("gmm"), paper_settings("gmm")
    assert one["boundary"] is not two["boundary"]
    assert isinstance(one["boundary"], FlowShell)
    assert isinstance(one["features"], LearnedFeatures)
