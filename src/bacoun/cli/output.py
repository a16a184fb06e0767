"""Check the output path of a command before it does any work; show progress while it does."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer


def say(message: str) -> None:
    """Say something beside the answer, on stderr."""
    typer.echo(f"bacoun: {message}", err=True)


def check_page(out: Path, overwrite: bool) -> None:
    """Refuse a page that cannot be written to `out`."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--out must end in .html; got '{out}'. Rename it.")
    check_out(out, overwrite)


def check_out(out: Path, overwrite: bool, *, is_model: bool = False) -> None:
    """Refuse a file, or the folder of a model, that cannot be written to `out`."""
    if out.exists() and not overwrite:
        raise FileExistsError(
            f"--out must not exist yet; '{out}' does. Choose another, or pass --overwrite."
        )
    if out.exists() and not (out / "model.json" if is_model else out).is_file():
        kind = "saved model" if is_model else "file"
        raise FileExistsError(
            f"--overwrite replaces a {kind}; '{out}' is something else. Choose another."
        )
    parent = next(folder for folder in out.absolute().parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise PermissionError(
            f"--out must be in a folder that can be written to; '{parent}' cannot. Choose another."
        )


@contextmanager
def row_progress(n_rows: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, if that is a terminal; yields a function that adds rows to it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = ("rows", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("rows", total=n_rows)
        yield lambda more: progress.advance(task, more)
