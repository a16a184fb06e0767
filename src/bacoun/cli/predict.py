"""`bacoun predict`: a table in; the same table with predictions, uncertainties, decisions out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import pandas as pd

    from bacoun.tabular import Survey, TableModel


def predict(
    model: Annotated[Path, typer.Argument(help="Folder that bacoun fit wrote.")],
    new: Annotated[Path, typer.Argument(help="Table to score: .csv, .tsv or .parquet.")],
    out: Annotated[
        Path | None, typer.Option(help="File to write, of the same kind as the table.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object for each row; null is infinite.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
) -> None:
    """Score a table of any size: add predictions, uncertainties and decisions.

    The columns may be in any order, and the target may be there or not; other columns are kept and
    not used. A row with a category that training did not have is unfamiliar. The file is written
    whole or not at all.

    Example: `bacoun predict model new.csv --out scored.csv`
    """
    from bacoun.tabular import survey_table, write_table

    _check_out(out, new, as_json, overwrite)
    survey = survey_table(new)

    from bacoun.tabular import TableModel

    fitted = TableModel.load(model)
    _check_names(fitted, survey, new)
    if out is None:
        _print_scores(fitted, new, survey)
    else:
        with (
            write_table(out, survey.delimiter or ",") as write,
            ThreadPoolExecutor(max_workers=1) as writer,  # writes a piece while the next is scored
        ):
            written = writer.submit(lambda: None)
            for frame in _pieces(new, survey):
                scored = frame.join(fitted.score(frame))
                written.result()
                written = writer.submit(write, scored)
            written.result()
    unused = [name for name in fitted.encoder.extra(survey.columns) if name != fitted.target]
    if unused:
        from bacoun.tabular.reading import listed

        typer.echo(f"bacoun: note: the model does not use {listed(unused)}.", err=True)


def _check_out(out: Path | None, new: Path, as_json: bool, overwrite: bool) -> None:
    """Refuse a place that the scores could not be written to, before the work and not after it."""
    from bacoun.tabular.reading import check_suffix, is_parquet

    if (out is None) != as_json:
        raise ValueError("give either --out FILE or --json; got both or none.")
    if out is None:
        return
    check_suffix(out, "--out")
    if is_parquet(out) and not is_parquet(new):
        raise ValueError(
            f"--out must be a text table as '{new}' is; got '{out}'. Name it .csv, or convert the "
            "table to Parquet first."
        )
    if out.exists() and (not overwrite or not out.is_file() or out.samefile(new)):
        raise FileExistsError(
            f"--out must not exist yet; '{out}' does. Choose another, or pass --overwrite to "
            "replace a file other than the table itself."
        )
    if not out.absolute().parent.is_dir():
        raise FileNotFoundError(
            f"--out must be in a folder that exists; '{out.parent}' does not. Make it first."
        )


def _check_names(model: TableModel, survey: Survey, new: Path) -> None:
    from bacoun.tabular.reading import listed

    taken = [name for name in model.added_columns if name in survey.columns]
    if taken:
        raise ValueError(
            f"columns are to be added that '{new}' has already: {listed(taken)}. Rename or drop "
            "them first."
        )


def _print_scores(model: TableModel, new: Path, survey: Survey) -> None:
    for frame in _pieces(new, survey):
        whole = model.encoder.typed(frame).join(model.score(frame))
        for row in whole.astype(object).to_dict(orient="records"):
            plain = {name: _plain(value) for name, value in row.items()}
            typer.echo(json.dumps(plain, default=str))


def _plain(value: object) -> object:
    """The value; None in place of NaN and infinite numbers, which JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _pieces(new: Path, survey: Survey) -> Iterator[pd.DataFrame]:
    """The table a piece at a time, with a bar on a terminal that tells how far it is."""
    from bacoun.tabular import stream_table

    with _bar(survey.n_rows) as advance:
        for frame in stream_table(new, survey=survey):
            yield frame
            advance(len(frame))


@contextmanager
def _bar(n_rows: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    console = Console(stderr=True)
    columns = (TextColumn("rows"), BarColumn(), MofNCompleteColumn(), TimeLeft())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("rows", total=n_rows)
        yield lambda done: progress.advance(task, done)
