"""`bacoun fit`: from a table to a model that scores such tables."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bacoun.checkpoint import Checkpoint
    from bacoun.tabular import TableModel


def fit(
    train: Annotated[Path, typer.Argument(help="Table to learn from: .csv, .tsv or .parquet.")],
    target: Annotated[str, typer.Option(help="Column that holds the labels.")],
    out: Annotated[Path, typer.Option(help="Folder to write the model to.")],
    impute: Annotated[
        bool, typer.Option("--impute", help="Fill missing values, and remember where they were.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A first look: seconds instead of minutes.")
    ] = False,
    seed: Annotated[int, typer.Option(help="One seed gives one model.")] = 0,
    calibration: Annotated[
        float, typer.Option(help="Share of the rows kept aside to set the thresholds.")
    ] = 0.2,
    false_alarm: Annotated[
        float, typer.Option(help="Largest share of familiar rows flagged as unfamiliar.")
    ] = 0.05,
    max_error: Annotated[
        float | None,
        typer.Option(
            help="Largest share of errors among accepted rows; what the data cannot support is not "
            "accepted. If not given: 0.01 where the data supports it, else no bound."
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="With which --max-error holds.")] = 0.95,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Keep --false-alarm within each predicted class.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where a fit to the same folder was stopped.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as one JSON object.")
    ] = False,
) -> None:
    """Learn from a table, and set the thresholds for handing a row to a person.

    Numbers are taken as they are; text and truths become columns of 0 and 1; ids and constant
    columns are left out. Progress is kept in OUT.checkpoint until the model is written.

    Example: `bacoun fit train.csv --target diagnosis --out model`
    """
    from bacoun.tabular import read_table

    _check_out(out, overwrite)
    table = read_table(train)

    from bacoun.checkpoint import Checkpoint
    from bacoun.tabular import TableModel

    checkpoint = Checkpoint(out.with_name(f"{out.name}.checkpoint"))
    _begin(checkpoint, resume)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = TableModel.fit(
                table,
                target,
                random_state=seed,
                impute=impute,
                calibration_share=calibration,
                false_alarm=false_alarm,
                max_error="auto" if max_error is None else max_error,
                confidence=confidence,
                per_class=per_class,
                quick=quick,
                verbose=sys.stderr.isatty(),
                checkpoint=checkpoint,
            )
    except KeyboardInterrupt:
        typer.echo("bacoun: --resume goes on from here.", err=True)
        raise
    model.save(out, overwrite=overwrite)
    checkpoint.clear()
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            typer.echo(f"bacoun: note: {warning.message}", err=True)
    typer.echo(_as_json(model, out) if as_json else _summary(model, out))


def _check_out(out: Path, overwrite: bool) -> None:
    """Refuse a place that the model could not be written to, before the work and not after it."""
    if out.exists() and not overwrite:
        raise FileExistsError(
            f"--out must not exist yet; '{out}' does. Choose another, or pass --overwrite."
        )
    if out.exists() and not (out / "model.json").is_file():
        raise FileExistsError(
            f"--overwrite replaces a saved model; '{out}' is something else. Choose another."
        )
    there = next(folder for folder in out.absolute().parents if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise PermissionError(
            f"--out must be in a folder that can be written to; '{there}' cannot. Choose another."
        )


def _begin(checkpoint: Checkpoint, resume: bool) -> None:
    if not resume:
        checkpoint.clear()
    elif checkpoint.folder.exists():
        typer.echo(f"bacoun: going on from '{checkpoint.folder}'.", err=True)
    else:
        typer.echo(f"bacoun: nothing to resume in '{checkpoint.folder}'; starting.", err=True)


def _as_json(model: TableModel, out: Path) -> str:
    from dataclasses import asdict

    health = asdict(model.classifier.health_)
    found = {"model": str(out), "target": model.target, **model.facts, **model.made}
    return json.dumps(found | {"rule": model.rule.to_dict(), "health": health})


def _summary(model: TableModel, out: Path) -> str:
    facts, health = model.facts, model.classifier.health_
    classes = ", ".join(f"{label} ({rows})" for label, rows in facts["classes"].items())
    auc = "not defined" if facts["auc"] is None else f"{facts['auc']:.3f}"
    settled = "" if health.rhat is None else f", R-hat {health.rhat:.3f}, ESS {health.ess:.0f}"
    lines = {
        "rows": f"{facts['rows']}: {facts['training_rows']} to learn from, "
        f"{facts['calibration_rows']} to calibrate on",
        "classes": classes,
        "columns": f"{facts['features']} features from {len(model.encoder.columns_)} columns",
        "left out": ", ".join(f"{name} ({why})" for name, why in facts["dropped_columns"].items()),
        "quality": f"accuracy {facts['accuracy']:.3f}, AUC {auc}, ECE {facts['ece']:.3f} on the "
        "calibration rows",
        "health": f"{health.inference}, {health.n_draws} draws{settled}",
    }
    rule = model.rule.summary().splitlines()
    if model.rule.acceptance is None:
        rule.insert(-1, facts["error_bound"])
    lines |= {"deferral": ("\n" + " " * 10).join(rule), "model": str(out)}
    lines["next"] = f"bacoun predict {out} NEW.csv --out scored.csv"
    return "\n".join(f"{name:<10}{text}" for name, text in lines.items() if text)
