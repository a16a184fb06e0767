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


@pytest.fixture(scope="session")
def cluster() -> Any:
    """A scheduler and two worker processes, as a user would have started them.

    They are forked from a process that has imported torch, which takes longer than all else.
    """
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        distributed.utils.get_mp_context().set_forkserver_preload(
            ["distributed", "bacoun.many.scorer"]
        )
        with distributed.LocalCluster(processes=True, silence_logs=50, **options) as cluster:
            yield cluster
