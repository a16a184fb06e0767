"""Tables of an experiment, in the terminal and as Markdown: ours, with the published numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.table import Table

from bacoun.experiments import Experiment, Record
from bacoun.experiments.results import across_seeds

_NOTE = "Mean ± standard deviation over {seeds}; in brackets what the paper printed. Nats."


def note(experiment: Experiment) -> str:
    """What the numbers of a table are."""
    seeds = experiment.seeds
    return _NOTE.format(seeds=f"{len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]} alone")


def rows(experiment: Experiment, records: list[Record]) -> Iterator[list[str]]:
    """The method and its cells, method by method."""
    for method in experiment.methods:
        if any(record.method == method for record in records):
            yield [method, *(cell(experiment, records, method, c) for c in experiment.columns)]


def cell(experiment: Experiment, records: list[Record], method: str, column: str) -> str:
    """Mean ± spread over seeds, and the published number."""
    values = across_seeds(records, method, column)
    text = spread(values)
    published = _published(experiment, method, column)
    return text if published is None else f"{text} ({number(published)})"


def spread(values: np.ndarray) -> str:
    """Mean ± standard deviation; a single value stands alone."""
    if len(values) == 0:
        return "-"
    text = number(float(values.mean()))
    return text if len(values) == 1 else f"{text} ± {number(float(values.std(ddof=1)))}"


def number(value: float) -> str:
    """Three significant places near 1, powers of ten when tiny.

    Examples
    --------
    >>> number(0.9512), number(8.7e-4), number(0.0), number(123.4)
    ('0.951', '8.7e-04', '0', '123')
    """
    if value == 0:
        return "0"
    if abs(value) < 0.002:
        return f"{value:.1e}"
    if abs(value) < 0.1:
        return f"{value:.4f}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.0f}"


def _published(experiment: Experiment, method: str, column: str) -> float | None:
    value: Any = experiment.published.get(method)
    for key in column.split("/"):
        value = value.get(key) if isinstance(value, dict) else None
    return None if value is None else float(value)


def _heading(column: str) -> str:
    return column.replace("/", " ").replace("_", " ")


def terminal_table(experiment: Experiment, records: list[Record]) -> Table:
    """For rich to print."""
    table = Table(title=experiment.title, caption=note(experiment))
    table.add_column("method")
    for column in experiment.columns:
        table.add_column(_heading(column), justify="right")
    for row in rows(experiment, records):
        table.add_row(*row)
    return table


def markdown_table(experiment: Experiment, records: list[Record]) -> str:
    """For the docs."""
    head = ["method", *map(_heading, experiment.columns)]
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows(experiment, records)]
    return "\n".join([*lines, "", note(experiment), ""])
