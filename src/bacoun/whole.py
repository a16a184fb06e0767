"""Files and folders that appear whole or not at all, whatever happens while they are written.

They are made beside their place, under a hidden name with the number of the process that is at it,
and moved there at the end. What a killed process left is removed by the next one that writes to the
same place.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import IO

_open: set[str] = set()  # names of what this process is writing


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes its place when the block ends without an error.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(f"{folder}/answer.txt") as file:
    ...         _ = file.write(b"42")
    ...     Path(folder, "answer.txt").read_text()
    '42'
    """
    place = Path(path)
    _sweep(place)
    with _part_of(place) as part:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(place)


@contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a folder to fill, which takes its place when the block ends without an error."""
    place = Path(path)
    with _part_of(place) as part:
        part.mkdir()
        yield part
        _move_into_place(part, place)
    _sweep(place)  # not before: a kill between two moves leaves the only folder under such a name


@contextmanager
def _part_of(place: Path) -> Iterator[Path]:
    part = place.with_name(f".{place.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    _open.add(part.name)
    try:
        yield part
    finally:
        _remove(part)
        _open.discard(part.name)


def _move_into_place(part: Path, place: Path) -> None:
    if not place.exists():
        part.rename(place)
        return
    with _part_of(place) as replaced:
        place.rename(replaced)
        try:
            part.rename(place)
        except BaseException:
            replaced.rename(place)
            raise


def _sweep(place: Path) -> None:
    """Remove what processes that are gone left of their attempts at the same place."""
    for part in place.parent.glob(f".{escape(place.name)}.*.part"):
        rest = part.name.removeprefix(f".{place.name}")
        writer = re.fullmatch(r"\.(\d+)\.[0-9a-f]{8}\.part", rest)
        if writer and part.name not in _open and not _is_another_at_work(int(writer[1])):
            _remove(part)


def _is_another_at_work(process: int) -> bool:
    if process == os.getpid():  # a container gives the same number again
        return False
    if os.name == "nt":  # where asking would stop it
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it is someone else's
        return True
    return True


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
    else:
        part.unlink(missing_ok=True)
