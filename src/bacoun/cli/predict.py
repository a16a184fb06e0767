"""`bacoun predict`: add predictions, uncertainties and decisions to a table."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from glob import has_magic
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from bacoun.cli.output import check_out, row_progress, say

if TYPE_CHECKING:
    import pandas as pd

    from bacoun.tabular import Survey, TableModel


def predict(
    model: Annotated[Path, Argument(help="Folder that bacoun fit wrote.")],
    new: Annotated[
        str,
        Argument(
            help="Table to score: .csv, .tsv or .parquet. Or a pattern of Parquet files in quotes, "
            "or a folder of photos."
        ),
    ],
    out: Annotated[
        str | None,
        Option(
            help="File to write, in the same format as the table. Of a pattern: folder for parts."
        ),
    ] = None,
    as_json: Annotated[
        bool, Option("--json", help="Print a JSON object for each row; null is infinite.")
    ] = False,
    because: Annotated[
        bool, Option(help="Say in words why a row is deferred; takes milliseconds for each.")
    ] = True,
    escape_formulas: Annotated[
        bool,
        Option(
            "--escape-formulas",
            help="For spreadsheets: put ' before text that starts with =, +, - or @.",
        ),
    ] = False,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the file.")] = False,
    workers: Annotated[
        int | None, Option(min=1, help="Worker processes to start on this machine, by Dask.")
    ] = None,
    scheduler: Annotated[
        str | None, Option(help="Address of a running Dask scheduler, to use its workers.")
    ] = None,
) -> None:
    """Score a table of any size: add predictions, uncertainties and decisions.

    The columns may be in any order, with or without the target; other columns are copied and not
    used. A row with a category that was not seen in training is unfamiliar. What is different about
    the table as a whole is said in up to three lines; `bacoun check` says more. The file is written
    atomically. A photo that cannot be read is unfamiliar, and `because` says why.

    Many Parquet files, such as `'folder/*.parquet'`, are scored one row group at a time, on a
    cluster with --workers or --scheduler. Each becomes a part in the folder --out, and summary.json
    is written there at the end. The same command again scores only what is missing.

    Example: `bacoun predict model new.csv --out scored.csv`
    """
    if is_many(new) or workers is not None or scheduler is not None:
        refuse_both(workers, scheduler)
        if escape_formulas:
            raise ValueError("--escape-formulas is for text tables; many files become Parquet.")
        if out is None or as_json:
            raise ValueError(
                "many files are scored into a folder; give --out FOLDER, without --json. The "
                "summary is written there as JSON."
            )
        if overwrite:
            raise ValueError(
                "--overwrite replaces a file; finished parts in the folder --out are kept. Remove "
                "the folder to score all again."
            )
        _predict_many(model, new, out, because, workers, scheduler)
    else:
        file = None if out is None else Path(out)
        _check_options(file, Path(new), as_json, escape_formulas, overwrite)
        _predict_one(model, Path(new), file, because, escape_formulas)


def _predict_one(
    model: Path, new: Path, out: Path | None, because: bool, escape_formulas: bool
) -> None:
    from bacoun.tabular import survey_table

    survey = survey_table(new)

    from bacoun.columns.photo_files import folder_of
    from bacoun.tabular import TableModel, write_table

    fitted = TableModel.load(model).with_photos_in(folder_of(new))
    fitted.refuse_taken(survey.columns, f"'{new}'")
    chunks = _chunks(fitted, new, survey)
    if out is None:
        for frame in chunks:
            scored = fitted.typed(frame).join(fitted.score(frame, because))
            for row in scored.astype(object).to_dict(orient="records"):
                # JSON has neither NaN nor infinity.
                others = [k for k, v in row.items() if isinstance(v, float) and not isfinite(v)]
                typer.echo(json.dumps(row | dict.fromkeys(others), default=str))
        return
    # One thread writes a chunk while the next one is scored.
    table = write_table(out, survey.delimiter or ",", escape_formulas)
    with table as write, ThreadPoolExecutor(max_workers=1) as writer:
        written = writer.submit(lambda: None)
        for frame in chunks:
            scored = frame.join(fitted.score(frame, because))
            written.result()
            written = writer.submit(write, scored)
        written.result()


def _check_options(
    out: Path | None, new: Path, as_json: bool, escape_formulas: bool, overwrite: bool
) -> None:
    from bacoun.columns.reading import check_suffix, is_parquet

    if (out is None) != as_json:
        raise ValueError("give either --out FILE or --json; got both or none.")
    if escape_formulas and (out is None or is_parquet(out)):
        raise ValueError("--escape-formulas needs --out FILE.csv or .tsv; got another output.")
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


def _chunks(model: "TableModel", new: Path, survey: "Survey") -> Iterator["pd.DataFrame"]:
    """The table in chunks, with progress; after the last, what is different in the first."""
    from bacoun.columns.checks import summary
    from bacoun.columns.reading import SCORING_CHUNK
    from bacoun.tabular import stream_table

    first, rows = None, SCORING_CHUNK if model.known else None  # encoders take their time
    with row_progress(survey.n_rows) as add:
        for frame in stream_table(new, rows, survey):
            first = frame if first is None else first
            yield frame
            add(len(frame))
    for line in [] if first is None else summary(model.check(first)):
        say(line)


def is_many(new: str) -> bool:
    """Whether `new` is a pattern, or the address of a file that is not on the local disk."""
    return "://" in new or (has_magic(new) and not Path(new).exists())


def refuse_both(workers: int | None, scheduler: str | None) -> None:
    """Refuse options that contradict each other."""
    if workers is not None and scheduler is not None:
        raise ValueError(
            "give either --scheduler ADDRESS or --workers N; got both. A scheduler has workers of "
            "its own."
        )


def _predict_many(
    model: Path, new: str, out: str, because: bool, workers: int | None, scheduler: str | None
) -> None:
    """Score the files that match `new` into parts in the folder `out`, and print the summary."""
    from bacoun.columns.photo_files import folder_of
    from bacoun.many.predict import check_folder, find_files, plan, score_files

    files = find_files(new)
    check_folder(out, files)

    from bacoun.columns.checks import summary
    from bacoun.many.cluster import open_engine
    from bacoun.many.scorer import Scorer

    scorer = Scorer(model, because, folder_of(files[0]))
    scorer.model  # noqa: B018  a damaged model is refused before workers are started
    with open_engine(scheduler, workers) as engine:
        if engine.dashboard:
            say(f"dashboard: {engine.dashboard}")
        work = plan(scorer, files, out, engine)
        if work.n_done:
            say(f"{work.n_done:,} of {len(work.groups):,} parts are there already.")
        if work.others:
            say(
                f"note: '{out}' also holds {len(work.others):,} other parts: of another model, of "
                "other options or of files that changed. They are left as they are; summary.json "
                "lists the parts of this run."
            )
        with row_progress(sum(group.n_rows for group in work.groups)) as add:
            found, findings = score_files(work, engine, lambda group: add(group.n_rows))
    for line in summary(findings):
        say(line)
    typer.echo("\n".join(_in_lines(found, len(work.groups), out)))


def _in_lines(found: dict[str, Any], n_parts: int, out: str) -> list[str]:
    rows, accepted = found["rows"], found["accepted"]
    reasons = {f"  {reason}": n for reason, n in found["deferred"].items()}
    shares = {"accepted": accepted, "deferred": rows - accepted} | reasons
    classes = ", ".join(f"{label} {share:.1%}" for label, share in found["class_shares"].items())
    return [
        f"{'rows':<12}{rows:>15,}  in {n_parts:,} parts",
        *(f"{name:<12}{n:>15,}  {n / rows:7.2%}" for name, n in shares.items()),
        f"predicted: {classes}",
        f"{out}: the parts, and summary.json",
    ]
