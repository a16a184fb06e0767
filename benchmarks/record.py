"""Records of benchmarks, and the tables that are made of them."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from bacoun.comparison import record
from bacoun.comparison.record import Record


def resume(
    path: Path, tasks: Mapping[str, Callable[[], dict[str, Any]]], libraries: tuple[str, ...]
) -> Record:
    """Run the tasks that the record at `path` lacks; a new one names the versions of libraries."""
    versions = {name: version(name) for name in libraries}
    facts = {
        "command": f"python -m benchmarks {path.stem}",
        "versions": {"python": platform.python_version()} | versions,
    }
    return record.resume(path, tasks, facts, on_run=_say)


def _say(name: str, done: int, planned: int) -> None:
    print(f"measuring {name} ({done} of {planned} done)", file=sys.stderr, flush=True)


def tasks(
    measure: Callable[[str, int], dict[str, Any]], tables: Sequence[str], seeds: Sequence[int]
) -> dict[str, Callable[[], dict[str, Any]]]:
    """One task "table/seed" for each table and seed, all tables of a seed first."""
    pairs = [(table, seed) for seed in seeds for table in tables]
    return {f"{table}/{seed}": partial(measure, table, seed) for table, seed in pairs}


def seeds_in(runs: Iterable[str]) -> str:
    """How many seeds there are among runs named "case/seed/method", in words."""
    n_seeds = len({name.split("/")[1] for name in runs})
    return "one seed" if n_seeds == 1 else f"{n_seeds} seeds"


def mean_of(values: list[float | None]) -> float | None:
    """Mean of the values that are not None; None if all are."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def in_percent(share: float | None) -> str:
    """A share as text, a dash if there is none."""
    if share is None:
        return "-"
    return f"{100 * share:.1f}" if 0.985 < share < 1 else f"{100 * share:.0f}"


def rich_table(title: str, header: list[str], rows: list[list[str]]) -> Table:
    """Rows of text as a table for the terminal, the first column aligned to the left."""
    table = Table(title=title)
    for place, name in enumerate(header):
        table.add_column(name, justify="right" if place else "left")
    for row in rows:
        table.add_row(*row)
    return table


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """Rows of text as a Markdown table, the first column aligned to the left."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])
