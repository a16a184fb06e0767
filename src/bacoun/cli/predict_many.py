"""`bacoun predict` on many Parquet files: here, on local workers, or on a Dask cluster."""

from glob import has_magic
from pathlib import Path
from typing import Any

import typer

from bacoun.cli.output import row_progress, say


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


def predict_many(
    model: Path, new: str, out: str, because: bool, workers: int | None, scheduler: str | None
) -> None:
    """Score the files that match `new` into parts in the folder `out`, and print the summary."""
    from bacoun.many.predict import check_folder, find_files, plan, score_files

    files = find_files(new)
    check_folder(out, files)

    from bacoun.columns.checks import summary as in_lines
    from bacoun.many.cluster import open_engine
    from bacoun.many.scorer import Scorer

    scorer = Scorer(model, because)
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
    for line in in_lines(findings):
        say(line)
    typer.echo("\n".join(_lines(found, len(work.groups), out)))


def _lines(found: dict[str, Any], n_parts: int, out: str) -> list[str]:
    """The summary in a few aligned lines."""
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
