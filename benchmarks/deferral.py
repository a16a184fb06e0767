"""The guarantees of deferral over 200 random splits; writes benchmarks/deferral.json if missing.

GMM task: one model, fitted once, and a pool of fresh labeled points, scored once. Each split draws
a calibration set from the pool, calibrates a rule, and evaluates it on the remaining points. Then
simulations with a known error rate, some of which violate the assumption that the error rate does
not fall as uncertainty rises.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bacoun import BaCOUnClassifier
from bacoun.deferral import (
    DeferralRule,
    largest_acceptance,
    prediction_set_threshold,
    prediction_sets,
)
from reproduction.datasets import gaussian_mixture, gaussian_mixture_regions

N_SPLITS = 200
N_CALIBRATION = 1000
FALSE_ALARM, COVERAGE, CONFIDENCE = 0.05, 0.95, 0.95
MAX_ERRORS = (0.01, 0.02)
RECORD = Path(__file__).with_suffix(".json")


def mean_and_error(values: list[float]) -> dict[str, float]:
    """Mean over splits and its standard error."""
    return {
        "mean": float(np.mean(values)),
        "se": float(np.std(values, ddof=1) / len(values) ** 0.5),
    }


@dataclass(frozen=True)
class Pool:
    """Fresh labeled points of the GMM task, scored once."""

    ood_score: np.ndarray
    total: np.ndarray
    probabilities: np.ndarray
    labels: np.ndarray

    @classmethod
    def scored(cls, model: BaCOUnClassifier, points: np.ndarray, labels: np.ndarray) -> Pool:
        """All that a rule or a set may ask of the points."""
        total = model.uncertainty(points).total
        return cls(model.ood_score(points), total, model.predict_proba(points), labels)

    @property
    def predicted(self) -> np.ndarray:
        """Index of the most likely class."""
        return self.probabilities.argmax(axis=1)

    def __getitem__(self, rows: np.ndarray) -> Pool:
        return Pool(*(column[rows] for column in vars(self).values()))

    def splits(self) -> Iterator[tuple[Pool, Pool]]:
        """Calibration points and all that are left, 200 times."""
        rng = np.random.default_rng(0)
        for _ in range(N_SPLITS):
            order = rng.permutation(len(self.labels))
            yield self[order[:N_CALIBRATION]], self[order[N_CALIBRATION:]]


def judge(pool: Pool, far: Pool, max_error: float, per_class: bool) -> dict[str, object]:
    """Both promises of one kind of rule, over all splits of the pool."""
    flagged, by_class, caught, accepted, errors = [], [], [], [], []
    for seen, new in pool.splits():
        rule = DeferralRule.calibrate(
            seen.ood_score,
            seen.total,
            seen.predicted == seen.labels,
            seen.predicted,
            false_alarm=FALSE_ALARM,
            max_error=max_error,
            confidence=CONFIDENCE,
            per_class=per_class,
        )
        decision, reason = rule.decide(new.ood_score, new.total, new.predicted)
        unfamiliar, taken = reason == "unfamiliar", decision == "accept"
        flagged.append(unfamiliar.mean())
        by_class.append([unfamiliar[new.predicted == index].mean() for index in range(3)])
        beyond = rule.decide(far.ood_score, far.total, far.predicted).reason
        caught.append((beyond == "unfamiliar").mean())
        accepted.append(taken.mean())
        if taken.any():
            errors.append((new.predicted != new.labels)[taken].mean())
    return {
        "flagged in distribution": mean_and_error(flagged),
        "flagged by predicted class": np.mean(by_class, axis=0).tolist(),
        "flagged far away": mean_and_error(caught),
        "accepted": mean_and_error(accepted),
        "error among accepted": mean_and_error(errors),
        "splits that support the bound": len(errors) / N_SPLITS,
        "splits whose error exceeds the bound": sum(np.array(errors) > max_error) / N_SPLITS,
    }


def judge_sets(pool: Pool) -> dict[str, object]:
    """Coverage and mean size of prediction sets, over all splits of the pool."""
    covered, sizes = [], []
    for seen, new in pool.splits():
        threshold = prediction_set_threshold(seen.probabilities, seen.labels, COVERAGE)
        sets = prediction_sets(new.probabilities, threshold)
        covered.append(sets[np.arange(len(sets)), new.labels].mean())
        sizes.append(sets.sum(axis=1).mean())
    return {"coverage": mean_and_error(covered), "classes in a set": mean_and_error(sizes)}


# The chance of an error at score s, uniform on (0, 1); the bound is one per cent.
TRUTHS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rising": lambda s: 0.1 * s**3,
    "just too large everywhere": lambda s: np.full_like(s, 0.01001),
    "in waves, against the assumption": lambda s: 0.0101 + 0.01 * np.cos(40 * s),
    "built against the assumption": lambda s: np.select(
        [s < 0.299, s < 0.44, s < 0.46], [0.01005, 0.0, 0.085], 0.0101
    ),
}


def simulate(chance: Callable[[np.ndarray], np.ndarray], n_splits: int = 2000) -> dict[str, float]:
    """Share of splits in which the known error exceeds the bound, and mean accepted share."""
    fine = (np.arange(100_000) + 0.5) / 100_000
    true_error = np.cumsum(chance(fine)) / np.arange(1, len(fine) + 1)
    rng = np.random.default_rng(0)
    failed, accepted = [], []
    for _ in range(n_splits):
        total = rng.random(N_CALIBRATION)
        correct = rng.random(N_CALIBRATION) >= chance(total)
        share = min(largest_acceptance(total, correct, 0.01, CONFIDENCE).threshold or 0.0, 1.0)
        last = round(share * len(fine)) - 1
        failed.append(last >= 0 and true_error[last] > 0.01)
        accepted.append(share)
    return {"exceeds the bound": float(np.mean(failed)), "accepted": float(np.mean(accepted))}


def main() -> None:
    """Fit, judge and record, unless that was done; then print."""
    if not RECORD.exists():
        RECORD.write_text(json.dumps(measure(), indent=1) + "\n")
    show(json.loads(RECORD.read_text()))


def measure() -> dict[str, Any]:
    """The whole record."""
    model = BaCOUnClassifier(random_state=0).fit(*gaussian_mixture(500, 0))
    pool = Pool.scored(model, *gaussian_mixture(33_000, np.random.default_rng(99)))
    out = gaussian_mixture_regions()["out"]
    far = Pool.scored(model, out, np.zeros(len(out), dtype=int))
    rules = {
        f"max_error={max_error}, {'per class' if per_class else 'pooled'}": judge(
            pool, far, max_error, per_class
        )
        for max_error in MAX_ERRORS
        for per_class in (False, True)
    }
    return {
        "command": "python -m benchmarks deferral",
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("bacoun", "torch", "numpy", "scipy")},
        "splits": N_SPLITS,
        "calibration points": N_CALIBRATION,
        "rules": rules,
        "prediction sets": judge_sets(pool),
        "known truth": {name: simulate(chance) for name, chance in TRUTHS.items()},
    }


def show(record: dict[str, Any]) -> None:
    """Print the record as lines of figures."""
    for part in ("rules", "known truth"):
        for name, found in record[part].items():
            print(f"{part}: {name}")
            for key, value in found.items():
                print(f"  {key:<38} {in_words(value)}")
    for key, value in record["prediction sets"].items():
        print(f"prediction sets: {key:<23} {in_words(value)}")


def in_words(value: object) -> str:
    if isinstance(value, dict):
        return f"{value['mean']:.4f} (standard error {value['se']:.4f})"
    return " ".join(f"{number:.4f}" for number in np.atleast_1d(value))


if __name__ == "__main__":
    main()
