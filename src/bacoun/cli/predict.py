"""`bacoun predict`: add predictions, uncertainties and decisions to a table."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bacoun.cli.output import check_out

if TYPE_CHECKING:
    import pandas as pd

    from bacoun.tabular import Survey, TableModel


def predict(
    model: Annotated[Path, typer.Argument(help="Folder that bacoun fit wrote.")],
    new: Annotated[Path, typer.Argument(help="Table to score: .csv, .tsv or .parquet.")],
    out: Annotated[
        Path | None, typer.Option(help="File to write, in the same format as the table.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object for each row; null is infinite.")
    ] = False,
    because: Annotated[
        bool,
        typer.Option(help="Say in words why a row is deferred; takes milliseconds for each."),
    ] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
) -> None:
    """Score a table of any size: add predictions, uncertainties and decisions.

    The columns may be in any order, with or without the target; other columns are copied and not
    used. A row with a category that was not seen in training is unfamiliar. What is different about
    the table as a whole is said in up to three lines; `bacoun check` says more. The file is written
    atomically.

    Example: `bacoun predict model new.csv --out scored.csv`
    """
    from bacoun.tabular import survey_table
    from bacoun.tabular.reading import listed

    _check_options(out, new, as_json, overwrite)
    survey = survey_table(new)

    from bacoun.tabular import TableModel

    fitted = TableModel.load(model)
    taken = [name for name in fitted.added_columns if name in survey.columns]
    if taken:
        raise ValueError(
            f"'{new}' already has columns that would be added: {listed(taken)}. Rename or drop "
            "them first."
        )
    chunks = _checked(fitted, _chunks(new, survey))
    if out is None:
        _print_scores(fitted, chunks, because)
    else:
        _write_scores(fitted, chunks, because, out, survey.delimiter or ",")


def _checked(model: TableModel, chunks: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The chunks; after the last one, says what is different about the first."""
    from bacoun.tabular.checks import check_table, summary

    first = next(chunks)
    yield first
    yield from chunks
    for line in summary(check_table(model.profile, first, model.target)):
        typer.echo(f"bacoun: {line}", err=True)


def _check_options(out: Path | None, new: Path, as_json: bool, overwrite: bool) -> None:
    from bacoun.tabular.reading import check_suffix, is_parquet

    if (out is None) != as_json:
        raise ValueError("give either --out FILE or --json; got both or none.")
    if out is None:
        return
    check_suffix(out, "--out")
    if is_parquet(out) and not is_parquet(new):
        raise ValueError(
            f"--out must be a text table like '{new}'; got '{out}'. Name it .csv, or convert the "
            "table to Parquet first."
        )
    check_out(out, overwrite)
    if out.exists() and out.samefile(new):
        raise FileExistsError(f"--out must not be the table itself; got '{out}'. Choose another.")
    if not out.absolute().parent.is_dir():
        raise FileNotFoundError(
            f"--out must be in a folder that exists; '{out.parent}' does not. Make it first."
        )


def _write_scores(
    model: TableModel, chunks: Iterator[pd.DataFrame], because: bool, out: Path, delimiter: str
) -> None:
    from bacoun.tabular import write_table

    # One thread writes a chunk while the next one is scored.
    with write_table(out, delimiter) as write, ThreadPoolExecutor(max_workers=1) as writer:
        written = writer.submit(lambda: None)
        for frame in chunks:
            scored = frame.join(model.score(frame, because))
            written.result()
            written = writer.submit(write, scored)
        written.result()


def _print_scores(model: TableModel, chunks: Iterator[pd.DataFrame], because: bool) -> None:
    for frame in chunks:
        scored = model.encoder.typed(frame).join(model.score(frame, because))
        for row in scored.astype(object).to_dict(orient="records"):
            plain = {name: _finite_or_none(value) for name, value in row.items()}
            typer.echo(json.dumps(plain, default=str))


def _finite_or_none(value: object) -> object:
    """JSON has neither NaN nor infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _chunks(new: Path, survey: Survey) -> Iterator[pd.DataFrame]:
    """The table in chunks, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from bacoun.tabular import stream_table

    console = Console(stderr=True)
    columns = ("rows", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("rows", total=survey.n_rows)
        for frame in stream_table(new, survey=survey):
            yield frame
            progress.advance(task, len(frame))
