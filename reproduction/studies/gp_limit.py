"""How close a Bayesian last layer comes to a Gaussian process as it gets wider."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduction.fits import fitted
from reproduction.results import Measured
from reproduction.schema import Experiment
from reproduction.studies.plane import grid
from reproduction.studies.regions import load

REFERENCE = "GP"
_OTHER_SEED = 1000  # of a second GP: as close as two fits of the same model come


def gp_limit(experiment: Experiment, method: str, seed: int) -> Measured:
    """Distances to the predictive of a GP, on test points and over the plane.

    `variation` is the mean total variation of class probabilities, `total` and `epistemic` the mean
    absolute differences of these uncertainties, in nats. The GP itself is compared with one of
    another seed.
    """
    data = load(experiment.dataset, seed)
    reference, _ = fitted(experiment, REFERENCE, seed, data)
    own_seed = seed + _OTHER_SEED if method == REFERENCE else seed
    model, _ = fitted(experiment, method, own_seed, data)
    asked = {"test": data.test_points, "plane": grid(**experiment.options["map"])}
    numbers: dict[str, Any] = {}
    for name, points in asked.items():
        one, other = (each.evaluate(points) for each in (model, reference))
        distances = {
            "variation": np.abs(one.probabilities - other.probabilities).sum(axis=1) / 2,
            "total": np.abs(one.total - other.total),
            "epistemic": np.abs(one.epistemic - other.epistemic),
        }
        for measure, value in distances.items():
            numbers.setdefault(measure, {})[name] = float(value.mean())
    return numbers, {}
