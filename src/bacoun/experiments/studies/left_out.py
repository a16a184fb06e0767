"""Leave a class of a table out of training, and see how well scores tell its rows from known ones.

Besides classifiers, a method may be a detector that knows distances alone: it is given inputs
brought to zero mean and unit variance, and answers with a score that is higher for stranger rows.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.covariance import LedoitWolf
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.preprocessing import StandardScaler

from bacoun.datasets import Dataset
from bacoun.datasets.tables import load_table, split_table
from bacoun.experiments.fits import fitted
from bacoun.experiments.schema import Experiment, Table
from bacoun.uncertainty import auroc, negative_log_likelihood

Detector = Callable[[np.ndarray], np.ndarray]
"""From standardised rows (n, D) to scores (n,), higher for stranger rows."""

Answers = dict[str, np.ndarray]
"""About rows: every score (n,) there is and, unless a detector gave it, "probabilities" (n, K)."""

SCORES = ("ood_score", "epistemic", "total", "rarity")


def left_out(
    experiment: Experiment, method: str, seed: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Numbers of every case, named "TABLE: CLASS", and their means over cases; no arrays.

    `auroc/SCORE/CASE` compares all rows of the class with test rows of the other classes, of which
    `accuracy/CASE` and `nll/CASE` speak. `fit_seconds` is the sum of `seconds/CASE`.
    """
    found: dict[str, dict[str, float]] = {}
    for table, label in cases(experiment.dataset["left_out"]):
        # Settings of its own for each case, so that its fit is kept whatever the other cases are.
        dataset = {"kind": "table", "table": table, "left_out": label}
        dataset["n_train"] = experiment.dataset["n_train"]
        measured = _measured(replace(experiment, dataset=dataset), method, seed)
        for name, value in measured.items():
            found.setdefault(name, {})[f"{table}: {label}"] = value
    scores = [score for score in SCORES if score in found]
    measures = [name for name in found if name != "seconds"]
    numbers: dict[str, Any] = {
        "mean": {name: float(np.mean([*found[name].values()])) for name in measures},
        "lowest": {score: min(found[score].values()) for score in scores},
        "fit_seconds": round(sum(found["seconds"].values()), 1),
        "auroc": {score: found[score] for score in scores},
        "seconds": found["seconds"],
    }
    return numbers | {name: found[name] for name in measures if name not in scores}, {}


def cases(chosen: Table) -> Iterator[tuple[str, int | str]]:
    """Names of tables and classes, from a list of classes for each, "all", or how many."""
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
    settings = dict(experiment.methods[method])
    kind = settings.pop("kind")
    if kind in DETECTORS:
        started = time.perf_counter()
        scaler = StandardScaler().fit(data.points)
        detector = DETECTORS[kind](scaler.transform(data.points), data.labels, **settings)
        seconds = round(time.perf_counter() - started, 3)
        return _judged(lambda rows: {"ood_score": detector(scaler.transform(rows))}, data) | {
            "seconds": seconds
        }
    model, seconds = fitted(experiment, method, seed, data)
    measured = _judged(partial(answers, model), data) | {"seconds": seconds}
    for name, variant in doubts(model, experiment.options.get("doubt", {})):
        found = _judged(partial(answers, variant), data)
        measured |= {f"{part} {name}": found[part] for part in ("epistemic", "nll")}
    return measured


def _judged(ask: Callable[[np.ndarray], Answers], data: Dataset) -> dict[str, float]:
    known, unknown = ask(data.regions["in"]), ask(data.regions["out"])
    measured = {s: auroc(known[s], unknown[s]) for s in SCORES if s in known}
    if "probabilities" in known:
        index = np.searchsorted(np.unique(data.labels), data.test_labels)
        winners = known["probabilities"].argmax(axis=1)
        measured["accuracy"] = float((winners == index).mean())
        measured["nll"] = negative_log_likelihood(known["probabilities"], index)
    return measured


def doubts(model: Any, settings: Table) -> Iterator[tuple[str, Any]]:
    """The fitted model with other settings of its doubt, each with a name: nothing is refitted."""
    doubt = getattr(model, "doubt_", None)
    if doubt is None:
        return
    for power in settings.get("power", []):
        for prior in settings.get("ood_prior", []):
            variant = copy.copy(model)
            variant.doubt_ = replace(doubt, power=power, ood_prior=prior)
            yield f"power {power:g}, prior {prior:g}", variant


def answers(model: Any, rows: np.ndarray) -> Answers:
    """What a classifier says about rows."""
    said = model.evaluate(rows)
    asked = ("probabilities", "ood_score", "epistemic", "total")
    found = {name: getattr(said, name) for name in asked}
    return found if said.log_density is None else found | {"rarity": -said.log_density}


# --- detectors -----------------------------------------------------------------------------------


def knn_distance(points: np.ndarray, labels: np.ndarray, n_neighbors: int = 5) -> Detector:
    """Distance to the `n_neighbors`-th nearest training point."""
    neighbors = NearestNeighbors(n_neighbors=n_neighbors).fit(points)
    return lambda rows: neighbors.kneighbors(rows)[0][:, -1]


def local_outlier_factor(points: np.ndarray, labels: np.ndarray, **settings: Any) -> Detector:
    """How much sparser a point's surroundings are than its neighbours'; Breunig et al. (2000)."""
    detector = LocalOutlierFactor(novelty=True, **settings).fit(points)
    return lambda rows: -detector.score_samples(rows)


def mahalanobis(points: np.ndarray, labels: np.ndarray) -> Detector:
    """Distance to the nearest class mean, squared, in units of the class's own covariance.

    Covariances are shrunk as Ledoit and Wolf (2004) do, so that small classes have an inverse.
    """
    classes = [LedoitWolf().fit(points[labels == label]) for label in np.unique(labels)]
    return lambda rows: np.min([one.mahalanobis(rows) for one in classes], axis=0)


DETECTORS: dict[str, Callable[..., Detector]] = {
    "knn-distance": knn_distance,
    "lof": local_outlier_factor,
    "mahalanobis": mahalanobis,
}
