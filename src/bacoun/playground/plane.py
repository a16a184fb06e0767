"""Fit a method to points in the plane, and map what it says about every place."""

import math
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

from bacoun.base import BayesianClassifier
from bacoun.baselines import GP, NLM, DeepEnsemble, MCDropout
from bacoun.boundary import FlowShell
from bacoun.classifier import BaCOUnClassifier
from bacoun.features import LearnedFeatures
from bacoun.playground.settings import MAX_CLASSES, MAX_POINTS
from bacoun.posterior import HMC
from bacoun.presets import paper_flow

_GRID = 81  # places along each side of a map
_MARGIN = 0.9  # of the width of the data, on each side
_MEANS = 2 * np.array([[0.0, 2.0], [-math.sqrt(3), -1.0], [math.sqrt(3), -1.0]])


def fit_plane(settings: dict[str, Any]) -> dict[str, Any]:
    """Fit one method to one data set, by one of the `PlaneSettings.fits`.

    Returns plain values: the "points" and "labels", the "edge" points, the "extent" of the maps,
    and "maps", from the lowest row up; uncertainties are in nats.
    """
    started = time.perf_counter()
    points, labels = make_points(settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = _method(settings).fit(points, labels)
    seconds = time.perf_counter() - started
    grid, extent = _grid(points)
    maps = {name: np.round(values, 4).tolist() for name, values in _maps(model, grid).items()}
    return {
        "method": settings["method"],
        "settings": settings,
        "classes": len(model.classes_),
        "points": np.round(points, 3).tolist(),
        "labels": labels.tolist(),
        "edge": _edge(model, settings["seed"]),
        "extent": extent,
        "size": _GRID,
        "accuracy": float(model.score(points, labels)),
        "seconds": round(seconds, 2),
        "notes": [str(note.message) for note in caught if note.category is ConvergenceWarning],
        "maps": maps,
    }


def make_points(settings: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Points (N, 2) and labels (N,) of the data set that the settings name."""
    if settings["data"] == "points":
        return parse_points(settings["points"])
    n, rng = settings["n"], np.random.default_rng(settings["seed"])
    if settings["data"] == "moons":
        points, labels = make_moons(2 * n, noise=0.12, random_state=settings["seed"])
        return 4 * points, labels
    if settings["data"] == "rings":
        labels = np.repeat([0, 1], n)
        angle = rng.uniform(0, 2 * np.pi, 2 * n)
        radius = np.where(labels == 0, 2.0, 5.5) + 0.45 * rng.standard_normal(2 * n)
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), labels
    labels = np.repeat(np.arange(3), n)
    return _MEANS[labels] + math.sqrt(3.0) * rng.standard_normal((3 * n, 2)), labels


def parse_points(text: str) -> tuple[np.ndarray, np.ndarray]:
    """Points that were clicked: "class,x,y" with semicolons between them."""
    rows = [point.split(",") for point in text.split(";") if point]
    try:
        values = np.array([[float(number) for number in row] for row in rows]).reshape(-1, 3)
    except ValueError:
        raise ValueError("points must be 'class,x,y' with semicolons between them.") from None
    classes, counts = np.unique(values[:, 0], return_counts=True)
    if len(values) > MAX_POINTS or np.abs(values[:, 1:]).max(initial=0) > 1000:
        raise ValueError(f"points must be at most {MAX_POINTS}, each between -1000 and 1000.")
    if len(classes) < 2 or counts.min() < 3 or not set(classes) <= set(range(MAX_CLASSES)):
        raise ValueError(
            "click at least 3 points of each of 2 classes; there are "
            f"{len(values)} points of {len(classes)} so far."
        )
    return values[:, 1:], np.searchsorted(classes, values[:, 0])


def _method(settings: dict[str, Any]) -> BayesianClassifier:
    """The method that the settings name, with the few epochs that a page can wait for."""
    network = partial(
        LearnedFeatures, hidden=(64, settings.get("width", 32)), epochs=60, learning_rate=5e-3
    )
    hmc = partial(HMC, n_draws=200, n_chains=32, n_warmup=30, n_iterations=80)
    seed = settings["seed"]
    match settings["method"]:
        case "nlm":
            posterior = hmc(prior_scale=settings["prior"])
            return NLM(features=network(), posterior=posterior, random_state=seed)
        case "mc-dropout":
            dropout = network(dropout=0.2, patience=None)
            return MCDropout(network=dropout, n_draws=100, random_state=seed)
        case "ensemble":
            return DeepEnsemble(network=network(patience=None), n_members=5, random_state=seed)
        case "gp":
            return GP(n_inducing=50, n_iterations=300, n_draws=100, random_state=seed)
        case "paper":
            radius = 3.0 * settings["radius"]
            boundary = paper_flow(epochs=40, radii=(radius, radius + 0.1), per_class=False)
            features = network(joint_softmax=True, boundary_weight=1.0, patience=None)
        case _:
            factors = (settings["radius"],)
            boundary = FlowShell(epochs=120, blocks=4, hidden=32, factors=factors)
            features = network()
    return BaCOUnClassifier(
        boundary=boundary,
        features=features,
        posterior=hmc(prior_scale=settings["prior"]),
        ood_prior=settings.get("doubt", 0.0),
        n_boundary=settings["edge"],
        random_state=seed,
    )


def _grid(points: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """Places (G * G, 2) on a square around the points, row by row from below, and its extent."""
    low, high = points.min(axis=0), points.max(axis=0)
    center, half = (low + high) / 2, (0.5 + _MARGIN) * max(float((high - low).max()), 1e-3)
    axis = np.linspace(-half, half, _GRID)
    across, up = np.meshgrid(axis, axis)
    grid = np.stack([across.ravel(), up.ravel()], axis=1) + center
    x, y = center.tolist()
    return grid, [x - half, x + half, y - half, y + half]


def _maps(model: BayesianClassifier, grid: np.ndarray) -> dict[str, np.ndarray]:
    """Probabilities by class, and uncertainty split as far as the method can."""
    maps = {f"p{k}": values for k, values in enumerate(model.predict_proba(grid).T)}
    if isinstance(model, BaCOUnClassifier):
        parts = model.uncertainty(grid, split=True)
        maps |= {"model": parts.model, "ood": parts.ood}
    else:
        parts = model.uncertainty(grid)
        maps |= {"model": parts.epistemic, "ood": np.zeros(len(grid))}
    return maps | {"total": parts.total, "aleatoric": parts.aleatoric}


def _edge(model: BayesianClassifier, seed: int) -> list[list[float]]:
    """Some of the boundary points that the model learned from."""
    if not isinstance(model, BaCOUnClassifier) or model.boundary_ is None:
        return []
    drawn, _ = model.boundary_.sample(300, generator=torch.Generator().manual_seed(seed))
    return np.round(drawn.numpy() * model.scale_ + model.mean_, 3).tolist()
