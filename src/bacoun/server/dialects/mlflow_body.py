"""The body of MLflow's scoring server, `/invocations`."""

from __future__ import annotations

from typing import Any

import pandas as pd

from bacoun.columns.reading import read_csv
from bacoun.server.dialects.media_types import CSV
from bacoun.server.dialects.tables import (
    Columns,
    Scored,
    dump_json,
    from_columns,
    from_records,
    load_json,
)
from bacoun.server.errors import ApiError

_KEYS = ("dataframe_split", "dataframe_records", "instances", "inputs")


def read_body(body: bytes, media_type: str) -> Columns | pd.DataFrame:
    """The table in a body."""
    if media_type == CSV:
        return read_csv(body, "the body")
    content = load_json(body)
    given = [key for key in _KEYS if isinstance(content, dict) and key in content]
    if len(given) != 1:
        raise ApiError(422, f"the body must have exactly one of the keys {', '.join(_KEYS)}.")
    (key,) = given
    value = content[key]
    if key == "dataframe_split":
        return _from_split(value)
    if key == "inputs" and isinstance(value, dict):
        if not all(isinstance(values, list) for values in value.values()):
            raise ApiError(422, "inputs must be lists of values by column, or a list of objects.")
        return from_columns(value, key)
    return from_records(value, key)


def _from_split(value: Any) -> Columns:
    shaped = isinstance(value, dict) and all(
        isinstance(value.get(key), list) for key in ("columns", "data")
    )
    if not shaped or not all(isinstance(name, str) for name in value["columns"]):
        raise ApiError(
            422, 'dataframe_split must be {"columns": [names], "data": [[values], ...]}.'
        )
    names, rows = value["columns"], value["data"]
    if len(set(names)) < len(names):
        raise ApiError(422, "the columns of dataframe_split must have different names.")
    if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
        raise ApiError(422, f"each row of dataframe_split must be a list of {len(names)} values.")
    columns = [[row[place] for row in rows] for place in range(len(names))]
    return from_columns(dict(zip(names, columns, strict=True)), "dataframe_split")


def write_body(scored: Scored) -> bytes:
    """A scored table as MLflow answers."""
    return dump_json({"predictions": scored.records})
