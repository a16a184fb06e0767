"""The GMM study: three models, three seeds, 30,000 test points; writes benchmarks/gmm_study.json.

For each model: accuracy and mean epistemic uncertainty over all test points, both uncertainties in
the paper's regions, and epistemic uncertainty over 200 directions on circles far from the data.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

from bacoun import BaCOUnClassifier
from bacoun.datasets import gaussian_mixture, gaussian_mixture_regions

MODELS: dict[str, Callable[[int], BaCOUnClassifier]] = {
    "default": lambda seed: BaCOUnClassifier(random_state=seed),
    "gate=None": lambda seed: BaCOUnClassifier(gate=None, random_state=seed),
    "paper": lambda seed: BaCOUnClassifier.paper("gmm", random_state=seed),
    "nlm": lambda seed: BaCOUnClassifier(boundary=None, random_state=seed),
}
SEEDS = (0, 1, 2)
RADII = (15, 20, 30)
RECORD = Path(__file__).with_suffix(".json")


def circle(radius: float, n_directions: int = 200) -> np.ndarray:
    """Points (200, 2) around the origin."""
    angle = np.linspace(0, 2 * np.pi, n_directions, endpoint=False)
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def measure(model: BaCOUnClassifier) -> dict[str, float]:
    """All figures of one fitted model."""
    points, labels = gaussian_mixture(10_000, np.random.default_rng(99))
    found = {
        "accuracy": model.score(points, labels),
        "epistemic test": model.uncertainty(points).epistemic.mean(),
        "aleatoric test": model.uncertainty(points).aleatoric.mean(),
    }
    for name, region in gaussian_mixture_regions().items():
        uncertainty = model.uncertainty(region)
        found[f"epistemic {name}"] = uncertainty.epistemic.mean()
        found[f"aleatoric {name}"] = uncertainty.aleatoric.mean()
    for radius in RADII:
        epistemic = model.uncertainty(circle(radius)).epistemic
        found[f"epistemic radius {radius} min"] = epistemic.min()
        found[f"epistemic radius {radius} mean"] = epistemic.mean()
    return {name: float(value) for name, value in found.items()}


def main() -> None:
    """Run what the record does not hold yet, then print the means over seeds."""
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"runs": {}}
    record["command"] = "make reproduce"
    record["versions"] = {"python": platform.python_version()}
    record["versions"] |= {name: version(name) for name in ("bacoun", "torch", "zuko")}
    for name, build in MODELS.items():
        for seed in SEEDS:
            if f"{name}/{seed}" in record["runs"]:
                continue
            points, labels = gaussian_mixture(500, seed)
            record["runs"][f"{name}/{seed}"] = measure(build(seed).fit(points, labels))
            RECORD.write_text(json.dumps(record, indent=1) + "\n")
    for name in MODELS:
        runs = [record["runs"][f"{name}/{seed}"] for seed in SEEDS]
        print(f"{name}: mean (smallest, largest) over seeds {SEEDS}")
        for key in runs[0]:
            values = [run[key] for run in runs]
            print(f"  {key:<26} {np.mean(values):.3f} ({min(values):.3f}, {max(values):.3f})")


if __name__ == "__main__":
    main()
