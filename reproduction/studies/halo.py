"""Uncertainty and predicted class on circles around the data in the plane."""

from __future__ import annotations

import numpy as np

from reproduction.fits import fitted
from reproduction.results import Measured
from reproduction.schema import Experiment
from reproduction.studies.plane import directions
from reproduction.studies.regions import load

_N_DIRECTIONS = 200


def halo(experiment: Experiment, method: str, seed: int) -> Measured:
    """Numbers by radius, over 200 directions; the array is epistemic (radii, 200).

    `mean` and `smallest` are of epistemic uncertainty, `nearest` is the share of directions in
    which the predicted class is the one whose training mean is nearest.
    """
    data = load(experiment.dataset, seed)
    model, seconds = fitted(experiment, method, seed, data)
    means = np.stack([data.points[data.labels == label].mean(axis=0) for label in model.classes_])
    found: dict[str, dict[str, float]] = {"mean": {}, "smallest": {}, "nearest": {}}
    curves = []
    for radius in experiment.options["radii"]:
        points = radius * directions(_N_DIRECTIONS)
        epistemic = model.uncertainty(points).epistemic
        distance = np.linalg.norm(points[:, None] - means, axis=2)
        name = f"{radius:g}"
        found["mean"][name] = float(epistemic.mean())
        found["smallest"][name] = float(epistemic.min())
        agrees = model.predict(points) == model.classes_[distance.argmin(axis=1)]
        found["nearest"][name] = float(agrees.mean())
        curves.append(epistemic)
    found["nearest"]["lowest"] = min(found["nearest"].values())
    numbers = {
        "accuracy": float(model.score(data.test_points, data.test_labels)),
        "epistemic": {"in": float(model.uncertainty(data.regions["in"]).epistemic.mean())},
        "fit_seconds": seconds,
        **found,
    }
    return numbers, {"epistemic": np.stack(curves).astype(np.float32)}
