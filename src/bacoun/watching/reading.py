"""Read the log of a model; neither the model nor torch is needed for that."""

from __future__ import annotations

import json
from os import PathLike
from typing import Any

import numpy as np

from bacoun.files.identity import version_of
from bacoun.watching.files import log_path, open_log
from bacoun.watching.martingale import DriftTest

_MINUTES = 1440  # that a summary shows, the latest


def read_log(model: str | PathLike[str]) -> dict[str, Any]:
    """What the log of a model says about the version in its folder, in plain values.

    If that was never served, about the one that was served last.

    Returns
    -------
    dict
        "rows" scored, shares of "unfamiliar" and "ambiguous" ones, "classes" with the share of each
        among predictions and in training, "drift" with "alarm", the row "at" which it was raised,
        and "evidence" by quantity in nats, the largest first, with the "threshold"; and "minutes",
        the latest ones.
    """
    path = log_path(model)
    if not path.exists():
        raise FileNotFoundError(
            f"'{model}' has no log yet; '{path.name}' does not exist beside it. Score rows with "
            "bacoun serve --watch."
        )
    try:
        current = version_of(model)
    except (OSError, ValueError):
        current = ""
    with open_log(path, read_only=True) as log:
        latest = log.execute(
            "select * from versions order by version = ? desc, started desc limit 1", (current,)
        ).fetchone()
        if latest is None:
            raise FileNotFoundError(f"'{path.name}' is empty; nothing was scored yet.")
        minutes = log.execute(
            "select * from minutes where version = ? order by minute desc limit ?",
            (latest[0], _MINUTES),
        ).fetchall()
    return _summary(latest, minutes[::-1])


def _summary(latest: tuple[Any, ...], minutes: list[tuple[Any, ...]]) -> dict[str, Any]:
    version, started, n_rows, expected, names, state = latest
    test, names = DriftTest.from_dict(json.loads(state)), json.loads(names)
    in_training = json.loads(expected)["classes"]
    sums = np.array([minute[2:6] for minute in minutes], float).reshape(-1, 4).sum(axis=0)
    counts = np.array([json.loads(minute[6]) for minute in minutes], float)
    shares = counts.sum(axis=0) / max(sums[0], 1) if len(counts) else [0.0] * len(in_training)
    total = max(sum(in_training.values()), 1)
    order = np.argsort(-test.evidence)
    alarm = test.alarm_row
    return {
        "version": version,
        "started": started,
        "rows": n_rows,
        "unfamiliar": float(sums[1] / max(sums[0], 1)),
        "ambiguous": float(sums[2] / max(sums[0], 1)),
        "classes": {
            label: {"predicted": float(share), "training": count / total}
            for (label, count), share in zip(in_training.items(), shares, strict=True)
        },
        "drift": {
            "alarm": alarm is not None,
            "at": alarm,
            "by": None if test.alarm_quantity is None else names[test.alarm_quantity],
            "false_alarm": test.false_alarm,
            "threshold": test.threshold,
            "evidence": {names[k]: float(test.evidence[k]) for k in order[:10]},
        },
        "minutes": [
            {
                "time": 60 * minute,
                "rows": rows,
                "unfamiliar": unfamiliar,
                "ambiguous": ambiguous,
                "familiarity": familiarity / rows,
                "classes": json.loads(classes),
                "evidence": evidence,
            }
            for _, minute, rows, unfamiliar, ambiguous, familiarity, classes, evidence in minutes
        ],
    }
