"""Tables to files, a piece at a time: the file appears whole or not at all."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any

import pandas as pd

from bacoun.atomic import atomic_write
from bacoun.tabular.reading import check_suffix, is_parquet

Write = Callable[[pd.DataFrame], None]


@contextmanager
def write_table(path: str | PathLike[str], delimiter: str = ",") -> Iterator[Write]:
    """Open a table file for writing; yields a function that adds a piece to it.

    Parameters
    ----------
    path : path
        Its name says CSV or Parquet, as in `read_table`. A file there is replaced at the end.
    delimiter : str
        Between the fields of a .csv file.
    """
    file = Path(path)
    check_suffix(file)
    with atomic_write(file) as raw, ExitStack() as opened:
        if is_parquet(file):
            yield opened.enter_context(_parquet(raw))
        else:
            yield _text(opened, raw, file.name.lower(), delimiter)


def _text(opened: ExitStack, raw: IO[bytes], name: str, delimiter: str) -> Write:
    content: Any = raw
    if name.endswith(".gz"):  # no name and no time inside: the same table gives the same bytes
        content = gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0)
        opened.callback(content.close)
    lines = io.TextIOWrapper(content, encoding="utf-8", newline="")
    opened.callback(lines.detach)  # flushes, and leaves what is below open
    mark = "\t" if ".tsv" in name else delimiter
    begun = False

    def write(frame: pd.DataFrame) -> None:
        nonlocal begun
        frame.to_csv(lines, sep=mark, index=False, header=not begun, lineterminator="\n")
        begun = True

    return write


@contextmanager
def _parquet(raw: IO[bytes]) -> Iterator[Write]:
    import pyarrow
    from pyarrow.parquet import ParquetWriter
    from pyarrow.types import is_floating

    writer: Any = None

    def write(frame: pd.DataFrame) -> None:
        nonlocal writer
        table = pyarrow.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
        if writer is None:
            # Measurements hardly ever repeat: a dictionary of them takes time, and more room.
            few = [each.name for each in table.schema if not is_floating(each.type)]
            writer = ParquetWriter(raw, table.schema, use_dictionary=few)
        writer.write_table(table.cast(writer.schema))

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()
