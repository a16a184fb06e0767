"""Photos as they are: the body is the file of one, other columns stand in the address."""

from functools import partial
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import Response

from bacoun.server.dialects.dialect import ScoringRequest
from bacoun.server.dialects.formats import JSON, write_rows
from bacoun.server.dialects.tables import ScoredTable
from bacoun.server.http.bodies import media_type_of
from bacoun.server.jobs import Job
from bacoun.web.documents import answers, file_body
from bacoun.web.errors import ApiError

if TYPE_CHECKING:
    from bacoun.server.backend import Backend
    from bacoun.server.workers.models import LoadedModel

_TYPES = [f"image/{kind}" for kind in ("jpeg", "png", "webp", "gif", "bmp", "tiff")]


def routes(backend: "Backend") -> APIRouter:
    """The address of photos."""
    router = APIRouter(tags=["score"])

    @router.post(
        "/v1/models/{name}/photos",
        openapi_extra=file_body(*_TYPES),
        responses=answers(404, 408, 413, 415, 422, of=ScoredTable),
    )
    async def score_photo(name: str, request: Request) -> Response:
        """Score the photo in the body; if the model has other columns, the query gives them.

        The answer is that of `predict` with `because`, always with the nearest known photos.
        """
        media_type, values = media_type_of(request, _TYPES), dict(request.query_params)
        return await backend.ask_with_body(request, "photos", name, media_type, values=values)

    return router


def read(model: "LoadedModel", job: Job) -> ScoringRequest:
    """A table of one row: the photo, and the other columns."""
    from bacoun.columns.photo_files import data_uri

    photos = [column.name for column in model.model.columns if column.kind == "photo"]
    if len(photos) != 1:
        raise ApiError(
            422,
            f"this address is for models with one column of photos; '{model.name}' has "
            f"{len(photos)}. Use /v1/models/{model.name}/predict.",
        )
    values = model.cells(job.options["values"]) | {photos[0]: data_uri(job.body, job.media_type)}
    rows = {name: [value] for name, value in values.items()}
    write = partial(write_rows, media_type=JSON, model=model.name, version=model.version)
    return ScoringRequest(rows, write, because=True, nearest=True)
