"""Fit 5 million rows from Parquet within 3 GB; adds missing entries to out_of_core.json.

    python -m benchmarks out_of_core           5 million rows, into the record
    python -m benchmarks.out_of_core 40000     a trial with so many rows and quick settings

Rows of 20 columns and three classes are drawn from clusters, in Parquet files with row groups of
100,000. Models are fitted in the ways that `WAYS` lists, each in a process of its own and on one
core, and judged on the same new rows: accuracy, log loss, and the AUROC of the OOD score of rows of
an unseen class ("class"), of rows whose columns were shuffled ("shuffled"), and of rows with one
column four standard deviations away ("moved"). The files are in a temporary folder, or in that of
BACOUN_SCALE_FOLDER, and take 3 GB with what a fit keeps on disk.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks import record as records
from benchmarks.record import Record, markdown_table, rich_table
from benchmarks.scale import working_folder
from benchmarks.scale_worker import peak_megabytes
from benchmarks.scoring import others_load

RECORD = Path(__file__).with_suffix(".json")
LIBRARIES = ("bacoun", "torch", "numpy", "pandas", "scikit-learn", "pyarrow")
N_ROWS, N_COLUMNS, N_CLASSES, N_CLUSTERS, N_LATENT = 5_000_000, 20, 3, 4, 8
N_TEST, N_UNKNOWN = 100_000, 20_000
GROUP, GROUPS_PER_FILE = 100_000, 10
UNSEEN_CLASS = N_CLASSES
DIFFERENCE, GIGABYTES = 0.005, 3.0  # what is promised


class Way(NamedTuple):
    """Share of all rows that are given to a fit, and share of those that networks learn from."""

    given: float
    sampled: float | None  # None: an ordinary fit in memory


WAYS = {
    "in memory, 4 % of the rows": Way(0.04, None),
    "from Parquet, networks from 10 %": Way(1.0, 0.1),
    "from Parquet, networks from 3 %": Way(1.0, 0.03),
}
IN_MEMORY, STREAMED, _ = WAYS


# --- rows -----------------------------------------------------------------------------------------


def draw(n_rows: int, seed: int, classes: tuple[int, ...] = tuple(range(N_CLASSES))) -> Any:
    """Rows of these classes, with their labels: clusters, mixed into 20 columns and bent."""
    fixed, rng = np.random.default_rng(0), np.random.default_rng([1, seed])
    centers = 1.3 * fixed.standard_normal((N_CLASSES + 1, N_CLUSTERS, N_LATENT))
    mixing = fixed.standard_normal((N_LATENT, N_COLUMNS)) / np.sqrt(N_LATENT)
    labels = rng.choice(classes, n_rows)
    latent = centers[labels, rng.integers(N_CLUSTERS, size=n_rows)]
    latent = latent + rng.standard_normal((n_rows, N_LATENT))
    columns = latent @ mixing + 0.3 * rng.standard_normal((n_rows, N_COLUMNS))
    columns[:, ::2] = np.sinh(columns[:, ::2])
    names = [f"column {place}" for place in range(N_COLUMNS)]
    return pd.DataFrame(columns, columns=names).assign(label=labels)


def prepare(folder: Path, n_rows: int) -> None:
    """Write the training rows, a row group at a time, if they are not there."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    if (folder / "train").exists():
        return
    unfinished = folder / "unfinished"
    unfinished.mkdir(exist_ok=True)
    size = min(GROUP, n_rows // 20)
    schema = pa.Schema.from_pandas(draw(1, 0), preserve_index=False)
    for start in range(0, n_rows, GROUPS_PER_FILE * size):
        with ParquetWriter(unfinished / f"{start:09}.parquet", schema) as writer:
            for first in range(start, min(start + GROUPS_PER_FILE * size, n_rows), size):
                rows = draw(min(size, n_rows - first), first)
                writer.write_table(pa.Table.from_pandas(rows, schema, preserve_index=False))
    unfinished.rename(folder / "train")


def unknown_rows(test: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Rows that are out of distribution, in three ways."""
    rng, some = np.random.default_rng(2), test.drop(columns="label").head(N_UNKNOWN)
    shuffled = pd.DataFrame({name: rng.permutation(some[name]) for name in some})
    moved = some.to_numpy(copy=True)
    places = rng.integers(N_COLUMNS, size=len(moved))
    moved[np.arange(len(moved)), places] += 4 * some.std().to_numpy()[places]
    return {
        "class": draw(N_UNKNOWN, -1 % 2**31, (UNSEEN_CLASS,)).drop(columns="label"),
        "shuffled": shuffled,
        "moved": pd.DataFrame(moved, columns=some.columns),
    }


# --- one fit --------------------------------------------------------------------------------------


def fit(way: str, folder: Path, n_rows: int, quick: bool) -> dict[str, Any]:
    """Fit in one way, then judge the model."""
    from bacoun.tabular import TableModel, fit_files

    given, sampled = WAYS[way]
    started = time.perf_counter()
    if sampled is None:
        files = sorted((folder / "train").iterdir())
        some = (pd.read_parquet(file).sample(frac=given, random_state=0) for file in files)
        rows = pd.concat(some, ignore_index=True)
        started = time.perf_counter()  # a user would have had a table of this size
        model = TableModel.fit(rows, "label", quick=quick)
    else:
        sample_rows = round(sampled * n_rows)
        pattern = f"{folder}/train/*.parquet"
        model = fit_files(pattern, "label", quick=quick, sample_rows=sample_rows)
    seconds, memory = time.perf_counter() - started, peak_megabytes()
    health = model.classifier.health_
    return {
        "seconds of fit": round(seconds, 1),
        "processor seconds": round(time.process_time(), 1),
        "peak megabytes": memory,
        **{name: model.facts[name] for name in ("rows", "training_rows", "sampled_rows")},
        "dimensions": health.dimensions,
        "coreset difference": health.coreset_difference,
        "ess": round(health.ess),
        **judge(model),
    }


def judge(model: Any) -> dict[str, float]:
    """Accuracy, log loss, and AUROC of what is unknown."""
    test = draw(N_TEST, 2**31)
    scores = model.score(test)
    shares = scores[[f"p_{label}" for label in range(N_CLASSES)]].to_numpy(np.float64)
    familiar = scores["ood_score"].head(N_UNKNOWN)
    found = {
        "accuracy": float((scores["prediction"] == test["label"]).mean()),
        "log loss": float(log_loss(test["label"], shares / shares.sum(axis=1, keepdims=True))),
        "accepted": float((scores["decision"] == "accept").mean()),
    }
    for name, rows in unknown_rows(test).items():
        both = np.concatenate([familiar, model.score(rows)["ood_score"]])
        is_unknown = np.arange(len(both)) >= len(familiar)
        found[f"AUROC {name}"] = float(roc_auc_score(is_unknown, np.nan_to_num(both)))
    return {name: round(value, 4) for name, value in found.items()}


def measure(way: str, folder: Path, n_rows: int, quick: bool) -> dict[str, Any]:
    """`fit` in a process of its own."""
    prepare(folder, n_rows)
    code = "import sys; from benchmarks import out_of_core; out_of_core.print_fit(*sys.argv[1:])"
    command = [sys.executable, "-W", "ignore", "-c", code, way, str(folder), str(n_rows)]
    load = others_load()
    run = subprocess.run(
        [*command, "quick" if quick else ""], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found | {"load of the machine before": round(load, 1)}


def print_fit(way: str, folder: str, n_rows: str, quick: str) -> None:
    print(json.dumps(fit(way, Path(folder), int(n_rows), bool(quick))))


# --- results --------------------------------------------------------------------------------------


def main(n_rows: int = N_ROWS, quick: bool = False) -> None:
    """Measure what the record lacks, and print it all; another number of rows is a trial."""
    with working_folder(n_rows) as folder:
        path = RECORD if n_rows == N_ROWS else folder / "trial.json"
        tasks = {way: partial(measure, way, folder, n_rows, quick) for way in WAYS}
        record = records.resume(path, tasks, LIBRARIES)
    Console().print(rich_table("out_of_core", *rows_of(record)))
    print(verdict(record))


def rows_of(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: what each way costs, and how good its model is."""
    runs = {way: record["runs"][way] for way in WAYS if way in record["runs"]}
    names = [name for name in next(iter(runs.values()), {}) if name.startswith("AUROC")]
    header = ["fit", "rows", "minutes", "of a core", "peak GB", "accuracy", "log loss", *names]
    rows = [
        [
            way,
            f"{run['rows']:,}",
            f"{run['seconds of fit'] / 60:.1f}",
            f"{run['processor seconds'] / 60:.1f}",
            f"{run['peak megabytes'] / 1024:.1f}",
            *(f"{run[name]:.4f}" for name in ("accuracy", "log loss", *names)),
        ]
        for way, run in runs.items()
    ]
    return header, rows


def verdict(record: Record) -> str:
    """A sentence on what was promised; empty if it was not measured."""
    one, other = (record["runs"].get(way) for way in (IN_MEMORY, STREAMED))
    if one is None or other is None:
        return ""
    judged = [name for name in one if name == "accuracy" or name.startswith("AUROC")]
    worst = min(other[name] - one[name] for name in judged)
    memory = other["peak megabytes"] / 1024
    kept = "within" if worst >= -DIFFERENCE and memory <= GIGABYTES else "not within"
    busy = max(one["load of the machine before"], other["load of the machine before"]) > 0.2
    return (
        f"{other['rows']:,} rows were fitted within {memory:.1f} GB in "
        f"{other['seconds of fit'] / 60:.0f} minutes{', beside other work' if busy else ''}. "
        f"Compared with a fit of {one['rows']:,} rows in memory, accuracy and AUROC change by "
        f"{worst:+.4f} at worst, {kept} the promised {DIFFERENCE} and {GIGABYTES:.0f} GB. The "
        f"coreset of the posterior differs by {other['coreset difference']:.2f} nats from all rows."
    )


def markdown(record: Record) -> str:
    """The record as Markdown."""
    return f"{markdown_table(*rows_of(record))}\n\n{verdict(record)}\n"


if __name__ == "__main__":
    main(int(sys.argv[1]), quick=True)
