"""The scoring service under load, beside the same stack serving a scikit-learn forest.

    python -m benchmarks serve

All on loopback, clients and server on the same cores. 200 clients send one row at a time for 60
seconds, and check every answer against the library; the same for ten rows at a time. The same
server with a forest behind it shows what HTTP, JSON and the table itself cost. Then memory over
100,000 requests, and a worker that is killed with SIGKILL several times under load.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.datasets import load_breast_cancer

from bacoun.tabular import TableModel
from benchmarks.record import Record, markdown_table, rich_table
from benchmarks.record import resume as resume_record
from benchmarks.scoring import others_load
from benchmarks.serve_clients import Check, ask_until, family, for_seconds, megabytes

RECORD = Path(__file__).with_suffix(".json")
SECONDS = float(os.environ.get("BACOUN_SERVE_SECONDS", 60))
N_REQUESTS = int(os.environ.get("BACOUN_SERVE_REQUESTS", 100_000))
SERVE = [sys.executable, "-c", "from bacoun.cli import main; main()", "serve", "--no-playground"]
FOREST = [sys.executable, "-m", "benchmarks.serve_forest"]
TOLERANCE, SCORE_TOLERANCE = 1e-4, 5e-3  # scores are rounded to 0.01 before they decide


@cache
def table() -> pd.DataFrame:
    data = load_breast_cancer(as_frame=True)
    frame = data.data.assign(diagnosis=data.target_names[data.target])
    return frame.sample(frac=1, random_state=0).reset_index(drop=True)


@cache
def model() -> TableModel:
    return TableModel.fit(table()[:400], "diagnosis", random_state=0)


@contextmanager
def served(command: list[str], *arguments: str) -> Iterator[tuple[str, int]]:
    """Address and process id of a server."""
    process = subprocess.Popen(
        [*command, *arguments, "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"listening on (\S+)", line):
                break
        else:
            raise RuntimeError("the server did not start")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield found.group(1), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def request_of(frame: pd.DataFrame) -> bytes:
    body = json.dumps({"rows": json.loads(frame.to_json(orient="records", double_precision=15))})
    head = "POST /v1/models/model/predict HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


def requests_and_check(n_rows: int, is_forest: bool) -> tuple[list[bytes], Check]:
    """Requests of so many rows, and a check of the answers against the library."""
    rows = table()[400:].drop(columns="diagnosis")
    starts = range(0, len(rows) - n_rows + 1)
    parts = [rows.iloc[start : start + n_rows] for start in starts]
    if is_forest:
        return [request_of(part) for part in parts], lambda body, _: b'"rows":' in body
    expected = model().score(rows)
    numbers = [f"p_{label}" for label in model().classifier.classes_]
    numbers += ["total", "aleatoric", "epistemic", "ood_score"]
    tolerance = np.array([TOLERANCE] * (len(numbers) - 1) + [SCORE_TOLERANCE])
    values, words = expected[numbers].to_numpy(), expected[["prediction", "decision", "reason"]]
    texts = words.to_numpy().tolist()

    def check(body: bytes, number: int) -> bool:
        found = json.loads(body)["rows"]
        if len(found) != n_rows:
            return False
        given = np.array([[row[name] for name in numbers] for row in found])
        same = (np.abs(given - values[number : number + n_rows]) <= tolerance).all()
        said = [[row["prediction"], row["decision"], row["reason"]] for row in found]
        return bool(same) and said == texts[number : number + n_rows]

    return [request_of(part) for part in parts], check


@contextmanager
def our_server() -> Iterator[tuple[str, int]]:
    with tempfile.TemporaryDirectory() as folder:
        model().save(Path(folder) / "model")
        with served(SERVE, str(Path(folder) / "model")) as found:
            yield found


def load(n_rows: int, is_forest: bool = False) -> dict[str, Any]:
    """200 clients for a minute, each with so many rows at a time."""
    requests, check = requests_and_check(n_rows, is_forest)
    opened = served(FOREST) if is_forest else our_server()
    with opened as (address, _):
        asyncio.run(ask_until(address, requests, check, for_seconds(3)))  # first use of everything
        busy = others_load()
        found = asyncio.run(ask_until(address, requests, check, for_seconds(SECONDS)))
    found["rows_per_second"] = round(n_rows * found["requests_per_second"], 1)
    return found | {"cores_busy_with_others": round(busy, 2)}


def memory() -> dict[str, Any]:
    """Memory of the server after each tenth of 100,000 requests."""
    requests, check = requests_and_check(1, is_forest=False)
    found, failed, wrong = [], 0, 0
    with our_server() as (address, pid):
        for _ in range(11):  # the first round fills caches
            part = asyncio.run(
                ask_until(address, requests, check, lambda done: done >= N_REQUESTS // 10)
            )
            found.append(round(megabytes(pid)))
            failed, wrong = failed + part["failed"], wrong + part["wrong"]
    return {"requests": N_REQUESTS, "failed": failed, "wrong": wrong, "megabytes": found}


def killed() -> dict[str, Any]:
    """Workers are killed under load, five times; who asks notices nothing but the delay."""
    requests, check = requests_and_check(1, is_forest=False)
    over, n_killed = threading.Event(), 0
    with our_server() as (address, pid):
        asyncio.run(ask_until(address, requests, check, for_seconds(3)))

        def kill() -> None:
            nonlocal n_killed
            while not over.wait(SECONDS / 6):
                for each in family(pid)[1:]:
                    if "spawn_main" in Path(f"/proc/{each}/cmdline").read_text():
                        os.kill(each, signal.SIGKILL)
                        n_killed += 1

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            found = asyncio.run(ask_until(address, requests, check, for_seconds(SECONDS)))
        finally:
            over.set()
            killer.join()
    return found | {"killed": n_killed}


def playground() -> dict[str, Any]:
    """Seconds until the maps of each method are there, on the GMM with the page's settings."""
    found = {}
    with served(SERVE[:-1]) as (address, _):
        time.sleep(15)  # the process that fits imports torch
        for method in ("bacoun", "paper", "nlm", "mc-dropout", "ensemble", "gp"):
            started = time.perf_counter()
            with urlopen(f"{address}/?data=gmm&a={method}") as answer:
                fit = json.load(answer)["models"][0]
            found[method] = round(time.perf_counter() - started, 2)
            assert len(fit["maps"]["total"]) == fit["size"] ** 2
    return {"answer_seconds": found}


