"""Atomic writes: a file or folder appears complete or not at all.

Both are written under a hidden temporary name beside the target and renamed at the end.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


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
    """Make a folder to fill that replaces `path` if the block ends without an error."""
    target, temporary, replaced = Path(path), _temporary(Path(path)), _temporary(Path(path))
    temporary.mkdir()
    try:
        yield temporary
        if target.exists():
            target.rename(replaced)
        try:
            temporary.rename(target)
        except BaseException:
            if replaced.exists():
                replaced.rename(target)
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
