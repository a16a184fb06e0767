"""Which accidents of a table are noticed, by our model and its rivals; extends accidents.json.

    python -m benchmarks accidents

For each table and seed, all detectors are fitted on the same training rows, with a false alarm of
5 %. Then each accident of `benchmarks.spoil` happens to the test rows, and the record counts which
of the rows that it changed are flagged, among all of them and among those that are outside the
training rows beyond dispute (`benchmarks.detectors.Outside`).
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from reproduction.datasets.frames import load_frame, split_frame
from rich.console import Console

from benchmarks import record as records
from benchmarks.detectors import NAMES, Detector, Outside, fit_all
from benchmarks.record import Record, in_percent, mean_of
from benchmarks.spoil import ACCIDENTS, changed_rows

RECORD = Path(__file__).with_suffix(".json")
DATED = {"pima with dates": "pima"}  # only what happens to dates happens here
TABLES = (
    *("breast-cancer", "sklearn-wine", "wine-quality", "pima", "saheart", "german"),
    *("contraceptive", "mushroom", "splice", "penguins", "vehicle", "segment"),
    *DATED,
)
SEEDS = (0, 1, 2)
MAX_TRAIN, MAX_TEST = 2000, 300
LIBRARIES = ("bacoun", "torch", "numpy", "pandas", "scikit-learn", "pandera")


def load(table: str, seed: int) -> tuple[pd.DataFrame, str]:
    """A table by name; one with dates gets a column of ISO dates of two years, drawn at random."""
    frame, target = load_frame(DATED.get(table, table))
    if table in DATED:
        days = np.random.default_rng(seed).integers(730, size=len(frame))
        dates = (pd.Timestamp("2022-01-01") + pd.to_timedelta(days, unit="D")).strftime("%Y-%m-%d")
        frame.insert(0, "date", np.asarray(dates, dtype=object))
    return frame, target


def measure(table: str, seed: int, quick: bool = False) -> dict[str, Any]:
    """One entry of the record.

    Returns
    -------
    dict
        "test rows"; "false alarms": for each detector the number of untouched test rows that it
        flags; "accidents": as `judge` counts them, for each that can happen to the table.
    """
    frame, target = load(table, seed)
    train, test = split_frame(frame, target, n_train=MAX_TRAIN, n_test=MAX_TEST, random_state=seed)
    detectors = fit_all(train, target, seed, quick)
    rows, known = test.drop(columns=target), train.drop(columns=target)
    outside = Outside(known)
    happened = {}
    for name, accident in ACCIDENTS.items():
        if table in DATED and not name.startswith("dates"):
            continue
        spoiled = accident(generator_for(name, seed), rows, known)
        if spoiled is not None and (changed := changed_rows(rows, spoiled)).any():
            happened[name] = judge(detectors, spoiled, changed, outside(spoiled))
    alarms = {name: int(flagged(detector, rows)[0].sum()) for name, detector in detectors.items()}
    return {"test rows": len(rows), "false alarms": alarms, "accidents": happened}


def generator_for(accident: str, seed: int) -> np.random.Generator:
    """Its own generator for each accident, so that a new one does not change the others."""
    return np.random.default_rng([seed, zlib.crc32(accident.encode())])


def flagged(detector: Detector, frame: pd.DataFrame) -> tuple[np.ndarray, bool]:
    """Which rows (N,) are flagged, and whether that is because the whole file was refused."""
    try:
        return detector(frame), False
    except ValueError:
        return np.ones(len(frame), dtype=bool), True


def judge(
    detectors: dict[str, Detector], spoiled: pd.DataFrame, changed: np.ndarray, outside: np.ndarray
) -> dict[str, Any]:
    """Count what the detectors flag among the changed rows.

    Returns
    -------
    dict
        "rows": number of changed rows; "outside": of those that are outside; for each detector, how
        many of both it flags, and whether (0 or 1) it refused the file.
    """
    counts: dict[str, Any] = {"rows": int(changed.sum()), "outside": int((changed & outside).sum())}
    for name, detector in detectors.items():
        flags, refused = flagged(detector, spoiled)
        noticed = flags & changed
        counts[name] = [int(noticed.sum()), int((noticed & outside).sum()), int(refused)]
    return counts


# --- results --------------------------------------------------------------------------------------


def main() -> None:
    """Measure what the record lacks, and print it all."""
    show(records.resume(RECORD, records.tasks(measure, TABLES, SEEDS), LIBRARIES))


def noticed(record: Record, accident: str, detector: str) -> tuple[float | None, ...]:
    """Share flagged of all rows and share of refusals, means over runs; share of all outside rows.

    Some runs have a single outside row, so that a mean over runs would be mostly noise.
    """
    happened = [run["accidents"].get(accident) for run in record["runs"].values()]
    counts = [(each, *each[detector]) for each in happened if each is not None]
    everywhere = [flags / each["rows"] for each, flags, _, _ in counts]
    n_outside = sum(each["outside"] for each, *_ in counts)
    beyond = sum(flags for _, _, flags, _ in counts) / n_outside if n_outside else None
    refused = [refusal for *_, refusal in counts]
    return mean_of(everywhere), beyond, mean_of(refused)


def accident_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: for each accident, the percentage flagged of all rows | outside rows."""
    header = ["accident", "runs", "outside", *NAMES, "bacoun refused"]
    rows = []
    for accident in ACCIDENTS:
        happened = [
            run["accidents"][accident]
            for run in record["runs"].values()
            if accident in run["accidents"]
        ]
        if not happened:
            continue
        outside = sum(each["outside"] for each in happened)
        found = {name: noticed(record, accident, name) for name in NAMES}
        cells = [f"{in_percent(found[name][0])} | {in_percent(found[name][1])}" for name in NAMES]
        refused = in_percent(found["bacoun"][2])
        rows.append([accident, str(len(happened)), f"{outside:,}", *cells, refused])
    return header, rows


def alarm_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: for each table, the percentage of untouched rows that is flagged."""
    rows = []
    for table in TABLES:
        runs = [run for name, run in record["runs"].items() if name.rpartition("/")[0] == table]
        shares = [
            mean_of([run["false alarms"][name] / run["test rows"] for run in runs])
            for name in NAMES
        ]
        if runs:
            rows.append([table, *("-" if s is None else f"{100 * s:.1f}" for s in shares)])
    return ["table", *NAMES], rows


ACCIDENTS_TITLE = "Rows flagged after an accident, in %: of all that it changed | of those outside"
ALARMS_TITLE = "Untouched test rows flagged, in %"


def show(record: Record) -> None:
    """Print both tables."""
    console = Console(width=150)
    console.print(records.rich_table(ACCIDENTS_TITLE, *accident_rows(record)))
    console.print(records.rich_table(ALARMS_TITLE, *alarm_rows(record)))


def markdown(record: Record) -> str:
    """Both tables as Markdown, each under its title."""
    header, rows = accident_rows(record)
    rows = [[cell.replace("|", "/") for cell in row] for row in rows]  # a bar would end the cell
    first = records.markdown_table(header, rows)
    second = records.markdown_table(*alarm_rows(record))
    title = ACCIDENTS_TITLE.replace("|", "/")
    return f"{title}:\n\n{first}\n\n{ALARMS_TITLE}:\n\n{second}\n"


if __name__ == "__main__":
    main()
