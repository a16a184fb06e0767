"""Score 20 million rows on Dask workers; adds missing entries to benchmarks/scale.json.

    python -m benchmarks scale           all rows, into the record
    python -m benchmarks.scale 20000     a trial with so many rows and quick settings, only printed

A model with default settings is fitted to 10,000 rows of 20 columns. The rows to score surround
them, in Parquet files with row groups of 98,304 rows. They are scored, and written again with the
scores, in four ways, each on a cluster of its own: `bacoun predict` on one worker process and on
two, the Scorer in Dask's `map_partitions` on two, and a pickled random forest in the same way. All
workers have one thread; their imports and loading of the model count. The answers of the first
three must agree before they are compared. The files are in a temporary folder, or in that of
BACOUN_SCALE_FOLDER, and take 15 GB.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from benchmarks import record as records
from benchmarks.record import Record, markdown_table, rich_table
from benchmarks.scale_worker import Forest, peak_megabytes
from benchmarks.scoring import others_load

RECORD = Path(__file__).with_suffix(".json")
LIBRARIES = ("bacoun", "torch", "numpy", "pandas", "scikit-learn", "dask", "distributed", "pyarrow")
N_ROWS, N_TRAIN, N_COLUMNS, N_CLASSES = 20_000_000, 10_000, 20, 3
LARGEST_GROUP, GROUPS_PER_FILE = 98_304, 10
NAMES = [f"column {i}" for i in range(N_COLUMNS)]
TOLERANCE = 1e-6

# --- what is scored -------------------------------------------------------------------------------


def training_set() -> tuple[np.ndarray, np.ndarray]:
    return make_classification(
        N_TRAIN,
        N_COLUMNS,
        n_informative=8,
        n_redundant=4,
        n_classes=N_CLASSES,
        random_state=0,
    )


def rows_around(points: np.ndarray, n_rows: int, seed: int) -> pd.DataFrame:
    """Training points with noise of a tenth, one, three or a thousand standard deviations."""
    rng = np.random.default_rng([0, seed])
    size = rng.choice([0.1, 1, 3, 1000], p=[0.7, 0.15, 0.14, 0.01], size=(n_rows, 1))
    noise = size * points.std(axis=0) * rng.standard_normal((n_rows, N_COLUMNS))
    return pd.DataFrame(points[rng.integers(len(points), size=n_rows)] + noise, columns=NAMES)


def group_sizes(n_rows: int) -> list[int]:
    """Rows of each row group: a multiple of 2048, which are scored at once, but for the last."""
    size = min(LARGEST_GROUP, max(2048, n_rows // 8 // 2048 * 2048))
    return [min(size, n_rows - start) for start in range(0, n_rows, size)]


def prepare(folder: Path, n_rows: int, quick: bool = False) -> None:
    """Make the models and the rows, a row group at a time, if they are not there."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    from bacoun.tabular import TableModel

    points, labels = training_set()
    table = pd.DataFrame(points, columns=NAMES)
    if not (folder / "model").exists():
        TableModel.fit(table.assign(label=labels), "label", quick=quick).save(folder / "model")
        forest = RandomForestClassifier(random_state=0, n_jobs=1).fit(points, labels)
        (folder / "forest.pickle").write_bytes(pickle.dumps(forest))
    if (folder / "rows").exists():
        return
    unfinished = folder / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    sizes = list(enumerate(group_sizes(n_rows)))
    schema = pa.Schema.from_pandas(table.head(0), preserve_index=False)
    for start in range(0, len(sizes), GROUPS_PER_FILE):
        with ParquetWriter(unfinished / f"{start:06}.parquet", schema) as writer:
            for seed, size in sizes[start : start + GROUPS_PER_FILE]:
                rows = rows_around(points, size, seed)
                writer.write_table(pa.Table.from_pandas(rows, schema, preserve_index=False))
    unfinished.rename(folder / "rows")


# --- the ways to score it -------------------------------------------------------------------------


def by_command(folder: Path, out: Path, client: Any) -> None:
    """`bacoun predict`, told where the scheduler is."""
    from bacoun.cli import main as bacoun

    words = ["predict", f"{folder}/model", f"{folder}/rows/*.parquet", "--out", f"{out}"]
    bacoun([*words, "--no-because", "--scheduler", client.scheduler.address])


def by_map_partitions(folder: Path, out: Path, client: Any) -> None:
    """The Scorer on a Dask DataFrame."""
    from bacoun import Scorer

    _map_partitions(Scorer(folder / "model", because=False), folder, out)


def by_forest(folder: Path, out: Path, client: Any) -> None:
    """A pickled random forest on a Dask DataFrame."""
    _map_partitions(Forest(f"{folder}/forest.pickle", N_CLASSES), folder, out)


def _map_partitions(scorer: Any, folder: Path, out: Path) -> None:
    from dask.dataframe import read_parquet

    rows = read_parquet(f"{folder}/rows", split_row_groups=1)
    empty = pd.DataFrame(np.empty((0, N_COLUMNS)), columns=NAMES)
    scored = rows.map_partitions(scorer.join, meta=scorer.join(empty))
    scored.to_parquet(f"{out}", write_index=False)


# Number of workers, and what is done with them.
WAYS: dict[str, tuple[int, Callable[[Path, Path, Any], None]]] = {
    "bacoun predict, one worker": (1, by_command),
    "bacoun predict, two workers": (2, by_command),
    "map_partitions(Scorer), two workers": (2, by_map_partitions),
    "map_partitions(random forest), two workers": (2, by_forest),
}
ONE, TWO, MAPPED, FOREST = WAYS


