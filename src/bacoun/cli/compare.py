"""`bacoun compare`: which method is best on a table, and what it costs."""

import json
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from bacoun.cli.output import check_page, say

if TYPE_CHECKING:
    import pandas as pd

    from bacoun.comparison.summary import Summary

_SHOWN_SHIFTS = 40


def compare(
    table: Annotated[Path, Argument(help="Table with labels: .csv, .tsv or .parquet.")],
    target: Annotated[str, Option(help="Column with the labels.")],
    out: Annotated[
        Path | None, Option(help="Page to write; ends in .html. Default: TABLE.compare.html.")
    ] = None,
    methods: Annotated[
        str | None,
        Option(help="Methods with commas between them, or 'all'. Default: the quick ones."),
    ] = None,
    time: Annotated[
        str | None,
        Option(help="Column of dates or numbers; the latest 30 % of the rows are a shift."),
    ] = None,
    group: Annotated[
        str | None, Option(help="Column of groups, such as hospitals; each in turn is a shift.")
    ] = None,
    seeds: Annotated[int, Option(min=1, help="Number of random splits.")] = 1,
    max_rows: Annotated[int, Option(min=50, help="Training rows, at most.")] = 2000,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace the page, and start over.")
    ] = False,
    as_json: Annotated[bool, Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Compare bacoun with other methods on your own table, without tuning.

    Rows that training lacks are made from the table: a class, a group or the latest rows left out,
    and synthetic shifts. All methods learn from the same rows. The runs are saved beside the page,
    so that the same command resumes after an interruption. A method that fails is named and
    skipped; one whose package is not installed is skipped, too.

    Example: `bacoun compare patients.csv --target diagnosis --group hospital`
    """
    from bacoun.tabular import read_table

    page = out or table.with_name(f"{table.stem}.compare.html")
    check_page(page, overwrite)
    frame = read_table(table)

    from bacoun.columns.frames import table_checksum
    from bacoun.columns.photo_files import folder_of
    from bacoun.comparison.methods import METHODS
    from bacoun.comparison.page import write_page
    from bacoun.comparison.record import resume
    from bacoun.comparison.summary import Summary
    from bacoun.tabular.labels import read_labels

    frame = frame.assign(**{target: read_labels(frame, target)})
    names = _chosen(methods)
    columns = {"target": target, "time": time, "group": group}
    facts = {"table": table_checksum(frame), **columns, "max_rows": max_rows}
    runs = page.with_suffix(".json")
    installed = [name for name in names if METHODS[name].is_installed]
    options = columns | {"max_train": max_rows, "photo_folder": folder_of(table)}
    tasks = _tasks(frame, range(seeds), installed, **options)
    if overwrite:
        runs.unlink(missing_ok=True)
    _check_same(runs, facts)
    for name in names:
        if not METHODS[name].is_installed:
            say(f"note: {name} needs {METHODS[name].package}, which is not installed.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rivals warn about their own convergence
        record = resume(runs, tasks, facts, on_run=_progress, catch=True)
    wanted = {name: run for name, run in record["runs"].items() if name in tasks}
    summary = Summary.of({**record, "runs": wanted})
    if sys.stderr.isatty():
        typer.echo("\r\033[K", err=True, nl=False)
    write_page(summary, {"table": table.name, "target": target}, page)
    if not as_json:
        _show(summary, page)
        return
    content = {
        "page": str(page),
        "methods": summary.methods.round(4).to_dict(orient="index"),
        "shifts": {f"{case}: {shift}": values for case, shift, values in summary.rows()},
        "verdict": summary.verdict,
        "failed": summary.failed,
    }
    typer.echo(json.dumps(content))


def _chosen(methods: str | None) -> list[str]:
    from bacoun.comparison.methods import METHODS, QUICK_METHODS

    if methods is None:
        return list(QUICK_METHODS)
    names = list(METHODS) if methods == "all" else [name.strip() for name in methods.split(",")]
    unknown = [name for name in names if name not in METHODS]
    if unknown:
        raise ValueError(
            f"--methods must be of {', '.join(METHODS)}; got {', '.join(unknown)}. Check the names."
        )
    return names


def _check_same(runs: Path, facts: dict[str, Any]) -> None:
    """Refuse to go on with runs of another table or other options."""
    if not runs.exists():
        return
    try:
        before = json.loads(runs.read_text())
    except ValueError as error:
        raise ValueError(
            f"'{runs}' must hold runs of bacoun compare; it is not readable. Delete it."
        ) from error
    changed = [name for name in facts if before.get(name) != facts[name]]
    if changed:
        raise ValueError(
            f"'{runs}' holds runs with another {' and '.join(changed)}. Choose another --out, or "
            "pass --overwrite."
        )
    say(f"resuming from '{runs}'.")


def _tasks(
    frame: "pd.DataFrame", seeds: range, names: list[str], **options: Any
) -> dict[str, Callable[[], dict[str, Any]]]:
    """Every run by its name, "case/seed/method"; a case is made once for all its methods."""
    from bacoun.comparison.cases import cases_of
    from bacoun.comparison.run import DIFFICULTY, measure, measure_difficulty

    tasks: dict[str, Callable[[], dict[str, Any]]] = {}
    for seed in seeds:
        for case, make in cases_of(frame, seed=seed, **options):
            key, made = f"{case.replace('/', '-')}/{seed}", lru_cache(maxsize=1)(make)
            tasks[f"{key}/{DIFFICULTY}"] = partial(_run, made, measure_difficulty, seed)
            tasks |= {f"{key}/{name}": partial(_run, made, measure, name, seed) for name in names}
    return tasks


def _run(made: Callable[[], Any], measure: Callable[..., dict[str, Any]], *rest: Any) -> Any:
    return measure(made(), *rest)


def _progress(name: str, done: int, planned: int) -> None:
    if sys.stderr.isatty():
        typer.echo(f"\r\033[K{done} of {planned} runs done, now {name}", err=True, nl=False)


def _show(summary: "Summary", page: Path) -> None:
    """Two tables and the verdict, on the terminal."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    shown = Table(title="Methods by mean rank of AUROC over shifts")
    heads = ("rank", "auroc", "aurc", "accuracy", "log loss", "ece", "fit seconds")
    shown.add_column("method")
    for head in heads:
        shown.add_column(head.replace("seconds", "s"), justify="right")
    for name, row in summary.methods.iterrows():
        digits = {"rank": 2, "fit seconds": 1}
        shown.add_row(str(name), *(f"{row[head]:.{digits.get(head, 3)}f}" for head in heads))
    console.print(shown)
    by_shift = Table(title="AUROC by shift")
    reference = summary.rankings["AUROC"].reference
    for place, head in enumerate(("shift", reference, "best of the others", "")):
        by_shift.add_column(head, justify="right" if place in (1, 2) else "left")
    for _, shift, values in list(summary.rows())[:_SHOWN_SHIFTS]:
        ours = values.pop(reference)
        if values:
            best = max(values, key=lambda name: values[name])
            by_shift.add_row(shift, f"{ours:.3f}", f"{values[best]:.3f}", best)
    console.print(by_shift)
    failed = [f"failed: {run}: {message}" for run, message in summary.failed.items()]
    for line in [*summary.verdict, *failed, f"wrote {page}"]:
        console.print(line, highlight=False, markup=False)
