"""An experiment is a TOML file: what to fit, on which data, how often, and what was published.

title, study, seeds      what is measured, and how often
[dataset]                kind and settings of a data set
[options]                settings of the study
[methods.NAME]           kind, preset and settings of a classifier
[published.NAME]         the paper's numbers, printed beside ours
columns                  which numbers the table shows
[quick]                  merged on top of all that for a run of seconds
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from importlib.resources import files
from typing import Any

Table = dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """One of the paper's tables or figures, or one of its claims, as settings."""

    name: str
    title: str
    study: str
    seeds: list[int]
    dataset: Table
    methods: dict[str, Table]
    options: Table
    published: dict[str, Table]
    columns: list[str]
    quick: bool


_GIVEN = {field.name for field in fields(Experiment)} - {"name"}


def names() -> list[str]:
    """The experiments there are, in the order of the paper."""
    folder = files("reproduction") / "experiments"
    found = {item.name.removesuffix(".toml") for item in folder.iterdir()}
    return [name for name in _ORDER if name in found]


_ORDER = (
    "pathology",
    "gmm",
    "moons",
    "wine",
    "outliers",
    "architectures",
    "width",
    "attack",
    "halo",
    "left-out-choice",
    "left-out",
    "log-loss",
    "choice",
    "shifts",
    "mnist",
    "mnist-full",
    "mnist-paper",
    "mnist-examples",
    "mnist-rotations",
    "mnist-noise",
    "mnist-morph",
)


def read_experiment(name: str, *, quick: bool = False, n_seeds: int | None = None) -> Experiment:
    """The named experiment; `quick` merges its overlay, `n_seeds` takes seeds 0, 1, ..."""
    if name not in names():
        raise ValueError(f"the experiment must be one of {', '.join(names())}; got {name!r}.")
    text = (files("reproduction") / "experiments" / f"{name}.toml").read_text()
    return parse_experiment(name, text, quick=quick, n_seeds=n_seeds)


def parse_experiment(
    name: str, text: str, *, quick: bool = False, n_seeds: int | None = None
) -> Experiment:
    """An experiment from the text of its file; a ValueError names any key that is not known."""
    table = tomllib.loads(text)
    overlay = table.pop("quick", {})
    if quick:
        table = merged(table, overlay)
    unknown = sorted({*table, *overlay} - _GIVEN)
    if unknown:
        raise ValueError(
            f"{name}.toml may hold {', '.join(sorted(_GIVEN))}; it also holds {', '.join(unknown)}."
        )
    missing = sorted({"title", "study", "seeds", "dataset", "methods", "columns"} - set(table))
    if missing:
        raise ValueError(f"{name}.toml must hold {', '.join(missing)}; it does not.")
    astray = sorted(set(table.get("published", {})) - set(table["methods"]))
    if astray:
        raise ValueError(f"{name}.toml publishes numbers of {', '.join(astray)}, no method of it.")
    if n_seeds is not None:
        if n_seeds < 1:
            raise ValueError(f"the number of seeds must be at least 1; got {n_seeds}.")
        table["seeds"] = list(range(n_seeds))
    return Experiment(
        **({"name": name, "options": {}, "published": {}} | table),
        quick=quick,
    )


def missing_files(experiment: Experiment) -> list[str]:
    """Data sets the experiment needs that are not on this machine yet."""
    if experiment.dataset["kind"] not in ("mnist", "development-images", "tables"):
        return []  # the others are drawn, or come with the package
    from reproduction.datasets.images import (
        OTHERS,  # brings torch along, which --help does not need
    )
    from reproduction.datasets.sources import SOURCES, locate
    from reproduction.datasets.tables import source_of

    if experiment.dataset["kind"] == "mnist":
        needed = ["mnist", *experiment.dataset.get("others", OTHERS)]
    elif experiment.dataset["kind"] == "tables":
        tables = [*experiment.dataset.get("left_out", []), *experiment.dataset.get("tables", [])]
        needed = sorted({source for name in tables if (source := source_of(name))})
    else:
        needed = [name for name in experiment.dataset["sets"] if name in SOURCES]
    return [name for name in needed if locate(name) is None]


def merged(below: Table, above: Table) -> Table:
    """Two nested tables in one; where both have a value, the one `above` counts."""
    result = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result
