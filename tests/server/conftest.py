"""Fitted models, and real servers that score with them."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import httpx
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from bacoun.tabular import TableModel

COMMAND = [sys.executable, "-c", "from bacoun.cli import main; main()", "serve", "--port", "0"]


class Server:
    """A server process, its address, and what it printed."""

    def __init__(self, process):
        self.process, self.lines, self.address = process, [], None
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        ends = time.monotonic() + 120
        while self.address is None and process.poll() is None and time.monotonic() < ends:
            time.sleep(0.02)
        assert self.address is not None, self.lines
        while httpx.get(f"{self.address}/readyz", timeout=60).status_code != 200:
            time.sleep(0.05)

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r"listening on (\S+)", line)
            self.address = found.group(1) if found else self.address

    def client(self, **options):
        return httpx.Client(base_url=self.address, timeout=60, **options)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        self.reader.join(timeout=10)
        return code


@contextmanager
def running(*arguments, **environment):
    """A server with these arguments, stopped at the end."""
    own = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stderr=subprocess.PIPE, text=True, env=own
    )
    try:
        server = Server(process)
        yield server
        assert server.stop() in (0, -signal.SIGTERM), server.lines
        assert not [line for line in server.lines if "Traceback" in line], server.lines
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stderr.close()


def tumors():
    """A table with numbers, gaps, categories, booleans and dates."""
    data = load_breast_cancer(as_frame=True)
    frame = data.data.iloc[:, :4].assign(diagnosis=data.target_names[data.target])
    frame = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    rng = np.random.default_rng(0)
    frame["ward"] = np.where(rng.random(len(frame)) < 0.4, "A", "B")
    frame["smoker"] = rng.random(len(frame)) < 0.3
    days = rng.integers(0, 27, len(frame)) + 1
    frame["admitted"] = [f"2024-{1 + day % 12:02d}-{day:02d}" for day in days]
    frame.loc[rng.random(len(frame)) < 0.05, "mean texture"] = np.nan
    return frame


TABLE = tumors()
NEW = TABLE.iloc[400:].drop(columns="diagnosis").reset_index(drop=True)


@pytest.fixture(scope="session")
def saved(fast, tmp_path_factory):
    """A folder with two models, "tumors" and "iris"."""
    folder = tmp_path_factory.mktemp("saved")
    classifier = fast(random_state=0)
    TableModel.fit(TABLE[:400], "diagnosis", classifier=classifier).save(folder / "tumors")
    iris = load_iris(as_frame=True).frame
    TableModel.fit(iris, "target", classifier=fast(random_state=0)).save(folder / "iris")
    return folder


@pytest.fixture(scope="session")
def model(saved):
    return TableModel.load(saved / "tumors")


@pytest.fixture(scope="session")
def folder(saved, tmp_path_factory):
    """A copy that servers may write logs beside."""
    return shutil.copytree(saved, tmp_path_factory.mktemp("served") / "models")


@pytest.fixture(scope="session")
def new():
    """Rows to score."""
    return NEW


@pytest.fixture(scope="session")
def server(folder):
    """A server of both models, one of which has a report, and of the playground."""
    (folder / "tumors" / "report.html").write_text("<!DOCTYPE html><title>t</title>the report")
    with running(folder, "--watch", "--timeout", "300", BACOUN_DATA="") as started:
        yield started


TOKEN = "correct-horse-battery"


@pytest.fixture(scope="session")
def strict(saved, tmp_path_factory):
    """A server of one model, with a token, small limits and little patience, a log and a report."""
    iris = shutil.copytree(saved / "iris", tmp_path_factory.mktemp("strict") / "iris")
    (iris / "report.html").write_text("<!DOCTYPE html><title>t</title>the report")
    options = [
        "--no-playground",
        "--watch",
        "--timeout",
        "300",
        "--max-body",
        "20000",
        "--max-rows",
        "50",
        "--client-timeout",
        "1",
    ]
    with running(iris, *options, BACOUN_TOKEN=TOKEN, BACOUN_DATA="") as started:
        yield started


@pytest.fixture(scope="session")
def start():
    """A function that starts a server of one's own."""
    return running
