"""Tables in files: CSV or Parquet, whole or a piece at a time, or one sentence on what is wrong.

A text file is surveyed before it is read: pandas fills short rows and renames columns without a
word. The survey also counts the rows, so that a long run can say how far it is.
"""

from __future__ import annotations

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

TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET = (".parquet",)

# What pandas takes for a missing value, spelled out so that it is the same in every version.
# fmt: off
MISSING = frozenset(
    ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
     "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"]
)
# fmt: on

# A piece of a table holds about this many cells: 100,000 rows of 20 columns. Its rows are a
# multiple of the blocks in which a classifier scores many, so that pieces score as the whole does.
_CELLS = 2_000_000
_BLOCK = 2048


@dataclass(frozen=True)
class Survey:
    """What is in a table file, without its content.

    Attributes
    ----------
    columns : tuple of str
    n_rows : int
    delimiter, encoding : str
        Of a text file; empty for Parquet.
    """

    columns: tuple[str, ...]
    n_rows: int
    delimiter: str = ""
    encoding: str = ""

    @property
    def piece(self) -> int:
        """Rows that fit into memory easily, however wide the table is."""
        rows = max(1, min(100_000, _CELLS // len(self.columns)))
        return rows - rows % _BLOCK if rows > _BLOCK else rows


def read_table(path: str | PathLike[str]) -> pd.DataFrame:
    """Read a CSV or Parquet file whole, with the types that pandas finds in it.

    Parameters
    ----------
    path : path
        Ends in .csv, .tsv, either with .gz, or .parquet. Text is UTF-8, or UTF-16 with its mark;
        its fields are parted by commas, or by semicolons or tabs if the header has no comma.
    """
    file = _checked_path(path)
    survey = survey_table(file)
    if is_parquet(file):
        with _parquet(file) as parquet, _said_plainly(file):
            return parquet.read().to_pandas(ignore_metadata=True)
    with _text(file, survey.encoding) as lines:
        return pd.read_csv(
            lines,
            na_values=sorted(MISSING),
            keep_default_na=False,
            low_memory=False,
            **_layout(survey),
        )


def stream_table(
    path: str | PathLike[str], rows: int | None = None, survey: Survey | None = None
) -> Iterator[pd.DataFrame]:
    """Read a table a piece at a time; every piece has the same types.

    Parameters
    ----------
    path : path
        As in `read_table`.
    rows : int, optional
        In a piece; None: as many as make two million cells, at most 100,000.
    survey : Survey, optional
        What `survey_table` found, if it was asked before.

    Yields
    ------
    DataFrame
        A CSV's cells as the text they are in the file, a Parquet file's in their own types, so
        that they can be written again unchanged.
    """
    file = _checked_path(path)
    survey = survey or survey_table(file)
    if rows is not None and rows < 1:
        raise ValueError(f"rows must be at least 1; got {rows}.")
    size = rows or survey.piece
    if is_parquet(file):
        with _parquet(file) as parquet, _said_plainly(file):
            start = 0
            for batch in parquet.iter_batches(batch_size=size):
                frame = batch.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
                frame.index = pd.RangeIndex(start, start + len(frame))
                start += len(frame)
                yield frame
        return
    with _text(file, survey.encoding) as lines:
        yield from pd.read_csv(lines, dtype=str, na_filter=False, chunksize=size, **_layout(survey))


def survey_table(path: str | PathLike[str]) -> Survey:
    """Check that a file is a table with a header and at least one row, and count both ways."""
    file = _checked_path(path)
    survey = _survey_parquet(file) if is_parquet(file) else _survey_text(file)
    if not survey.columns:
        raise ValueError(f"'{file}' must have at least one column; it has none. Export it again.")
    twice = [name for name, count in Counter(survey.columns).items() if count > 1]
    if twice:
        raise ValueError(
            f"the columns of '{file}' must have different names; {listed(twice)} "
            f"{'occurs' if len(twice) == 1 else 'occur'} more than once. Rename them."
        )
    if survey.n_rows == 0:
        raise ValueError(
            f"'{file}' must have at least one row below its header; it has none. "
            "Check the filter it went through."
        )
    return survey


def is_parquet(path: str | PathLike[str]) -> bool:
    """Whether the name says Parquet."""
    return str(path).lower().endswith(PARQUET)


def listed(names: Any, most: int = 8) -> str:
    """Names in quotes, for a message: the first few, and how many more there are."""
    quoted = [f"'{name}'" for name in names]
    if len(quoted) > most:
        return f"{', '.join(quoted[:most])} and {len(quoted) - most} more"
    return ", ".join(quoted)


def check_suffix(path: str | PathLike[str], name: str = "path") -> None:
    """Refuse a name that does not say what kind of table it is."""
    if not str(path).lower().endswith(TEXT + PARQUET):
        raise ValueError(
            f"{name} must end in {', '.join(TEXT)} or {PARQUET[0]}; got '{path}'. "
            "Export or rename the table."
        )


def _checked_path(path: str | PathLike[str]) -> Path:
    file = Path(path)
    if file.is_dir():
        raise ValueError(f"path must be a table file; '{file}' is a folder. Name a file in it.")
    if not file.exists():
        raise FileNotFoundError(f"path must be a table file; '{file}' does not exist.")
    check_suffix(file)
    if file.stat().st_size == 0:
        raise ValueError(f"'{file}' must hold a table; it is empty. Export it again.")
    return file


# --- text ----------------------------------------------------------------------------------------


def _layout(survey: Survey) -> dict[str, Any]:
    return {
        "sep": survey.delimiter,
        "names": list(survey.columns),
        "header": 0,
        "index_col": False,
    }


def _survey_text(file: Path) -> Survey:
    encoding = _encoding(file)
    with _text(file, encoding) as lines:
        return _survey_lines(file, lines, encoding)


def _survey_lines(file: Path, lines: IO[str], encoding: str) -> Survey:
    reader: Any = None
    try:
        first = next((line for line in lines if line.strip()), "")
        lines.seek(0)
        delimiter = "\t" if ".tsv" in file.name.lower() else _delimiter(first)
        reader = csv.reader(_without_nul(file, lines), delimiter=delimiter, strict=True)
        full = (row for row in reader if len(row) > 1 or "".join(row).strip())
        header: list[str] = next(full, [])
        n_rows = 0
        for row in full:
            n_rows += 1
            if len(row) != len(header):
                raise ValueError(
                    f"every row of '{file}' must have {len(header)} fields as its header has; "
                    f"line {reader.line_num} has {len(row)}. Correct that line, or quote fields "
                    f"that hold a {_NAMES[delimiter]}."
                )
    except csv.Error as error:
        raise ValueError(
            f"quotes in '{file}' must come in pairs around a field; at line {reader.line_num}: "
            f"{error}. Correct that line."
        ) from None
    columns = tuple(name or f"Unnamed: {i}" for i, name in enumerate(header))  # as pandas says
    return Survey(columns, n_rows, delimiter, encoding)


_NAMES = {",": "comma", ";": "semicolon", "\t": "tab"}


def _delimiter(header: str) -> str:
    outside = "".join(header.split('"')[::2])
    return next((mark for mark in _NAMES if mark in outside), ",")


def _encoding(file: Path) -> str:
    with _bytes(file) as raw:
        start = raw.read(4)
    for mark, encoding in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if start.startswith(mark):
            return encoding
    if start[:2] in (b"PK", b"\x1f\x8b") or start == b"PAR1":
        raise ValueError(
            f"'{file}' must be text as its name says; it is compressed or Parquet. "
            "Rename or unpack it."
        )
    return "utf-8-sig"


@contextmanager
def _bytes(file: Path) -> Iterator[Any]:
    packed = file.name.lower().endswith(".gz")
    try:
        with gzip.open(file) if packed else file.open("rb") as raw:
            yield raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"'{file}' must be a whole gzip file; unpacking failed: {error}. Copy it again."
        ) from None


@contextmanager
def _text(file: Path, encoding: str) -> Iterator[IO[str]]:
    try:
        with _bytes(file) as raw, io.TextIOWrapper(raw, encoding=encoding, newline="") as lines:
            yield lines
    except UnicodeError:
        raise ValueError(
            f"'{file}' must be UTF-8; {_first_bad_byte(file, encoding)}. Save it again as UTF-8."
        ) from None


def _first_bad_byte(file: Path, encoding: str) -> str:
    if encoding == "utf-16":
        return "it begins as UTF-16 and does not go on so"
    with _bytes(file) as raw:
        for number, line in enumerate(raw, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return f"line {number} has the byte 0x{line[error.start]:02x}"
    return "it is not"


def _without_nul(file: Path, lines: IO[str]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if "\0" in line:
            raise ValueError(
                f"'{file}' must be text; line {number} has a NUL byte. It may be UTF-16 without "
                "its mark, or no text at all; save it again as UTF-8."
            )
        yield line


# --- Parquet -------------------------------------------------------------------------------------


def _survey_parquet(file: Path) -> Survey:
    with _parquet(file) as parquet:
        return Survey(tuple(parquet.schema_arrow.names), parquet.metadata.num_rows)


@contextmanager
def _parquet(file: Path) -> Iterator[Any]:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise ImportError(
            "Parquet needs pyarrow, which is not installed. Run pip install 'bacoun[parquet]', "
            "or use CSV."
        ) from None
    with _said_plainly(file):
        parquet = ParquetFile(file)
    with parquet:
        yield parquet


@contextmanager
def _said_plainly(file: Path) -> Iterator[None]:
    """Turn what pyarrow says of a broken file into one sentence."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError) as error:
        reason = str(error).strip().splitlines()[0][:120].rstrip(".")
        raise ValueError(
            f"'{file}' must be a whole Parquet file; reading failed: {reason}. Export it again."
        ) from None
