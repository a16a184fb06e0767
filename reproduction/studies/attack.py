"""An attack near the edge: move points beyond the data to where a model is certain.

The paper calls NLM "easily attacked with adversarial samples, generated close enough to the
data manifold". The density of the mixture is known, so a point beyond the data stays beyond it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reproduction.datasets import gaussian_mixture_log_density
from reproduction.methods import make_method
from reproduction.results import Measured
from reproduction.schema import Experiment
from reproduction.studies.regions import load

_STEP = 0.25  # in units of the data: a seventh of a class's standard deviation
_PROBE = 0.05


def attack(experiment: Experiment, method: str, seed: int) -> Measured:
    """Share of attacked points that look familiar: epistemic below that of 95 % of test points."""
    data = load(experiment.dataset, seed)
    model = make_method(experiment.methods[method], seed).fit(data.points, data.labels)
    density = gaussian_mixture_log_density(data.test_points)
    # Less likely than all but one in a hundred test points, but no farther out than this.
    band = np.quantile(density, 0.01) - np.array([8.0, 1.0])
    start = _points_in_band(band, experiment.options["n_points"], seed)

    def epistemic(points: np.ndarray) -> np.ndarray:
        return model.uncertainty(points).epistemic

    end = descend(epistemic, start, band, experiment.options["n_steps"])
    familiar = np.quantile(epistemic(data.test_points), 0.95)
    before, after = epistemic(start), epistemic(end)
    numbers = {
        "accuracy": float(model.score(data.test_points, data.test_labels)),
        "threshold": float(familiar),
        "epistemic": {"before": float(before.mean()), "after": float(after.mean())},
        "passes": {
            "before": float((before <= familiar).mean()),
            "after": float((after <= familiar).mean()),
        },
    }
    return numbers, {"start": start, "end": end, "before": before, "after": after}


def _points_in_band(band: np.ndarray, n_points: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 7])
    drawn = rng.uniform(-20, 20, size=(200 * n_points, 2))
    density = gaussian_mixture_log_density(drawn)
    return drawn[(density > band[0]) & (density < band[1])][:n_points]


def descend(
    value: Callable[[np.ndarray], np.ndarray], start: np.ndarray, band: np.ndarray, n_steps: int
) -> np.ndarray:
    """Steps of fixed length against the gradient of `value`, taken only if they stay in the band.

    The gradient is by central differences, so that every method is attacked alike.
    """
    points = start.copy()
    best, lowest = points.copy(), value(points)
    for _ in range(n_steps):
        slope = np.stack(
            [
                value(points + _PROBE * axis) - value(points - _PROBE * axis)
                for axis in np.eye(points.shape[1])
            ],
            axis=1,
        )
        length = np.linalg.norm(slope, axis=1, keepdims=True)
        proposal = points - _STEP * slope / np.maximum(length, 1e-12)
        density = gaussian_mixture_log_density(proposal)
        stays = (density > band[0]) & (density < band[1])
        points = np.where(stays[:, None], proposal, points)
        now = value(points)
        better = now < lowest
        best[better], lowest[better] = points[better], now[better]
    return best
