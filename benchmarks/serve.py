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
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.datasets import load_breast_cancer

from bacoun.tabular import TableModel
from benchmarks.record import resume as resume_record
from benchmarks.record import rich_table

RECORD = Path(__file__).with_suffix(".json")
N_CLIENTS = int(os.environ.get("BACOUN_SERVE_CLIENTS", 200))
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


# --- clients: asyncio alone, so that they take little of the two cores ----------------------------


class Client:
    """One connection that is kept alive."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def post(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        (length,) = re.findall(rb"content-length: (\d+)", head.lower())
        return int(head.split()[1]), await self.reader.readexactly(int(length))


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Client]:
    url = urlsplit(address)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


def request_of(frame: pd.DataFrame) -> bytes:
    body = json.dumps({"rows": json.loads(frame.to_json(orient="records", double_precision=15))})
    head = "POST /v1/models/model/predict HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


Check = Callable[[bytes, int], bool]
"""Whether an answer is right, given the number of its request."""


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


async def ask_until(
    address: str, requests: list[bytes], check: Check, is_over: Callable[[int], bool]
) -> dict[str, Any]:
    """Ask from many clients; counts what fails, what is wrong, and how long it takes."""
    seconds: list[float] = []
    failed = wrong = 0

    async def ask(client_number: int) -> None:
        nonlocal failed, wrong
        number = client_number
        async with connected(address) as client:
            while not is_over(len(seconds)):
                number = (number + 7) % len(requests)
                started = time.perf_counter()
                try:
                    status, body = await client.post(requests[number])
                except (OSError, asyncio.IncompleteReadError):
                    failed += 1
                    return
                seconds.append(time.perf_counter() - started)
                failed += status != 200
                wrong += status == 200 and not check(body, number)

    started = time.perf_counter()
    await asyncio.gather(*(ask(number) for number in range(N_CLIENTS)))
    elapsed = time.perf_counter() - started
    middle, most = np.quantile(seconds, [0.5, 0.99])
    return {
        "clients": N_CLIENTS,
        "elapsed": round(elapsed, 1),
        "requests": len(seconds),
        "failed": failed,
        "wrong": wrong,
        "requests_per_second": round(len(seconds) / elapsed, 1),
        "p50_milliseconds": round(1000 * float(middle), 1),
        "p99_milliseconds": round(1000 * float(most), 1),
    }


def for_seconds(seconds: float) -> Callable[[int], bool]:
    ends = time.perf_counter() + seconds
    return lambda _: time.perf_counter() > ends


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
        warm = ask_until(address, requests, check, for_seconds(3))
        asyncio.run(warm)
        found = asyncio.run(ask_until(address, requests, check, for_seconds(SECONDS)))
    return found | {"rows_per_second": round(n_rows * found["requests_per_second"], 1)}


def family(pid: int) -> list[int]:
    """A process and those that it started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [pid, *(each for child in children for each in family(child))]


def megabytes(pid: int) -> float:
    """Resident memory of a server and its workers."""
    pages = [int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in family(pid)]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


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


def main() -> None:
    """Measure what the record lacks, and print it all."""
    libraries = ("bacoun", "fastapi", "uvicorn", "torch", "scikit-learn")
    runs = resume_record(RECORD, TASKS, libraries)["runs"]
    header = ["load", "requests", "failed", "wrong", "rows / s", "p50 ms", "p99 ms"]
    rows = []
    for name in TASKS:
        run = runs[name]
        if "p99_milliseconds" in run:
            speed = run.get("rows_per_second", run["requests_per_second"])
            figures = ("requests", "failed", "wrong")
            rows.append([name, *(str(run[each]) for each in figures), f"{speed:.0f}"])
            rows[-1] += [f"{run[f'{each}_milliseconds']:.0f}" for each in ("p50", "p99")]
    console = Console(width=120)
    console.print(rich_table(f"{runs['1 row']['clients']} clients on loopback", header, rows))
    memory = runs["memory"]
    console.print(f"Memory over {memory['requests']} requests, in MB: {memory['megabytes']}")
    console.print(f"Workers killed under load: {runs['killed']['killed']}")
    console.print(f"Seconds for a fit in the playground: {runs['playground']['answer_seconds']}")
