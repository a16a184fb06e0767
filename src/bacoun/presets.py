"""Presets: the paper's settings for each experiment, and quick ones.

Comments name the appendix a value is taken from: A is "Data", B is "Implementation details".
*Silent* marks our choice where the paper gives no value.
"""

from collections.abc import Callable
from typing import Any

from bacoun.boundary import FlowShell
from bacoun.features import LearnedFeatures
from bacoun.posterior import HMC, NUTS, MeanField


def paper_settings(experiment: str) -> dict[str, Any]:
    """Keyword arguments of `BaCOUnClassifier` for one of the paper's experiments."""
    if experiment not in PAPER:
        raise ValueError(f"experiment must be one of {sorted(PAPER)}; got {experiment!r}.")
    return {"ood_prior": 0.0, **PAPER[experiment]()}


def quick_settings() -> dict[str, Any]:
    """Keyword arguments of `BaCOUnClassifier` for a fit of a second or two."""
    return {
        "boundary": FlowShell(epochs=15, blocks=3, hidden=32),
        "features": LearnedFeatures(hidden=(32, 32), epochs=60, learning_rate=5e-3),
        "posterior": HMC(n_draws=100, n_chains=32, n_warmup=20, n_iterations=80),
        "n_boundary": 300,
    }


def paper_flow(**settings: Any) -> FlowShell:
    """The boundary of the paper, with settings in which its experiments differ."""
    return FlowShell(
        blocks=5,  # B: "5 blocks with 64 hidden neurons each"
        hidden=64,
        batch_norm=True,  # B, GMM, Moons: "Batch Normalization is used"
        learning_rate=1e-3,  # B
        jitter=0.0,  # the paper uses no noise, no early stopping, and keeps all boundary points
        patience=None,
        drop_overlap=False,
        **settings,
    )


def _paper_network(**settings: Any) -> LearnedFeatures:
    # Step 2: one softmax with an extra class for the boundary. B: L2 1; no early stopping. Silent:
    # what the penalty is added to. With the summed loss of a mini-batch the Wine table comes out,
    # with that of all rows it does not: docs/readings.md.
    return LearnedFeatures(
        joint_softmax=True, boundary_weight=1.0, l2=1.0, l2_over="batch", patience=None, **settings
    )


def _paper_nuts(n_draws: int) -> NUTS:
    # B: "We run NUTS for 1000 iterations, with 100 burn-in steps"; one chain and the prior: silent
    return NUTS(n_draws=n_draws, n_chains=1, n_warmup=100, n_iterations=1000, prior_scale=1.0)


def _plane(**flow: Any) -> dict[str, Any]:
    return {
        # A: "a circle of radius 3 bounding the data distribution in latent space"; 3.1 as in MNIST
        "boundary": paper_flow(radii=(3.0, 3.1), per_class=False, batch_size=256, **flow),
        "features": _paper_network(
            hidden=(64, 64, 64, 1024),  # B: "4 hidden layers of dimensions 64, 64, 64, 1024"
            batch_size=256,  # B
            dropout=0.1,  # B
            epochs=500,  # B
            learning_rate=1e-3,  # B
        ),
        "posterior": _paper_nuts(n_draws=200),  # B: "200 samples from the posterior"
        "standardize": False,  # A standardizes Wine and normalizes images, not the synthetic data
    }


def _wine() -> dict[str, Any]:
    return {
        # A: "shells of radii 5 and 5.1"; B: one flow per class, 100 epochs, batch 256, L2 1
        "boundary": paper_flow(radii=(5.0, 5.1), epochs=100, batch_size=256, l2=1.0),
        "features": _paper_network(
            hidden=(64, 64, 64, 64),  # B: "4 hidden layers of 64 nodes each"
            epochs=500,  # B
            learning_rate=1e-4,  # B
            dropout=0.0,  # silent: a rate is given only for MC-Dropout
            batch_size=64,  # silent; as with images
        ),
        "posterior": _paper_nuts(n_draws=500),  # B: "500 samples from the Markov chain"
        "n_boundary": 1400,  # B
    }


def _mnist() -> dict[str, Any]:
    return {
        # A: "one normalizing flow for each class", "a shell of radii 3 and 3.1";
        # B: 250 epochs, batch 512, L2 2
        "boundary": paper_flow(radii=(3.0, 3.1), epochs=250, batch_size=512, l2=2.0),
        "features": _paper_network(
            body="convolutional",  # B: "2 Convolutional layers (kernels of size 5), Max Pooling"
            hidden=(50, 1024),  # B
            batch_size=64,  # B
            dropout=0.5,  # B
            epochs=15,  # B
            learning_rate=1e-3,  # B
        ),
        # B: "BBVI (for all methods), with a learning rate of 1e-2 and for 30,000 iterations"
        "posterior": MeanField(learning_rate=1e-2, n_iterations=30_000, prior_scale=1.0),
        "n_boundary": 10_000,  # A
    }


PAPER: dict[str, Callable[[], dict[str, Any]]] = {
    # B: "L2 penalty term of 4 (GMM)", "200 (GMM)" epochs; A: "2000 OOD points"
    "gmm": lambda: {**_plane(l2=4.0, epochs=200), "n_boundary": 2000},
    # B: L2 "5 (Moons)", "100 (Moons) epochs"; A: "3000 OOD points"
    "moons": lambda: {**_plane(l2=5.0, epochs=100), "n_boundary": 3000},
    "wine": _wine,
    "mnist": _mnist,
}
