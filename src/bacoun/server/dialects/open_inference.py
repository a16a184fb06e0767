"""The Open Inference Protocol, version 2, over REST: one tensor for each column.

Its binary extension is read too, which Triton's clients use unless told otherwise: a JSON header of
the length that `Inference-Header-Content-Length` gives, then the tensors, little-endian.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from bacoun.server.dialects.dialect import ScoringRequest
from bacoun.server.dialects.formats import JSON, Scored, dump_json, from_columns, load_json
from bacoun.server.http.bodies import media_type_of
from bacoun.server.jobs import Job
from bacoun.web.documents import Value, answers, body
from bacoun.web.errors import ApiError

if TYPE_CHECKING:
    import pandas as pd

    from bacoun.server.backend import Backend
    from bacoun.server.workers.models import LoadedModel

_BINARY = "application/octet-stream"  # of bodies with the binary extension
_NUMBERS = {
    "BOOL": "?",
    **{f"UINT{8 * size}": f"<u{size}" for size in (1, 2, 4, 8)},
    **{f"INT{8 * size}": f"<i{size}" for size in (1, 2, 4, 8)},
    **{f"FP{8 * size}": f"<f{size}" for size in (2, 4, 8)},
}
_DATATYPES = (*_NUMBERS, "BYTES")
_OF_KIND = {"b": "BOOL", "i": "INT64", "u": "INT64"}  # by the kind of a NumPy type


class Tensor(BaseModel):
    """The values of a column."""

    name: str
    shape: list[int] = Field(min_length=1)
    datatype: str = Field(json_schema_extra={"enum": list(_DATATYPES)})
    data: list[Value]


class RequestedOutput(BaseModel):
    """A column of the answer."""

    name: str = ""


class InferRequest(BaseModel):
    """A table as tensors."""

    id: str = ""
    inputs: list[Tensor] = Field(min_length=1)
    outputs: list[RequestedOutput] = []
    parameters: dict[str, Any] = {}


class InferAnswer(BaseModel):
    """A scored table as tensors."""

    model_name: str
    model_version: str = ""
    id: str = ""
    outputs: list[Tensor]


_EXAMPLE = {"inputs": [{"name": "age", "shape": [1], "datatype": "FP64", "data": [51]}]}


def routes(backend: Backend) -> APIRouter:
    """Addresses of the protocol."""
    router = APIRouter(prefix="/v2", tags=["open inference protocol"])

    @router.get("", responses=answers())
    async def server_metadata() -> dict[str, Any]:
        """Name, version and extensions of the server."""
        extensions = ["binary_tensor_data"]
        return {"name": "bacoun", "version": version("bacoun"), "extensions": extensions}

    @router.get("/health/live", responses=answers())
    async def is_live() -> dict[str, bool]:
        """Whether the server runs."""
        return {"live": True}

    @router.get("/health/ready", responses=answers())
    async def is_ready() -> dict[str, bool]:
        """Whether the models are loaded."""
        backend.check_ready()
        return {"ready": True}

    @router.get("/models/{name}", responses=answers(404))
    async def model_metadata(name: str) -> Response:
        """Inputs and outputs of a model."""
        return await backend.ask("metadata", name)

    @router.get("/models/{name}/ready", responses=answers(404))
    async def is_model_ready(name: str) -> dict[str, Any]:
        """Whether a model can be asked."""
        if (await backend.ask("metadata", name)).status_code != 200:
            raise ApiError(503, "the model cannot be loaded.")
        return {"name": name, "ready": True}

    @router.post(
        "/models/{name}/infer",
        openapi_extra=body(InferRequest, example=_EXAMPLE),
        responses=answers(404, 408, 413, 415, 422, of=InferAnswer),
    )
    async def infer(
        name: str,
        request: Request,
        inference_header_content_length: Annotated[int | None, Header(ge=0)] = None,
    ) -> Response:
        """Score one tensor per column; outputs are the columns of a scored table."""
        if request.headers.get("content-type"):
            media_type_of(request, (JSON, _BINARY))
        return await backend.ask_with_body(
            request, "infer", name, JSON, header_length=inference_header_content_length
        )

    return router


def read(model: LoadedModel, job: Job) -> ScoringRequest:
    """The table in tensors; the answer has all columns of a scored one, or those asked for."""
    n_bytes, length = len(job.body), job.options["header_length"]
    if length is not None and not 0 < length <= n_bytes:
        raise ApiError(
            400,
            "Inference-Header-Content-Length must be the length of the JSON header, at most "
            f"{n_bytes} here; got {length}.",
        )
    request, rest = load_json(job.body[:length]), b"" if length is None else job.body[length:]
    inputs = request.get("inputs") if isinstance(request, dict) else None
    if not isinstance(inputs, list) or not all(isinstance(tensor, dict) for tensor in inputs):
        raise ApiError(422, 'the body must have "inputs", a list of tensors, one for each column.')
    columns: dict[str, list[Any]] = {}
    for tensor in inputs:
        name = tensor.get("name")
        if not isinstance(name, str) or name in columns:
            raise ApiError(422, "each input must have a name of its own.")
        columns[name], rest = _read_tensor(tensor, name, rest)
    if rest:
        raise ApiError(422, f"the tensors must fill the body; {len(rest)} bytes are left.")
    because = _parameters(request).get("because") is True
    write = partial(_write, request=request, model=model)
    return ScoringRequest(from_columns(columns, "inputs"), write, because=because)


def _parameters(described: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = described.get("parameters")
    return parameters if isinstance(parameters, dict) else {}


def _read_tensor(tensor: Mapping[str, Any], name: str, rest: bytes) -> tuple[list[Any], bytes]:
    """The values of a tensor, and the binary data after it."""
    shape: Any = tensor.get("shape")
    datatype: Any = tensor.get("datatype")
    if datatype not in _DATATYPES:
        raise ApiError(422, f"the datatype of '{name}' must be one of {', '.join(_DATATYPES)}.")
    whole = isinstance(shape, list) and all(type(n) is int and 0 <= n < 2**31 for n in shape)
    if not whole or len(shape) not in (1, 2) or shape[1:] not in ([], [1]):
        raise ApiError(422, f"the shape of '{name}' must be [rows] or [rows, 1].")
    size = _parameters(tensor).get("binary_data_size")
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
    """A list of values, which came as such or as a list of lists of one."""
    if not isinstance(data, list):
        raise ApiError(422, f"'{name}' must have data, a list of values.")
    if not any(isinstance(value, list) for value in data):
        return data
    if not all(isinstance(value, list) and len(value) == 1 for value in data):
        raise ApiError(422, f"the data of '{name}' must be one value for each row.")
    return [value for (value,) in data]


def _from_bytes(content: bytes, datatype: str, name: str) -> list[Any]:
    import numpy as np

    try:
        if datatype != "BYTES":
            return np.frombuffer(content, _NUMBERS[datatype]).tolist()
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


def _write(scored: Scored, request: Mapping[str, Any], model: LoadedModel) -> bytes:
    outputs, table = request.get("outputs"), scored.table
    names: list[Any] = list(table)
    if outputs is not None:
        shaped = isinstance(outputs, list) and all(isinstance(output, dict) for output in outputs)
        names = [output.get("name") for output in outputs] if shaped else [None]
        if not all(isinstance(name, str) and name in table for name in names):
            raise ApiError(422, f"outputs must name some of: {', '.join(map(str, table))}.")
    answer = {
        "model_name": model.name,
        "model_version": model.version,
        "outputs": [_tensor(table[name]) for name in names],
    }
    if isinstance(request.get("id"), str):
        answer["id"] = request["id"]
    return dump_json(answer)


def _tensor(column: pd.Series) -> dict[str, Any]:
    is_text = any(isinstance(value, str) for value in column)
    values = [str(value) for value in column] if is_text else column.tolist()
    datatype = "BYTES" if is_text else _OF_KIND.get(column.dtype.kind, "FP64")
    described = {"name": str(column.name), "shape": [len(column)], "datatype": datatype}
    return described | {"data": values}


def metadata(loaded: LoadedModel) -> dict[str, Any]:
    """How the protocol describes a model."""
    model = loaded.model
    kinds = {"number": "FP64", "boolean": "BOOL"}
    outputs = dict.fromkeys(model.added_columns, "FP64")
    outputs |= dict.fromkeys(outputs.keys() & {"decision", "reason", "because"}, "BYTES")
    outputs["prediction"] = _OF_KIND.get(model.classes.dtype.kind, "BYTES")
    inputs = {column.name: kinds.get(column.kind, "BYTES") for column in model.columns}
    return {
        "name": loaded.name,
        "versions": [loaded.version],
        "platform": "bacoun",
        "inputs": _tensors(inputs),
        "outputs": _tensors(outputs),
    }


def _tensors(datatypes: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"name": k, "datatype": v, "shape": [-1]} for k, v in datatypes.items()]
