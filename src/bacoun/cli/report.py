"""`bacoun report`: one page on what a model knows, and does not know, of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    model: Annotated[Path, typer.Argument(help="Folder that bacoun fit wrote.")],
    test: Annotated[Path, typer.Argument(help="Table to report on: .csv, .tsv or .parquet.")],
    out: Annotated[Path, typer.Option(help="Page to write; ends in .html.")],
    target: Annotated[
        str | None, typer.Option(help="Column that holds the labels; else the model's own.")
    ] = None,
    ood: Annotated[
        Path | None, typer.Option(help="Table of rows from elsewhere, which should be deferred.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the page.")] = False,
) -> None:
    """Write a page about a model: its health, mistakes, doubts and decisions on a table.

    The page is one file that needs no network, for the screen and for paper. Without labels it
    leaves out what needs them, and says so.

    Example: `bacoun report model test.csv --out report.html`
    """
    from bacoun.tabular import TableModel, read_table
    from bacoun.tabular.report.data import report_data
    from bacoun.tabular.report.page import check_free, write_page

    if out.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--out must end in .html; got '{out}'. Rename it.")
    check_free(out, overwrite=overwrite)
    names = {"model": model.resolve().name, "test": test.name}
    frame = read_table(test)
    elsewhere = None
    if ood is not None:
        elsewhere, names["ood"] = read_table(ood), ood.name
    fitted = TableModel.load(model)
    data = report_data(fitted, frame, elsewhere, target=target, names=names)
    write_page(data, out, overwrite=overwrite)
    accepted = int((data.test.reason == "").sum())
    typer.echo(f"wrote {out}: {len(frame):,} rows, {accepted:,} accepted")
