"""Records: what a run measured, as JSON, with its maps beside it as compressed arrays."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from bacoun.files.atomic import atomic_write
from reproduction.schema import Experiment

Measured = tuple[dict[str, Any], dict[str, np.ndarray]]
"""What a study returns: nested tables of plain numbers, and arrays by name."""


@dataclass
class Record:
    """One method, fitted with one seed.

    Attributes
    ----------
    numbers : dict
        Nested tables of plain numbers.
    arrays : dict of ndarray
        What figures need, stored in a file of its own.
    command, settings, versions, seconds
        How the numbers came about.
    """

    experiment: str
    method: str
    seed: int
    command: str
    settings: dict[str, Any]
    versions: dict[str, str | None]
    seconds: float
    numbers: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write `METHOD-SEED.json` and, if there are arrays, `.npz`, each atomically."""
        path = record_path(folder, self.experiment, self.method, self.seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.arrays:
            small: Any = {name: _small(array) for name, array in self.arrays.items()}
            with atomic_write(path.with_suffix(".npz")) as file:
                np.savez_compressed(file, **small)
        document = asdict(self)
        del document["arrays"]
        with atomic_write(path) as file:  # last: a record without its arrays must not exist
            file.write(f"{json.dumps(document, indent=1)}\n".encode())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        try:
            record = cls(**json.loads(path.read_text()))
            record.settings = _with_new_names(record.settings)
        except (ValueError, TypeError) as error:
            raise ValueError(f"'{path}' is not a record; delete it and run again.") from error
        arrays = path.with_suffix(".npz")
        if arrays.exists():
            with np.load(arrays) as stored:
                record.arrays = {name: stored[name] for name in stored.files}
        return record


def _with_new_names(settings: Any) -> Any:
    """Settings under the names they have now; older records have `edge_weight`."""
    if not isinstance(settings, dict):
        return settings
    old = re.compile(r"(?:^|(?<=__))edge_(?=weight$|gradient$)")
    return {old.sub("boundary_", key): _with_new_names(settings[key]) for key in settings}


def record_path(folder: Path, experiment: str, method: str, seed: int) -> Path:
    """The file of a record."""
    plain = re.sub(r"[^a-z0-9]+", "-", method.lower()).strip("-")
    return folder / experiment / f"{plain}-{seed}.json"


def load_records(folder: Path, experiment: Experiment) -> list[Record]:
    """All records of an experiment, with those that it shares with others."""
    records = [Record.load(path) for path in sorted((folder / experiment.name).glob("*.json"))]
    for method, (other, name) in experiment.record_of.items():
        paths = [record_path(folder, other, name, seed) for seed in experiment.seeds]
        shared = [Record.load(path) for path in paths if path.exists()]
        records += [replace(record, method=method) for record in shared]
    return records


def number_at(record: Record, path: str) -> float | None:
    """The number at "epistemic/in", or None.

    "change/epistemic/ood" is epistemic OOD / In - 1, "share/ood" the epistemic share of the total.
    """
    if path.startswith("share/"):
        region = path.removeprefix("share/")
        parts = [number_at(record, f"{part}/{region}") for part in ("epistemic", "aleatoric")]
        known = [part for part in parts if part is not None]
        return known[0] / sum(known) if len(known) == 2 else None
    if path.startswith("change/"):
        _, part, region = path.split("/")
        there, inside = (number_at(record, f"{part}/{name}") for name in (region, "in"))
        return None if there is None or inside is None else there / inside - 1
    value: Any = record.numbers
    for key in path.split("/"):
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return None if value is None else float(value)


def across_seeds(records: list[Record], method: str, path: str) -> np.ndarray:
    """The number at `path` for every seed of a method, in the order of seeds."""
    own = sorted((r for r in records if r.method == method), key=lambda record: record.seed)
    found = [number_at(record, path) for record in own]
    return np.array([value for value in found if value is not None])


def by_measure(numbers: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Numbers by measure, then by case, from numbers by case, then by measure.

    Examples
    --------
    >>> by_measure({"first": {"nll": 0.1, "ece": 0.0}, "second": {"nll": 0.2, "ece": 0.1}})
    {'nll': {'first': 0.1, 'second': 0.2}, 'ece': {'first': 0.0, 'second': 0.1}}
    """
    measures = next(iter(numbers.values()))
    return {name: {case: own[name] for case, own in numbers.items()} for name in measures}


def over_cases(by_case: dict[str, dict[str, float]]) -> tuple[dict[str, Any], Any]:
    """Means and seconds over all cases, and the numbers by measure, then by case."""
    found = by_measure(by_case)
    seconds = found.pop("seconds")
    numbers: dict[str, Any] = {
        "mean": {name: float(np.mean([*values.values()])) for name, values in found.items()},
        "fit_seconds": round(sum(seconds.values()), 1),
        "seconds": seconds,
    }
    return numbers, found


def _small(array: np.ndarray) -> np.ndarray:
    """In half precision, which is more than a figure can show; in single if that overflows."""
    if array.dtype.kind != "f":
        return array
    too_large = np.abs(array).max(initial=0) > np.finfo(np.float16).max
    return array.astype(np.float32 if too_large else np.float16)
