"""The pages that train models: one address each, as page, data or stream of events."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from bacoun.playground.settings import DigitSettings, PlaneSettings
from bacoun.playground.training import Trainer
from bacoun.web.documents import answers
from bacoun.web.errors import MEDIA_TYPE, ApiError
from bacoun.web.pages import page, wants_page

_EVENTS = "text/event-stream"
_ANSWERS = answers(422, also=("text/html", _EVENTS))


def playground_routes() -> APIRouter:
    """Addresses of the pages, and the processes behind them, which end with the server."""
    plane = Trainer("bacoun.playground.plane:fit_plane")
    digits = Trainer("bacoun.playground.digits:score_digit", give_up=False)

    @asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:
        warming = asyncio.create_task(plane.warm_up())  # which is what people open first
        try:
            yield
        finally:
            await asyncio.gather(warming, return_exceptions=True)
            for trainer in (plane, digits):
                await trainer.close()

    router = APIRouter(tags=["playground"], lifespan=lifespan)

    @router.get("/", responses=_ANSWERS)
    async def playground(request: Request, settings: Annotated[PlaneSettings, Query()]) -> Response:
        """Maps of one or two methods on points in the plane.

        A page for browsers; `Accept: application/json` waits for the fits and gives all numbers,
        `Accept: text/event-stream` tells how far they are.
        """
        if wants_page(request.headers):
            return page("bacoun.playground", "playground")
        if _wants_events(request):
            return await _stream(plane, settings.fits())
        models = ",".join([await plane.result(fit) for fit in settings.fits()])
        body = f'{{"settings":{settings.model_dump_json()},"models":[{models}]}}'
        return Response(body, media_type=MEDIA_TYPE)

    @router.get("/digits", responses=_ANSWERS)
    async def digit(request: Request, settings: Annotated[DigitSettings, Query()]) -> Response:
        """What a classifier of handwritten digits says about a drawing.

        A page for browsers; `Accept: application/json` gives the numbers. The first request trains
        the classifier; `Accept: text/event-stream` tells how far it is.
        """
        if wants_page(request.headers):
            return page("bacoun.playground", "digits")
        if _wants_events(request):
            return await _stream(digits, [settings.model_dump()])
        return Response(await digits.result(settings.model_dump()), media_type=MEDIA_TYPE)

    return router


def _wants_events(request: Request) -> bool:
    return _EVENTS in request.headers.get("accept", "")


async def _stream(trainer: Trainer, fits: list[dict[str, Any]]) -> StreamingResponse:
    """Server-sent events; an error that comes before the first one is the answer itself."""
    events = _events(trainer, fits)
    first = await anext(events)

    async def all_events() -> AsyncIterator[str]:
        yield first
        try:
            async for event in events:
                yield event
        except ApiError as error:
            yield _data({"event": "refused", "message": str(error)})

    return StreamingResponse(all_events(), media_type=_EVENTS)


async def _events(trainer: Trainer, fits: list[dict[str, Any]]) -> AsyncIterator[str]:
    """How far each fit is, without the results, which are data."""
    for place, fit in enumerate(fits):
        async for event in trainer.follow(fit):
            told = {name: value for name, value in event.items() if name != "result"}
            yield _data({"fit": place, **told})
    yield _data({"event": "end"})


def _data(event: dict[str, Any]) -> str:
    return f"data: {json.dumps(event)}\n\n"
