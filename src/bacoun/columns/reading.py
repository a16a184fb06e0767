"""Read tables from CSV or Parquet files, whole or in chunks; a bad file is refused in one sentence.

A folder of photos is a table of their paths.

A text file is surveyed before it is read, because pandas silently fills short rows and renames
columns. The survey also counts the rows, for the progress bar.
"""

import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO, Any

import pandas as pd

from bacoun.columns.photo_files import photo_table

TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET = (".parquet",)

csv.field_size_limit(100_000_000)  # a photo as a data URI is one field

# The missing values of pandas, spelled out so that they are the same in every version.
# fmt: off
MISSING = frozenset(
    ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
     "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"]
)
# fmt: on

_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
_AS_TEXT: dict[str, Any] = {"dtype": str, "na_filter": False}
# A chunk has about this many cells: 100,000 rows of 20 columns. Its rows are a multiple of the
# chunks in which a classifier scores, so that they give the same scores as the whole table.
_CELLS = 2_000_000
SCORING_CHUNK = 2048


@dataclass(frozen=True)
class Survey:
    """The layout of a table file."""

    columns: tuple[str, ...]  # their names
    n_rows: int  # below the header
    delimiter: str = ""  # of a text file, as the encoding
    encoding: str = ""

    @property
    def chunk_size(self) -> int:
        """Number of rows that easily fit into memory, depending on the number of columns."""
        return rows_per_chunk(len(self.columns))


def rows_per_chunk(n_columns: int) -> int:
    """Number of rows of so many columns that easily fit into memory."""
    rows = max(1, min(100_000, _CELLS // max(1, n_columns)))
    return rows - rows % SCORING_CHUNK if rows > SCORING_CHUNK else rows


def read_table(path: str | PathLike[str]) -> pd.DataFrame:
    """Read a CSV or Parquet file as a whole, with the types that pandas infers.

    Its name ends in .csv, .tsv, either with .gz, or .parquet. Text is UTF-8, or UTF-16 with a BOM;
    its delimiter is the comma, or the semicolon or tab if the header has no comma. Of a folder, the
    table lists its photos; see `photo_table`.
    """
    if Path(path).is_dir():
        return photo_table(path)
    file = _checked_path(path)
    if is_parquet(file):
        survey_table(file)
        with open_parquet(file) as parquet:
            return parquet.read().to_pandas(ignore_metadata=True)
    options = {"na_values": sorted(MISSING), "keep_default_na": False, "low_memory": False}
    return _read_text(_InMemory(file.read_bytes(), str(file)), **options)


def stream_table(
    path: str | PathLike[str], rows: int | None = None, survey: Survey | None = None
) -> Iterator[pd.DataFrame]:
    """Read a table in chunks of `rows`, all with the same types; None: about two million cells.

    The cells of a CSV are text, those of Parquet have their own types, so that they can be written
    again unchanged. The `survey` is that of `survey_table`, which is called otherwise.
    """
    survey = survey or survey_table(path)
    if rows is not None and rows < 1:
        raise ValueError(f"rows must be at least 1; got {rows}.")
    size = rows or survey.chunk_size
    if Path(path).is_dir():
        photos = photo_table(path)
        yield from (photos[first : first + size] for first in range(0, len(photos), size))
        return
    file = _checked_path(path)
    if is_parquet(file):
        yield from stream_parquet(file, batch_size=size)
        return
    with _open_text(file, survey.encoding) as lines:
        yield from pd.read_csv(lines, chunksize=size, **_AS_TEXT, **_layout(survey))


def stream_parquet(
    file: str | PathLike[str], filesystem: Any = None, **options: Any
) -> Iterator[pd.DataFrame]:
    """Read a Parquet file in chunks, numbered from 0; `options` are those of pyarrow's batches."""
    start = 0
    with open_parquet(file, filesystem) as parquet:
        for batch in parquet.iter_batches(**options):
            frame = batch.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
            frame.index = pd.RangeIndex(start, start := start + len(frame))
            yield frame


def read_csv(content: bytes, name: str) -> pd.DataFrame:
    """Read a CSV from memory, its cells as text; `name` is what messages call it."""
    return _read_text(_InMemory(content, name), **_AS_TEXT)


def _read_text(source: Any, **options: Any) -> pd.DataFrame:
    survey = _checked_layout(source, _survey_text(source))
    with _open_text(source, survey.encoding) as lines:
        return pd.read_csv(lines, **options, **_layout(survey))


@dataclass(frozen=True)
class _InMemory:
    """The part of a `Path` that reading text needs: a file is read once, and looked at twice."""

    content: bytes
    path: str

    @property
    def name(self) -> str:
        return Path(self.path).name

    def __str__(self) -> str:
        return self.path

    def open(self, _mode: str) -> IO[bytes]:
        return io.BytesIO(self.content)


def survey_table(path: str | PathLike[str]) -> Survey:
    """Check that the CSV or Parquet file at `path` has a header and at least one row, and count."""
    if Path(path).is_dir():
        photos = photo_table(path)
        return Survey(tuple(photos.columns), len(photos))
    file = _checked_path(path)
    if not is_parquet(file):
        return _checked_layout(file, _survey_text(file))
    with open_parquet(file) as parquet:
        survey = Survey(tuple(parquet.schema_arrow.names), parquet.metadata.num_rows)
    return _checked_layout(file, survey)


def _checked_layout(file: Path, survey: Survey) -> Survey:
    if not survey.columns:
        raise ValueError(f"'{file}' must have at least one column; it has none. Export it again.")
    if twice := [name for name, count in Counter(survey.columns).items() if count > 1]:
        raise ValueError(
            f"the columns of '{file}' must have different names; {listed(twice)} "
            f"{'occurs' if len(twice) == 1 else 'occur'} more than once. Rename them."
        )
    if survey.n_rows == 0:
        raise ValueError(f"'{file}' must have at least one row below its header; it has none.")
    return survey


def is_parquet(path: str | PathLike[str]) -> bool:
    """Whether the file name ends in .parquet."""
    return str(path).lower().endswith(PARQUET)


def listed(names: Any, most: int = 8) -> str:
    """Quoted names for a message: at most `most`, and how many more there are."""
    quoted = [f"'{name}'" for name in names]
    more = f" and {len(quoted) - most} more" if len(quoted) > most else ""
    return ", ".join(quoted[:most]) + more


def check_suffix(path: str | PathLike[str], name: str = "path") -> None:
    """Refuse a file name without the suffix of a table; `name` is that of the argument."""
    if not str(path).lower().endswith(TEXT + PARQUET):
        raise ValueError(
            f"{name} must end in {', '.join(TEXT)} or {PARQUET[0]}; got '{path}'. "
            "Export or rename the table."
        )


def _checked_path(path: str | PathLike[str]) -> Path:
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"path must be a table file; '{file}' does not exist.")
    check_suffix(file)
    if file.stat().st_size == 0:
        raise ValueError(f"'{file}' must hold a table; it is empty. Export it again.")
    return file


def _layout(survey: Survey) -> dict[str, Any]:
    names = list(survey.columns)
    return {"sep": survey.delimiter, "names": names, "header": 0, "index_col": False}


def _survey_text(file: Path) -> Survey:
    encoding = _find_encoding(file)
    with _open_text(file, encoding) as lines:
        first = _first_record(lines)
        unquoted = "\t" if ".tsv" in file.name.lower() else "".join(first.split('"')[::2])
        delimiter = next((mark for mark in _DELIMITERS if mark in unquoted), ",")
        lines.seek(0)
        reader = csv.reader(_checked_lines(file, lines), delimiter=delimiter, strict=True)
        try:
            header, n_rows = _count_rows(file, reader, _DELIMITERS[delimiter])
        except csv.Error as error:
            raise ValueError(
                f"quotes in '{file}' must come in pairs around a field; at line {reader.line_num}: "
                f"{error}. Correct that line."
            ) from None
    columns = tuple(name or f"Unnamed: {i}" for i, name in enumerate(header))  # as in pandas
    return Survey(columns, n_rows, delimiter, encoding)


def _first_record(lines: IO[str]) -> str:
    """The first line that is not blank, with those that a quoted line break continues it on."""
    record = ""
    for line in lines:
        record += line if record or line.strip() else ""
        if record and record.count('"') % 2 == 0:
            break
    return record


def _count_rows(file: Path, reader: Any, delimiter: str) -> tuple[list[str], int]:
    """The header, and the number of rows below it, all of the same length; skips blank lines."""
    rows = (row for row in reader if len(row) > 1 or "".join(row).strip())
    header: list[str] = next(rows, [])
    n_rows = 0
    for row in rows:
        n_rows += 1
        if len(row) != len(header):
            raise ValueError(
                f"every row of '{file}' must have {len(header)} fields like its header; line "
                f"{reader.line_num} has {len(row)}. Correct that line, or quote fields that "
                f"contain a {delimiter}."
            )
    return header, n_rows


def _find_encoding(file: Path) -> str:
    with _open_bytes(file) as raw:
        start = raw.read(4)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if start.startswith((b"PK", b"\x1f\x8b", b"PAR1")):
        raise ValueError(
            f"'{file}' must be text, by its name; it is compressed or Parquet. "
            "Rename or decompress it."
        )
    return "utf-8-sig"


@contextmanager
def _open_bytes(file: Path) -> Iterator[Any]:
    try:
        with file.open("rb") as raw:
            yield gzip.GzipFile(fileobj=raw) if file.name.lower().endswith(".gz") else raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"'{file}' must be a complete gzip file; decompressing failed: {error}. Copy it again."
        ) from None


