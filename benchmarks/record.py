"""A record of runs that grows by one entry at a time, so that an interrupted benchmark resumes."""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from bacoun.atomic import atomic_write

Record = dict[str, Any]


def resume(
    path: Path, tasks: Mapping[str, Callable[[], dict[str, Any]]], libraries: tuple[str, ...]
) -> Record:
    """Run the tasks that the record at `path` lacks, and save it after each.

    Parameters
    ----------
    path : Path
        JSON file; made if missing.
    tasks : dict
        From the name of a run to a function that returns its numbers.
    libraries : tuple of str
        Packages whose versions are recorded.

    Returns
    -------
    dict
        "command", "versions", and "runs" by name.
    """
    record: Record = {
        "command": f"python -m benchmarks {path.stem}",
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in libraries},
        "runs": {},
    }
    if path.exists():
        record = json.loads(path.read_text())
    for name, task in tasks.items():
        if name not in record["runs"]:
            print(f"measuring {name}", file=sys.stderr, flush=True)
            started = time.perf_counter()
            found = task()
            record["runs"][name] = found | {"seconds": round(time.perf_counter() - started, 1)}
            with atomic_write(path) as file:
                file.write(as_text(record).encode())
    return record


def tasks(
    measure: Callable[[str, int], dict[str, Any]], tables: Sequence[str], seeds: Sequence[int]
) -> dict[str, Callable[[], dict[str, Any]]]:
    """One task "table/seed" for each table and seed, all tables of a seed first."""
    pairs = [(table, seed) for seed in seeds for table in tables]
    return {f"{table}/{seed}": partial(measure, table, seed) for table, seed in pairs}


def as_text(record: Record) -> str:
    """The record as JSON with one line for each run, so that a new run is one new line."""
    lines = [f"{json.dumps(name)}: {json.dumps(run)}" for name, run in record["runs"].items()]
    runs = "{\n  " + ",\n  ".join(lines) + "\n }"
    parts = {name: json.dumps(value) for name, value in record.items()} | {"runs": runs}
    return "{\n " + ",\n ".join(f'"{name}": {text}' for name, text in parts.items()) + "\n}\n"


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
