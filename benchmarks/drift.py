"""Drift in a stream of rows: false alarms, and rows until a change is noticed.

    python -m benchmarks drift

Rows of five classes have eight numbers and two categories; a model is fitted to four of them. For
false alarms the numbers are also whole ones from 1 to 5, rounded, heavy-tailed, categories or a
mixture of these, and rows are copies of 300 different ones.
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

from bacoun.columns.column import Column
from bacoun.tabular import TableModel
from bacoun.tabular.neighbors import Neighborhood
from bacoun.tabular.scored_rows import ScoredRows
from bacoun.watching.binning import bins_of, watched, weights_of
from bacoun.watching.martingale import DriftTest
from benchmarks.record import Record, markdown_table, rich_table
from benchmarks.record import resume as resume_record

RECORD = Path(__file__).with_suffix(".json")
FALSE_ALARM = 0.01
N_STREAMS, N_CHANGED = 4000, 200
N_ROWS, CHANGE, N_AFTER = 2000, 500, 3000
N_KNOWN, N_CALIBRATION = 1500, 300
POOL = 60_000
LOOK, WINDOW = 100, 200
N_NUMBERS, N_CLASSES = 8, 4
TESTS = ("martingale", "KS, columns", "KS, columns and looks")


class Pool(NamedTuple):
    """Rows that were scored once; streams draw theirs without replacement."""

    scored: ScoredRows
    columns: list[Column]
    n_categories: list[int]  # of each feature; 0: a number


def letters(numbers: np.ndarray) -> np.ndarray:
    """Numbers as categories a to e."""
    return np.array(list("abcde"))[np.clip(np.rint(numbers + 2), 0, 4).astype(int)]


def mixed(numbers: np.ndarray) -> pd.DataFrame:
    """Columns of all kinds in turn."""
    kinds = [KINDS[kind] for kind in ("continuous", "whole numbers", "rounded", "heavy tails")]
    made = [[*kinds, letters][k % 5](column) for k, column in enumerate(numbers.T)]
    return pd.DataFrame({f"x{k}": column for k, column in enumerate(made)})


KINDS: dict[str, Callable[[np.ndarray], np.ndarray | pd.DataFrame]] = {
    "continuous": lambda numbers: numbers,
    "whole numbers": lambda numbers: np.clip(np.rint(numbers + 3), 1, 5),
    "rounded": lambda numbers: numbers.round(1),
    "heavy tails": lambda numbers: np.sinh(4 * numbers),
    "categories": letters,
    "mixed": mixed,
    "copies": lambda numbers: numbers,
}


def draw(
    n_rows: int, rng: np.random.Generator, labels: np.ndarray, kind: str = "continuous"
) -> pd.DataFrame:
    """Rows of classes 0 to 4: numbers around the mean of their class, and categories."""
    means = 1.5 * np.random.default_rng(3).standard_normal((N_CLASSES + 1, N_NUMBERS))
    numbers = means[labels] + rng.standard_normal((n_rows, N_NUMBERS))
    if kind == "copies":  # the same 300 rows again and again
        originals = np.random.default_rng(4).standard_normal((300, N_NUMBERS))
        numbers = means[labels] + originals[rng.integers(len(originals), size=n_rows)]
    frame = pd.DataFrame(KINDS[kind](numbers), columns=[f"x{k}" for k in range(N_NUMBERS)])
    frame["ward"] = rng.choice(list("ABCDE"), n_rows, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    frame["side"] = np.where(rng.random(n_rows) < 0.3 + 0.1 * (labels == 1), "left", "right")
    return frame


@cache
def model(kind: str) -> TableModel:
    """A model of rows of one kind."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, N_CLASSES, 1500)
    table = draw(1500, rng, labels, kind).assign(y=[f"class {k}" for k in labels])
    return TableModel.fit(table, "y", random_state=0)


