"""kill -9 before changes of files: no partial output, and a resumed fit gives the same model."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
from numpy.random import default_rng
from sklearn.datasets import load_iris

from bacoun.tabular import TableModel

ROOT = Path(__file__).parents[2]
IRIS = load_iris(as_frame=True).frame
N_MANY = 3_000
KILLS = 5


# Imports take longer than all else: they are done once, and each command is a fork.
SERVER = """
import json, os, sys
import bacoun.tabular.model
from bacoun.cli import main
from tests.kills import changes_of

def command(words, said, folder, kill_at):
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    n_changes = changes_of(folder, kill_at=kill_at)
    main(words)
    print("changes:", n_changes())
    sys.stdout.flush()
    os._exit(0)

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            command(*json.loads(line))
        finally:
            os._exit(2)
    status = os.waitpid(child, 0)[1]
    print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)
"""


class Attempt(NamedTuple):
    killed: bool
    said: str

    @property
    def n_changes(self):
        return int(self.said.rsplit("changes: ", 1)[1])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A function that runs a command, and kills it at one of its changes of files in a folder."""
    said = tmp_path_factory.mktemp("said") / "said"
    pipe = subprocess.PIPE
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=pipe, stdout=pipe, text=True, cwd=ROOT
    )

    def attempt(words, folder, kill_at=None):
        order = [*map(str, words)], str(said), str(folder), kill_at
        print(json.dumps(order), file=server.stdin, flush=True)
        code = json.loads(server.stdout.readline())
        text = said.read_text() if said.exists() else ""
        assert code in (0, -signal.SIGKILL), text
        return Attempt(code != 0, text)

    with server:
        yield attempt
        server.stdin.close()


def visible(folder):
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, iris_model):
    """A table to learn from, a model, and a longer table to score."""
    folder = tmp_path_factory.mktemp("killed")
    IRIS.to_csv(folder / "iris.csv", index=False)
    iris_model.save(folder / "model")
    many = IRIS.drop(columns="target").sample(N_MANY, replace=True, random_state=0)
    many.to_csv(folder / "many.csv", index=False)
    return folder


def test_a_fit_killed_five_times_leaves_no_partial_model_and_resumes_to_the_same(
    run, folder, tmp_path
):
    words = ["fit", folder / "iris.csv", "--target", "target", "--quick", "--out"]
    n_changes = run([*words, folder / "uninterrupted"], folder).n_changes
    expected = TableModel.load(folder / "uninterrupted").score(IRIS)
    out, rng = tmp_path / "model", default_rng(0)
    n_killed = n_resumed = 0

    def is_there():
        """Whether there is a model; if so, check that it equals that of the uninterrupted fit."""
        assert visible(tmp_path) <= {"model", "model.checkpoint"}
        if not out.exists():
            return False
        pd.testing.assert_frame_equal(TableModel.load(out).score(IRIS), expected, atol=1e-6)
        return True

    while n_killed < KILLS:
        kill_at = int(rng.integers(1, n_changes, endpoint=True))
        attempt = run([*words, out, "--resume"], tmp_path, kill_at)
        n_killed += attempt.killed
        n_resumed += "resuming from" in attempt.said
        if is_there():
            shutil.rmtree(out)  # and begin again
        else:
            assert attempt.killed
    assert n_resumed > 0
    assert not run([*words, out, "--resume"], tmp_path).killed
    assert is_there()
    assert visible(tmp_path) == {"model"}


def test_predict_killed_at_any_change_leaves_no_partial_file(run, folder, tmp_path):
    words = ["predict", folder / "model", folder / "many.csv", "--no-because", "--out"]
    n_changes = run([*words, folder / "uninterrupted.csv"], folder).n_changes
    expected, out = (folder / "uninterrupted.csv").read_bytes(), tmp_path / "scored.csv"
    assert expected.count(b"\n") == 1 + N_MANY
    for kill_at in range(1, n_changes + 1):
        assert run([*words, out], tmp_path, kill_at).killed
        if out.exists():
            assert out.read_bytes() == expected
            out.unlink()
    assert not run([*words, out], tmp_path).killed
    assert out.read_bytes() == expected
    assert visible(tmp_path) == {"scored.csv"}
