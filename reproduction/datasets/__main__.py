"""`python -m reproduction.datasets`: list and download the paper's data sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bacoun.cli import main

data = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="List the paper's data sets, or download one.",
)


@data.command("list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array instead.")] = False,
) -> None:
    """Each data set: its size, what it is, and the folder it is in.

    Example: `python -m reproduction.datasets list`
    """
    from reproduction.datasets.catalog import SOURCES
    from reproduction.datasets.sources import available

    held = [(holding, SOURCES[holding.name]) for holding in available()]
    if as_json:
        rows = [
            {
                "name": holding.name,
                "about": source.about,
                "licence": source.licence,
                "bytes": holding.size,
                "folder": holding.folder and str(holding.folder),
            }
            for holding, source in held
        ]
        typer.echo(json.dumps(rows))
        return
    for holding, source in held:
        place = holding.folder or "not downloaded"
        typer.echo(f"{holding.name:<16}{holding.size / 1e6:6.1f} MB  {source.about}")
        typer.echo(f"{'':<27}{source.licence}")
        typer.echo(f"{'':<27}{place}")


def _names() -> list[str]:
    from reproduction.datasets.catalog import SOURCES

    return list(SOURCES)


@data.command()
def get(
    name: Annotated[str, typer.Argument(help="A name that `list` shows.", autocompletion=_names)],
    path: Annotated[
        Path | None, typer.Option(help="Look in this folder alone, and download nothing.")
    ] = None,
) -> None:
    """Print the folder of a data set, which is downloaded if missing.

    Example: `python -m reproduction.datasets get mnist`
    """
    from reproduction.datasets.sources import fetch

    typer.echo(str(fetch(name, path)))


if __name__ == "__main__":
    main(app=data)
