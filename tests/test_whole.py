"""What is written appears whole or not at all, and what killed processes left goes away."""

import os
import signal
import subprocess
import sys

import pytest

from bacoun.whole import whole_file, whole_folder

KILLED_HALFWAY = """
import os, signal, sys
from bacoun.whole import whole_file, whole_folder
with whole_file(sys.argv[1]) as file, whole_folder(sys.argv[2]) as folder:
    file.write(b"half")
    file.flush()
    (folder / "half").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write_file(place, text=b"whole"):
    with whole_file(place) as file:
        file.write(text)


def write_folder(place, name="whole"):
    with whole_folder(place) as folder:
        (folder / name).touch()


def killed_halfway(place):
    words = [sys.executable, "-c", KILLED_HALFWAY, str(place / "file.csv"), str(place / "model")]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL


def test_a_killed_process_leaves_hidden_parts_that_the_next_one_removes(tmp_path):
    write_file(tmp_path / "file.csv", b"old")
    write_folder(tmp_path / "model", "old")
    for _ in range(2):
        killed_halfway(tmp_path)
    hidden = [name for name in names(tmp_path) if name.startswith(".")]
    assert len(hidden) == 3  # the second attempt at the file removed what the first had left
    assert (tmp_path / "file.csv").read_bytes() == b"old"
    assert names(tmp_path / "model") == ["old"]
    write_file(tmp_path / "file.csv")
    write_folder(tmp_path / "model")
    assert names(tmp_path) == ["file.csv", "model"]
    assert (tmp_path / "file.csv").read_bytes() == b"whole"
    assert names(tmp_path / "model") == ["whole"]


def test_the_parts_of_those_at_work_and_other_files_stay(tmp_path):
    place = tmp_path / "file[1].csv"
    alive = f".file[1].csv.{os.getppid()}.0123abcd.part"
    others = [alive, ".file[1].csv.part", ".file[1].csv.7.part", ".file1.csv.1.0123abcd.part"]
    for name in others:
        (tmp_path / name).touch()
    with whole_file(place) as first:
        write_file(place, b"second")
        first.write(b"first")
    assert place.read_bytes() == b"first"
    assert names(tmp_path) == sorted([*others, place.name])


def test_a_process_number_given_again_is_no_process_at_work(tmp_path):
    (tmp_path / f".file.csv.{os.getpid()}.0123abcd.part").touch()
    (tmp_path / f".file.csv.{10**30}.0123abcd.part").touch()
    write_file(tmp_path / "file.csv")
    assert names(tmp_path) == ["file.csv"]


def test_an_error_leaves_what_was_there(tmp_path):
    write_file(tmp_path / "file.csv", b"old")
    write_folder(tmp_path / "model", "old")
    with (
        pytest.raises(TypeError),
        whole_file(tmp_path / "file.csv") as file,
        whole_folder(tmp_path / "model"),
    ):
        file.writelines([b"half", None])
    assert names(tmp_path) == ["file.csv", "model"]
    assert (tmp_path / "file.csv").read_bytes() == b"old"
    assert names(tmp_path / "model") == ["old"]


def test_the_old_folder_returns_when_the_new_one_cannot_move_in(tmp_path):
    write_folder(tmp_path / "model", "old")
    with pytest.raises(FileNotFoundError), whole_folder(tmp_path / "model") as folder:
        folder.rmdir()
    assert names(tmp_path) == ["model"]
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
