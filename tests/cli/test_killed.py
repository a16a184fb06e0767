"""kill -9 at ten random times: no partial output, and a resumed fit gives the same model."""

import json
import shutil
import signal
import subprocess
import sys
from typing import NamedTuple

import pandas as pd
import pytest
from numpy.random import default_rng
from sklearn.datasets import load_iris

from bacoun.tabular import TableModel

IRIS = load_iris(as_frame=True).frame
N_MANY = 25_000
KILLS = 5


# Imports take longer than all else, and a kill there tests nothing: they are done once, and each
# command is a process of its own that begins after them.
SERVER = """
import json, os, signal, sys, time
import bacoun.tabular.model
from bacoun.cli import main

def command(words, said):
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    main(words)
    sys.stdout.flush()
    os._exit(0)

for line in sys.stdin:
    seconds, words, said = json.loads(line)
    child = os.fork()
    if child == 0:
        try:
            command(words, said)
        finally:
            os._exit(2)
    started, ended, status = time.perf_counter(), 0, 0
    while not ended:
        if time.perf_counter() - started > seconds:
            os.kill(child, signal.SIGKILL)
            ended, status = os.waitpid(child, 0)
        else:
            time.sleep(0.002)
            ended, status = os.waitpid(child, os.WNOHANG)
    took = time.perf_counter() - started
    print(json.dumps([os.waitstatus_to_exitcode(status), took]), flush=True)
"""


class Attempt(NamedTuple):
    killed: bool
    seconds: float
    said: str


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A function that runs a command, and kills it after so many seconds."""
    said = tmp_path_factory.mktemp("said") / "said"
    pipe = subprocess.PIPE
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=pipe, stdout=pipe, text=True)

    def attempt(words, seconds=300.0):
        print(json.dumps([seconds, [*map(str, words)], str(said)]), file=server.stdin, flush=True)
        code, took = json.loads(server.stdout.readline())
        text = said.read_text() if said.exists() else ""
        assert code in (0, -signal.SIGKILL), text
        return Attempt(code != 0, took, text)

    with server:
        yield attempt
        server.stdin.close()


def visible(folder):
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, fast):
    """A table to learn from, a model, and a longer table to score."""
    folder = tmp_path_factory.mktemp("killed")
    IRIS.to_csv(folder / "iris.csv", index=False)
    TableModel.fit(IRIS, "target", classifier=fast()).save(folder / "model")
    many = IRIS.drop(columns="target").sample(N_MANY, replace=True, random_state=0)
    many.to_csv(folder / "many.csv", index=False)
    return folder


def test_a_fit_killed_five_times_leaves_no_partial_model_and_resumes_to_the_same(
    run, folder, tmp_path
):
    words = ["fit", folder / "iris.csv", "--target", "target", "--quick", "--out"]
    uninterrupted, out, rng = (
        run([*words, folder / "uninterrupted"]),
        tmp_path / "model",
        default_rng(0),
    )
    expected = TableModel.load(folder / "uninterrupted").score(IRIS)
    n_killed = n_resumed = 0

    def is_there():
        """Whether there is a model; if so, check that it equals that of the uninterrupted fit."""
        assert visible(tmp_path) <= {"model", "model.checkpoint"}
        if not out.exists():
            return False
        pd.testing.assert_frame_equal(TableModel.load(out).score(IRIS), expected, atol=1e-6)
        return True

    while n_killed < KILLS:
        attempt = run([*words, out, "--resume"], rng.uniform(0, uninterrupted.seconds))
        n_killed += attempt.killed
        n_resumed += "resuming from" in attempt.said
        if is_there():
            shutil.rmtree(out)  # and begin again
        else:
            assert attempt.killed
    assert n_resumed > 0
    assert not run([*words, out, "--resume"]).killed
    assert is_there()
    assert visible(tmp_path) == {"model"}


def test_predict_killed_five_times_leaves_no_partial_file(run, folder, tmp_path):
    words = ["predict", folder / "model", folder / "many.csv", "--out"]
    uninterrupted, out, rng = (
        run([*words, folder / "uninterrupted.csv"]),
        tmp_path / "scored.csv",
        default_rng(0),
    )
    expected = (folder / "uninterrupted.csv").read_bytes()
    assert expected.count(b"\n") == 1 + N_MANY
    n_killed = 0
    while n_killed < KILLS:
        attempt = run([*words, out], rng.uniform(0, uninterrupted.seconds))
        n_killed += attempt.killed
        if out.exists():
            assert out.read_bytes() == expected
            out.unlink()
        else:
            assert attempt.killed
    assert not run([*words, out]).killed
    assert out.read_bytes() == expected
    assert visible(tmp_path) == {"scored.csv"}
