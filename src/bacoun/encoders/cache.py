"""Every text and photo is encoded once: vectors are kept in a file in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bacoun.encoders.encoder import Encoder, HasSpec
from bacoun.files.checksums import checksum

if TYPE_CHECKING:  # it imports torch
    from bacoun.engine.training import OnEpoch

_Result = TypeVar("_Result")

MOST_BYTES = 2_000_000_000
_IN_MEMORY = 200_000_000
_BATCH = 128
# Another number begins a new file: when texts are tokenized or photos are read differently.
_NAME = "embeddings-1.sqlite"
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_TABLE = """
CREATE TABLE IF NOT EXISTS vectors (
    age INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL UNIQUE, vector BLOB NOT NULL
)"""
_INSERT = "INSERT OR IGNORE INTO vectors (key, vector) VALUES (?, ?)"
_REMOVE_OLDEST = (
    "DELETE FROM vectors WHERE age <= (SELECT (3 * min(age) + max(age)) / 4 FROM vectors)"
)


def encode_cached(
    encoder: Encoder,
    items: Sequence[Any],
    on_progress: OnEpoch | None = None,
    cache: EmbeddingCache | None = None,
) -> np.ndarray:
    """Vectors (N, D) of N texts or photos, of which only new ones are encoded, each once.

    Parameters
    ----------
    encoder : Encoder
        If it is no `HasSpec`, all are encoded.
    items : sequence
        Texts or photos.
    on_progress : callable
        Called with the number of different items that are done, and of all different items.
    cache : EmbeddingCache
        None: the file in the user's cache folder. Batches are written one by one, so that a run
        that is interrupted goes on where it was.
    """
    if not isinstance(encoder, HasSpec) or not len(items):
        return encoder.encode(items)
    cache = cache or _cache_in(cache_folder())
    prefix = bytes.fromhex(checksum(encoder.spec))
    keys = [_digest(prefix + _digest(encoder.content(item))) for item in items]
    different = dict(zip(keys, items, strict=True))
    vectors = cache.get(different)
    missing = [key for key in different if key not in vectors]
    for i in range(0, max(1, len(missing)), _BATCH):
        if batch := missing[i : i + _BATCH]:
            new = dict(zip(batch, encoder.encode([different[key] for key in batch]), strict=True))
            cache.put(new)
            vectors |= new
        if on_progress is not None:
            on_progress(len(vectors), len(different))
    return np.stack([vectors[key] for key in keys])


def cache_folder() -> Path:
    """The variable BACOUN_CACHE, or `bacoun` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("BACOUN_CACHE") or os.path.join(base, "bacoun"))


class EmbeddingCache:
    """Vectors by key, in an SQLite file that many processes may use at once.

    A corrupt file is set aside, as `embeddings-1.sqlite.corrupt`. Without a folder to write to, the
    vectors are kept in memory, for this process.

    Parameters
    ----------
    folder : str or path-like
        It is made when first needed.
    most_bytes : int
        Of the file; beyond it, the oldest quarter is removed.
    """

    def __init__(self, folder: str | os.PathLike[str], most_bytes: int = MOST_BYTES) -> None:
        self.path = Path(folder) / _NAME
        self.most_bytes = most_bytes
        self._is_on_disk = True

    def get(self, keys: Iterable[bytes]) -> dict[bytes, np.ndarray]:
        """Those vectors that are kept."""

        def select(connection: sqlite3.Connection) -> dict[bytes, np.ndarray]:
            query = "SELECT vector FROM vectors WHERE key = ?"
            rows = ((key, connection.execute(query, (key,)).fetchone()) for key in keys)
            return {key: np.frombuffer(row[0], np.float32) for key, row in rows if row}

        return self._with_connection(select)

    def put(self, vectors: dict[bytes, np.ndarray]) -> None:
        """Keep vectors; those of known keys stay as they are."""
        rows = [(key, np.float32(vector).tobytes()) for key, vector in vectors.items()]

        def insert(connection: sqlite3.Connection) -> None:
            connection.executemany(_INSERT, rows)
            if _used_bytes(connection) > (self.most_bytes if self._is_on_disk else _IN_MEMORY):
                connection.execute(_REMOVE_OLDEST)

        self._with_connection(insert)

    def _with_connection(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """The result of `work`, for which the file is opened: connections do not survive a fork."""
        for _ in range(2 if self._is_on_disk else 0):
            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with closing(sqlite3.connect(self.path, timeout=60)) as connection, connection:
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.execute("PRAGMA synchronous = NORMAL")
                    connection.execute(_TABLE)
                    return work(connection)
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _CORRUPT:
                    break
                self._set_aside()
            except OSError:
                break
        self._is_on_disk = False
        with self._memory:
            return work(self._memory)

    @cached_property
    def _memory(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        connection.execute(_TABLE)
        return connection

    def _set_aside(self) -> None:
        """Rename the file; what SQLite wrote beside it must not meet a new one."""
        with suppress(OSError):  # another process was faster
            for suffix in ("-wal", "-shm"):
                self.path.with_name(_NAME + suffix).unlink(missing_ok=True)
            self.path.replace(self.path.with_name(f"{_NAME}.corrupt"))


@lru_cache
def _cache_in(folder: Path) -> EmbeddingCache:
    return EmbeddingCache(folder)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _used_bytes(connection: sqlite3.Connection) -> int:
    pages, unused, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - unused) * size