@cache
def pool(change: str, kind: str = "continuous") -> Pool:
    """Rows with a change, or with none."""
    rng = np.random.default_rng([2, len(change)])
    labels = rng.integers(0, N_CLASSES, POOL)
    if change == "new class":
        labels = np.where(rng.random(POOL) < 0.05, N_CLASSES, labels)
    frame = draw(POOL, rng, labels, kind)
    if change == "shift":
        frame["x0"] += 0.5 * frame["x0"].std()
    if change == "units":
        frame["x0"] /= 2.54
    fitted = model(kind)
    (scored,) = fitted.score_rows([frame])
    return Pool(scored, fitted.columns, fitted.neighborhood.n_categories)


def noticed(
    change: str, n_before: int, n_after: int, seed: int, kind: str = "continuous"
) -> dict[str, int | None]:
    """Row at which each test raises its alarm, from 1; None if it does not.

    The reference is as of a model that has some rows of the pool as its own.
    """
    rng, usual, changed = np.random.default_rng([3, seed]), pool("none", kind), pool(change, kind)
    chosen = rng.choice(POOL, N_KNOWN + N_CALIBRATION + n_before, replace=False)
    known, held_out, before = np.split(chosen, [N_KNOWN, N_KNOWN + N_CALIBRATION])
    after = rng.choice(POOL, n_after, replace=False)
    parts = [usual.scored.take(before), changed.scored.take(after)]
    own = Neighborhood.fit(usual.scored.features[known], usual.n_categories, seed)
    held = usual.scored.take(held_out)
    calibration = {"ood_score": held.ood_score, "total": held.evaluation.total}
    quantities = watched(usual.columns, own, calibration, N_CLASSES)
    counts = np.stack([each.counts for each in quantities])
    test = DriftTest.start(counts, weights_of(quantities), FALSE_ALARM)
    bins = np.concatenate([bins_of(quantities, part, own) for part in parts])
    for start in range(0, len(bins), LOOK):
        test.update(bins[start : start + LOOK], rng)
        if test.alarm_row is not None:
            break
    if kind != "continuous":
        return {TESTS[0]: test.alarm_row}
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


def false_alarms(kind: str) -> dict[str, Any]:
    """Share of streams without a change in which each test raises an alarm."""
    half = N_ROWS // 2
    found = [noticed("none", half, half, seed, kind) for seed in range(N_STREAMS)]
    shares = {name: float(np.mean([each[name] is not None for each in found])) for name in found[0]}
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
    **{f"false alarms, {kind}": partial(false_alarms, kind) for kind in KINDS},
    **{change: partial(delays, change) for change in ("shift", "new class", "units")},
}


def table_of(runs: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table of results."""
    alarms, changes = runs["false alarms, continuous"], ["shift", "new class", "units"]
    header = ["test", f"false alarms in {alarms['rows']} rows", *changes]
    rows = []
    for name in TESTS:
        found = [runs[change]["delays"][name] for change in changes]
        delays = [f"{_rows(each['median'])} / {_rows(each['90 %'])}" for each in found]
        rows.append([name, f"{alarms['alarms'][name]:.1%}", *delays])
    return header, rows


def alarms_of(runs: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and row of the table of false alarms by kind of columns."""
    known = [kind for kind in KINDS if f"false alarms, {kind}" in runs]
    found = {kind: runs[f"false alarms, {kind}"]["alarms"][TESTS[0]] for kind in known}
    return ["columns", *found], [["false alarms", *(f"{share:.1%}" for share in found.values())]]


def _rows(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def markdown(record: Record) -> str:
    """The same table as Markdown."""
    tables = (table_of(record["runs"]), alarms_of(record["runs"]))
    return "\n\n".join(markdown_table(*table) for table in tables)


def main() -> None:
    """Measure what the record lacks, and print it all."""
    record = resume_record(RECORD, TASKS, ("bacoun", "numpy", "scipy"))
    Console(width=120).print(
        rich_table("Rows until a change is noticed", *table_of(record["runs"])),
        rich_table("Streams without a change", *alarms_of(record["runs"])),
    )
