"""Cached fits: several experiments on images ask questions of the same model."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import joblib

from bacoun.classifier import BaCOUnClassifier
from reproduction.datasets.dataset import Dataset
from reproduction.datasets.sources import cache_folder
from reproduction.methods import make_method
from reproduction.schema import Experiment, Table

P = ParamSpec("P")
T = TypeVar("T")

_ONLY_ASKED = {"others", "n_asked"}  # settings of a data set that change no training data
_NO_FIT = {  # parts of bacoun no fit depends on
    *("cli", "comparison", "deferral", "server", "tabular", "watching"),
    *("display.py", "mlflow.py", "graph.py", "onnx.py", "operators.py"),
}


def fitted(experiment: Experiment, method: str, seed: int, data: Dataset) -> tuple[Any, float]:
    """The fitted method and the seconds it took, from the cache if it was fitted before.

    An interrupted fit of BaCOUn resumes from its checkpoint. Doubt is learned last, so that a model
    without it has the fit of the one with it.
    """
    settings = dict(experiment.methods[method])
    if settings.get("ood_prior") == 0:
        del settings["ood_prior"]
        model, seconds = _cached_fit(experiment, settings, seed, data)
        return _without_doubt(model), seconds
    return _cached_fit(experiment, settings, seed, data)


def _without_doubt(model: BaCOUnClassifier) -> BaCOUnClassifier:
    model.ood_prior, model.doubt_ = 0.0, None
    return model


def _cached_fit(
    experiment: Experiment, settings: Table, seed: int, data: Dataset
) -> tuple[Any, float]:
    key = (training_settings(experiment), settings, seed, code_digest())
    checkpoint = cache_folder() / "checkpoints" / str(joblib.hash(key))
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    with _alone(cache_folder() / "locks" / checkpoint.name):  # parallel methods may share a fit
        fit = cached(_fit, ignore=["data", "checkpoint"])
        found: tuple[Any, float] = fit(*key, data, checkpoint)
    shutil.rmtree(checkpoint, ignore_errors=True)
    return found


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process is in a block with the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fit(
    dataset: Table, method: Table, seed: int, code: str, data: Dataset, checkpoint: Path
) -> tuple[Any, float]:
    model = make_method(method, seed)
    extra = {"checkpoint": checkpoint} if isinstance(model, BaCOUnClassifier) else {}
    started = time.perf_counter()
    model.fit(data.points, data.labels, **extra)
    return model, round(time.perf_counter() - started, 1)


def training_settings(experiment: Experiment) -> Table:
    """Those settings of a data set that decide its training data."""
    return {k: v for k, v in experiment.dataset.items() if k not in _ONLY_ASKED}


def cached(function: Callable[P, T], *, ignore: list[str]) -> Callable[P, T]:
    """A function whose results are cached on disk by its arguments, except those in `ignore`.

    Take `code_digest()` as one of the arguments to recompute after a change to the code.
    """
    memory = joblib.Memory(cache_folder() / "fits", verbose=0, compress=1)
    wrapped: Callable[P, T] = memory.cache(function, ignore=ignore)
    return wrapped


def code_digest() -> str:
    """sha256 of all code that decides a fit: the package without front ends, methods, data sets."""
    package, own = (Path(str(files(name))) for name in ("bacoun", "reproduction"))
    parts = [path for path in package.iterdir() if path.name not in _NO_FIT]
    digest = hashlib.sha256()
    for root in (*sorted(parts), own / "datasets", own / "methods.py"):
        for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            digest.update(path.read_bytes())
    return digest.hexdigest()
