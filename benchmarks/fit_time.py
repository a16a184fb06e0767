"""Fit time of default settings, beside CatBoost and scikit-learn's MLP; extends fit_time.json.

    python -m benchmarks fit_time

Each fit runs in a process of its own, on as many threads as the method takes by default. "busy" are
fits beside four processes that do nothing but compute. "growth" varies rows, columns or classes
alone; the slope is that of the logarithms, between the two largest sizes. Accuracy on other rows of
the same kind stands beside each time. Run it on an idle machine.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from benchmarks import record as records
from benchmarks.record import Record, markdown_table, rich_table

RECORD = Path(__file__).with_suffix(".json")
CHART = Path(__file__).parents[1] / "docs" / "images" / "fit-time.png"
LIBRARIES = ("bacoun", "torch", "numpy", "scikit-learn", "catboost")
N_BUSY = 4
N_TEST = 2000


class Size(NamedTuple):
    """Rows, columns and classes of a table."""

    rows: int
    columns: int
    classes: int

    def __str__(self) -> str:
        return f"{self.rows} x {self.columns}, {self.classes} classes"


LIMITS = {  # seconds on two idle cores
    Size(569, 30, 2): 5,
    Size(1000, 6, 3): 6,
    Size(10_000, 20, 3): 30,
    Size(100_000, 20, 3): 180,
    Size(5500, 40, 11): 60,
    Size(20_000, 16, 26): 240,
}
BUSY = (Size(569, 30, 2), Size(1000, 6, 3), Size(10_000, 20, 3), Size(5500, 40, 11))
MILLION = Size(1_000_000, 20, 3)
GROWTH = {
    "rows": [Size(n, 20, 3) for n in (300, 1000, 3000, 10_000, 30_000, 100_000)],
    "columns": [Size(3000, d, 3) for d in (5, 10, 20, 40, 80)],
    "classes": [Size(5000, 20, k) for k in (2, 3, 5, 10, 20)],
}
METHODS = ("bacoun", "catboost", "mlp")


# --- one fit --------------------------------------------------------------------------------------


def table(size: Size) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian clusters, two of each class; every second column is informative, at most 12."""
    from sklearn.datasets import make_classification

    n_informative = min(12, max(size.columns // 2, math.ceil(math.log2(4 * size.classes))))
    return make_classification(
        size.rows + N_TEST,
        size.columns,
        n_informative=min(n_informative, size.columns),
        n_redundant=0,
        n_classes=size.classes,
        class_sep=1.5,
        random_state=0,
    )


def measure(size: Size, method: str) -> dict[str, Any]:
    """Seconds of one fit, processor time, peak memory and accuracy on other rows."""
    X, y = table(size)
    model = make(method)
    before = os.times()
    started = time.perf_counter()
    model.fit(X[: size.rows], y[: size.rows])
    seconds = time.perf_counter() - started
    after = os.times()
    found = {
        "seconds of fit": round(seconds, 2),
        "processor seconds": round(after.user + after.system - before.user - before.system, 2),
        "peak gigabytes": round(peak_gigabytes(), 2),
        "accuracy": round(
            float((model.predict(X[size.rows :]).ravel() == y[size.rows :]).mean()), 4
        ),
    }
    if method == "bacoun":
        found |= {"dimensions": model.health_.dimensions, "ess": round(float(model.health_.ess))}
    return found


def make(method: str) -> Any:
    """A model at its defaults."""
    if method == "bacoun":
        from bacoun import BaCOUnClassifier

        return BaCOUnClassifier(random_state=0)
    if method == "catboost":
        from catboost import CatBoostClassifier

        return CatBoostClassifier(random_seed=0, verbose=False, allow_writing_files=False)
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(random_state=0)


def peak_gigabytes() -> float:
    """The largest resident memory of this process so far, by Linux's own counter."""
    status = Path("/proc/self/status").read_text().splitlines()
    line = next(row for row in status if row.startswith("VmHWM"))
    return int(line.split()[1]) / 2**20


def in_a_process(size: Size, method: str, busy: bool = False) -> dict[str, Any]:
    """`measure` in a process of its own, beside others if `busy`."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.fit_time", *map(str, size), method]
    with busy_processes(N_BUSY if busy else 0):
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found | {"load of the machine before": round(os.getloadavg()[0], 1)}


@contextmanager
def busy_processes(n_processes: int) -> Iterator[None]:
    """Processes that compute until the block ends."""
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command) for _ in range(n_processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


# --- results --------------------------------------------------------------------------------------


def tasks() -> dict[str, Callable[[], dict[str, Any]]]:
    """Every fit by name."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for size in LIMITS:
        for method in METHODS:
            found[f"idle/{size}/{method}"] = partial(in_a_process, size, method)
    for size in BUSY:
        found[f"busy/{size}/bacoun"] = partial(in_a_process, size, "bacoun", busy=True)
    for sizes in GROWTH.values():
        for size in sizes:
            found[f"idle/{size}/bacoun"] = partial(in_a_process, size, "bacoun")
    found[f"memory/{MILLION}/bacoun"] = partial(in_a_process, MILLION, "bacoun")
    return found


def main() -> None:
    """Measure what the record lacks, print it all and draw the growth."""
    record = records.resume(RECORD, tasks(), LIBRARIES)
    console = Console()
    console.print(rich_table("fit time", *limit_rows(record)))
    console.print(rich_table("growth", *growth_rows(record)))
    draw_growth(record)


def seconds_of(record: Record, part: str, size: Size, method: str = "bacoun") -> float | None:
    """Seconds of a fit, or None if it was not measured."""
    run = record["runs"].get(f"{part}/{size}/{method}")
    return None if run is None else float(run["seconds of fit"])


def limit_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: each size with its limit, the methods, and the fit on a busy machine."""
    header = ["table", "at most", *METHODS, "busy", "busy / limit", "accuracy"]
    rows = []
    for size, limit in LIMITS.items():
        seconds = [seconds_of(record, "idle", size, method) for method in METHODS]
        busy = seconds_of(record, "busy", size)
        runs = [record["runs"].get(f"idle/{size}/{method}", {}) for method in METHODS]
        accuracy = " / ".join(f"{run['accuracy']:.3f}" if run else "-" for run in runs)
        cells = [_text(each) for each in (*seconds, busy)]
        rows.append([f"{size}", f"{limit} s", *cells, _text(busy and busy / limit, 2), accuracy])
    return header, rows


def growth_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: seconds by size, and the slope at the end."""
    rows = []
    for name, sizes in GROWTH.items():
        place = Size._fields.index(name)
        known = [(s[place], seconds_of(record, "idle", s)) for s in sizes]
        known = [(value, seconds) for value, seconds in known if seconds is not None]
        if len(known) >= 2:
            (a, s), (b, t) = known[-2:]
            slope = math.log(t / s) / math.log(b / a)
            text = ", ".join(f"{value}: {seconds:.1f}" for value, seconds in known)
            rows.append([name, text, f"{slope:.2f}"])
    return ["grows", "seconds", "slope"], rows


def draw_growth(record: Record) -> None:
    """Fit time against rows, columns and classes, on logarithmic scales."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
    for axis, (name, sizes) in zip(axes, GROWTH.items(), strict=True):
        place = Size._fields.index(name)
        points = [(s[place], seconds_of(record, "idle", s)) for s in sizes]
        known = [point for point in points if point[1] is not None]
        axis.loglog(*zip(*known, strict=True), "o-", color="#2a6f97")
        fixed = [f"{n:,} {f}" for f, n in zip(Size._fields, sizes[-1], strict=True) if f != name]
        axis.set(xlabel=name, title=", ".join(fixed))
        axis.set_xticks([size[place] for size in sizes], [f"{size[place]:,}" for size in sizes])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.tick_params(axis="x", labelsize=8)
    ticks = [1, 3, 10, 30, 100]
    axes[0].set_yticks(ticks, [str(tick) for tick in ticks])
    axes[0].set_ylabel("seconds of fit")
    figure.savefig(CHART, dpi=110)


def markdown(record: Record) -> str:
    """The record as Markdown."""
    parts = [markdown_table(*limit_rows(record))]
    if growth_rows(record)[1]:
        parts.append(markdown_table(*growth_rows(record)))
    memory = record["runs"].get(f"memory/{MILLION}/bacoun")
    if memory is not None:
        parts.append(
            f"One million rows, 20 columns, 3 classes: {memory['peak gigabytes']:.1f} GB at most, "
            f"{memory['seconds of fit']:.0f} s, accuracy {memory['accuracy']:.3f}."
        )
    return "\n\n".join(parts) + "\n"


def _text(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    print(json.dumps(measure(Size(*map(int, sys.argv[1:4])), sys.argv[4])))
