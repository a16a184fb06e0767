"""Score two million rows of 20 columns; adds missing entries to benchmarks/scoring.json.

    python -m benchmarks scoring

A model with default settings is fitted to 2000 rows. The rows to score surround the training set,
some near and some far. They are scored by `evaluate` and, as a Parquet file, by `bacoun predict`,
each in its own process, so that peak memory can be measured.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import make_classification

from bacoun import BaCOUnClassifier
from bacoun.tabular import TableModel

N_TRAIN, N_ROWS, N_COLUMNS = 2000, 2_000_000, 20
N_COMPARED = 20_000
CLASSES = (2, 3)
RECORD = Path(__file__).with_suffix(".json")


def training_set(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(
        N_TRAIN,
        N_COLUMNS,
        n_informative=8,
        n_redundant=4,
        n_classes=n_classes,
        random_state=0,
    )


def rows_around(points: np.ndarray, n_rows: int) -> np.ndarray:
    """Training points with noise of a tenth, one, three or a thousand standard deviations."""
    rng = np.random.default_rng(0)
    rows = points[rng.integers(len(points), size=n_rows)]
    for block in np.array_split(np.arange(n_rows), 100):  # the noise of all rows takes much room
        size = rng.choice([0.1, 1, 3, 1000], p=[0.7, 0.15, 0.14, 0.01], size=(len(block), 1))
        rows[block] += size * points.std(axis=0) * rng.standard_normal((len(block), N_COLUMNS))
    return rows


def score(model: BaCOUnClassifier, rows: np.ndarray) -> dict[str, Any]:
    """Speed and memory of one call, and how far it is from the methods that work in float64."""
    model.evaluate(rows[:10_000])  # first use of threads and libraries
    memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    load, processor, started = others_load(), time.process_time(), time.perf_counter()
    evaluation = model.evaluate(rows)
    seconds = time.perf_counter() - started
    processor = time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        **rates(seconds, processor, load),
        "peak_megabytes": round(peak / 1024),
        "megabytes_before_scoring": round(memory_before / 1024),
        "largest_difference_from_float64": differences(model, rows[:N_COMPARED], evaluation),
        "processor_microseconds_per_row_by_part": parts(model, rows),
    }


def others_load() -> float:
    """Cores that others keep busy just now: the mean load would still count what we did before."""
    before = _busy_seconds()
    time.sleep(1)
    return _busy_seconds() - before


def _busy_seconds() -> float:
    """Processor seconds since start-up, of all processes and cores."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def rates(seconds: float, processor: float, load: float) -> dict[str, Any]:
    """Speed of a run over all rows, and what other work on the machine may have cost it."""
    return {
        "rows_per_second": round(N_ROWS / seconds),
        "seconds": round(seconds, 1),
        "processor_microseconds_per_row": round(1e6 * processor / N_ROWS, 1),
        "rows_per_second_if_both_cores_were_free": round(2 * N_ROWS / processor),
        "load_of_the_machine_before": round(load, 1),
        "measured_on_a_busy_machine": load > 0.2,
    }


def differences(model: BaCOUnClassifier, rows: np.ndarray, evaluation: Any) -> dict[str, float]:
    slow = {
        "probabilities": model.predict_proba(rows),
        **model.uncertainty(rows).parts(),
        "ood_probability": model.ood_probability(rows),
    }
    gaps = {
        name: float(np.abs(getattr(evaluation, name)[: len(rows)] - value).max())
        for name, value in slow.items()
    }
    unbounded = {"ood_score": model.ood_score(rows), "log_density": model.log_density(rows)}
    for name, value in unbounded.items():
        finite = np.isfinite(value)
        gap = np.abs(getattr(evaluation, name)[: len(rows)] - value)[finite]
        gaps[f"{name}, relative"] = float((gap / np.abs(value[finite]).clip(1)).max())
    return gaps


