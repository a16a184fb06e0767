"""Claims of the paper, and the records they are checked against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from reproduction.pages.tables import spread
from reproduction.results import across_seeds, load_records
from reproduction.schema import names

from bacoun.uncertainty import rank_correlation

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be decided"


class Results:
    """All records, indexed by experiment, method and the path of a number."""

    def __init__(self, folder: Path) -> None:
        self.records = {name: load_records(folder, name) for name in names()}

    def values(self, experiment: str, method: str, path: str) -> np.ndarray:
        """One value for each seed; KeyError if nothing was measured."""
        found = across_seeds(self.records[experiment], method, path)
        if len(found) == 0:
            raise KeyError(f"{experiment}: no {path} of {method}")
        return found

    def mean(self, experiment: str, method: str, path: str) -> float:
        """Mean over seeds."""
        return float(self.values(experiment, method, path).mean())

    def show(self, experiment: str, method: str, path: str) -> str:
        """Mean ± standard deviation over seeds."""
        return spread(self.values(experiment, method, path))

    def rank_correlations(self, experiment: str, method: str, to: str) -> np.ndarray:
        """Rank correlation of two methods' maps of total uncertainty, for each seed."""
        maps = {
            (record.method, record.seed): record.arrays["map total"].astype(float).ravel()
            for record in self.records[experiment]
            if "map total" in record.arrays
        }
        seeds = sorted(seed for name, seed in maps if name == method and (to, seed) in maps)
        if not seeds:
            raise KeyError(f"{experiment}: no maps of {method} and {to}")
        return np.array([rank_correlation(maps[method, s], maps[to, s]) for s in seeds])


@dataclass(frozen=True)
class Claim:
    """A statement of the paper and the function that checks it: numbers as text, and verdict."""

    where: str
    statement: str
    check: Callable[[Results], tuple[str, str]]
    remark: str = ""


def verdict(*conditions: bool | np.bool_) -> str:
    """Holds if all conditions do."""
    return HOLDS if all(bool(condition) for condition in conditions) else FAILS


def listed(results: Results, experiment: str, path: str, methods: tuple[str, ...]) -> str:
    """Mean and spread of a number, method by method."""
    return ", ".join(f"{method} {results.show(experiment, method, path)}" for method in methods)
