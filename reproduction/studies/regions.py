"""Fit a method; its quality, and its uncertainty by region, along rays and over the plane."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from bacoun.classifier import BaCOUnClassifier
from bacoun.uncertainty import (
    auroc,
    expected_calibration_error,
    negative_log_likelihood,
    rank_correlation,
)
from reproduction.datasets import KINDS as DATASETS
from reproduction.datasets.dataset import Dataset
from reproduction.datasets.wine import occurs_in
from reproduction.methods import make_method
from reproduction.results import Measured
from reproduction.schema import Experiment, Grid, Table
from reproduction.studies.plane import grid, rays

_DISTANCES = np.linspace(1, 3, 9)
_N_BOUNDARIES = 12  # single draws whose decision boundaries are drawn


def load(dataset: Table, seed: int) -> Dataset:
    """The data set of an experiment, drawn or split with this seed."""
    return _load(json.dumps(dataset), seed)


@lru_cache(maxsize=1)  # methods of an experiment share it, and images take seconds to read
def _load(dataset: str, seed: int) -> Dataset:
    settings = json.loads(dataset)
    return DATASETS[settings.pop("kind")](random_state=seed, **settings)


def regions(experiment: Experiment, method: str, seed: int) -> Measured:
    """Numbers: quality on test points, parts of uncertainty by region. Arrays: rays and maps."""
    data = load(experiment.dataset, seed)
    started = time.perf_counter()
    model = make_method(experiment.methods[method], seed).fit(data.points, data.labels)
    numbers: dict[str, Any] = {"fit_seconds": round(time.perf_counter() - started, 1)}
    numbers |= quality(model, data)
    if hasattr(model, "elbo_"):
        numbers["elbo_gain"] = elbo_gain(model.elbo_, len(data.points))
    numbers |= by_region(model, data, split=bool(experiment.options.get("split")))
    arrays: dict[str, np.ndarray] = {}
    if experiment.options.get("rays"):
        arrays["rays"] = along_rays(model, data.points)
        mean = arrays["rays"].mean(axis=1)
        numbers["rays"] = {
            "rank_correlation": rank_correlation(_DISTANCES, mean),
            "smallest_far": float(arrays["rays"][-1].min()),
            "mean_far": float(mean[-1]),
            "mean_at_edge": float(mean[0]),
        }
    if "map" in experiment.options:
        arrays |= maps(model, experiment.options["map"])
        keep = np.random.default_rng(0).permutation(len(data.points))[:600]
        arrays |= {"points": data.points[keep], "labels": data.labels[keep]}
    return numbers, arrays


def elbo_gain(elbo: Sequence[float], n_points: int) -> float:
    """Rise of the ELBO over the last fifth of training, in nats a row: about 0 at a plateau."""
    fifth, tenth = len(elbo) // 5, max(1, len(elbo) // 10)
    before, last = np.mean(elbo[-fifth - tenth : -fifth]), np.mean(elbo[-tenth:])
    return float(last - before) / n_points


def quality(model: Any, data: Dataset) -> dict[str, float]:
    """Accuracy, AUC, calibration error and log loss on test points."""
    index = np.searchsorted(model.classes_, data.test_labels)
    probabilities = model.predict_proba(data.test_points)
    found = quality_of(probabilities, index)
    is_copy = occurs_in(data.points, data.test_points)
    if is_copy.any():  # of a training row, which a flexible model knows by heart
        found["auc_of_new"] = quality_of(probabilities[~is_copy], index[~is_copy])["auc"]
    if has_edge_class(model):
        # What the K+1 network alone loses to its extra class, which the paper says is mitigated.
        network = model.region_proba(data.test_points)
        found |= {
            "network_accuracy": float((network.argmax(axis=1) == index).mean()),
            "network_rejects": float((network.argmax(axis=1) == len(model.classes_)).mean()),
        }
    return found


def quality_of(probabilities: np.ndarray, index: np.ndarray) -> dict[str, float]:
    """Accuracy, AUC, calibration error and log loss; `index` (N,) are columns of true classes."""
    of_one = probabilities[:, 1] if probabilities.shape[1] == 2 else probabilities
    auc = float(roc_auc_score(index, of_one, multi_class="ovr"))
    return {"auc": auc, **basic_quality(probabilities, index)}


def basic_quality(probabilities: np.ndarray, index: np.ndarray) -> dict[str, float]:
    """Accuracy, calibration error and log loss; `index` (N,) are columns of the true classes."""
    return {
        "accuracy": float((probabilities.argmax(axis=1) == index).mean()),
        "ece": expected_calibration_error(probabilities, index),
        "nll": negative_log_likelihood(probabilities, index),
    }


def by_region(model: Any, data: Dataset, *, split: bool) -> dict[str, Any]:
    """Mean of every part of uncertainty, its quartiles, and how well it tells a region from in."""
    extra = {"split": True} if split and isinstance(model, BaCOUnClassifier) else {}
    found: dict[str, Any] = {"auroc": {}, "quartiles": {}}
    # A mean needs fewer points than an accuracy, and 200 networks on 30,000 points take minutes.
    some = data.test_points[:: max(1, len(data.test_points) // 3000)]
    values = {
        name: model.uncertainty(points, **extra).parts()
        for name, points in {**data.regions, "test": some}.items()
    }
    for name, parts in values.items():
        for part, value in parts.items():
            found.setdefault(part, {})[name] = float(value.mean())
            quartiles = np.quantile(value, [0.05, 0.25, 0.5, 0.75, 0.95])
            found["quartiles"].setdefault(part, {})[name] = quartiles.tolist()
            if name not in ("in", "test"):
                score = auroc(values["in"][part], value)
                found["auroc"].setdefault(part, {})[name] = score
    if has_edge_class(model):  # which tells whether step 2 or step 3 misses a region
        found["edge_probability"] = {
            name: float(model.region_proba(points)[:, -1].mean())
            for name, points in data.regions.items()
        }
    return found


def has_edge_class(model: Any) -> bool:
    """Whether its network has learned the boundary of the data."""
    return isinstance(model, BaCOUnClassifier) and model.boundary_ is not None


def along_rays(model: Any, points: np.ndarray) -> np.ndarray:
    """Epistemic uncertainty (9, 200) from the edge of the data to three times its radius."""
    asked = rays(points, _DISTANCES)
    epistemic = model.uncertainty(asked.reshape(-1, 2)).epistemic
    return epistemic.reshape(asked.shape[:2])


def maps(model: Any, settings: Grid) -> dict[str, np.ndarray]:
    """Winners, parts of uncertainty (n, n), and winners of single draws over the plane."""
    asked = grid(**settings)
    shape = (settings["resolution"], settings["resolution"])
    found = {f"map {k}": v.reshape(shape) for k, v in model.uncertainty(asked).parts().items()}
    regions_of = model.region_proba if has_edge_class(model) else model.predict_proba
    found["map winners"] = regions_of(asked).argmax(axis=1).reshape(shape).astype(np.uint8)
    draws = model.predict_proba_samples(asked, joint=True)
    keep = np.linspace(0, len(draws) - 1, min(_N_BOUNDARIES, len(draws))).round().astype(int)
    found["map draws"] = draws[keep].argmax(axis=2).reshape(-1, *shape).astype(np.uint8)
    return found
