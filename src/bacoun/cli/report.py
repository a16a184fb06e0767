"""`bacoun report`: one HTML page about a model and its predictions on a table."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from bacoun.cli.output import check_page


def report(
    model: Annotated[Path, Argument(help="Folder that bacoun fit wrote.")],
    test: Annotated[
        Path, Argument(help="Test table: .csv, .tsv or .parquet, or a folder of photos.")
    ],
    out: Annotated[Path, Option(help="Page to write; ends in .html.")],
    target: Annotated[
        str | None, Option(help="Column with the labels; default: the model's target.")
    ] = None,
    ood: Annotated[
        Path | None, Option(help="Table of out-of-distribution rows, which should be deferred.")
    ] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the page.")] = False,
) -> None:
    """Write a page about a model: its health, errors, uncertainty and decisions on a table.

    The page is one file that works offline and can be printed. Without labels, the parts that need
    them are left out, and the page says so.

    Example: `bacoun report model test.csv --out report.html`
    """
    from bacoun.columns.photo_files import folder_of
    from bacoun.report.data import report_data
    from bacoun.report.page import write_page
    from bacoun.tabular import TableModel, read_table

    check_page(out, overwrite)
    names = {"model": model.resolve().name, "test": test.name}
    fitted = TableModel.load(model)
    frame, outside = fitted.with_photos_in(folder_of(test)).located(read_table(test)), None
    if ood is not None:
        names["ood"] = ood.name
        outside = fitted.with_photos_in(folder_of(ood)).located(read_table(ood))
    data = report_data(fitted, frame, outside, target=target, names=names)
    write_page(data, out, overwrite=overwrite)
    accepted = int((data.test.reason == "").sum())
    typer.echo(f"wrote {out}: {len(frame):,} rows, {accepted:,} accepted")
