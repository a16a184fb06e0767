"""Show the benchmark records as tables and a bar chart."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from rich.console import Console
from rich.table import Table

Runs = dict[str, dict[str, Any]]


def part(runs: Runs, prefix: str) -> Runs:
    """Runs whose name starts with `prefix`, by the rest of their name."""
    return {k.removeprefix(prefix): run for k, run in runs.items() if k.startswith(prefix)}


def print_tables(runs: Runs) -> None:
    """One table for samplers, one for growth, one for everything else."""
    console = Console(width=120)
    _print_samplers(console, "GMM head, 1500 x 1025 x 3", part(runs, "samplers/gmm/"))
    _print_samplers(console, "Wine head, 2476 x 1025 x 2", part(runs, "samplers/wine/"))
    growth = Table(title="Growth with N: synthetic head, 65 features, 3 classes")
    for name in ("N / sampler", "seconds", "min ESS", "ESS/s"):
        growth.add_column(name, justify="right")
    for name, run in part(runs, "growth/").items():
        if "stopped" not in run:
            values = (f"{run[k]:.3g}" for k in ("seconds", "ess", "ess_per_second"))
            growth.add_row(name, *values)
    console.print(growth)
    first, last = (runs.get(f"growth/{n}/bacoun HMC", {}).get("seconds") for n in (10_000, 100_000))
    if first and last:
        console.print(
            f"slope of log time in log N between 1e4 and 1e5: {math.log10(last / first):.2f}"
        )
    for name, run in runs.items():
        if not name.startswith(("samplers/", "growth/")):
            console.print(name, run)


def _print_samplers(console: Console, title: str, samplers: Runs) -> None:
    table = Table(title=f"{title}: same posterior, same quantities")
    for name in ("sampler", "seconds", "min ESS", "ESS/s", "ours is", "ESS/s squares", "ours is"):
        table.add_column(name, justify="right")
    table.add_column("epistemic in / out", justify="right")
    ours = samplers.get("bacoun HMC", {})
    for name, run in samplers.items():
        if "stopped" in run:
            table.add_row(name, run["stopped"])
            continue
        table.add_row(
            name,
            f"{run['seconds']:.1f}",
            f"{run['ess']:.0f}",
            f"{run['ess_per_second']:.3g}",
            f"{ours['ess_per_second'] / run['ess_per_second']:.0f} x",
            f"{run['ess_squares_per_second']:.3g}",
            f"{ours['ess_squares_per_second'] / run['ess_squares_per_second']:.0f} x",
            f"{run['epistemic_in']:.4f} / {run['epistemic_out']:.3f}",
        )
    console.print(table)


def draw_chart(runs: Runs, path: Path) -> None:
    """Effective draws a second, on a logarithmic axis."""
    samplers = {k: v for k, v in part(runs, "samplers/gmm/").items() if "stopped" not in v}
    if not samplers:
        return
    names = list(samplers)[::-1]
    figure, axis = plt.subplots(figsize=(8, 0.55 * len(names) + 1.2), layout="constrained")
    speeds = [samplers[name]["ess_per_second"] for name in names]
    squares = [samplers[name]["ess_squares_per_second"] for name in names]
    places = range(len(names))
    axis.barh([p + 0.2 for p in places], speeds, height=0.38, label="logits", color="#3b6fb6")
    axis.barh(
        [p - 0.2 for p in places], squares, height=0.38, label="their squares", color="#e08a3c"
    )
    for place, speed in zip(places, speeds, strict=True):
        axis.text(speed * 1.08, place + 0.2, f"{speed:.3g}", va="center", fontsize=8)
    axis.set(xscale="log", xlabel="smallest effective sample size a second", yticks=list(places))
    axis.set_yticklabels(names)
    axis.set_title("One posterior, 1500 points, 1025 x 3 weights, two cores", fontsize=10)
    axis.legend(loc="lower right", fontsize=8)
    axis.margins(x=0.12)
    figure.savefig(path, dpi=110)
    plt.close(figure)
