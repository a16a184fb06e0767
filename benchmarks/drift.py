"""Drift in a stream of rows: false alarms, and rows until a change is noticed.

    python -m benchmarks drift

Rows of five classes have eight numbers and two categories; a model is fitted to four of them.
Each stream has reference rows of its own, drawn like its rows, because the promise of at most 1 %
false alarms is over both. A change comes after 500 rows: one number shifted by half a standard
deviation, 5 % of the rows from the fifth class, or one number in other units (divided by 2.54).

Beside the conformal test martingale of `bacoun.watching` is what people do by hand: every 100 rows
a Kolmogorov-Smirnov test for each column, of the latest 200 rows against the reference, at 1 % with
Bonferroni's correction over the columns, and over the looks as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from scipy import stats

from bacoun.tabular import TableModel
from bacoun.tabular.scoring import ScoredRows
from bacoun.watching.martingale import DriftTest
from bacoun.watching.quantities import Quantity, bins_of, weights_of
from benchmarks.record import Record, markdown_table, rich_table
from benchmarks.record import resume as resume_record

RECORD = Path(__file__).with_suffix(".json")
FALSE_ALARM = 0.01
N_STREAMS, N_CHANGED = 1000, 200
N_ROWS, CHANGE, N_AFTER = 2000, 500, 3000
N_KNOWN, N_CALIBRATION = 1500, 300
POOL = 60_000
LOOK, WINDOW = 100, 200
N_NUMBERS, N_CLASSES = 8, 4
TESTS = ("martingale", "KS, columns", "KS, columns and looks")


class Pool(NamedTuple):
    """Rows that were scored once; streams draw theirs without replacement."""

    scored: ScoredRows
    levels: list[int]  # number of levels of each column; 0: a number


def draw(n_rows: int, rng: np.random.Generator, labels: np.ndarray) -> pd.DataFrame:
    """Rows of classes 0 to 4: numbers around the mean of their class, and categories."""
    means = 1.5 * np.random.default_rng(3).standard_normal((N_CLASSES + 1, N_NUMBERS))
    numbers = means[labels] + rng.standard_normal((n_rows, N_NUMBERS))
    frame = pd.DataFrame(numbers, columns=[f"x{k}" for k in range(N_NUMBERS)])
    frame["ward"] = rng.choice(list("ABCDE"), n_rows, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    frame["side"] = np.where(rng.random(n_rows) < 0.3 + 0.1 * (labels == 1), "left", "right")
    return frame


@cache
def model() -> TableModel:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, N_CLASSES, 1500)
    table = draw(1500, rng, labels).assign(y=[f"class {k}" for k in labels])
    return TableModel.fit(table, "y", random_state=0)


@cache
def pool(change: str) -> Pool:
    """Rows with a change, or with none."""
    rng = np.random.default_rng([2, len(change)])
    labels = rng.integers(0, N_CLASSES, POOL)
    if change == "new class":
        labels = np.where(rng.random(POOL) < 0.05, N_CLASSES, labels)
    frame = draw(POOL, rng, labels)
    if change == "shift":
        frame["x0"] += 0.5 * frame["x0"].std()
    if change == "units":
        frame["x0"] /= 2.54
    fitted = model()
    (scored,) = fitted.score_rows([frame])
    return Pool(scored, [len(column.levels) for column in fitted.encoder.columns_])


def reference(usual: Pool, known: np.ndarray, held_out: np.ndarray) -> list[Quantity]:
    """Quantities as of a model that has these rows of the pool as its own."""
    scored, rows = usual.scored, usual.scored.features[known]
    found = [
        Quantity.number("ood_score", scored.ood_score[held_out]),
        Quantity.number("total", scored.evaluation.total[held_out]),
        Quantity.category("prediction", N_CLASSES, np.empty(0)),
    ]
    for place, n_levels in enumerate(usual.levels):
        name, values = f"column {place}", rows[:, place]
        found.append(
            Quantity.category(name, n_levels + 1, values, place)
            if n_levels
            else Quantity.number(name, values, place)
        )
    return found


def noticed(change: str, n_before: int, n_after: int, seed: int) -> dict[str, int | None]:
    """Row at which each test raises its alarm, from 1; None if it does not."""
    rng, usual, changed = np.random.default_rng([3, seed]), pool("none"), pool(change)
    chosen = rng.choice(POOL, N_KNOWN + N_CALIBRATION + n_before, replace=False)
    known, held_out, before = np.split(chosen, [N_KNOWN, N_KNOWN + N_CALIBRATION])
    after = rng.choice(POOL, n_after, replace=False)
    parts = [usual.scored.take(before), changed.scored.take(after)]
    quantities = reference(usual, known, held_out)
    counts = np.stack([each.counts for each in quantities])
    test = DriftTest.start(counts, weights_of(quantities), FALSE_ALARM)
    bins = np.concatenate([bins_of(quantities, part) for part in parts])
    for start in range(0, len(bins), LOOK):
        test.update(bins[start : start + LOOK], rng)
        if test.alarm_row is not None:
            break
    rows = np.concatenate([part.features for part in parts])
    p_values = list(smallest_p_values(usual.scored.features[known], rows))
    found: dict[str, int | None] = {TESTS[0]: test.alarm_row}
    for name, n_tests in ((TESTS[1], 1), (TESTS[2], len(p_values))):
        limit = FALSE_ALARM / (rows.shape[1] * n_tests)
        found[name] = next((row for row, p in p_values if p <= limit), None)
    return found


def smallest_p_values(known: np.ndarray, rows: np.ndarray) -> Iterator[tuple[int, float]]:
    """At each look, the number of rows so far and the smallest p-value of any column."""
    for end in range(WINDOW, len(rows) + 1, LOOK):
        latest = rows[end - WINDOW : end]
        tested = [
            stats.ks_2samp(known[:, k], latest[:, k], method="asymp").pvalue
            for k in range(rows.shape[1])
        ]
        yield end, float(min(tested))


def false_alarms() -> dict[str, Any]:
    """Share of streams without a change in which each test raises an alarm."""
    found = [noticed("none", N_ROWS // 2, N_ROWS // 2, seed) for seed in range(N_STREAMS)]
    shares = {name: float(np.mean([each[name] is not None for each in found])) for name in TESTS}
    return {"streams": N_STREAMS, "rows": N_ROWS, "promise": FALSE_ALARM, "alarms": shares}


def delays(change: str) -> dict[str, Any]:
    """Rows from a change to the alarm; streams with an earlier alarm do not count."""
    found = [noticed(change, CHANGE, N_AFTER, seed) for seed in range(N_CHANGED)]
    delays = {}
    for name in TESTS:
        rows = [np.inf if each[name] is None else each[name] - CHANGE for each in found]
        late = np.array([each for each in rows if each > 0])
        middle, most = (float(np.quantile(late, q, method="higher")) for q in (0.5, 0.9))
        delays[name] = {
            "noticed": float(np.isfinite(late).mean()),
            "median": middle if np.isfinite(middle) else None,
            "90 %": most if np.isfinite(most) else None,
            "too early": len(rows) - len(late),
        }
    return {"streams": N_CHANGED, "rows": N_AFTER, "delays": delays}


TASKS: dict[str, Callable[[], dict[str, Any]]] = {
    "false alarms": false_alarms,
    **{change: partial(delays, change) for change in ("shift", "new class", "units")},
}


def table_of(runs: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table of results."""
    alarms, changes = runs["false alarms"], ["shift", "new class", "units"]
    header = ["test", f"false alarms in {alarms['rows']} rows", *changes]
    rows = []
    for name in TESTS:
        found = [runs[change]["delays"][name] for change in changes]
        delays = [f"{_rows(each['median'])} / {_rows(each['90 %'])}" for each in found]
        rows.append([name, f"{alarms['alarms'][name]:.1%}", *delays])
    return header, rows


def _rows(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def markdown(record: Record) -> str:
    """The same table as Markdown."""
    return markdown_table(*table_of(record["runs"]))


def main() -> None:
    """Measure what the record lacks, and print it all."""
    record = resume_record(RECORD, TASKS, ("bacoun", "numpy", "scipy"))
    Console(width=120).print(
        rich_table("Rows until a change is noticed", *table_of(record["runs"]))
    )