TASKS: dict[str, Callable[[], dict[str, Any]]] = {
    "1 row": partial(load, 1),
    "1 row, forest": partial(load, 1, is_forest=True),
    "10 rows": partial(load, 10),
    "10 rows, forest": partial(load, 10, is_forest=True),
    "memory": memory,
    "killed": killed,
    "playground": playground,
}


LOADS = [name for name in TASKS if name not in ("memory", "playground")]


def table_of(runs: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table of loads."""
    header = ["load", "requests", "failed", "wrong", "rows / s", "p50, ms", "p99, ms"]
    rows = []
    for name in LOADS:
        run = runs[name]
        counts = [str(run[each]) for each in ("requests", "failed", "wrong")]
        speed = run.get("rows_per_second", run["requests_per_second"])
        times = [f"{run[f'{each}_milliseconds']:.0f}" for each in ("p50", "p99")]
        rows.append([name, *counts, f"{speed:.0f}", *times])
    return header, rows


def sentences(runs: Mapping[str, Any]) -> list[str]:
    """What the table does not hold."""
    memory, fits = runs["memory"], runs["playground"]["answer_seconds"]
    first, last = memory["megabytes"][0], memory["megabytes"][-1]
    busy = max(runs[name].get("cores_busy_with_others", 0) for name in LOADS)
    listed = ", ".join(f"{name} {seconds} s" for name, seconds in fits.items())
    return [
        f"Other programs kept up to {busy} of the two cores busy.",
        f"Workers killed in the last row: {runs['killed']['killed']}.",
        f"Memory of the server and its worker after 10 % and 110 % of {memory['requests']} "
        f"requests: {first} and {last} MB.",
        f"A fit of the playground's GMM, from the request to the maps: {listed}.",
    ]


def markdown(record: Record) -> str:
    """The same as Markdown."""
    runs = record["runs"]
    return f"{markdown_table(*table_of(runs))}\n\n{' '.join(sentences(runs))}\n"


def main() -> None:
    """Measure what the record lacks, and print it all."""
    libraries = ("bacoun", "fastapi", "uvicorn", "torch", "scikit-learn")
    runs = resume_record(RECORD, TASKS, libraries)["runs"]
    console, title = Console(width=120), f"{runs['1 row']['clients']} clients on loopback"
    console.print(rich_table(title, *table_of(runs)))
    for sentence in sentences(runs):
        console.print(sentence, highlight=False)
