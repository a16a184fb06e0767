"""`bacoun check`: what is different about a table, before it is scored."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option


def check(
    model: Annotated[Path, Argument(help="Folder that bacoun fit wrote.")],
    new: Annotated[
        Path, Argument(help="Table to check: .csv, .tsv or .parquet, or a folder of photos.")
    ],
    as_json: Annotated[bool, Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what is different about a table before it is scored: columns, units, gaps, categories.

    The first rows, up to 100,000 or two million cells, are compared with the training table. The
    exit code is 1 if something is serious, so that scores of many rows would mean nothing;
    otherwise 0.

    Example: `bacoun check model new.csv`
    """
    from bacoun.columns.photo_files import folder_of
    from bacoun.tabular import TableModel, stream_table, survey_table

    survey = survey_table(new)
    fitted = TableModel.load(model).with_photos_in(folder_of(new))
    frame = next(stream_table(new, survey=survey))
    findings = fitted.check(frame)
    checked = {"rows": survey.n_rows, "checked_rows": len(frame)}
    if as_json:
        typer.echo(json.dumps(checked | {"findings": [asdict(each) for each in findings]}))
    else:
        width = max((len(each.kind) for each in findings), default=0) + 2
        for severity, title in (("serious", "serious"), ("note", "notes")):
            group = [each for each in findings if each.severity == severity]
            lines = [f"  {each.kind:<{width}}{each.message}" for each in group]  # kinds aligned
            typer.echo("".join(f"{line}\n" for line in [title, *lines] if group), nl=False)
        if not findings:
            known = f"all {len(fitted.columns)} columns as in training"
            typer.echo(f"nothing different: {len(frame):,} rows, {known}")
        if len(frame) < survey.n_rows:
            typer.echo(f"checked the first {len(frame):,} of {survey.n_rows:,} rows")
    if any(each.severity == "serious" for each in findings):
        raise typer.Exit(1)
