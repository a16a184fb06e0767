"""How long does a training step of a flow take, beside zuko's own log density? Extends flows.json.

    python -m benchmarks flows

Both ways start from the same weights and see the same mini-batches, in turn, on one thread. The
largest difference between their losses is recorded with the times.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Generator, Tensor
from zuko.lazy import Flow as ZukoFlow

from bacoun.boundary import realnvp
from bacoun.boundary.flow import Flow
from bacoun.engine.threads import one_thread
from bacoun.engine.training import train
from benchmarks import record as records

RECORD = Path(__file__).with_suffix(".json")
LIBRARIES = ("bacoun", "torch", "zuko")
N_POINTS, BATCH, N_ROUNDS = 2048, 512, 5
DIMENSIONS = (2, 16, 64, 784)


def measure(dimension: int, batch_norm: bool) -> dict[str, Any]:
    """Median milliseconds of a step, ours and zuko's, and how far their losses are apart."""
    generator = Generator().manual_seed(0)
    points = torch.randn(N_POINTS, dimension, generator=generator)
    points = points + 0.3 * points.roll(1, dims=1).square()
    flow = Flow(jitter=0.0, batch_norm=batch_norm)

    def quick(module: ZukoFlow, batch: Tensor) -> Tensor:
        return -realnvp.log_prob(module.transform.transforms, batch).mean()

    def plain(module: ZukoFlow, batch: Tensor) -> Tensor:
        return -module().log_prob(batch).mean()

    milliseconds: dict[str, list[float]] = {"ours": [], "zuko": []}
    losses: dict[str, list[float]] = {}
    with one_thread():
        for _ in range(N_ROUNDS):
            for name, loss in (("ours", quick), ("zuko", plain)):
                torch.manual_seed(0)
                module = flow._build(dimension)
                started = time.perf_counter()
                history = train(
                    module,
                    partial(loss, module),
                    [points],
                    epochs=5,
                    batch_size=BATCH,
                    learning_rate=1e-3,
                    generator=Generator().manual_seed(0),
                )
                n_steps = 5 * N_POINTS // BATCH
                milliseconds[name].append(1000 * (time.perf_counter() - started) / n_steps)
                losses[name] = history.train
    gap = np.abs(np.subtract(losses["ours"], losses["zuko"])).max()
    return {name: float(np.median(own)) for name, own in milliseconds.items()} | {"gap": float(gap)}


def main() -> None:
    """Measure what has no record, and print the table."""
    cases = {
        f"{dimension} inputs{', batch norm' if norm else ''}": (dimension, norm)
        for dimension in DIMENSIONS
        for norm in (False, True)
    }
    tasks = {name: partial(measure, *case) for name, case in cases.items()}
    runs = records.resume(RECORD, tasks, LIBRARIES)["runs"]
    rows = [
        [
            name,
            f"{run['ours']:.2f}",
            f"{run['zuko']:.2f}",
            f"{run['zuko'] / run['ours']:.1f}",
            f"{run['gap']:.1e}",
        ]
        for name, run in runs.items()
    ]
    header = ["flow", "ours, ms a step", "zuko", "ratio", "largest difference in loss"]
    Console().print(records.rich_table("Training steps of flows", header, rows))