def parts(model: BaCOUnClassifier, rows: np.ndarray, n_rows: int = 2048) -> dict[str, float]:
    """What each part of a block costs, on one thread; the best of some."""
    torch.set_num_threads(1)
    points = model._standardized(rows[:n_rows])
    features, scores = model.features_.transform(points), model._predictor.unfamiliarity(points)
    epistemic = model._predictor.disagreement(features)
    predictive, doubt = model.posterior_._predictive(features.dtype), model.doubt_
    coordinates = torch.addmm(predictive.offset, features, predictive.basis)
    costs = {
        "standardize": best_of(lambda: model._standardized(rows[:n_rows])),
        "network": best_of(lambda: model.features_.transform_with_log_odds(points)),
        "flows, Gaussians": best_of(lambda: model._predictor.unfamiliarity(points)),
        "doubt": best_of(lambda: doubt.surprise(scores, epistemic)),
        "coordinates": best_of(lambda: torch.addmm(predictive.offset, features, predictive.basis)),
        "logits": best_of(lambda: coordinates @ predictive.weights),
        "coordinates, logits, moments": best_of(lambda: predictive.moments(features)),
    }
    return {name: round(1e6 * seconds / n_rows, 2) for name, seconds in costs.items()}


def best_of(function: Callable[[], Any], n: int = 20) -> float:
    seconds = []
    for _ in range(n):
        started = time.process_time()
        function()
        seconds.append(time.process_time() - started)
    return min(seconds)


def measure_evaluate(n_classes: int, folder: str) -> dict[str, Any]:
    """Fit here, score in a fresh process."""
    model = BaCOUnClassifier(random_state=0).fit(*training_set(n_classes))
    model.save(Path(folder) / "model")
    command = [sys.executable, "-m", "benchmarks.scoring", f"{folder}/model", str(n_classes)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {"directions": model.posterior_.reduction_.basis.shape[1], **json.loads(answer)}


def measure_predict(n_classes: int, folder: str) -> dict[str, Any]:
    """Fit here, then run the command on a file, start and all."""
    points, labels = training_set(n_classes)
    names = [f"column {i}" for i in range(N_COLUMNS)]
    table = pd.DataFrame(points, columns=names).assign(label=labels)
    TableModel.fit(table, "label").save(Path(folder) / "model")
    pd.DataFrame(rows_around(points, N_ROWS), columns=names).to_parquet(f"{folder}/rows.parquet")
    words = [
        "predict",
        f"{folder}/model",
        f"{folder}/rows.parquet",
        "--out",
        f"{folder}/out.parquet",
    ]
    load, started = others_load(), time.perf_counter()
    process = subprocess.Popen([Path(sys.executable).with_name("bacoun"), *words])
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        raise RuntimeError("bacoun predict failed.")
    speed = rates(time.perf_counter() - started, used.ru_utime + used.ru_stime, load)
    return {**speed, "peak_megabytes": round(used.ru_maxrss / 1024)}


WAYS = {"evaluate": measure_evaluate, "bacoun predict": measure_predict}


def main() -> None:
    """Measure what the record lacks, and print it all."""
    record = {
        "command": "python -m benchmarks scoring",
        "rows": N_ROWS,
        "columns": N_COLUMNS,
        "training_rows": N_TRAIN,
        "settings": "BaCOUnClassifier(random_state=0)",
        "cores": os.cpu_count(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("bacoun", "torch", "numpy", "zuko")},
        },
        "measured": {},
    }
    if RECORD.exists():
        record = json.loads(RECORD.read_text())
    for way, measure in WAYS.items():
        for n_classes in CLASSES:
            name = f"{way}, {n_classes} classes"
            if name not in record["measured"]:
                print(f"measuring {name}", file=sys.stderr, flush=True)
                with tempfile.TemporaryDirectory() as folder:
                    record["measured"][name] = measure(n_classes, folder)
                RECORD.write_text(json.dumps(record, indent=1) + "\n")
    show(record)


def show(record: dict[str, Any]) -> None:
    """Print a line for each way."""
    for name, found in record["measured"].items():
        busy = ", on a busy machine" if found["measured_on_a_busy_machine"] else ""
        print(
            f"scoring: {name:<28}{found['rows_per_second']:>8,} rows/s{busy}, "
            f"{found['processor_microseconds_per_row']} processor microseconds a row, "
            f"{found['peak_megabytes']:,} MB"
        )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        scored = BaCOUnClassifier.load(sys.argv[1])
        print(json.dumps(score(scored, rows_around(training_set(int(sys.argv[2]))[0], N_ROWS))))
    else:
        main()