@contextmanager
def _open_text(file: Path, encoding: str) -> Iterator[IO[str]]:
    try:
        with _open_bytes(file) as raw, io.TextIOWrapper(raw, encoding, newline="") as lines:
            yield lines
    except UnicodeError:
        raise ValueError(
            f"'{file}' must be UTF-8; {_first_bad_byte(file, encoding)}. Save it again as UTF-8."
        ) from None


def _first_bad_byte(file: Path, encoding: str) -> str:
    if encoding == "utf-16":
        return "it starts as UTF-16, but is not valid UTF-16"
    with _open_bytes(file) as raw:
        for number, line in enumerate(raw, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return f"line {number} has the byte 0x{line[error.start]:02x}"
    return "it is not"


def _checked_lines(file: Path, lines: IO[str]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if "\0" in line:
            raise ValueError(
                f"'{file}' must be text; line {number} has a NUL byte. It may be UTF-16 without "
                "a BOM, or binary; save it again as UTF-8."
            )
        yield line


@contextmanager
def open_parquet(file: str | PathLike[str], filesystem: Any = None) -> Iterator[Any]:
    """Open a Parquet file, on an fsspec `filesystem` or the local disk.

    What pyarrow says of a broken one becomes one sentence.
    """
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise ImportError(
            "Parquet needs pyarrow, which is not installed. Run pip install 'bacoun[parquet]', "
            "or use CSV."
        ) from None
    try:
        with ParquetFile(file, filesystem=filesystem) as parquet:
            yield parquet
    except (ArrowException, OSError) as error:
        reason = str(error).strip().splitlines()[0][:120].rstrip(".")
        raise ValueError(
            f"'{file}' must be a complete Parquet file; reading failed: {reason}. Export it again."
        ) from None
