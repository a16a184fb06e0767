"""A hostile hour: a server under attack, beside ordinary clients whose every answer is checked.

    make hostile                              60 minutes, writes hostile.json
    python -m benchmarks.hostile --minutes 2

A real server process scores three small models. Twenty ordinary clients send a few rows at a time
and compare every answer with the library's. Beside them malformed and heavy requests arrive,
clients send or read slowly, workers are killed, models are replaced and copied slowly, and the disk
with the models is full now and then (a small tmpfs, which only root can mount). An ordinary answer
may be an error that says so (503); it may not be wrong, and it may not be missing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.datasets import load_breast_cancer, load_iris

from bacoun.tabular import TableModel
from benchmarks.record import Record, markdown_table, rich_table

RECORD = Path(__file__).with_suffix(".json")
N_CLIENTS, ROOM_BYTES = 20, 12_000_000
CLIENT_SECONDS = 3.0  # --client-timeout: small, so that slow clients are dealt with often
WARM_SECONDS = 30.0  # until memory and open files are measured for the first time
NUMBERS = {"total": 1e-4, "epistemic": 1e-4, "aleatoric": 1e-4, "ood_probability": 1e-3}


# --- models and what they answer ------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """Rows of a table, and what each version of its model says about them."""

    rows: list[dict[str, Any]]
    answers: list[pd.DataFrame]  # one for each version that may be served

    def is_right(self, places: list[int], found: list[dict[str, Any]]) -> bool:
        """Whether an answer is that of one of the versions."""
        return any(_agrees(version.iloc[places], pd.DataFrame(found)) for version in self.answers)


def _agrees(expected: pd.DataFrame, found: pd.DataFrame) -> bool:
    if len(expected) != len(found):
        return False
    same = all(
        found[name].astype(str).tolist() == expected[name].astype(str).tolist()
        for name in ("prediction", "decision")
    )
    return same and all(
        np.allclose(found[name].to_numpy(float), expected[name].to_numpy(float), atol=near)
        for name, near in NUMBERS.items()
    )


def fit_models(folder: Path) -> tuple[dict[str, Known], list[TableModel]]:
    """Fit and save the models; what they answer, and the versions of the one that is replaced."""
    iris = load_iris(as_frame=True).frame
    cancer = load_breast_cancer(as_frame=True).frame
    cancer = cancer.iloc[:, [0, 1, 2, 3, -1]]
    fitted = {
        "iris": [TableModel.fit(iris, "target", quick=True, random_state=0)],
        "cancer": [TableModel.fit(cancer, "target", quick=True, random_state=0)],
        "replaced": [
            TableModel.fit(iris, "target", quick=True, random_state=seed) for seed in (1, 2)
        ],
    }
    known = {}
    for name, versions in fitted.items():
        rows = (cancer if name == "cancer" else iris).drop(columns="target")
        versions[0].save(folder / name)
        answers = [model.score(rows) for model in versions]
        known[name] = Known(json.loads(rows.to_json(orient="records")), answers)
    return known, fitted["replaced"]


@contextmanager
def small_disk(n_bytes: int) -> Iterator[tuple[Path, bool]]:
    """A folder, and whether it is a small disk of its own."""
    folder = Path(tempfile.mkdtemp(prefix="bacoun-hostile-"))
    options = ["-t", "tmpfs", "-o", f"size={n_bytes}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(["mount", *options], capture_output=True, check=False)
        is_small = mounted.returncode == 0
    except FileNotFoundError:
        is_small = False
    try:
        yield folder, is_small
    finally:
        if is_small:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


# --- the server -----------------------------------------------------------------------------------


class Server:
    """A server process, and what it uses."""

    def __init__(self, folder: Path, log: Path) -> None:
        command = [sys.executable, "-c", "from bacoun.cli import main; main()", "serve"]
        options = ["--port", "0", "--workers", "2", "--watch"]
        options += ["--client-timeout", f"{CLIENT_SECONDS:g}"]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        self.log = log
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [*command, str(folder), *options], stderr=output, env=environment
            )
        self.address = self._wait_for_address()
        while httpx.get(f"{self.address}/readyz", timeout=60).status_code != 200:
            time.sleep(0.1)

    def _wait_for_address(self) -> str:
        ends = time.monotonic() + 120
        while time.monotonic() < ends and self.process.poll() is None:
            for line in self.log.read_text().splitlines():
                if "listening on " in line:
                    return line.rsplit(" ", 1)[1]
            time.sleep(0.1)
        raise RuntimeError(f"the server did not start: {self.log.read_text()}")

    def workers(self) -> list[int]:
        """Processes that score or train."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        children = [int(child) for task in tasks for child in task.read_text().split()]
        return [child for child in children if "spawn_main" in _read(f"/proc/{child}/cmdline")]

    def usage(self) -> dict[str, int]:
        """Megabytes of the server and of all its processes, and open files of the server."""
        own = self.process.pid
        workers = sum(_resident(process) for process in self.workers())
        files = len(os.listdir(f"/proc/{own}/fd"))
        return {"server MB": _resident(own), "workers MB": workers, "files": files}

    def stop(self) -> int:
        """Stop it as a service manager does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=90)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # the process ended meanwhile
        return ""


def _resident(process: int) -> int:
    lines = _read(f"/proc/{process}/status").splitlines()
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS")), 0)


# --- who talks to it ------------------------------------------------------------------------------


@dataclass
class Scene:
    """What all actors share, and what they count."""

    server: Server
    known: dict[str, Known]
    folder: Path
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    examples: dict[str, str] = field(default_factory=dict)  # the first of each kind of failure

    def count(self, what: str, example: object = "") -> None:
        """Count an event; the first example of it is kept."""
        with self.lock:
            self.counts[what] += 1
            if example:
                self.examples.setdefault(what, str(example)[:300])

    def connect(self) -> socket.socket:
        """A connection without a client library."""
        parts = urlsplit(self.server.address)
        return socket.create_connection((parts.hostname, parts.port), timeout=60)


def ordinary(scene: Scene, rng: random.Random) -> None:
    """Send a few rows at a time, check every answer."""
    with httpx.Client(base_url=scene.server.address, timeout=90) as client:
        while not scene.stop.wait(rng.uniform(0.2, 0.6)):
            name = rng.choice(list(scene.known))
            known = scene.known[name]
            places = rng.sample(range(len(known.rows)), rng.randint(1, 4))
            body = {"rows": [known.rows[place] for place in places]}
            started = time.perf_counter()
            try:
                answer = client.post(f"/v1/models/{name}/predict", json=body)
            except httpx.HTTPError as error:
                scene.count("ordinary: lost", repr(error))
                continue
            with scene.lock:
                scene.seconds.append(time.perf_counter() - started)
            if answer.status_code == 200:
                right = known.is_right(places, answer.json()["rows"])
                scene.count("ordinary: right" if right else "ordinary: wrong", answer.text)
            elif answer.status_code == 503 and answer.json()["code"] == "unavailable":
                scene.count("ordinary: refused with a sentence", answer.text)
            else:
                scene.count("ordinary: another error", f"{answer.status_code} {answer.text}")


def _arrow_of_nulls() -> bytes:
    import pyarrow

    table = pyarrow.table({"x": pyarrow.nulls(300_000_000)})
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.stream"


def malformed(scene: Scene, rng: random.Random) -> None:
    """Requests that must be refused, each with a sentence."""
    bodies: list[tuple[str, bytes]] = [
        (JSON, b"{"),
        (JSON, b"[" * 100_000),
        (JSON, b'{"rows": [{"petal width (cm)": [1, [2]]}]}'),
        (JSON, json.dumps({"rows": [{f"k{k}": 1} for k in range(8000)]}).encode()),
        (JSON, b'{"rows": 3}'),
        (CSV, b",".join(b"c%d" % k for k in range(100_000)) + b"\n"),
        (CSV, b"\x00\xff" * 1000),
        (ARROW, _arrow_of_nulls()),
        (ARROW, b"ARROW1" + bytes(200)),
        ("image/png", b"\x89PNG"),
    ]
    with httpx.Client(base_url=scene.server.address, timeout=90) as client:
        while not scene.stop.wait(rng.uniform(0.1, 0.5)):
            media_type, body = rng.choice(bodies)
            verb = rng.choice(["predict", "check", "invocations"])
            name = rng.choice(["iris", "replaced", "cancer", "no-such-model", "..%2Firis"])
            headers = {"Content-Type": media_type}
            if rng.random() < 0.1:
                headers["Content-Encoding"] = "gzip"
            try:
                answer = client.post(f"/v1/models/{name}/{verb}", content=body, headers=headers)
            except httpx.HTTPError:
                scene.count("malformed: connection closed")
                continue
            expected = 400 <= answer.status_code < 500 or answer.status_code == 503
            shown = f"{media_type} {verb} {body[:60]!r}: {answer.status_code} {answer.text}"
            scene.count("malformed: refused" if expected else "malformed: not refused", shown)


def garbage(scene: Scene, rng: random.Random) -> None:
    """Bytes that are no HTTP, headers without end, half requests behind whole ones."""
    whole = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    sent: list[Callable[[], bytes]] = [
        lambda: rng.randbytes(500),
        lambda: b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000,
        lambda: whole + b"GET / HTTP/1.1\r\nX: " + b"a" * 400_000,
        lambda: whole * 50,
        lambda: (
            b"POST /v1/models/iris/predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        ),
    ]
    while not scene.stop.wait(rng.uniform(0.2, 1.0)):
        with suppress(OSError), scene.connect() as connection:
            scene.count("garbage: sent")
            connection.settimeout(2)
            connection.sendall(rng.choice(sent)())
            connection.recv(1000)


def heavy(scene: Scene, rng: random.Random) -> None:
    """Large tables, explanations of many rows, and a table that is too large."""
    rows = scene.known["iris"].rows
    with httpx.Client(base_url=scene.server.address, timeout=90) as client:
        while not scene.stop.wait(rng.uniform(2.0, 6.0)):
            n_rows, query = rng.choice([(20_000, ""), (300, "?because=true"), (101_000, "")])
            table = pd.DataFrame([rows[k % len(rows)] for k in range(n_rows)])
            try:
                answer = client.post(
                    f"/v1/models/iris/predict{query}",
                    content=table.to_csv(index=False).encode(),
                    headers={"Content-Type": CSV, "Accept": CSV},
                )
                scene.count(f"heavy: {answer.status_code}")
            except httpx.HTTPError as error:
                scene.count("heavy: connection closed", repr(error))


def slow_writer(scene: Scene, rng: random.Random) -> None:
    """Headers or a body that come byte by byte."""
    head = b"POST /v1/models/iris/predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    body = b"Content-Type: application/json\r\nContent-Length: 5000\r\n\r\n"
    while not scene.stop.wait(rng.uniform(0.5, 2.0)):
        with suppress(OSError), scene.connect() as connection:
            scene.count("slow: writer")
            connection.sendall(head + (body if rng.random() < 0.5 else b"X-Slow: "))
            ends = time.monotonic() + 3 * CLIENT_SECONDS
            while time.monotonic() < ends and not scene.stop.wait(0.3):
                connection.sendall(b"1")


def slow_reader(scene: Scene, rng: random.Random) -> None:
    """A large answer that is not read."""
    rows = scene.known["iris"].rows
    content = json.dumps({"rows": [rows[k % len(rows)] for k in range(15_000)]}).encode()
    head = (
        "POST /v1/models/iris/predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    while not scene.stop.wait(rng.uniform(5.0, 15.0)):
        with suppress(OSError), scene.connect() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(head.encode() + content)
            scene.count("slow: reader")
            scene.stop.wait(4 * CLIENT_SECONDS)


def killer(scene: Scene, rng: random.Random) -> None:
    """Kill a worker now and then."""
    while not scene.stop.wait(rng.uniform(15, 30)):
        for worker in rng.sample(scene.server.workers(), 1):
            with suppress(OSError):
                os.kill(worker, signal.SIGKILL)
                scene.count("workers killed")


def disk_filler(scene: Scene, rng: random.Random) -> None:
    """Fill the disk for a few seconds."""
    file = scene.folder / ".filler"
    while not scene.stop.wait(rng.uniform(30, 60)):
        try:
            with suppress(OSError), file.open("wb", buffering=0) as written:
                while written.write(bytes(65536)) == 65536:
                    pass
            scene.count("disk filled")
            scene.stop.wait(rng.uniform(3, 8))
        finally:
            file.unlink(missing_ok=True)


def replacer(scene: Scene, rng: random.Random, versions: list[TableModel]) -> None:
    """Replace a model in one step, and let another one arrive slowly."""
    source = scene.folder / "iris"
    while not scene.stop.wait(rng.uniform(5, 15)):
        try:
            rng.choice(versions).save(scene.folder / "replaced", overwrite=True)
            scene.count("models replaced")
        except (OSError, ValueError) as error:  # the disk is full
            scene.count("models not replaced, with a sentence", error)
        with suppress(OSError):
            copy = scene.folder / "copied"
            copy.mkdir(exist_ok=True)
            for name in ("model.json", "model.safetensors"):
                content = (source / name).read_bytes()
                (copy / name).write_bytes(content[: len(content) // 2])
                _ask_for_copy(scene)
                (copy / name).write_bytes(content)
            _ask_for_copy(scene)
            scene.count("models copied slowly")
            shutil.rmtree(copy)


def _ask_for_copy(scene: Scene) -> None:
    """A model that is being copied is answered with 200, 404 or 503."""
    row = scene.known["iris"].rows[0]
    with suppress(httpx.HTTPError):
        url = f"{scene.server.address}/v1/models/copied/predict"
        answer = httpx.post(url, json={"rows": [row]}, timeout=90)
        if answer.status_code not in (200, 404, 503):
            scene.count("copied: another error", f"{answer.status_code} {answer.text}")


# --- the hour -------------------------------------------------------------------------------------


def run(minutes: float) -> dict[str, Any]:
    """All actors against one server; what happened."""
    with small_disk(200_000_000) as (folder, is_small):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # quick fits need not converge
            known, versions = fit_models(folder)
        if is_small:
            used = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            size = f"remount,size={used + ROOM_BYTES}"
            subprocess.run(["mount", "-o", size, str(folder)], check=True)
        log = Path(tempfile.mkstemp(suffix=".log")[1])
        server = Server(folder, log)
        scene = Scene(server, known, folder)
        usage = _play(scene, 60 * minutes, versions, is_small)
        exit_code = server.stop()
        printed = log.read_text()
        log.unlink()
    seconds = np.array(scene.seconds)
    return {
        "minutes": minutes,
        "small disk": is_small,
        "clients": N_CLIENTS,
        "counts": dict(sorted(scene.counts.items())),
        "examples": {k: v for k, v in sorted(scene.examples.items()) if k != "ordinary: right"},
        "milliseconds": {
            f"p{q:g}": round(1000 * float(np.percentile(seconds, q)), 1) for q in (50, 99, 99.9)
        },
        "usage": usage,
        "exit code": exit_code,
        "tracebacks": printed.count("Traceback"),
    }


def _play(
    scene: Scene, seconds: float, versions: list[TableModel], is_small: bool
) -> dict[str, dict[str, int]]:
    actors: list[Callable[..., None]] = [*[ordinary] * N_CLIENTS, malformed, garbage, heavy]
    actors += [slow_writer, slow_writer, slow_reader, slow_reader, killer]
    actors += [disk_filler] if is_small else []
    threads = [
        threading.Thread(target=actor, args=(scene, random.Random(seed)))
        for seed, actor in enumerate(actors)
    ]
    threads.append(threading.Thread(target=replacer, args=(scene, random.Random(-1), versions)))
    for thread in threads:
        thread.start()
    warm = min(WARM_SECONDS, seconds / 2)
    time.sleep(warm)
    usage = {"warm": scene.server.usage()}
    highest = dict(usage["warm"])
    ends = time.monotonic() + seconds - warm
    while time.monotonic() < ends and scene.server.process.poll() is None:
        time.sleep(min(5.0, max(0.1, ends - time.monotonic())))
        now = scene.server.usage()
        highest = {name: max(value, now[name]) for name, value in highest.items()}
    scene.stop.set()
    for thread in threads:
        thread.join(timeout=120)
    time.sleep(2 * CLIENT_SECONDS)  # connections that are still slow are closed
    return usage | {"highest": highest, "end": scene.server.usage()}


FAILURES = (
    "ordinary: wrong",
    "ordinary: lost",
    "ordinary: another error",
    "malformed: not refused",
    "copied: another error",
)


def failures(found: dict[str, Any]) -> list[str]:
    """What must not have happened, in sentences."""
    said = [
        f"{name} {found['counts'][name]} times, such as {found['examples'].get(name)}"
        for name in FAILURES
        if name in found["counts"]
    ]
    warm, end = found["usage"]["warm"], found["usage"]["end"]
    if end["files"] > warm["files"] + 10:
        said.append(f"open files grew from {warm['files']} to {end['files']}")
    if end["server MB"] > 1.5 * warm["server MB"] + 100:
        said.append(f"memory grew from {warm['server MB']} to {end['server MB']} MB")
    if found["exit code"] not in (0, -signal.SIGTERM) or found["tracebacks"]:
        said.append(f"exit code {found['exit code']}, {found['tracebacks']} tracebacks")
    return said


def table_of(found: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of what happened."""
    rows = [[name, f"{n:,}"] for name, n in found["counts"].items()]
    rows += [
        [f"ordinary: {name}, ms", f"{value:,}"] for name, value in found["milliseconds"].items()
    ]
    for name in found["usage"]["warm"]:
        moments = " / ".join(str(found["usage"][at][name]) for at in ("warm", "highest", "end"))
        rows.append([f"{name}: warm / highest / end", moments])
    return [f"in {found['minutes']:g} minutes", "number"], rows


def markdown(record: Record) -> str:
    """The same table as Markdown."""
    return markdown_table(*table_of(record))


def main() -> None:
    """Run for some minutes, write the record of an hour, and say what must not happen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=RECORD, help="record to write")
    chosen = parser.parse_args()
    found = run(chosen.minutes)
    versions = {"python": platform.python_version(), "bacoun": version("bacoun")}
    record = {"command": "make hostile", "versions": versions} | found
    chosen.out.write_text(json.dumps(record, indent=1) + "\n")
    Console(width=110).print(rich_table("A hostile hour", *table_of(found)))
    said = failures(found)
    for sentence in said:
        print(f"FAILED: {sentence}", file=sys.stderr)
    sys.exit(1 if said else 0)


if __name__ == "__main__":
    main()
