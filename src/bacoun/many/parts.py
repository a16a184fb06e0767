"""Score a row group of a Parquet file into a part: a file named by what it was made from.

A part is written atomically, and holds the counts of its decisions in its metadata. So a task that
runs again, because its worker died or because the whole run was killed, reads the counts and is
done; it scores again only if the part is missing or torn. Files are addressed through fsspec.
"""

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import IO, Any, NamedTuple

import fsspec
import pandas as pd
from fsspec.implementations.local import LocalFileSystem

from bacoun.columns.reading import open_parquet, rows_per_chunk, stream_parquet
from bacoun.columns.writing import parquet_writer
from bacoun.files.atomic import atomic_write
from bacoun.many.scorer import Scorer

FORMAT = 1  # of the parts; another one gives them other names
SUFFIX = ".parquet"
_KEY = "bacoun"  # of the metadata
_VERSIONS = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created")

Counts = Counter[tuple[str, ...]]  # of rows by decision, reason and prediction


@dataclass(frozen=True)
class RowGroup:
    """A row group of a Parquet file, which is the work of one task."""

    file: str  # its address with the protocol, such as file:///data/new.parquet
    size: int  # bytes of the file
    version: str  # ETag of the file, or the time of its last change
    number: int  # which row group of the file
    n_rows: int
    n_columns: int

    def frames(self, n_rows: int | None = None) -> Iterator[pd.DataFrame]:
        """The row group in chunks of `n_rows`, by default as many as easily fit into memory."""
        size = n_rows or rows_per_chunk(self.n_columns)
        return stream_parquet(*located(self.file), batch_size=size, row_groups=[self.number])

    @contextmanager
    def named(self) -> Iterator[None]:
        """Say in an error, which names the row within the row group, which row group it is."""
        try:
            yield
        except ValueError as error:
            raise ValueError(f"row group {self.number} of '{self.file}': {error}") from None


class FileSurvey(NamedTuple):
    """Columns and row groups of a Parquet file; those without rows are left out."""

    file: str
    columns: tuple[str, ...]
    groups: list[RowGroup]


def survey_file(file: str) -> list[FileSurvey]:
    """Read the footer of the Parquet file at an address; the one survey comes in a list."""
    path, filesystem = located(file)
    facts = filesystem.info(path)
    version = next((str(facts[name]) for name in _VERSIONS if facts.get(name)), "")
    with open_parquet(path, filesystem) as parquet:
        columns, footer = tuple(parquet.schema_arrow.names), parquet.metadata
        sizes = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
    about, n_columns = (file, int(facts["size"]), version), len(columns)
    groups = [RowGroup(*about, k, n_rows, n_columns) for k, n_rows in enumerate(sizes) if n_rows]
    return [FileSurvey(file, columns, groups)]


@dataclass(frozen=True)
class PartWriter:
    """Scores row groups and writes each as a part to a folder."""

    scorer: Scorer
    out: str  # address of the folder, which exists

    def name(self, group: RowGroup) -> str:
        """File name of a part: the SHA-256 digest of the row group, the model and the options."""
        content = [FORMAT, asdict(group), self.scorer.checksum, self.scorer.because]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest() + SUFFIX

    def __call__(self, group: RowGroup) -> Counts:
        """Write the part of a row group, if it is not there, and count its decisions."""
        folder, filesystem = located(self.out)
        path = f"{folder}/{self.name(group)}"
        known = read_counts(path, filesystem, group.n_rows)
        if known is not None:
            return known
        counts, facts = Counts(), dict[str, str]()
        with atomic_file(path, filesystem) as raw, parquet_writer(raw, facts) as write:
            for frame in group.frames():
                with group.named():
                    scored = self.scorer.join(frame)
                sizes: Any = scored.groupby(["decision", "reason", "prediction"]).size()
                counts += Counter({tuple(map(str, key)): int(n) for key, n in sizes.items()})
                write(scored)
            source = {"file": group.file, "row_group": group.number}
            facts[_KEY] = json.dumps(source | {"counts": [[*key, n] for key, n in counts.items()]})
        return counts


def read_counts(path: str, filesystem: Any, n_rows: int) -> Counts | None:
    """Counts in the metadata of a part; None if it is missing, torn or has other than `n_rows`."""
    try:
        with open_parquet(path, filesystem) as part:
            if part.metadata.num_rows != n_rows:
                return None
            content = json.loads(part.metadata.metadata[_KEY.encode()])
        return Counter({tuple(key): n for *key, n in content["counts"]})
    except (KeyError, TypeError, ValueError):
        return None


def located(address: str) -> tuple[str, Any]:
    """Path and fsspec filesystem of an address; what has no protocol is on the local disk."""
    filesystem, path = fsspec.core.url_to_fs(address)
    return path.rstrip("/") or path, filesystem


@contextmanager
def atomic_file(path: str, filesystem: Any) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears at `path` if the block ends without an error."""
    if isinstance(filesystem, LocalFileSystem):
        with atomic_write(path) as raw:
            yield raw
        return
    temporary = _temporary(path, secrets.token_hex(4))
    try:
        with filesystem.open(temporary, "wb") as raw:
            yield raw
        filesystem.mv(temporary, path)
    except BaseException:
        if filesystem.exists(temporary):
            filesystem.rm(temporary)
        raise


def remove_unfinished(folder: str, filesystem: Any, names: Iterable[str]) -> None:
    """Remove what killed workers left of the named files, which are complete by now."""
    done = set(names)
    for path in filesystem.glob(_temporary(f"{folder}/*", "*")):
        if path.rsplit("/", 1)[-1][1:].rsplit(".", 2)[0] in done:
            filesystem.rm(path)


def _temporary(path: str, token: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.{token}.tmp"  # as in bacoun.files.atomic
