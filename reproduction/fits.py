"""What takes long to make, kept in the cache: several experiments on images ask the same model."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import joblib

from bacoun.classifier import BaCOUnClassifier
from bacoun.datasets import Dataset
from reproduction.datasets.sources import cache_folder
from reproduction.methods import make_method
from reproduction.schema import Experiment, Table

# What decides a fit besides its settings; after a change to any of it, fits are made anew.
_CODE = ("boundary", "features", "posterior", "baselines", "datasets")
_ONLY_ASKED = {"others", "n_asked"}  # settings of a data set that change no training image
_FILES = (
    "classifier.py",
    "estimator.py",
    "training.py",
    "presets.py",
    "randomness.py",
    "uncertainty/doubt.py",
)


def fitted(experiment: Experiment, method: str, seed: int, data: Dataset) -> tuple[Any, float]:
    """The fitted method and the seconds it took, from the cache if it was fitted before.

    A fit of BaCOUn that was interrupted goes on where it was.
    """

    def fit(unfinished: Path) -> tuple[Any, float]:
        model = make_method(experiment.methods[method], seed)
        extra = {"checkpoint": unfinished} if isinstance(model, BaCOUnClassifier) else {}
        started = time.perf_counter()
        model.fit(data.points, data.labels, **extra)
        return model, round(time.perf_counter() - started, 1)

    found: tuple[Any, float] = kept([learned(experiment), experiment.methods[method], seed], fit)
    return found


def learned(experiment: Experiment) -> Table:
    """Those settings of a data set that decide its training images."""
    return {k: v for k, v in experiment.dataset.items() if k not in _ONLY_ASKED}


def kept(settings: list[Any], make: Callable[[Path], Any]) -> Any:
    """What `make` gives, from the cache if it was made before with these settings and this code.

    `make` is told a folder in which it may leave what it has not finished.
    """
    text = json.dumps([*settings, _code_digest()], sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:20]
    path = cache_folder() / "fits" / f"{key}.joblib"
    if path.exists():
        return joblib.load(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".checkpoint")
    made = make(unfinished)
    half = path.with_suffix(f".{os.getpid()}")
    joblib.dump(made, half, compress=1)
    os.replace(half, path)
    shutil.rmtree(unfinished, ignore_errors=True)
    return made


def _code_digest() -> str:
    package = Path(str(files("bacoun")))
    paths = [package / name for name in _FILES]
    for folder in _CODE:
        paths += sorted((package / folder).rglob("*.py"))
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()
