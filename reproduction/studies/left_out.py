"""How well scores separate the rows of a class left out of training from those of known classes.

Besides classifiers, a method may be a detector based on distances alone: it is given standardized
inputs and returns a score that is higher for more unusual rows.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from bacoun.comparison.detectors import (
    Detector,
    knn_distance,
    local_outlier_factor,
    mahalanobis,
)
from bacoun.uncertainty import auroc, negative_log_likelihood
from reproduction.datasets.dataset import Dataset
from reproduction.datasets.tables import load_table, split_table
from reproduction.fits import fitted
from reproduction.results import Measured, over_cases
from reproduction.schema import Doubt, Experiment, Table

DETECTORS: dict[str, Callable[..., Detector]] = {
    "knn-distance": knn_distance,
    "lof": local_outlier_factor,
    "mahalanobis": mahalanobis,
}
SCORES = ("ood_score", "epistemic", "aleatoric", "total", "rarity")


def left_out(experiment: Experiment, method: str, seed: int) -> Measured:
    """Numbers of every case, named "TABLE: CLASS", and their means over cases; no arrays.

    `auroc/SCORE/CASE` compares all rows of the class with test rows of the other classes, on which
    `accuracy/CASE` and `nll/CASE` are measured. `fit_seconds` is the sum of `seconds/CASE`.
    """
    by_case = {}
    for table, label in cases(experiment.dataset["left_out"]):
        # Settings of its own for each case, so that its cached fit does not depend on the others.
        dataset = {"kind": "table", "table": table, "left_out": label}
        dataset["n_train"] = experiment.dataset["n_train"]
        measured = _measured(experiment.model_copy(update={"dataset": dataset}), method, seed)
        by_case[f"{table}: {label}"] = measured
    numbers, found = over_cases(by_case)
    scores = {name: found[name] for name in SCORES if name in found}
    numbers["lowest"] = {name: min(values.values()) for name, values in scores.items()}
    numbers["auroc"] = scores
    return numbers | {name: found[name] for name in found if name not in scores}, {}


def cases(chosen: Table) -> Iterator[tuple[str, int | str]]:
    """Table and class of each case, from a list of classes for each table, "all", or how many."""
    for table, wanted in chosen.items():
        classes = np.unique(load_table(table)[1]).tolist()
        if isinstance(wanted, list):
            classes = wanted
        elif isinstance(wanted, int):
            classes = classes[:wanted]
        elif wanted != "all":
            raise ValueError(
                f"left_out must give a list of classes, a number of them or 'all'; got {wanted!r} "
                f"for {table}."
            )
        yield from ((table, label) for label in classes)


def load(dataset: Table, seed: int) -> Dataset:
    """One table, split with this seed; without the class `left_out`, if one is named."""
    return split_table(
        *load_table(dataset["table"]),
        n_train=dataset["n_train"],
        random_state=seed,
        left_out=dataset.get("left_out"),
    )


def _measured(experiment: Experiment, method: str, seed: int) -> dict[str, float]:
    """AUROC of each score, accuracy and log loss on known classes, and seconds, of one case."""
    data = load(experiment.dataset, seed)
    if experiment.methods[method]["kind"] in DETECTORS:
        return _of_detector(data, **experiment.methods[method])
    model, seconds = fitted(experiment, method, seed, data)
    measured = _of_classifier(data, model) | {"seconds": seconds}
    for name, variant in doubts(model, experiment.options.get("doubt")):
        other = _of_classifier(data, variant)
        measured |= {f"{part} {name}": other[part] for part in ("epistemic", "nll")}
    return measured


def _of_classifier(data: Dataset, model: Any) -> dict[str, float]:
    known, unknown = (model.evaluate(data.regions[name]) for name in ("in", "out"))
    measured = {
        name: auroc(getattr(known, name), getattr(unknown, name))
        for name in ("ood_score", "epistemic", "aleatoric", "total")
    }
    if known.log_density is not None:
        measured["rarity"] = auroc(-known.log_density, -unknown.log_density)
    index = np.searchsorted(model.classes_, data.test_labels)
    measured["accuracy"] = float((known.probabilities.argmax(axis=1) == index).mean())
    measured["nll"] = negative_log_likelihood(known.probabilities, index)
    return measured


def _of_detector(data: Dataset, kind: str, **settings: Any) -> dict[str, float]:
    started = time.perf_counter()
    scaler = StandardScaler().fit(data.points)
    score = DETECTORS[kind](scaler.transform(data.points), data.labels, seed=0, **settings).score
    seconds = round(time.perf_counter() - started, 3)
    known, unknown = (score(scaler.transform(data.regions[name])) for name in ("in", "out"))
    return {"ood_score": auroc(known, unknown), "seconds": seconds}


def doubts(model: Any, settings: Doubt | None) -> Iterator[tuple[str, Any]]:
    """The fitted model with each power and prior of `settings` in its doubt; nothing is refitted.

    Each comes with a name; a model without doubt has no variants.
    """
    doubt = getattr(model, "doubt_", None)
    if doubt is None or settings is None:
        return
    for power in settings["power"]:
        for prior in settings["ood_prior"]:
            variant = copy.copy(model)
            variant.doubt_ = replace(doubt, power=power, ood_prior=prior)
            yield f"power {power:g}, prior {prior:g}", variant
