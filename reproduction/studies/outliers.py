"""How well the flow's density and two detectors of scikit-learn find planted outliers."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor

from bacoun.boundary import FlowOutlierRemover
from bacoun.uncertainty import aupr, auroc
from reproduction.results import Measured
from reproduction.schema import Experiment
from reproduction.studies.plane import directions, grid
from reproduction.studies.regions import load

_EDGE_POINTS = 1000
_RADIUS = 3  # of the paper's shell, in latent space


def outliers(experiment: Experiment, method: str, seed: int) -> Measured:
    """Numbers: how well low scores mark outliers. Arrays: scores; for the flow, edge and map."""
    data = load(experiment.dataset, seed)
    n_outliers = len(data.regions["outliers"])
    is_outlier = np.arange(len(data.points)) >= len(data.points) - n_outliers
    settings = dict(experiment.methods[method])
    kind = settings.pop("kind")
    arrays: dict[str, np.ndarray] = {}
    if kind == "flow":
        remover = FlowOutlierRemover(n_outliers, random_state=seed, **settings).fit(data.points)
        scores = remover.score_samples(data.points)
        shape = (experiment.options["map"]["resolution"],) * 2
        log_density = remover.score_samples(grid(**experiment.options["map"]))
        arrays = {
            "map log density": log_density.reshape(shape),
            "edge": remover.from_latent(_RADIUS * directions(_EDGE_POINTS)),
            "points": data.points,
            "is outlier": is_outlier,
        }
    elif kind == "isolation-forest":
        forest = IsolationForest(random_state=seed, **settings).fit(data.points)
        scores = forest.score_samples(data.points)
    else:
        neighbors = LocalOutlierFactor(**settings).fit(data.points)
        scores = neighbors.negative_outlier_factor_
    inside, outside = -scores[~is_outlier], -scores[is_outlier]
    removed = scores.argsort()[:n_outliers]
    numbers = {
        "auroc": auroc(inside, outside),
        "average_precision": aupr(inside, outside),
        "precision_of_removed": float(is_outlier[removed].mean()),
    }
    return numbers, arrays | {"scores": np.clip(scores, -1e4, 1e4)}
