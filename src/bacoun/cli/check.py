"""`bacoun check`: what is different about a table, before it is scored."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

if TYPE_CHECKING:
    from bacoun.columns.checks.findings import Finding


def check(
    model: Annotated[Path, Argument(help="Folder that bacoun fit wrote.")],
    new: Annotated[Path, Argument(help="Table to check: .csv, .tsv or .parquet.")],
    as_json: Annotated[bool, Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what is different about a table before it is scored: columns, units, gaps, categories.

    The first rows, up to 100,000 or two million cells, are compared with the training table. The
    exit code is 1 if something is serious, so that scores of many rows would mean nothing;
    otherwise 0.

    Example: `bacoun check model new.csv`
    """
    from bacoun.tabular import TableModel, stream_table, survey_table

    survey = survey_table(new)
    fitted = TableModel.load(model)
    frame = next(stream_table(new, survey=survey))
    findings = fitted.check(frame)
    checked = {"rows": survey.n_rows, "checked_rows": len(frame)}
    if as_json:
        typer.echo(json.dumps(checked | {"findings": [asdict(each) for each in findings]}))
    else:
        typer.echo("\n".join(_lines(findings, len(frame), len(fitted.columns))))
        if len(frame) < survey.n_rows:
            typer.echo(f"checked the first {len(frame):,} of {survey.n_rows:,} rows")
    if any(each.severity == "serious" for each in findings):
        raise typer.Exit(1)


def _lines(findings: list[Finding], n_rows: int, n_columns: int) -> list[str]:
    """The findings by severity, their kinds aligned."""
    if not findings:
        return [f"nothing different: {n_rows:,} rows, all {n_columns} columns as in training"]
    width = max(len(each.kind) for each in findings) + 2
    lines = []
    for severity, title in (("serious", "serious"), ("note", "notes")):
        group = [each for each in findings if each.severity == severity]
        if group:
            lines += [title, *(f"  {each.kind:<{width}}{each.message}" for each in group)]
    return lines
