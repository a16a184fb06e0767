"""The service's own dialect: rows as JSON, CSV or Arrow."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from bacoun.server.dialects.dialect import ScoringRequest
from bacoun.server.dialects.formats import ARROW, CSV, MEDIA_TYPES, read_rows, write_rows
from bacoun.server.http.bodies import accepted_type, media_type_of
from bacoun.server.jobs import Job
from bacoun.web.documents import Value, answers, body
from bacoun.web.errors import ApiError

if TYPE_CHECKING:
    from bacoun.server.backend import Backend
    from bacoun.server.workers.models import LoadedModel

_Because = Annotated[
    bool,
    Query(
        description="Say in words why a row is deferred, and in JSON which known texts and photos "
        "are nearest to its own; takes milliseconds for each."
    ),
]
_Inputs = Annotated[
    bool, Query(description="Repeat the columns of the request, before those that are added.")
]


class Table(BaseModel):
    """Rows of a table."""

    rows: list[dict[str, Value]] = Field(min_length=1)


class Nearest(BaseModel):
    """A text or photo of training that is among the nearest to one of a row."""

    column: str
    kind: str
    label: str
    similarity: float
    text: str
    thumbnail: str | None


class ScoredTable(BaseModel):
    """Rows with what a model says about them; `nearest` if they have texts or photos."""

    model: str
    version: str
    rows: list[dict[str, Value | list[Nearest]]]


_TABLE = body(Table, CSV, ARROW, example={"rows": [{"age": 51, "ward": "A"}]})


def routes(backend: "Backend") -> APIRouter:
    """Addresses of models."""
    router = APIRouter(prefix="/v1/models", tags=["score"])

    @router.get("", responses=answers())
    async def list_models() -> dict[str, Any]:
        """Names of the models that can be asked."""
        return {"models": backend.catalog.names()}

    @router.get("/{name}", responses=answers(404))
    async def describe_model(name: str) -> Response:
        """Columns, classes, a typical row, and when the model defers."""
        return await backend.ask("describe", name)

    @router.post(
        "/{name}/predict",
        openapi_extra=_TABLE,
        responses=answers(404, 406, 408, 413, 415, 422, of=ScoredTable, also=(CSV, ARROW)),
    )
    async def predict(
        name: str, request: Request, because: _Because = False, inputs: _Inputs = False
    ) -> Response:
        """Classes, uncertainties and decisions for rows of JSON, CSV or Arrow.

        The answer has the format of the request, or the one that `Accept` names.
        """
        media_type = media_type_of(request, MEDIA_TYPES)
        answer = accepted_type(request, MEDIA_TYPES, media_type)
        options = {"because": because, "inputs": inputs, "answer": answer}
        return await backend.ask_with_body(request, "predict", name, media_type, **options)

    @router.post("/{name}/check", openapi_extra=_TABLE, responses=answers(404, 408, 413, 415, 422))
    async def check(name: str, request: Request) -> Response:
        """What is different about a table, compared with the training table."""
        media_type = media_type_of(request, MEDIA_TYPES)
        limits = backend.settings.limits
        most = {"max_rows": limits.rows, "max_pixels": limits.photo_pixels}
        return await backend.ask_with_body(request, "check", name, media_type, **most)

    return router


def read(model: "LoadedModel", job: Job) -> ScoringRequest:
    """A table in one of the formats, to be answered in one of them."""
    rows, options = read_rows(job.body, job.media_type), job.options
    if options["inputs"]:
        taken = sorted(set(model.model.added_columns) & set(rows))
        if taken:
            raise ApiError(
                422, f"the table already has the column '{taken[0]}'; rename or drop it."
            )
    media_type = options["answer"]
    write = partial(write_rows, media_type=media_type, model=model.name, version=model.version)
    return ScoringRequest(rows, write, media_type, options["because"], options["inputs"])
