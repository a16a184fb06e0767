"""The file of a log: where it is, and how it is opened."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

_BUSY_SECONDS = 10


def log_path(model: str | PathLike[str]) -> Path:
    """Where the log of a model is: beside its folder."""
    folder = Path(model).resolve()
    return folder.with_name(f"{folder.name}.watch.sqlite")


_PASSING = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY}


@contextmanager
def open_log(path: Path, read_only: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection whose transactions are begun and ended by hand."""
    mode = "ro" if read_only else "rwc"
    try:
        log = sqlite3.connect(
            f"{path.as_uri()}?mode={mode}", uri=True, timeout=_BUSY_SECONDS, isolation_level=None
        )
        try:
            if not read_only:
                log.execute("pragma journal_mode = wal")
                log.execute("pragma synchronous = normal")
            yield log
        finally:
            log.close()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in _PASSING:
            raise OSError(f"'{path}' cannot be written: {error}. Is its disk full?") from None
        raise ValueError(
            f"'{path}' must be a log of bacoun; reading it failed: {error}. Move it away."
        ) from None
