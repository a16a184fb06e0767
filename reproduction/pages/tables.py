"""Tables of an experiment, in the terminal and as Markdown: ours, with the published numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from reproduction.pages.names import SETS
from reproduction.results import Record, across_seeds
from reproduction.schema import Experiment
from rich.table import Table

from bacoun import __version__

_NOTE = "Mean ± standard deviation over {seeds}; in brackets what the paper printed. Nats."
_SCORES = {"epistemic": "epistemic", "total": "total", "p_ood": "p(OOD)", "rarity": "- log density"}
_MEASURES = ("auroc", "aupr", "fpr_at_tpr")


def note(experiment: Experiment, records: list[Record]) -> str:
    """What the numbers of a table are, and which of them an earlier version measured."""
    text = _NOTE.format(seeds=_seeds(experiment, records))
    older: dict[str, list[str]] = {}
    for method in experiment.methods:
        made_by = {str(r.versions.get("bacoun")) for r in records if r.method == method}
        for version in sorted(made_by - {__version__}):
            older.setdefault(version, []).append(method)
    each = [f" Measured with bacoun {v}: {', '.join(names)}." for v, names in older.items()]
    return text + "".join(each) + _warned(experiment, records)


def _seeds(experiment: Experiment, records: list[Record]) -> str:
    """How many seeds the methods were run with, in words."""
    counts = Counter(record.method for record in records if record.method in experiment.methods)
    fewest, most = min(counts.values(), default=0), max(counts.values(), default=0)
    if most <= 1:
        return "a single seed"
    return f"{most} seeds" if fewest == most else f"{fewest} to {most} seeds"


def _warned(experiment: Experiment, records: list[Record]) -> str:
    """Which methods were said not to have converged, in how many seeds, and the first warning."""
    told = []
    for method in experiment.methods:
        own = [record for record in records if record.method == method]
        warned = [record.numbers["warnings"][0] for record in own if "warnings" in record.numbers]
        if warned:
            told.append(f"{method} in {len(warned)} of {len(own)} seeds ({warned[0].rstrip('.')})")
    return f" Not converged: {'; '.join(told)}." if told else ""


def rows(experiment: Experiment, records: list[Record]) -> Iterator[list[str]]:
    """The method and its cells, method by method."""
    for method in experiment.methods:
        if any(record.method == method for record in records):
            yield [method, *(cell(experiment, records, method, c) for c in experiment.columns)]


def cell(experiment: Experiment, records: list[Record], method: str, column: str) -> str:
    """Mean ± spread over seeds, and the published number."""
    values = across_seeds(records, method, column)
    text = spread(values)
    published = published_number(experiment, method, column)
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
    if abs(value) < 1e-14:  # rounding errors of a spread
        return "0"
    if abs(value) < 0.002:
        return f"{value:.1e}"
    if abs(value) < 0.1:
        return f"{value:.4f}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.0f}"


def published_number(experiment: Experiment, method: str, column: str) -> float | None:
    """What the paper printed, or None."""
    value: Any = experiment.published.get(method)
    for key in column.split("/"):
        value = value.get(key) if isinstance(value, dict) else None
    return None if value is None else float(value)


def heading(column: str) -> str:
    """The path of a number as the heading of a column."""
    return column.replace("/", " ").replace("_", " ")


def terminal_table(experiment: Experiment, records: list[Record]) -> Table:
    """For rich to print."""
    table = Table(title=experiment.title, caption=note(experiment, records))
    table.add_column("method")
    for column in experiment.columns:
        table.add_column(heading(column), justify="right")
    for row in rows(experiment, records):
        table.add_row(*row)
    return table


def markdown_table(experiment: Experiment, records: list[Record]) -> str:
    """For the docs; of sets of images, also every set and every score."""
    tables = [_of_columns(experiment, records)]
    if experiment.further_columns:
        columns = {"columns": experiment.further_columns}
        tables.append(_of_columns(experiment.model_copy(update=columns), records))
    text = "\n\n".join([*tables, note(experiment, records), ""]).rstrip("\n") + "\n"
    return text if experiment.study != "images" else f"{text}\n{_image_tables(experiment, records)}"


def _of_columns(experiment: Experiment, records: list[Record]) -> str:
    head = ["method", *map(heading, experiment.columns)]
    return "\n".join(lines(head, rows(experiment, records), 1))


def _image_tables(experiment: Experiment, records: list[Record]) -> str:
    """Uncertainty of each set, and how well each score tells it from the test images."""
    methods = [m for m in experiment.methods if any(r.method == m for r in records)]
    sets = [name for name in SETS if _values(records, methods, f"epistemic/{name}")]
    outside = [name for name in sets if name != "in"]
    means = (
        [method, part, *(_mean_and_sd(records, method, part, name) for name in sets)]
        for method in methods
        for part in ("epistemic", "aleatoric")
    )
    told = (
        [method, label, *(_separation(records, method, score, name) for name in outside)]
        for method in methods
        for score, label in _SCORES.items()
        if _values(records, [method], f"auroc/{score}/{outside[0]}")
    )
    return "\n".join(
        [
            "Uncertainty in nats, mean ± standard deviation over the images of a set:",
            "",
            *lines(["method", "part", *(SETS[name] for name in sets)], means, 2),
            "",
            "How well a score tells a set from the test images, as AUROC / AUPR / FPR95:",
            "",
            *lines(["method", "score", *(SETS[name] for name in outside)], told, 2),
            "",
        ]
    )


def _values(records: list[Record], methods: list[str], path: str) -> bool:
    return any(len(across_seeds(records, method, path)) > 0 for method in methods)


def _mean_and_sd(records: list[Record], method: str, part: str, name: str) -> str:
    mean, sd = (across_seeds(records, method, f"{p}/{name}").mean() for p in (part, f"sd/{part}"))
    return f"{number(mean)} ± {number(sd)}"


def _separation(records: list[Record], method: str, score: str, name: str) -> str:
    return " / ".join(
        f"{across_seeds(records, method, f'{measure}/{score}/{name}').mean():.3f}"
        for measure in _MEASURES
    )


def lines(head: list[str], body: Iterable[list[str]], n_labels: int) -> list[str]:
    """A table whose first columns are labels, the others numbers."""
    rule = f"|{'---|' * n_labels}{'---:|' * (len(head) - n_labels)}"
    return [f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(row)} |" for row in body)]
