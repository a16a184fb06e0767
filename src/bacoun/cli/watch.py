"""`bacoun watch`: what a served model was asked, and whether the rows have drifted."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer


def watch(
    model: Annotated[Path, typer.Argument(help="Folder of a model that bacoun serve watches.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the log as JSON.")] = False,
) -> None:
    """Say what a served model was asked: deferral rate, class shares, and whether rows drift.

    Reads the log that `bacoun serve --watch` writes beside the model. The exit code is 1 if drift
    was noticed, otherwise 0.

    Example: `bacoun watch model`
    """
    from bacoun.watching.reading import read_log

    found = read_log(model)
    typer.echo(json.dumps(found) if as_json else "\n".join(_lines(found)))
    if found["drift"]["alarm"]:
        raise typer.Exit(1)


def _lines(found: dict[str, Any]) -> list[str]:
    since = datetime.fromtimestamp(found["started"], UTC).strftime("%Y-%m-%d %H:%M UTC")
    shares = [
        f"{label} {each['predicted']:.1%} (training {each['training']:.1%})"
        for label, each in found["classes"].items()
    ]
    deferred = found["unfamiliar"] + found["ambiguous"]
    parts = {
        "rows": f"{found['rows']:,} since {since}, model {found['version']}",
        "deferred": f"{deferred:.1%}: unfamiliar {found['unfamiliar']:.1%}, "
        f"ambiguous {found['ambiguous']:.1%}",
        "classes": ", ".join(shares),
        "drift": _drift(found["drift"]),
        "evidence": ", ".join(
            f"{name} {nats:.1f}" for name, nats in list(found["drift"]["evidence"].items())[:5]
        )
        + f" nats; an alarm needs {found['drift']['threshold']:.1f}",
    }
    return [f"{name:<10}{text}" for name, text in parts.items()]


def _drift(drift: dict[str, Any]) -> str:
    promise = f"(false alarms: at most {drift['false_alarm']:.0%}, ever)"
    if not drift["alarm"]:
        return f"none noticed {promise}"
    return f"noticed at row {drift['at']:,}, by {drift['by']} {promise}"
