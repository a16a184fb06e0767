"""`bacoun fit`: from a table to a model that scores such tables."""

import json
import sys
import warnings
from contextlib import ExitStack
from dataclasses import asdict
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from bacoun.cli.output import check_out, say
from bacoun.cli.predict import is_many, refuse_both

if TYPE_CHECKING:
    import pandas as pd


def fit(
    train: Annotated[
        str,
        Argument(
            help="Training table: .csv, .tsv or .parquet. Or a pattern of Parquet files in quotes, "
            "or a folder of photos."
        ),
    ],
    out: Annotated[Path, Option(help="Folder to write the model to.")],
    target: Annotated[
        str | None, Option(help="Column with the labels; of a folder of photos, its subfolders.")
    ] = None,
    impute: Annotated[
        bool, Option(help="Allow missing values; otherwise they are an error.")
    ] = True,
    group: Annotated[
        str | None,
        Option(help="Column of rows that belong together, such as visits of one patient."),
    ] = None,
    time: Annotated[
        str | None,
        Option(help="Column of dates or numbers; the latest rows are used for calibration."),
    ] = None,
    text: Annotated[
        list[str] | None,
        Option(metavar="COLUMN", help="Free text, in place of what is found. May be repeated."),
    ] = None,
    no_text: Annotated[
        bool, Option("--no-text", help="Find no free text; such columns are dropped as ids.")
    ] = False,
    photo: Annotated[
        list[str] | None,
        Option(metavar="COLUMN", help="Paths of photos, in place of what is found."),
    ] = None,
    no_photos: Annotated[bool, Option("--no-photos", help="Find no paths of photos.")] = False,
    quick: Annotated[bool, Option("--quick", help="Seconds instead of minutes.")] = False,
    seed: Annotated[int, Option(help="Random seed; the same seed gives the same model.")] = 0,
    calibration: Annotated[
        float, Option(help="Fraction of the rows held out to calibrate the thresholds.")
    ] = 0.2,
    false_alarm: Annotated[
        float, Option(help="False alarm rate: in-distribution rows flagged as unfamiliar.")
    ] = 0.05,
    max_error: Annotated[
        float | None,
        Option(
            help="Largest error rate among accepted rows; without enough evidence for it, no row "
            "is accepted. Default: the tightest of 0.01, 0.02, 0.05, 0.1 and 0.2 that there is "
            "evidence for."
        ),
    ] = None,
    confidence: Annotated[float, Option(help="Confidence of --max-error.")] = 0.95,
    per_class: Annotated[
        bool, Option("--per-class", help="Guarantee --false-alarm in each predicted class.")
    ] = False,
    sample_rows: Annotated[
        int, Option(min=1, help="Parquet: training rows that flows and networks learn from.")
    ] = 500_000,
    workers: Annotated[
        int | None,
        Option(min=1, help="Parquet: worker processes to start on this machine, by Dask."),
    ] = None,
    scheduler: Annotated[
        str | None, Option(help="Parquet: address of a running Dask scheduler, to use its workers.")
    ] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the model.")] = False,
    resume: Annotated[bool, Option("--resume", help="Resume an interrupted fit.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Train a model on a table, and calibrate when it defers a row to a person.

    Columns hold numbers, text, booleans or dates, with or without gaps; ids and constant columns
    are dropped. Identical rows stay on one side of the split into training and calibration rows.
    Progress is saved in OUT.checkpoint until the model is written.

    Free text and photos are found and become vectors, by pretrained encoders. Paths of photos are
    relative to the folder of the table. A folder with a subfolder of photos for each class is a
    table, too.

    Parquet may be larger than memory, and many files, such as `'folder/*.parquet'`. With more than
    --sample-rows training rows, flows and networks learn from a sample of so many; the posterior is
    that of all rows, on a cluster with --workers or --scheduler.

    Example: `bacoun fit train.csv --target diagnosis --out model`
    """
    refuse_both(workers, scheduler)
    check_out(out, overwrite, is_model=True)
    text_columns = _choice(text, no_text, "--text COLUMN or --no-text")
    photo_columns = _choice(photo, no_photos, "--photo COLUMN or --no-photos")
    data = _read(train, wants_workers=(workers or scheduler) is not None)
    target = target or _target_of(train, data)

    from bacoun.columns.photo_files import folder_of
    from bacoun.files.checkpoint import Checkpoint

    checkpoint = Checkpoint(out.with_name(f"{out.name}.checkpoint"))
    if not resume:
        checkpoint.clear()
    elif checkpoint.folder.exists():
        say(f"resuming from '{checkpoint.folder}'.")
    else:
        say(f"nothing to resume in '{checkpoint.folder}'; starting.")
    settings: dict[str, Any] = {
        "random_state": seed,
        "impute": impute,
        "group": group,
        "time": time,
        "calibration_share": calibration,
        "false_alarm": false_alarm,
        "max_error": "auto" if max_error is None else max_error,
        "confidence": confidence,
        "per_class": per_class,
        "text": text_columns,
        "photos": photo_columns,
        "photo_folder": folder_of(data[0] if isinstance(data, list) else train),
        "quick": quick,
        "verbose": sys.stderr.isatty(),
        "checkpoint": checkpoint,
    }
    try:
        with warnings.catch_warnings(record=True) as caught, ExitStack() as stack:
            warnings.simplefilter("always")
            if isinstance(data, list):
                from bacoun.many.cluster import open_engine
                from bacoun.tabular import fit_files

                engine = stack.enter_context(open_engine(scheduler, workers))
                if engine.dashboard:
                    say(f"dashboard: {engine.dashboard}")
                model = fit_files(data, target, sample_rows=sample_rows, engine=engine, **settings)
            else:
                from bacoun.tabular import TableModel

                model = TableModel.fit(data, target, **settings)
    except KeyboardInterrupt:
        say("run the same command with --resume to continue.")
        raise
    model.save(out, overwrite=overwrite)
    checkpoint.clear()
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            say(f"note: {warning.message}")
    if as_json:
        content = {"model": str(out), "target": target, **model.facts, **model.made}
        content |= {"rule": model.rule.to_dict(), "health": asdict(model.health)}
        typer.echo(json.dumps(content))
        return
    lines = model.summary() | {"model": str(out)}
    lines["next"] = f"bacoun predict {out} {_example(train)} --out scored.csv"
    typer.echo("\n".join(f"{name:<10}{text}" for name, text in lines.items() if text))


def _choice(names: list[str] | None, is_forbidden: bool, options: str) -> list[str] | bool | None:
    if names and is_forbidden:
        raise ValueError(f"give either {options}; got both.")
    return False if is_forbidden else names


def _target_of(train: str, data: Any) -> str:
    """The column with the labels, if the user names none."""
    if not Path(train).is_dir():
        raise typer.BadParameter("Missing option '--target': the column with the labels.")
    from bacoun.columns.photo_files import CLASS, PHOTO

    if CLASS not in data:
        outside = next(name for name in data[PHOTO] if "/" not in name)
        raise ValueError(
            f"'{train}' must have a subfolder of photos for each class; '{outside}' is in none. "
            "Move it to one."
        )
    return CLASS


def _example(train: str) -> str:
    """What to score next."""
    return "NEWPHOTOS/" if Path(train).is_dir() else "NEW.csv"


def _read(train: str, wants_workers: bool) -> "pd.DataFrame | list[str]":
    """A table, or the addresses of Parquet files, which are not read yet."""
    from bacoun.columns.reading import is_parquet, read_table, survey_table

    if not is_many(train):
        if not is_parquet(train):
            if wants_workers:
                raise ValueError(
                    "--workers and --scheduler need Parquet, which has row groups; got "
                    f"'{train}'. Convert it, or leave them out."
                )
            return read_table(train)
        survey_table(train)  # a bad file is refused in one sentence
        train = escape(train)

    from bacoun.many.predict import find_files

    return find_files(train)