def score(way: str, folder: Path) -> dict[str, Any]:
    """Start workers, score all rows in one way, and measure it."""
    from distributed import Client, LocalCluster

    n_workers, function = WAYS[way]
    started = time.perf_counter()
    options = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(processes=True, **options) as cluster, Client(cluster) as client:
        up = time.perf_counter()
        function(folder, output(folder, way), client)
        seconds = time.perf_counter() - up
        peaks = client.run(peak_megabytes)
    return {
        "seconds of scoring": round(seconds, 1),
        "seconds until workers are up": round(up - started, 1),
        "peak megabytes of each worker": sorted(peaks.values()),
    }


def print_score(way: str, folder: str) -> None:
    print(json.dumps(score(way, Path(folder))))


def output(folder: Path, way: str) -> Path:
    return folder / f"out-{list(WAYS).index(way)}"


# --- do they agree? -------------------------------------------------------------------------------


def tables(folder: Path, way: str) -> Iterator[pd.DataFrame]:
    """What was written, a row group at a time, in the order of the rows."""
    out = output(folder, way)
    if (out / "summary.json").exists():
        names = [each["part"] for each in json.loads((out / "summary.json").read_text())["parts"]]
    else:
        count = len(list(out.glob("part.*.parquet")))
        names = [f"part.{number}.parquet" for number in range(count)]
    for name in names:
        yield pd.read_parquet(out / name)


def largest_difference(folder: Path, way: str) -> float:
    """Of any number, from what one worker wrote, relative if above one; all else must be equal."""
    largest = 0.0
    for ours, theirs in zip(tables(folder, way), tables(folder, ONE), strict=True):
        numbers = list(theirs.select_dtypes("number"))
        words = [name for name in theirs if name not in numbers]
        if list(ours) != list(theirs) or not (ours[words] == theirs[words]).all(axis=None):
            raise AssertionError(f"'{way}' must decide as '{ONE}' does; it does not.")
        a, b = (each[numbers].to_numpy() for each in (ours, theirs))
        with np.errstate(invalid="ignore"):  # both may be infinite
            gaps = np.where(a == b, 0.0, np.abs(a - b) / np.abs(b).clip(1))
        largest = max(largest, float(gaps.max()))
    if not largest <= TOLERANCE:
        raise AssertionError(f"'{way}' must differ from '{ONE}' by at most 1e-6; it is {largest}.")
    return largest


# --- results --------------------------------------------------------------------------------------


def measure(way: str, folder: Path, n_rows: int, quick: bool) -> dict[str, Any]:
    """`score` in a process of its own; its answers are compared, then removed."""
    prepare(folder, n_rows, quick)
    if way in (TWO, MAPPED) and not (output(folder, ONE) / "summary.json").exists():
        in_a_process(ONE, folder)
    shutil.rmtree(output(folder, way), ignore_errors=True)  # what was there would not be scored
    load = others_load()
    found = in_a_process(way, folder)
    found |= {
        "rows": n_rows,
        "rows per second": round(n_rows / found["seconds of scoring"]),
        "load of the machine before": round(load, 1),
    }
    if way in (TWO, MAPPED):
        found["largest difference"] = largest_difference(folder, way)
    if way != ONE:
        shutil.rmtree(output(folder, way))
    return found


def in_a_process(way: str, folder: Path) -> dict[str, Any]:
    # Not -m benchmarks.scale: each worker would import that, and with it torch.
    code = "import sys; from benchmarks import scale; scale.print_score(*sys.argv[1:])"
    command = [sys.executable, "-W", "ignore", "-c", code, way, str(folder)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def main(n_rows: int = N_ROWS, quick: bool = False) -> None:
    """Measure what the record lacks, and print it all; another number of rows is a trial."""
    with working_folder(n_rows) as folder:
        path = RECORD if n_rows == N_ROWS else folder / "trial.json"
        tasks = {way: partial(measure, way, folder, n_rows, quick) for way in WAYS}
        record = records.resume(path, tasks, LIBRARIES)
    Console().print(rich_table("scale", *way_rows(record)))
    print(speed_up(record))


@contextmanager
def working_folder(n_rows: int) -> Iterator[Path]:
    """A folder for so many rows: kept if the user has named one, otherwise temporary."""
    with ExitStack() as stack:
        named = os.environ.get("BACOUN_SCALE_FOLDER")
        base = Path(named or stack.enter_context(tempfile.TemporaryDirectory())).absolute()
        folder = base / f"{n_rows}-rows"
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def way_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: each way, its speed and memory."""
    header = ["way", "rows/s", "seconds", "peak MB of each worker", "largest difference"]
    rows = []
    for way in WAYS:
        run = record["runs"].get(way)
        if run is None:
            continue
        peaks = ", ".join(f"{each:,}" for each in run["peak megabytes of each worker"])
        gap = run.get("largest difference")
        shown = "-" if gap is None else f"{gap:.1g}"
        cells = [f"{run['rows per second']:,}", f"{run['seconds of scoring']:,.0f}", peaks, shown]
        rows.append([way, *cells])
    return header, rows


def speed_up(record: Record) -> str:
    """A sentence on what the second worker adds; empty if it was not measured."""
    one, two = (record["runs"].get(way) for way in (ONE, TWO))
    if one is None or two is None:
        return ""
    times = one["seconds of scoring"] / two["seconds of scoring"]
    loads = [run["load of the machine before"] for run in (one, two)]
    busy = " Other work kept cores busy meanwhile." if max(loads) > 0.2 else ""
    return (
        f"{one['rows']:,} rows: two workers are {times:.2f} times as fast as one "
        f"({two['rows per second']:,} against {one['rows per second']:,} rows a second).{busy}"
    )


def markdown(record: Record) -> str:
    """The record as Markdown."""
    return f"{markdown_table(*way_rows(record))}\n\n{speed_up(record)}\n"


if __name__ == "__main__":
    main(int(sys.argv[1]), quick=True)
