"""Write tables in chunks; the file is written atomically."""

import gzip
import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any

import pandas as pd

from bacoun.columns.reading import check_suffix, is_parquet
from bacoun.files.atomic import atomic_write

Write = Callable[[pd.DataFrame], None]


@contextmanager
def write_table(
    path: str | PathLike[str], delimiter: str = ",", escape_formulas: bool = False
) -> Iterator[Write]:
    """Open a table file for writing; yields a function that appends a chunk.

    The `path` ends in .csv, .tsv, either with .gz, or .parquet; an existing file is replaced at the
    end. The `delimiter` is for .csv files; a .tsv file has tabs. `escape_formulas` puts an
    apostrophe before text that a spreadsheet would take for a formula, but not in Parquet.
    """
    file = Path(path)
    check_suffix(file)
    with atomic_write(file) as raw, ExitStack() as stack:
        if is_parquet(file):
            yield stack.enter_context(parquet_writer(raw))
        else:
            write = _text_writer(stack, raw, file.name.lower(), delimiter)
            yield (lambda frame: write(_without_formulas(frame))) if escape_formulas else write


def _without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """The table, column names included, with an apostrophe before = + - @, tab and return.

    Numbers stay numbers: -1 is none, and "-1" would be read as the same one.
    """

    def escaped(cell: object) -> object:
        is_formula = isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell)
        return f"'{cell}" if is_formula else cell

    safe = frame.copy(deep=False)
    for name in frame.select_dtypes(["object", "string", "category"]):
        safe[name] = frame[name].astype(object).map(escaped)
    return safe.rename(columns=escaped)


_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def _text_writer(stack: ExitStack, raw: IO[bytes], name: str, delimiter: str) -> Write:
    content: Any = raw
    if name.endswith(".gz"):  # without name and time: the same table gives the same bytes
        content = gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0)
        stack.callback(content.close)
    lines = io.TextIOWrapper(content, encoding="utf-8", newline="")
    stack.callback(lines.detach)  # flushes, and leaves the underlying file open
    options: dict[str, Any] = {"sep": "\t" if ".tsv" in name else delimiter, "index": False}
    is_first = True

    def write(frame: pd.DataFrame) -> None:
        nonlocal is_first
        frame.to_csv(lines, header=is_first, lineterminator="\n", **options)
        is_first = False

    return write


@contextmanager
def parquet_writer(raw: IO[bytes], facts: Mapping[str, str] | None = None) -> Iterator[Write]:
    """Write chunks to an open file as Parquet; yields a function that appends one.

    `facts` are key-value metadata of the file; they are written last, and may grow until then.
    """
    import pyarrow
    from pyarrow.parquet import ParquetWriter
    from pyarrow.types import is_floating

    writer: Any = None

    def write(frame: pd.DataFrame) -> None:
        nonlocal writer
        table = pyarrow.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
        if writer is None:
            # Floats hardly ever repeat: dictionary encoding costs time, and space.
            encoded = [column.name for column in table.schema if not is_floating(column.type)]
            writer = ParquetWriter(raw, table.schema, use_dictionary=encoded)
        writer.write_table(table.cast(writer.schema))

    try:
        yield write
    finally:
        if writer is not None:
            if facts:
                writer.add_key_value_metadata(dict(facts))
            writer.close()
