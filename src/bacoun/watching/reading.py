"""The file of a log, and what it says; neither the model nor torch is needed for that."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bacoun.files.identity import version_of
from bacoun.watching.martingale import DriftTest

_MINUTES = 1440  # that a summary shows, the latest
_LATEST_MINUTES = """
select 60 * minute as time, rows, unfamiliar, ambiguous, familiarity / rows as familiarity, classes,
    evidence from minutes where version = ? order by minute desc limit ?
"""
_BUSY_SECONDS = 10
_PASSING = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY}


def log_path(model: str | PathLike[str]) -> Path:
    """Where the log of a model is: beside its folder."""
    folder = Path(model).resolve()
    return folder.with_name(f"{folder.name}.watch.sqlite")


@contextmanager
def open_log(path: Path, read_only: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection whose transactions are begun and ended by hand."""
    uri = f"{path.as_uri()}?mode={'ro' if read_only else 'rwc'}"
    try:
        log = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            if not read_only:
                log.execute("pragma journal_mode = wal")
                log.execute("pragma synchronous = normal")
            yield log
        finally:
            log.close()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in _PASSING:
            raise OSError(f"'{path}' cannot be written: {error}. Is its disk full?") from None
        raise ValueError(
            f"'{path}' must be a log of bacoun; reading it failed: {error}. Move it away."
        ) from None


def read_log(model: str | PathLike[str]) -> dict[str, Any]:
    """What the log of a model says about the version in its folder, in plain values.

    If that was never served, about the one that was served last: "rows" scored, shares of
    "unfamiliar" and "ambiguous" ones, "classes" with the share of each among predictions and in
    training, "drift" with "alarm", the row "at" which it was raised, and "evidence" by quantity in
    nats, the largest first, with the "threshold"; and "minutes", the latest ones.
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
        log.row_factory = sqlite3.Row
        latest = log.execute(
            "select * from versions order by version = ? desc, started desc limit 1", (current,)
        ).fetchone()
        if latest is None:
            raise FileNotFoundError(f"'{path.name}' is empty; nothing was scored yet.")
        found = log.execute(_LATEST_MINUTES, (latest["version"], _MINUTES)).fetchall()
    minutes = [dict(row) | {"classes": json.loads(row["classes"])} for row in found[::-1]]
    return _summary(latest, minutes)


def _summary(latest: sqlite3.Row, minutes: list[dict[str, Any]]) -> dict[str, Any]:
    test, names = DriftTest.from_dict(json.loads(latest["test"])), json.loads(latest["names"])
    in_training = json.loads(latest["expected"])["classes"]
    n_shown = max(sum(minute["rows"] for minute in minutes), 1)
    counts = [[0.0] * len(in_training), *(minute["classes"] for minute in minutes)]
    shares = np.sum(counts, axis=0) / n_shown
    total, order = max(sum(in_training.values()), 1), np.argsort(-test.evidence)
    return {
        "version": latest["version"],
        "started": latest["started"],
        "rows": latest["rows"],
        "unfamiliar": sum(minute["unfamiliar"] for minute in minutes) / n_shown,
        "ambiguous": sum(minute["ambiguous"] for minute in minutes) / n_shown,
        "classes": {
            label: {"predicted": float(share), "training": count / total}
            for (label, count), share in zip(in_training.items(), shares, strict=True)
        },
        "drift": {
            "alarm": test.alarm_row is not None,
            "at": test.alarm_row,
            "by": None if test.alarm_quantity is None else names[test.alarm_quantity],
            "false_alarm": test.false_alarm,
            "threshold": test.threshold,
            "evidence": {names[k]: float(test.evidence[k]) for k in order[:10]},
        },
        "minutes": minutes,
    }
