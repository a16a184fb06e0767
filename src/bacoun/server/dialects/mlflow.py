"""MLflow's scoring server, `/invocations`."""

from typing import TYPE_CHECKING, Annotated, Any, Union

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field, create_model

from bacoun.server.dialects.dialect import ScoringRequest
from bacoun.server.dialects.formats import (
    CSV,
    JSON,
    Columns,
    Rows,
    dump_json,
    from_columns,
    from_records,
    load_json,
    read_csv_body,
)
from bacoun.server.http.bodies import media_type_of
from bacoun.server.jobs import Job
from bacoun.web.documents import Value, answers, body
from bacoun.web.errors import ApiError

if TYPE_CHECKING:
    from bacoun.server.backend import Backend
    from bacoun.server.workers.models import LoadedModel

_KEYS = ("dataframe_split", "dataframe_records", "instances", "inputs")


class Split(BaseModel):
    """A table as names of columns and lists of values."""

    columns: list[str]
    data: list[list[Value]]


_Records: Any = Annotated[list[dict[str, Value]], Field(min_length=1)]
_Body: Any = Union[*(create_model(key, **{key: _Records}) for key in _KEYS[1:])]
_BODY = body(
    create_model(_KEYS[0], dataframe_split=Split) | _Body,
    CSV,
    example={"dataframe_split": {"columns": ["age", "ward"], "data": [[51, "A"]]}},
)
_ANSWERS = answers(404, 408, 413, 415, 422)


def routes(backend: "Backend") -> APIRouter:
    """Addresses of MLflow's scoring server."""
    router = APIRouter(tags=["score"])

    @router.post("/v1/models/{name}/invocations", openapi_extra=_BODY, responses=_ANSWERS)
    async def invoke_model(name: str, request: Request) -> Response:
        """Score the body of MLflow's scoring server."""
        media_type = media_type_of(request, (JSON, CSV))
        return await backend.ask_with_body(request, "invocations", name, media_type)

    @router.post("/invocations", openapi_extra=_BODY, responses=_ANSWERS)
    async def invoke(request: Request) -> Response:
        """Score as MLflow's scoring server does; for a server with one model."""
        names = backend.catalog.names()
        if len(names) != 1:
            raise ApiError(
                404,
                f"/invocations is for a server with one model; this one has {len(names)}. Use "
                "/v1/models/NAME/invocations.",
            )
        return await invoke_model(names[0], request)

    return router


def read(model: "LoadedModel", job: Job) -> ScoringRequest:
    """A table in one of MLflow's forms, answered with "predictions"."""
    rows = read_csv_body(job.body) if job.media_type == CSV else _from_json(load_json(job.body))
    return ScoringRequest(rows, lambda scored: dump_json({"predictions": scored.records}))


def _from_json(content: Any) -> Rows:
    keys = [key for key in _KEYS if isinstance(content, dict) and key in content]
    if len(keys) != 1:
        raise ApiError(422, f"the body must have exactly one of the keys {', '.join(_KEYS)}.")
    (key,) = keys
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
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return from_columns(columns, "dataframe_split")
