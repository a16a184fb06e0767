"""`bacoun watch`: what a served model was asked, and whether the rows have drifted."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option


def watch(
    model: Annotated[Path, Argument(help="Folder of a model that bacoun serve watches.")],
    as_json: Annotated[bool, Option("--json", help="Print the log as JSON.")] = False,
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
    deferred, drift = found["unfamiliar"] + found["ambiguous"], found["drift"]
    evidence = [f"{name} {nats:.1f}" for name, nats in list(drift["evidence"].items())[:5]]
    at = drift["at"]
    noticed = f"noticed at row {at:,}, by {drift['by']}" if drift["alarm"] else "none noticed"
    parts = {
        "rows": f"{found['rows']:,} since {since}, model {found['version']}",
        "deferred": f"{deferred:.1%}: unfamiliar {found['unfamiliar']:.1%}, "
        f"ambiguous {found['ambiguous']:.1%}",
        "classes": ", ".join(shares),
        "drift": f"{noticed} (false alarms: at most {drift['false_alarm']:.0%}, ever)",
        "evidence": f"{', '.join(evidence)} nats; an alarm needs {drift['threshold']:.1f}",
    }
    return [f"{name:<10}{text}" for name, text in parts.items()]
