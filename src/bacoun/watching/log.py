"""Watch: the log of a model, one SQLite file beside its folder."""

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np

from bacoun.tabular import TableModel
from bacoun.tabular.neighbors import Neighborhood
from bacoun.tabular.scored_rows import ScoredRows
from bacoun.watching.binning import BinnedQuantity, bins_of, watched, weights_of
from bacoun.watching.martingale import DriftTest
from bacoun.watching.reading import log_path, open_log

_TABLES = """
create table if not exists versions (
    version text primary key, started real, rows integer, expected text, names text, test text);
create table if not exists minutes (
    version text, minute integer, rows integer, unfamiliar integer, ambiguous integer,
    familiarity real, classes text, evidence real, primary key (version, minute));
create table if not exists inputs (version text, time real, row text);
"""
_ADD_MINUTE = """
insert into minutes values (?, ?, ?, ?, ?, ?, ?, ?) on conflict do update set
    rows = rows + excluded.rows, unfamiliar = unfamiliar + excluded.unfamiliar,
    ambiguous = ambiguous + excluded.ambiguous, familiarity = familiarity + excluded.familiarity,
    classes = excluded.classes, evidence = max(evidence, excluded.evidence)
"""


@dataclass(frozen=True)
class Watch:
    """Counts the rows that a model scores, and tests them for drift.

    Several processes may share a log: what one adds, the others build upon.
    """

    path: Path
    version: str  # of the model; a replaced model starts anew
    quantities: list[BinnedQuantity]
    known: Neighborhood  # the known rows, in whose representation new ones are compared
    labels: list[str]
    first: tuple[str, str, str]  # what is stored of a version at its beginning
    inputs: bool = False  # whether rows are stored, too

    @classmethod
    def beside(
        cls, folder: str | PathLike[str], model: TableModel, version: str, *, inputs: bool = False
    ) -> Self:
        """Open or make the log of the model that was loaded from a folder.

        The `version` distinguishes it from others that were or will be saved there; `inputs` stores
        the scored rows.
        """
        labels, known = [str(label) for label in model.classes], model.neighborhood
        quantities = watched(model.columns, known, model.calibration, len(labels))
        counts = np.stack([quantity.counts for quantity in quantities])
        test = DriftTest.start(counts, weights_of(quantities))
        expected = {"classes": {k: int(n) for k, n in model.facts["classes"].items()}}
        names = json.dumps([quantity.name for quantity in quantities])
        first = json.dumps(expected), names, json.dumps(test.to_dict())
        watch = cls(log_path(folder), version, quantities, known, labels, first, inputs)
        with suppress(OSError), open_log(watch.path) as log:  # `add` tries again, and says so
            watch._begin(log)
        return watch

    def _begin(self, log: sqlite3.Connection) -> None:
        """Make what is not there: the file may be new, or may have been deleted."""
        log.executescript(_TABLES)
        row = (self.version, time.time(), *self.first)
        log.execute("insert or ignore into versions values (?, ?, 0, ?, ?, ?)", row)

    def add(self, batch: Sequence[ScoredRows], rng: np.random.Generator | None = None) -> None:
        """Count the rows of some tables, in one transaction; `rng` breaks ties."""
        now = time.time()
        bins = np.concatenate([bins_of(self.quantities, scored, self.known) for scored in batch])
        with open_log(self.path) as log:
            self._begin(log)
            log.execute("begin immediate")
            query = "select test from versions where version = ?"
            (state,) = log.execute(query, (self.version,)).fetchone()
            test = DriftTest.from_dict(json.loads(state))
            p = test.update(bins, rng or np.random.default_rng())
            log.execute(
                "update versions set rows = ?, test = ? where version = ?",
                (test.n_rows, json.dumps(test.to_dict()), self.version),
            )
            figures = (float(p[:, 0].sum()), float(test.evidence.max()))
            self._add_minute(log, batch, int(now // 60), *figures)
            if self.inputs:
                rows = [(self.version, now, row) for scored in batch for row in _as_json(scored)]
                log.executemany("insert into inputs values (?, ?, ?)", rows)
            log.execute("commit")

    def _add_minute(
        self, log: sqlite3.Connection, batch: Sequence[ScoredRows], minute: int, *figures: float
    ) -> None:
        reasons = np.concatenate([scored.reason for scored in batch])
        deferred = [int((reasons == reason).sum()) for reason in ("unfamiliar", "ambiguous")]
        predicted = np.concatenate([scored.predicted for scored in batch])
        classes, key = np.bincount(predicted, minlength=len(self.labels)), (self.version, minute)
        familiarity, evidence = figures
        query = "select classes from minutes where version = ? and minute = ?"
        if before := log.execute(query, key).fetchone():
            classes = classes + np.array(json.loads(before[0]))
        counts = (len(reasons), *deferred, familiarity, json.dumps(classes.tolist()))
        log.execute(_ADD_MINUTE, (*key, *counts, evidence))


def _as_json(scored: ScoredRows) -> Iterator[str]:
    frame = scored.frame
    for row in frame.astype(object).where(frame.notna(), None).to_dict(orient="records"):
        yield json.dumps(row, default=str)
