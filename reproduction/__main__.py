"""`python -m reproduction NAME`: run the paper's experiments and show their results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from joblib import cpu_count
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bacoun.cli import main
from reproduction import (
    Experiment,
    Record,
    load_records,
    missing_files,
    names,
    read_experiment,
)

if TYPE_CHECKING:
    from reproduction.run import OnRecord


app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False)


@app.command()
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help=f"One of {', '.join(names())}, or all.",
            autocompletion=lambda: [*names(), "all"],
        ),
    ],
    quick: Annotated[bool, typer.Option(help="Small settings: seconds instead of hours.")] = False,
    seeds: Annotated[
        int | None, typer.Option(help="Number of seeds; default: those of the file.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(help="Methods and seeds run in parallel; default: one for each core."),
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder of the records.")] = Path("results"),
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Compute nothing; show the records there are.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(help="Also write the claims to this file, and the pages beside it."),
    ] = None,
) -> None:
    """Run an experiment of the paper, print its table and draw its figures.

    Records that exist are not computed again, so a run may be stopped at any time.

    Example: `python -m reproduction gmm --quick`
    """
    from reproduction.run import run_experiment

    folder = results / "quick" if quick else results
    for each in names() if name == "all" else [name]:
        experiment = read_experiment(each, quick=quick, n_seeds=seeds)
        lacking = missing_files(experiment) if name == "all" else []
        if lacking:
            typer.echo(
                f"{each}: skipped, {' and '.join(lacking)} not available; see python -m "
                "reproduction.datasets list",
                err=True,
            )
            continue
        if recorded:
            records = load_records(folder, experiment)
        else:
            with _progress(each) as on_record:
                records = run_experiment(
                    experiment, folder, n_jobs=jobs or cpu_count(), on_record=on_record
                )
        if records:
            _show(experiment, records, folder)
    if page is not None:
        from reproduction.pages.blocks import write_tables
        from reproduction.pages.paper_page import write_page
        from reproduction.pages.readings_page import write_readings

        write_page(folder, page)
        write_readings(folder, page.with_name("readings.md"))
        write_tables(folder, page.parent)
        typer.echo(f"wrote {page} and the pages beside it")


@contextmanager
def _progress(name: str) -> Iterator[OnRecord]:
    columns = (
        TextColumn("{task.description:<14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[last]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(name, total=None, last="")
        yield lambda done, wanted, last: progress.update(
            task, completed=done, total=wanted, last=last
        )


def _show(experiment: Experiment, records: list[Record], folder: Path) -> None:
    from reproduction.pages.figures import draw_figures
    from reproduction.pages.tables import markdown_table, terminal_table

    # A pipe has no width of its own; cut to 80 columns the table would lose its numbers.
    console = Console(width=None if Console().is_terminal else 240)
    console.print(terminal_table(experiment, records))
    text = f"# {experiment.title}\n\n{markdown_table(experiment, records)}"
    (folder / f"{experiment.name}.md").write_text(text)
    for path in draw_figures(experiment, records, folder / "figures"):
        typer.echo(f"wrote {path}")


if __name__ == "__main__":
    main(app=app)
