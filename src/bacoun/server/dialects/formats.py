"""Tables in bodies: JSON rows, CSV and Arrow IPC streams, within limits of what they unfold to."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from bacoun.web.errors import ApiError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.stream"
MEDIA_TYPES = (JSON, CSV, ARROW)

_EXACT = 2**53  # beyond, not every whole number is a float
_MAX_COLUMNS = 20_000  # of any table
_SPARSE_CELLS, _SPARSE_FACTOR = 1_000_000, 10  # cells of rows with keys of their own
_MAX_CELLS = 20_000_000  # of a table whose body is far smaller than itself, as Arrow's may be

Columns = dict[str, list[Any]]
"""A table as lists of plain values by column, which are cheaper to put together than frames."""
Rows = Any  # Columns or a DataFrame; this module is also imported where pandas is not


@dataclass(frozen=True)
class Scored:
    """Some rows of a scored table, as a table or as records."""

    whole: pd.DataFrame
    rows: slice = field(default_factory=lambda: slice(None))
    # All rows of the table as records; called only if records are asked for.
    all_records: Callable[[], list[dict[str, Any]]] | None = None
    # The known texts and photos that are nearest to each row's; records have them, tables do not.
    nearest: list[list[dict[str, Any]]] | None = None

    @property
    def table(self) -> pd.DataFrame:
        """The rows as a table."""
        return self.whole.iloc[self.rows]

    @property
    def records(self) -> list[dict[str, Any]]:
        """The rows as dictionaries of plain values."""
        found = self.all_records()[self.rows] if self.all_records else to_records(self.table)
        if self.nearest is None:
            return found
        pairs = zip(found, self.nearest, strict=True)
        return [record | {"nearest": nearest} for record, nearest in pairs]


def read_rows(body: bytes, media_type: str) -> Rows:
    """The table in a body of one of `MEDIA_TYPES`."""
    if media_type == CSV:
        return read_csv_body(body)
    if media_type == ARROW:
        return _read_arrow(body)
    content = load_json(body)
    if not isinstance(content, dict) or content.keys() != {"rows"}:
        raise ApiError(422, 'a JSON body must be {"rows": [{"column": value, ...}, ...]}.')
    return from_records(content["rows"], "rows")


def write_rows(scored: Scored, media_type: str, model: str, version: str) -> bytes:
    """A scored table as a body of one of `MEDIA_TYPES`."""
    if media_type == CSV:
        return scored.table.to_csv(index=False, lineterminator="\n").encode("utf-8", "replace")
    if media_type == ARROW:
        return _write_arrow(scored.table)
    return dump_json({"model": model, "version": version, "rows": scored.records})


def read_csv_body(body: bytes) -> pd.DataFrame:
    """The table in a body of CSV."""
    from bacoun.columns.reading import read_csv

    _check_columns(body[: (body.find(b"\n") + 1) or None].count(b",") + 1)
    return read_csv(body, "the body")


def _check_columns(n_columns: int) -> None:
    if n_columns > _MAX_COLUMNS:
        raise ApiError(413, f"a table may have {_MAX_COLUMNS} columns; got {n_columns}.")


def check_length(rows: Rows, most: int, request: str = "a request") -> None:
    """Refuse a table of more rows than a request may have."""
    if n_rows_of(rows) > most:
        raise ApiError(
            413, f"{request} may have {most} rows; got {n_rows_of(rows)}. Send fewer at once."
        )


def n_rows_of(rows: Rows) -> int:
    """Number of rows."""
    return len(next(iter(rows.values()))) if isinstance(rows, dict) else len(rows)


def load_json(body: bytes) -> Any:
    """Parse JSON strictly: UTF-8, no NaN, no infinity."""
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError:
        raise ApiError(400, "the body must be JSON; it is nested too deeply.") from None
    except ValueError as error:
        message = f"the body must be JSON in UTF-8; reading it failed: {error}."
        raise ApiError(400, message) from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON; write null for a missing value")


def dump_json(content: Any) -> bytes:
    """Plain values as JSON, what is not finite as null, timestamps as text."""
    dump = partial(json.dumps, allow_nan=False, separators=(",", ":"), default=str)
    try:
        return dump(content).encode()
    except ValueError:
        return dump(_finite(content)).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _read_arrow(body: bytes) -> pd.DataFrame:
    import pandas as pd
    import pyarrow

    try:
        with pyarrow.ipc.open_stream(pyarrow.BufferReader(body)) as stream:
            _check_columns(len(stream.schema.names))
            batches, n_cells = [], 0
            for batch in stream:  # a column of nulls takes no bytes, however long
                batches.append(batch)
                n_cells += batch.num_rows * batch.num_columns
                if n_cells > _MAX_CELLS:
                    raise ApiError(413, f"a table may have {_MAX_CELLS} cells; this has more.")
            table = pyarrow.Table.from_batches(batches, stream.schema)
        table.validate(full=True)
        return table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
    except (pyarrow.ArrowException, OSError, UnicodeError, OverflowError) as error:
        reason = (str(error).strip().splitlines() or ["unknown reason"])[0][:120].rstrip(".")
        message = f"the body must be an Arrow IPC stream; reading it failed: {reason}."
        raise ApiError(400, message) from None


def _write_arrow(scored: pd.DataFrame) -> bytes:
    import pyarrow

    table = pyarrow.Table.from_pandas(scored, preserve_index=False).replace_schema_metadata()
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def from_records(rows: Any, name: str) -> Columns:
    """A table from a list of objects with plain values; `name` is what messages call the list."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ApiError(422, f"{name} must be a list of objects, one for each row.")
    keys = list(dict.fromkeys(key for row in rows for key in row))
    if len(keys) * len(rows) > _SPARSE_CELLS + _SPARSE_FACTOR * sum(map(len, rows)):
        raise ApiError(
            413,
            f"{name} have {len(keys)} different keys in {len(rows)} rows; give all rows the same.",
        )
    return from_columns({key: [row.get(key) for row in rows] for key in keys}, name)


def from_columns(columns: Columns, name: str) -> Columns:
    """The same columns, checked; `name` is what messages call them."""
    lengths = {len(values) for values in columns.values()}
    if not columns or lengths == {0}:
        raise ApiError(422, f"{name} must hold at least one row with a value; it has none.")
    if len(lengths) > 1:
        raise ApiError(422, f"the columns of {name} must be of equal length.")
    for key, values in columns.items():
        if not all(value is None or isinstance(value, str | int | float) for value in values):
            raise ApiError(
                422, f"values must be text, numbers, true, false or null; '{key}' has others."
            )
    return columns


def to_frame(columns: Columns) -> pd.DataFrame:
    """A table; columns of numbers are floats, others stay as they are."""
    import pandas as pd

    return pd.DataFrame({key: _array(values) for key, values in columns.items()}, copy=False)


def _array(values: list[Any]) -> np.ndarray:
    import numpy as np

    kinds = {type(value) for value in values}
    exact = all(not isinstance(value, int) or abs(value) <= _EXACT for value in values)
    is_numeric = exact and float in kinds and kinds <= {float, int, type(None)}
    return np.array(values, dtype=float if is_numeric else object)


def to_records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """One dictionary of plain values for each row."""
    columns = {str(name): table[name].tolist() for name in table}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
