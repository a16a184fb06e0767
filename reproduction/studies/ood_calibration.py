"""Is the probability of being out-of-distribution calibrated: in streams with unknown rows.

Rows of a class that was left out, and strongly corrupted images, are unknown. A stream has a given
share of them, and the prior of doubt is that share: then the mean probability should be the share
too, and of the rows with a probability near q, a share q should be unknown.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from reproduction.datasets.images import development_images
from reproduction.fits import fitted
from reproduction.results import Measured
from reproduction.schema import Experiment
from reproduction.studies.corruptions import corrupted
from reproduction.studies.left_out import cases
from reproduction.studies.left_out import load as load_table_case

EDGES = (0.0, 0.02, 0.1, 0.3, 0.6, 0.9, 1.0)
Scored = tuple[str, Any, np.ndarray, np.ndarray]  # kind, model, known rows, unknown rows


def ood_calibration(experiment: Experiment, method: str, seed: int) -> Measured:
    """By kind of data and prior; streams of all cases of a kind are one stream.

    `mean/KIND/PRIOR` is the mean probability, `inside/KIND/PRIOR` that of known rows. The arrays
    "KIND PRIOR" (bins, 3) hold the share of the stream in each bin of `EDGES`, and there the mean
    probability and the share of unknown rows.
    """
    started = time.perf_counter()
    found: dict[tuple[str, float], list[tuple[np.ndarray, np.ndarray]]] = {}
    for kind, model, known, unknown in _scored(experiment, method, seed):
        for prior in experiment.options["priors"]:
            variant = copy.copy(model)
            variant.doubt_ = replace(model.doubt_, ood_prior=prior)
            probabilities = variant.ood_probability(known), variant.ood_probability(unknown)
            found.setdefault((kind, prior), []).append(probabilities)
    numbers: dict[str, Any] = {"mean": {}, "inside": {}}
    arrays: dict[str, np.ndarray] = {}
    for (kind, prior), pairs in found.items():
        name, (known, unknown) = f"{prior:g}", map(np.concatenate, zip(*pairs, strict=True))
        stream = (1 - prior) * known.mean() + prior * unknown.mean()
        numbers["mean"].setdefault(kind, {})[name] = float(stream)
        numbers["inside"].setdefault(kind, {})[name] = float(known.mean())
        arrays[f"{kind} {name}"] = reliability(known, unknown, prior)
    return numbers | {"fit_seconds": round(time.perf_counter() - started, 1)}, arrays


def reliability(known: np.ndarray, unknown: np.ndarray, share: float) -> np.ndarray:
    """Share of a stream (bins,) with `share` unknown rows, mean probability and share of unknown.

    Examples
    --------
    >>> reliability(np.array([0.0, 0.0]), np.array([0.95]), 0.5)[[0, -1]]
    array([[0.5 , 0.  , 0.  ],
           [0.5 , 0.95, 1.  ]])
    """
    probability = np.concatenate([known, unknown])
    is_unknown = np.repeat([False, True], [len(known), len(unknown)])
    weight = np.where(is_unknown, share / len(unknown), (1 - share) / len(known))
    places = np.digitize(probability, EDGES[1:-1])
    rows = []
    for place in range(len(EDGES) - 1):
        inside = places == place
        mass = weight[inside].sum()
        parts = (probability[inside], is_unknown[inside])
        rows.append([mass, *((weight[inside] @ part) / max(mass, 1e-12) for part in parts)])
    return np.array(rows)


def _scored(experiment: Experiment, method: str, seed: int) -> Iterator[Scored]:
    settings = experiment.dataset
    for table, label in cases(settings["left_out"]):
        dataset = {"kind": "table", "table": table, "left_out": label}
        dataset["n_train"] = settings["n_train"]
        data = load_table_case(dataset, seed)
        own = experiment.model_copy(update={"dataset": dataset})
        yield "tables", fitted(own, method, seed, data)[0], data.regions["in"], data.regions["out"]
    for name in settings["images"]:
        n_images = {"n_train": settings["n_images"], "n_asked": settings["n_asked"]}
        images = development_images(name, **n_images, random_state=seed)
        own = experiment.model_copy(update={"dataset": {"kind": "images", "set": name, **n_images}})
        held_out = images.test_points
        strange = [
            corrupted(held_out[: len(held_out) // 4], family, strength, seed)
            for family, strength in experiment.options["shifts"].items()
        ]
        unknown = np.concatenate([images.regions["left out"], *strange])
        yield "images", fitted(own, method, seed, images)[0], held_out, unknown
