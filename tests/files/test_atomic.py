"""What is written appears complete or not at all."""

import os
import signal
import subprocess
import sys

import pytest

from bacoun.files.atomic import atomic_folder, atomic_write

KILLED_HALFWAY = """
import os, signal, sys
from bacoun.files.atomic import atomic_folder, atomic_write
with atomic_write(sys.argv[1]) as file, atomic_folder(sys.argv[2]) as folder:
    file.write(b"half")
    file.flush()
    (folder / "half").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def write_file(place, text=b"complete"):
    with atomic_write(place) as file:
        file.write(text)


def write_folder(place, name="complete"):
    with atomic_folder(place) as folder:
        (folder / name).touch()


def test_a_killed_process_leaves_what_was_there_and_does_not_block_the_next(tmp_path):
    write_file(tmp_path / "file.csv", b"old")
    write_folder(tmp_path / "model", "old")
    words = [sys.executable, "-c", KILLED_HALFWAY, tmp_path / "file.csv", tmp_path / "model"]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    assert (tmp_path / "file.csv").read_bytes() == b"old"
    assert names(tmp_path / "model") == ["old"]
    write_file(tmp_path / "file.csv")
    write_folder(tmp_path / "model")
    assert names(tmp_path) == ["file.csv", "model"]
    assert (tmp_path / "file.csv").read_bytes() == b"complete"
    assert names(tmp_path / "model") == ["complete"]


def test_of_two_writers_the_last_to_finish_wins(tmp_path):
    place = tmp_path / "file.csv"
    with atomic_write(place) as first:
        write_file(place, b"second")
        first.write(b"first")
    assert place.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [place]


def test_an_error_leaves_what_was_there_and_nothing_else(tmp_path):
    write_file(tmp_path / "file.csv", b"old")
    write_folder(tmp_path / "model", "old")
    with (
        pytest.raises(TypeError),
        atomic_write(tmp_path / "file.csv") as file,
        atomic_folder(tmp_path / "model"),
    ):
        file.writelines([b"half", None])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.csv", "model"]
    assert (tmp_path / "file.csv").read_bytes() == b"old"
    assert names(tmp_path / "model") == ["old"]


def test_the_old_folder_returns_when_the_new_one_cannot_move_in(tmp_path):
    write_folder(tmp_path / "model", "old")
    with pytest.raises(FileNotFoundError), atomic_folder(tmp_path / "model") as folder:
        folder.rmdir()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert names(tmp_path / "model") == ["old"]


def test_others_may_read_what_the_umask_allows(tmp_path):
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "file.csv")
        write_folder(tmp_path / "model")
    finally:
        os.umask(before)
    assert (tmp_path / "file.csv").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o750


INTERRUPTED = """
import random, signal, sys
from pathlib import Path
from bacoun.files import atomic

target = Path(sys.argv[1])
if sys.argv[2] == "two steps":
    atomic._exchange = lambda one, other: False
with atomic.atomic_folder(target) as folder:
    (folder / "complete").touch()

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
generator, n_interrupted = random.Random(0), 0
for _ in range(1500):
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, generator.uniform(1e-5, 4e-4))
            with atomic.atomic_folder(target) as folder:
                (folder / "complete").touch()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except (KeyboardInterrupt, OSError):  # rmtree does not expect to be interrupted
        n_interrupted += 1
    assert (target / "complete").exists()
print(n_interrupted)
"""


@pytest.mark.parametrize("how", ["one step", "two steps"])
def test_an_interrupted_replacement_leaves_one_of_both(tmp_path, how):
    """30.5: Ctrl-C between two renames deleted the old model and the new one."""
    words = [sys.executable, "-c", INTERRUPTED, tmp_path / "model", how]
    run = subprocess.run(words, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 100


def test_what_a_killed_process_left_long_ago_is_removed(tmp_path):
    write_folder(tmp_path / "model")
    print_process = [sys.executable, "-c", "import os; print(os.getpid())"]
    gone = int(subprocess.run(print_process, check=True, capture_output=True, text=True).stdout)
    owners = {"old": gone, "recent": gone, "running": os.getpid()}
    left = {
        name: tmp_path / f".model.{process}-0123456{k}.tmp"
        for k, (name, process) in enumerate(owners.items())
    }
    for path in left.values():
        path.mkdir()
    for name in ("old", "running"):
        os.utime(left[name], (0, 0))
    write_folder(tmp_path / "model")
    assert [name for name, path in left.items() if path.exists()] == ["recent", "running"]
