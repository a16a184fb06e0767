"""The OpenAPI document of addresses that read and write bodies by hand, from pydantic models."""

from typing import Any

from pydantic import BaseModel, Field, TypeAdapter

from bacoun.web.errors import CODES, MEDIA_TYPE, STATUSES

Responses = dict[int | str, dict[str, Any]]
Value = str | float | bool | None
"""A cell of a table."""


class Error(BaseModel):
    """The body of every error."""

    error: str
    code: str = Field(json_schema_extra={"enum": [*sorted(CODES.values())]})


def answers(*refusals: int, of: Any = dict[str, Any], also: tuple[str, ...] = ()) -> Responses:
    """What an address answers, and the `refusals` beside those that are possible everywhere.

    The answer is JSON `of` a type, or of `also` other media types; None: FastAPI sees it by itself.
    """
    content = {each: {"schema": {"type": "string"}} for each in also}
    if of is not None:
        content[MEDIA_TYPE] = {"schema": _schema(of)}
    described: Responses = {200: {"description": "The answer.", "content": content}}
    error = {MEDIA_TYPE: {"schema": _schema(Error)}}
    for status in sorted({400, 401, 405, 421, 503, *refusals}):
        described[status] = {"description": STATUSES[status][1], "content": error}
    return described


def body(of: Any, *also: str, example: Any) -> dict[str, Any]:
    """What an address reads: a model in JSON, or a body of other media types."""
    files = file_body(*also)["requestBody"]
    described = {MEDIA_TYPE: {"schema": _schema(of), "example": example}}
    return {"requestBody": files | {"content": described | files["content"]}}


def file_body(*media_types: str) -> dict[str, Any]:
    """What an address reads: a file of one of these types."""
    content = {each: {"schema": {"type": "string", "format": "binary"}} for each in media_types}
    return {"requestBody": {"required": True, "content": content}}


def _schema(model: Any) -> dict[str, Any]:
    """The JSON schema of a model, with those of its parts in place."""
    schema = TypeAdapter(model).json_schema()
    parts = schema.pop("$defs", {})

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return filled(parts[value["$ref"].rpartition("/")[2]])
            return {key: filled(item) for key, item in value.items()}
        return [filled(item) for item in value] if isinstance(value, list) else value

    return dict(filled(schema))
