"""What a row costs, by columns, classes and draws; adds missing entries to benchmarks/costs.json.

    python -m benchmarks costs

Models have the default sizes, but are trained for three epochs, which does not change what a row
costs them. All costs are microseconds of processor time for a row, on one thread:

    score      what `bacoun predict` does, without explanations
    sketch     the first pass of a fit to files larger than memory
    features   the second one, which computes the features of all rows
    sums       each of the others, which add up gradients and Hessians

From these, and how they grow between the two largest sizes, follows what more rows and classes
would cost.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from rich.console import Console
from sklearn.datasets import make_classification

from benchmarks import record as records
from benchmarks.record import Record, markdown_table, rich_table

RECORD = Path(__file__).with_suffix(".json")
LIBRARIES = ("bacoun", "torch", "numpy", "pandas", "scikit-learn")
N_TRAIN, N_ROWS, REPEATS = 4000, 20_480, 3
COSTS = ("score", "sketch", "features", "sums")
BILLION, MANY_CLASSES = 1_000_000_000, 1000


class Size(NamedTuple):
    """Columns and classes of a table, and draws of its model."""

    columns: int = 20
    classes: int = 3
    draws: int = 500

    def __str__(self) -> str:
        return f"{self.columns} columns, {self.classes} classes, {self.draws} draws"


BASE = Size()
GROWTH = {
    "columns": [Size(columns=n) for n in (10, 20, 40, 80)],
    "classes": [Size(classes=n) for n in (2, 3, 6, 12, 24)],
    "draws": [Size(draws=n) for n in (250, 500, 1000, 2000)],
}
SIZES = list(dict.fromkeys(size for sizes in GROWTH.values() for size in sizes))


# --- one size -------------------------------------------------------------------------------------


def table(size: Size) -> pd.DataFrame:
    """Gaussian clusters, one of each class."""
    informative = min(size.columns, max(8, math.ceil(math.log2(size.classes)) + 1))
    points, labels = make_classification(
        N_ROWS,
        size.columns,
        n_informative=informative,
        n_redundant=0,
        n_clusters_per_class=1,
        n_classes=size.classes,
        random_state=0,
    )
    names = [f"column {place}" for place in range(size.columns)]
    return pd.DataFrame(points, columns=names).assign(label=labels)


def measure(size: Size) -> dict[str, Any]:
    """Fit a model of this size, and measure what a row costs."""
    from bacoun import BaCOUnClassifier
    from bacoun.engine.threads import one_thread
    from bacoun.features import TabularFeatures
    from bacoun.posterior import HMC
    from bacoun.tabular import TableModel

    rows = table(size)
    classifier = BaCOUnClassifier(
        features=TabularFeatures(epochs=3),
        posterior=HMC(n_draws=size.draws, n_chains=64, n_warmup=10, n_iterations=size.draws // 50),
        random_state=0,
    ).set_params(boundary__shell__epochs=3)
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        model = TableModel.fit(rows.head(N_TRAIN), "label", classifier=classifier)
        rows.to_parquet(f"{folder}/rows.parquet", row_group_size=N_ROWS, index=False)
        scores = cost(lambda: model.score(rows.drop(columns="label")))
        return {"score": scores, **costs_of_passes(model, Path(folder), size)}


def costs_of_passes(model: Any, folder: Path, size: Size) -> dict[str, Any]:
    """What a row costs in each pass of a fit to files, and how many passes there are."""
    from bacoun.many import out_of_core
    from bacoun.many.cluster import Engine
    from bacoun.many.sketch import Sampling
    from bacoun.posterior.all_rows import AllRows
    from bacoun.posterior.reduction import reduce

    engine = Engine()
    (place,) = places = out_of_core._places([f"{folder}/rows.parquet"], engine)
    sampling = Sampling("label", None, (), 0.2, 0.1, 100_000, 0)
    source = out_of_core.FeatureSource.of(model.classifier, model.encoder, sampling, folder)
    rows: Any = out_of_core.FileFeatures(places, N_ROWS, source, engine)

    def features() -> list[Any]:
        for file in folder.glob("*.safetensors"):
            file.unlink()
        return list(rows.source.chunks(place))

    ((learned, labels),) = features()
    design = torch.cat([learned, torch.ones_like(learned[:, :1])], dim=1).double()[:N_TRAIN]
    reduction, coreset, mode = reduce(design, labels[:N_TRAIN], size.classes, 0.3, 0.0)
    density = AllRows(rows, coreset, reduction.basis, with_intercept=True)
    n_steps = len(newton_steps(density, mode))

    def sums() -> None:
        density._last = []
        density.hessian(mode[:, :, None])

    return {
        "sketch": cost(lambda: out_of_core._sketched(place, sampling)),
        "features": cost(features),
        "sums": cost(sums),
        "passes of sums": n_steps + 2,  # and those of singular values and of the difference
        "features of a row": learned.shape[1],
    }


def newton_steps(density: Any, start: torch.Tensor) -> list[torch.Tensor]:
    """Where Newton's method takes derivatives, each time by a pass over all rows."""
    from bacoun.posterior.whitening import newton

    steps: list[torch.Tensor] = []

    class Followed:
        """The density, which notes where it is asked for."""

        hessian = density.hessian

        def value_and_gradient(self, weights: torch.Tensor) -> Any:
            """Log density and gradient."""
            steps.append(weights)
            return density.value_and_gradient(weights)

    newton(Followed(), start.double())
    return steps


