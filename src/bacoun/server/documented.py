"""What the OpenAPI document says about bodies and answers that FastAPI cannot see by itself."""

from __future__ import annotations

from typing import Any

from bacoun.server.dialects.media_types import ARROW, CSV, DATATYPES, JSON
from bacoun.server.errors import CODES

ERROR = {
    "type": "object",
    "properties": {"error": {"type": "string"}, "code": {"enum": sorted(CODES.values())}},
    "required": ["error", "code"],
}
_VALUE = {"type": ["string", "number", "boolean", "null"]}
_ROW = {"type": "object", "additionalProperties": _VALUE}
_ROWS = {"type": "array", "items": _ROW, "minItems": 1}
_TEXTS = {
    400: "The body cannot be read.",
    401: "The token is missing or wrong.",
    404: "There is no such model or page.",
    405: "The address knows other methods.",
    406: "The answer has no such format.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    415: "The body has another type.",
    421: "The host is not this one.",
    422: "The values are not as expected.",
    503: "The server is busy, or the model cannot be loaded.",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors that an address may answer with; some are possible everywhere."""
    every = sorted({400, 401, 405, 421, 503, *statuses})
    content = {JSON: {"schema": ERROR}}
    return {status: {"description": _TEXTS[status], "content": content} for status in every}


def answer(schema: dict[str, Any], *others: str) -> dict[int | str, dict[str, Any]]:
    """A good answer: JSON, or one of the other media types."""
    content: dict[str, Any] = {JSON: {"schema": schema}}
    content |= {each: {"schema": {"type": "string"}} for each in others}
    return {200: {"description": "The answer.", "content": content}}


def body(schema: dict[str, Any], *others: str, example: Any = None) -> dict[str, Any]:
    """A request body: JSON, or one of the other media types."""
    described: dict[str, Any] = {"schema": schema}
    if example is not None:
        described["example"] = example
    content: dict[str, Any] = {JSON: described}
    content |= {each: {"schema": {"type": "string", "format": "binary"}} for each in others}
    return {"requestBody": {"required": True, "content": content}}


OBJECT: dict[str, Any] = {"type": "object"}
PREDICT = body(
    {"type": "object", "properties": {"rows": _ROWS}, "required": ["rows"]},
    CSV,
    ARROW,
    example={"rows": [{"age": 51, "ward": "A"}]},
)
SCORED = answer(
    {
        "type": "object",
        "properties": {
            "model": {"type": "string"},
            "version": {"type": "string"},
            "rows": {"type": "array", "items": _ROW},
        },
        "required": ["model", "version", "rows"],
    },
    CSV,
    ARROW,
)
INVOCATIONS = body(
    {
        "oneOf": [
            {
                "type": "object",
                "properties": {
                    "dataframe_split": {
                        "type": "object",
                        "properties": {
                            "columns": {"type": "array", "items": {"type": "string"}},
                            "data": {"type": "array", "items": {"type": "array", "items": _VALUE}},
                        },
                        "required": ["columns", "data"],
                    }
                },
                "required": ["dataframe_split"],
            },
            *(
                {"type": "object", "properties": {key: _ROWS}, "required": [key]}
                for key in ("dataframe_records", "instances", "inputs")
            ),
        ]
    },
    CSV,
    example={"dataframe_split": {"columns": ["age", "ward"], "data": [[51, "A"]]}},
)
_TENSOR = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
        "datatype": {"enum": list(DATATYPES)},
        "data": {"type": "array", "items": _VALUE},
    },
    "required": ["name", "shape", "datatype", "data"],
}
INFER = body(
    {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "inputs": {"type": "array", "items": _TENSOR, "minItems": 1},
            "outputs": {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
            "parameters": {"type": "object"},
        },
        "required": ["inputs"],
    },
    example={"inputs": [{"name": "age", "shape": [1], "datatype": "FP64", "data": [51]}]},
)
INFERRED = answer(
    {
        "type": "object",
        "properties": {
            "model_name": {"type": "string"},
            "model_version": {"type": "string"},
            "id": {"type": "string"},
            "outputs": {"type": "array", "items": _TENSOR},
        },
        "required": ["model_name", "outputs"],
    }
)
