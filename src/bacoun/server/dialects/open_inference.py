"""The Open Inference Protocol, version 2, over REST: one tensor for each column.

Its binary extension is read too, which Triton's clients use unless told otherwise: a JSON header of
the length that `Inference-Header-Content-Length` gives, then the tensors, little-endian.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from bacoun.columns.column import Column
from bacoun.server.dialects.media_types import DATATYPES, NUMBERS
from bacoun.server.dialects.tables import Columns, Scored, dump_json, from_columns, load_json
from bacoun.server.errors import ApiError


def read_body(body: bytes, header_length: int | None) -> tuple[Columns, Mapping[str, Any]]:
    """The table in a request, and the request without it."""
    header, rest = (body, b"") if header_length is None else _split(body, header_length)
    request = load_json(header)
    inputs = request.get("inputs") if isinstance(request, dict) else None
    if not isinstance(inputs, list) or not all(isinstance(each, dict) for each in inputs):
        raise ApiError(422, 'the body must have "inputs", a list of tensors, one for each column.')
    columns: dict[str, list[Any]] = {}
    for tensor in inputs:
        name = tensor.get("name")
        if not isinstance(name, str) or name in columns:
            raise ApiError(422, "each input must have a name of its own.")
        values, rest = _read_tensor(tensor, name, rest)
        columns[name] = values
    if rest:
        raise ApiError(422, f"the tensors must fill the body; {len(rest)} bytes are left.")
    return from_columns(columns, "inputs"), request


def _split(body: bytes, header_length: int) -> tuple[bytes, bytes]:
    if not 0 < header_length <= len(body):
        raise ApiError(
            400,
            "Inference-Header-Content-Length must be the length of the JSON header, at most "
            f"{len(body)} here; got {header_length}.",
        )
    return body[:header_length], body[header_length:]


def _read_tensor(tensor: Mapping[str, Any], name: str, rest: bytes) -> tuple[list[Any], bytes]:
    """The values of a tensor, and the binary data after it."""
    shape: Any = tensor.get("shape")
    datatype: Any = tensor.get("datatype")
    if datatype not in DATATYPES:
        raise ApiError(422, f"the datatype of '{name}' must be one of {', '.join(DATATYPES)}.")
    whole = isinstance(shape, list) and all(type(n) is int and 0 <= n < 2**31 for n in shape)
    if not whole or len(shape) not in (1, 2) or shape[1:] not in ([], [1]):
        raise ApiError(422, f"the shape of '{name}' must be [rows] or [rows, 1].")
    parameters = tensor.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is None:
        values = _flat(tensor.get("data"), name)
    else:
        if type(size) is not int or not 0 <= size <= len(rest):
            raise ApiError(422, f"binary_data_size of '{name}' must fit into the body.")
        values, rest = _from_bytes(rest[:size], datatype, name), rest[size:]
    if len(values) != shape[0]:
        raise ApiError(
            422, f"'{name}' must have {shape[0]} values, by its shape; got {len(values)}."
        )
    return values, rest


def _flat(data: Any, name: str) -> list[Any]:
    """A list of values, given as such or as a list of lists of one."""
    if not isinstance(data, list):
        raise ApiError(422, f"'{name}' must have data, a list of values.")
    nested = [isinstance(each, list) for each in data]
    if any(nested) and not all(isinstance(each, list) and len(each) == 1 for each in data):
        raise ApiError(422, f"the data of '{name}' must be one value for each row.")
    return [each[0] for each in data] if any(nested) else data


def _from_bytes(content: bytes, datatype: str, name: str) -> list[Any]:
    try:
        if datatype != "BYTES":
            return np.frombuffer(content, NUMBERS[datatype]).tolist()
        values, start = [], 0
        while start < len(content):
            end = start + 4 + int.from_bytes(content[start : start + 4], "little")
            if end > len(content):
                raise ValueError("it ends early")
            values.append(content[start + 4 : end].decode())
            start = end
        return values
    except ValueError as error:
        raise ApiError(422, f"the binary data of '{name}' must be {datatype}: {error}.") from None


def write_body(scored: Scored, request: Mapping[str, Any], model: str, version: str) -> bytes:
    """A scored table as tensors: all of its columns, or those that the request asks for."""
    asked, table = request.get("outputs"), scored.table
    names: list[Any] = list(table)
    if asked is not None:
        shaped = isinstance(asked, list) and all(isinstance(each, dict) for each in asked)
        names = [each.get("name") for each in asked] if shaped else [None]
        if not shaped or not all(isinstance(name, str) and name in table for name in names):
            raise ApiError(422, f"outputs must name some of: {', '.join(map(str, table))}.")
    outputs = [tensor_of(table[name]) for name in names]
    answer = {"model_name": model, "model_version": version, "outputs": outputs}
    if isinstance(request.get("id"), str):
        answer["id"] = request["id"]
    return dump_json(answer)


def tensor_of(column: pd.Series) -> dict[str, Any]:
    """A column as a tensor."""
    is_text = any(isinstance(value, str) for value in column)
    values = [str(value) for value in column] if is_text else column.tolist()
    numbers = {"i": "INT64", "u": "INT64", "b": "BOOL"}
    kind = "BYTES" if is_text else numbers.get(column.dtype.kind, "FP64")
    return {"name": str(column.name), "shape": [len(column)], "datatype": kind, "data": values}


def metadata(
    name: str, version: str, columns: list[Column], added: list[str], classes: np.ndarray
) -> dict[str, Any]:
    """How the protocol describes a model."""
    kinds = {"number": "FP64", "boolean": "BOOL", "category": "BYTES", "date": "BYTES"}
    text = {"prediction", "decision", "reason", "because"}
    if classes.dtype.kind in "iub":
        text -= {"prediction"}
    kind_of = {"prediction": "BOOL" if classes.dtype.kind == "b" else "INT64"}
    return {
        "name": name,
        "versions": [version],
        "platform": "bacoun",
        "inputs": [
            {"name": each.name, "datatype": kinds[each.kind], "shape": [-1]} for each in columns
        ],
        "outputs": [
            {
                "name": each,
                "datatype": "BYTES" if each in text else kind_of.get(each, "FP64"),
                "shape": [-1],
            }
            for each in added
        ],
    }
