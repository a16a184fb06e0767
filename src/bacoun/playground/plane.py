"""Fit a method to points in the plane, and map what it says about every place."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

from bacoun.base import BayesianClassifier
from bacoun.baselines import GP, NLM, DeepEnsemble, MCDropout
from bacoun.boundary import FlowShell
from bacoun.classifier import BaCOUnClassifier
from bacoun.features import LearnedFeatures
from bacoun.playground.settings import MAX_CLASSES, MAX_POINTS
from bacoun.posterior import HMC

_GRID = 81  # places along each side of a map
_MARGIN = 0.9  # of the width of the data, on each side
_MEANS = 2 * np.array([[0.0, 2.0], [-math.sqrt(3), -1.0], [math.sqrt(3), -1.0]])


def fit_plane(settings: dict[str, Any]) -> dict[str, Any]:
    """Fit one method to one data set.

    Parameters
    ----------
    settings : dict
        Result of `PlaneSettings.fit_of`.

    Returns
    -------
    dict
        Plain values: the "points" and "labels", the "edge" points, the "extent" of the maps, and
        "maps", from the lowest row up; uncertainties are in nats.
    """
    started = time.perf_counter()
    points, labels = make_points(settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = _METHODS[settings["method"]](settings).fit(points, labels)
    seconds = time.perf_counter() - started
    grid, extent = _grid(points)
    maps = _maps(model, grid)
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
        "notes": [str(each.message) for each in caught if each.category is ConvergenceWarning],
        "maps": {name: np.round(each, 4).tolist() for name, each in maps.items()},
    }


# --- data -----------------------------------------------------------------------------------------


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
    rows = [each.split(",") for each in text.split(";") if each]
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


# --- methods --------------------------------------------------------------------------------------


def _network(settings: dict[str, Any], **others: Any) -> LearnedFeatures:
    return LearnedFeatures(hidden=(64, settings["width"]), epochs=60, learning_rate=5e-3, **others)


def _hmc(settings: dict[str, Any]) -> HMC:
    return HMC(
        n_draws=200, n_chains=32, n_warmup=30, n_iterations=80, prior_scale=settings["prior"]
    )


def _bacoun(settings: dict[str, Any]) -> BayesianClassifier:
    return BaCOUnClassifier(
        boundary=FlowShell(epochs=120, blocks=4, hidden=32, factors=(settings["radius"],)),
        features=_network(settings),
        posterior=_hmc(settings),
        ood_prior=settings["doubt"],
        n_boundary=settings["edge"],
        random_state=settings["seed"],
    )


def _paper(settings: dict[str, Any]) -> BayesianClassifier:
    """The paper's method, in the few epochs that a page can wait for."""
    radius = 3.0 * settings["radius"]
    return BaCOUnClassifier(
        boundary=FlowShell(
            epochs=40,
            radii=(radius, radius + 0.1),
            per_class=False,
            batch_norm=True,
            jitter=0.0,
            patience=None,
            drop_overlap=False,
        ),
        features=_network(settings, joint_softmax=True, boundary_weight=1.0, patience=None),
        posterior=_hmc(settings),
        ood_prior=0.0,
        n_boundary=settings["edge"],
        random_state=settings["seed"],
    )


def _nlm(settings: dict[str, Any]) -> BayesianClassifier:
    return NLM(features=_network(settings), posterior=_hmc(settings), random_state=settings["seed"])


def _mc_dropout(settings: dict[str, Any]) -> BayesianClassifier:
    network = _network(settings, dropout=0.2, patience=None)
    return MCDropout(network=network, n_draws=100, random_state=settings["seed"])


def _ensemble(settings: dict[str, Any]) -> BayesianClassifier:
    network = _network(settings, patience=None)
    return DeepEnsemble(network=network, n_members=5, random_state=settings["seed"])


def _gp(settings: dict[str, Any]) -> BayesianClassifier:
    return GP(n_inducing=50, n_iterations=300, n_draws=100, random_state=settings["seed"])


_METHODS = {
    "bacoun": _bacoun,
    "paper": _paper,
    "nlm": _nlm,
    "mc-dropout": _mc_dropout,
    "ensemble": _ensemble,
    "gp": _gp,
}


# --- maps -----------------------------------------------------------------------------------------


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
    probabilities = model.predict_proba(grid)
    if isinstance(model, BaCOUnClassifier):
        parts = model.uncertainty(grid, split=True)
        model_part, ood = parts.model, parts.ood
    else:
        parts = model.uncertainty(grid)
        model_part, ood = parts.epistemic, np.zeros(len(grid))
    found = {f"p{k}": each for k, each in enumerate(probabilities.T)}
    return found | {
        "total": parts.total,
        "aleatoric": parts.aleatoric,
        "model": model_part,
        "ood": ood,
    }


def _edge(model: BayesianClassifier, seed: int) -> list[list[float]]:
    """Some of the boundary points that the model learned from."""
    if not isinstance(model, BaCOUnClassifier) or model.boundary_ is None:
        return []
    import torch

    drawn = model.boundary_.sample(300, generator=torch.Generator().manual_seed(seed))
    edge = (drawn[0] if isinstance(drawn, tuple) else drawn).numpy()
    return np.round(edge * model.scale_ + model.mean_, 3).tolist()