def cost(work: Callable[[], Any]) -> float:
    """The least of some measurements, in microseconds a row: other jobs only add to it."""
    seconds = []
    for _ in range(REPEATS):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return round(1e6 * min(seconds) / N_ROWS, 2)


# --- results --------------------------------------------------------------------------------------


def main() -> None:
    """Measure what the record lacks, and print it all."""
    tasks = {str(size): partial(measure, size) for size in SIZES}
    record = records.resume(RECORD, tasks, LIBRARIES)
    Console().print(rich_table("costs", *rows_of(record)))
    print("\n".join(f"- {line}" for line in outlook(record)))


def rows_of(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: microseconds a row for each size."""
    runs = record["runs"]
    rows = [
        [str(size), *(f"{runs[str(size)][name]:.1f}" for name in COSTS)]
        for size in SIZES
        if str(size) in runs
    ]
    return ["model", *COSTS], rows


def grown(record: Record, kind: str, name: str, value: float) -> float:
    """The cost at another size: a power law through the two largest of a kind."""
    sizes = GROWTH[kind][-2:]
    (a, b), (low, high) = (
        [getattr(size, kind) for size in sizes],
        [record["runs"][str(size)][name] for size in sizes],
    )
    power = math.log(high / low) / math.log(b / a)
    return high * (value / b) ** power


def outlook(record: Record) -> list[str]:
    """What a billion rows, and a thousand classes, would cost by these numbers."""
    if any(str(size) not in record["runs"] for size in SIZES):
        return []
    base = record["runs"][str(BASE)]
    hours = {name: base[name] * BILLION / 1e6 / 3600 for name in COSTS}
    n_sums = base["passes of sums"]
    fit = hours["sketch"] + hours["features"] + n_sums * hours["sums"]
    disk = BILLION * base["features of a row"] * 4 / 1e9
    score = grown(record, "classes", "score", MANY_CLASSES)
    sums = grown(record, "classes", "sums", MANY_CLASSES)
    from bacoun.posterior.all_rows import MOST_WEIGHTS

    most = MOST_WEIGHTS // (base["features of a row"] + 1) + 1
    more = {
        kind: np.diff([record["runs"][str(size)]["score"] for size in GROWTH[kind][-2:]])[0]
        / np.diff([getattr(size, kind) for size in GROWTH[kind][-2:]])[0]
        for kind in GROWTH
    }
    return [
        f"One more column adds {more['columns']:.2f} microseconds to the score of a row, one more "
        f"class {more['classes']:.2f}, and a hundred more draws {100 * more['draws']:.2f}.",
        f"A billion rows ({BASE}) take {hours['score']:.1f} hours of one core to score.",
        f"To fit them takes {fit:.1f} hours of one core in passes over all rows: the sketch "
        f"{hours['sketch']:.1f}, the features {hours['features']:.1f}, and {n_sums} passes of sums "
        f"{n_sums * hours['sums']:.1f}. The features take {disk:.0f} GB on disk. The fit of the "
        "sample does not depend on the number of rows.",
        f"With {MANY_CLASSES} classes, a score would take {score / 1000:.1f} ms, and those of a "
        f"billion rows {score * BILLION / 1e6 / 3600:,.0f} hours of one core. Each pass of sums "
        f"would take {sums / 1000:.0f} ms a row; but a fit to files is refused above {most} "
        f"classes, because its Hessian has more than {MOST_WEIGHTS:,} rows.",
    ]


def markdown(record: Record) -> str:
    """The record as Markdown."""
    lines = "\n".join(f"- {line}" for line in outlook(record))
    return f"{markdown_table(*rows_of(record))}\n\n{lines}\n"
