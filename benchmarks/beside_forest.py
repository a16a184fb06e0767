"""Fit and score beside a random forest of 500 trees; adds missing entries to beside_forest.json.

    python -m benchmarks beside_forest

Both methods have default settings and all cores, and take turns in one process: what else the
machine does slows down both. Ratios are ours over the forest's, less than 1 if we are faster; the
last line has their geometric means. Answers are compared before times: `difference` is the largest
one between probabilities, or uncertainties in nats, of `evaluate`, which is timed, and of all draws
in double precision.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from reproduction.datasets.tables import load_table
from rich.console import Console
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from bacoun import BaCOUnClassifier
from benchmarks import record as records
from benchmarks.record import Record, markdown_table, rich_table

RECORD = Path(__file__).with_suffix(".json")
LIBRARIES = ("bacoun", "torch", "numpy", "scikit-learn")
N_TREES, N_SCORED, N_TURNS, N_SINGLE = 500, 12_000, 7, 40
ROWS = {"made, 13 columns, 11 classes": 700, "digits-table": 1400, "letter": 3000}
TIMES = {"fit": "seconds", "row": "microseconds", "one row": "milliseconds"}


def table(name: str) -> tuple[np.ndarray, ...]:
    """Rows for training and others, then the labels of both."""
    if name.startswith("made"):
        made = {"n_informative": 8, "n_redundant": 2, "n_clusters_per_class": 1, "class_sep": 1.5}
        X, y = make_classification(4000, 13, n_classes=11, random_state=0, **made)
    else:
        X, y, _ = load_table(name)
    return tuple(train_test_split(X, y, train_size=ROWS[name], stratify=y, random_state=0))


def measure(name: str) -> dict[str, Any]:
    """Quality and times of both methods on one table."""
    X, other, y, other_y = table(name)
    ours = BaCOUnClassifier(random_state=0)
    forest = RandomForestClassifier(N_TREES, n_jobs=-1, random_state=0)
    models: dict[str, Any] = {"bacoun": ours, "forest": forest}
    found: dict[str, Any] = {}
    for method, model in models.items():
        started = time.perf_counter()
        model.fit(X, y)
        found[f"{method}, fit"] = round(time.perf_counter() - started, 2)
        probabilities = model.predict_proba(other)
        right = model.classes_[probabilities.argmax(axis=1)] == other_y
        found[f"{method}, accuracy"] = round(float(right.mean()), 4)
        found[f"{method}, log loss"] = round(log_loss(other_y, probabilities), 4)
    exact, quick = ours.uncertainty(other), ours.evaluate(other)
    found["difference"] = max(
        float(np.abs(quick.probabilities - ours.predict_proba(other)).max()),
        *(float(np.abs(getattr(quick, part) - of).max()) for part, of in exact.parts().items()),
    )
    many = np.resize(other, (N_SCORED, other.shape[1]))
    score = {"bacoun": ours.evaluate, "forest": forest.predict_proba}
    rows = taken(score, many, N_TURNS, np.min)
    single = taken(score, many[:1], N_SINGLE, np.median)
    for method in score:
        found[f"{method}, row"] = round(1e6 * rows[method] / N_SCORED, 1)
        found[f"{method}, one row"] = round(1e3 * single[method], 1)
    return found


def taken(
    score: dict[str, Callable[[np.ndarray], Any]],
    rows: np.ndarray,
    n_turns: int,
    summary: Callable[[list[float]], float],
) -> dict[str, float]:
    """Seconds of each method, which take turns."""
    seconds: dict[str, list[float]] = {method: [] for method in score}
    for _ in range(n_turns):
        for method, answer in score.items():
            started = time.perf_counter()
            answer(rows)
            seconds[method].append(time.perf_counter() - started)
    return {method: float(summary(each)) for method, each in seconds.items()}


def main() -> None:
    """Measure what the record lacks, and print it all."""
    record = records.resume(RECORD, {name: partial(measure, name) for name in ROWS}, LIBRARIES)
    Console().print(rich_table("beside a forest of 500 trees", *rows_of(record)))


def rows_of(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: times of both methods and their ratio; quality of both."""
    header = ["table", *(f"{name}, {unit}" for name, unit in TIMES.items())]
    header += ["accuracy", "log loss", "difference"]
    rows, ratios = [], {name: [] for name in TIMES}
    for table_name, run in record["runs"].items():
        cells = []
        for name in TIMES:
            ours, theirs = run[f"bacoun, {name}"], run[f"forest, {name}"]
            ratios[name].append(ours / theirs)
            cells.append(f"{ours} / {theirs} = {ours / theirs:.2f}")
        quality = [
            f"{run[f'bacoun, {name}']:.3f} / {run[f'forest, {name}']:.3f}"
            for name in ("accuracy", "log loss")
        ]
        n_rows = ROWS[table_name]
        rows.append([f"{table_name}, {n_rows} rows", *cells, *quality, f"{run['difference']:.0e}"])
    means = [f"{np.exp(np.mean(np.log(each))):.2f}" for each in ratios.values()]
    return header, [*rows, ["geometric mean of the ratios", *means, "", "", ""]]


def markdown(record: Record) -> str:
    """The record as Markdown."""
    return markdown_table(*rows_of(record)) + "\n"
