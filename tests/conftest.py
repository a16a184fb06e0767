"""What all tests share: hypothesis's settings, a small problem, and a fit of a moment."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

# What takes long to import is imported by the fixtures: the process that only hands out the tests
# reads this file before the others start.
if TYPE_CHECKING:
    import numpy as np

    from bacoun import BaCOUnClassifier

# A busy machine is no bug: nothing is timed in a test. CI tries the same examples in every run.
settings.register_profile("untimed", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "untimed")

ROOT = Path(__file__).parents[1]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported stays: the garbage collector need not look through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What tests the paper and the benchmarks is marked `paper`: for `make test-paper`.

    Files that use the cluster or the built site come first: one of xdist's workers runs them all,
    so that neither is made twice.
    """
    made_once = {"cluster", "site"}
    first = {item.path for item in items if made_once & {*getattr(item, "fixturenames", ())}}
    items.sort(key=lambda item: item.path not in first)
    for item in items:
        if {"reproduction", "benchmarks"} & {*item.path.relative_to(ROOT).parts}:
            item.add_marker(pytest.mark.paper)


@pytest.fixture(scope="session")
def moons() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import make_moons

    return make_moons(120, noise=0.1, random_state=0)


def _fast(**settings: Any) -> BaCOUnClassifier:
    from bacoun import BaCOUnClassifier
    from bacoun.boundary import FlowShell
    from bacoun.features import LearnedFeatures
    from bacoun.posterior import Laplace

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
def fast_model(moons: tuple[np.ndarray, np.ndarray]) -> BaCOUnClassifier:
    """Such a classifier, fitted to the moons once for all tests: look, do not change."""
    return _fast().fit(*moons)


@pytest.fixture(scope="session")
def mixture_model() -> Callable[[float], BaCOUnClassifier]:
    """A function from an `ood_prior` to quick settings, fitted to a mixture of Gaussians once."""
    from bacoun import BaCOUnClassifier
    from reproduction.datasets import gaussian_mixture

    @cache
    def fitted(ood_prior: float) -> BaCOUnClassifier:
        model = BaCOUnClassifier.quick(random_state=0, ood_prior=ood_prior)
        return model.fit(*gaussian_mixture(500, 1))

    return fitted


@pytest.fixture(scope="session")
def iris_model() -> Any:
    """A table model of the irises, fitted once for all tests: look, do not change."""
    from sklearn.datasets import load_iris

    from bacoun.tabular import TableModel

    return TableModel.fit(load_iris(as_frame=True).frame, "target", classifier=_fast())


@pytest.fixture
def full_disk() -> Callable[[int], AbstractContextManager[None]]:
    """A function whose block finds a disk that has room for files of so many bytes, no larger."""
    resource = pytest.importorskip("resource", reason="no file size limit to set")

    @contextmanager
    def limited(n_bytes: int) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


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
