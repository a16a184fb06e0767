"""What the tests of the classifier share: a small problem, and settings that fit in a moment."""

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from sklearn.datasets import make_moons

from bacoun import BaCOUnClassifier
from bacoun.boundary import FlowShell
from bacoun.features import LearnedFeatures
from bacoun.posterior import Laplace

# A busy machine is no bug: nothing is timed in a test.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(120, noise=0.1, random_state=0)


def _fast(**settings: Any) -> BaCOUnClassifier:
    small = {
        "boundary": FlowShell(epochs=3, blocks=2, hidden=16),
        "features": LearnedFeatures(hidden=(16, 16), epochs=20, learning_rate=1e-2),
        "posterior": Laplace(n_draws=50),
        "n_boundary": 100,
        "random_state": 0,
    }
    return BaCOUnClassifier(**(small | settings))


@pytest.fixture(scope="session")
def fast() -> Any:
    """A function that builds a classifier which fits in a fraction of a second."""
    return _fast
