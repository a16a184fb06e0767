"""Atomic writes: a file or folder appears complete or not at all.

Both are written under a hidden temporary name beside the target and renamed at the end.
"""

import ctypes
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
_LONG_AGO = 3600.0  # seconds: on a shared disk, the process may be another machine's


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces `path` if the block ends without an error.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(f"{folder}/answer.txt") as file:
    ...         _ = file.write(b"42")
    ...     Path(folder, "answer.txt").read_text()
    '42'
    """
    temporary = _temporary(Path(path))
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a folder to fill that replaces `path` if the block ends without an error.

    The old folder is removed only after the new one has its name, so that at any moment one of them
    is there. Where the system can exchange two names at once, it has the name of `path`.
    """
    target = Path(path)
    temporary = _temporary(target)
    _clean_up_after_killed(target)
    temporary.mkdir()
    try:
        yield temporary
        if target.exists() and not _exchange(temporary, target):
            _replace(target, temporary)
        elif temporary.exists() and not target.exists():
            temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # incomplete, or the old one


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders in one step; False if the system or disk cannot."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):  # an old or another C library
        return False
    names = os.fsencode(one), os.fsencode(other)
    return bool(rename(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0)


def _replace(target: Path, new: Path) -> None:
    """The same in two steps; the old folder ends up under the name of the new one."""
    old = _temporary(target)
    try:
        target.rename(old)
        new.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    old.rename(new)


def _clean_up_after_killed(target: Path) -> None:
    """Remove what killed processes of this machine left beside `target` long ago."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.(\d+)-[0-9a-f]{{8}}\.tmp")
    if not target.exists() or not target.parent.is_dir():
        return  # one of them may be all that is left of it
    for path in target.parent.iterdir():
        match = pattern.fullmatch(path.name)
        if match and path.is_dir() and not _is_running(int(match[1])):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _LONG_AGO:
                    shutil.rmtree(path, ignore_errors=True)


def left_behind(target: Path) -> list[Path]:
    """Folders that killed processes left beside `target`, the newest first."""
    folders = [path for path in target.parent.glob(f".{target.name}.*.tmp") if path.is_dir()]
    return sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:  # another user's process may not be asked
        return not isinstance(error, ProcessLookupError)
    return True


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
