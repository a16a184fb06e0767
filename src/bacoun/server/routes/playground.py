"""The playground and the page for digits: one address each, as page, data or stream of events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from bacoun.playground.digit_settings import DigitSettings
from bacoun.playground.settings import PlaneSettings
from bacoun.playground.training import Trainer
from bacoun.server.documented import OBJECT, answer, errors
from bacoun.server.errors import ApiError
from bacoun.server.gate import wants_page
from bacoun.server.routes.pages import page
from bacoun.server.service import Service

_EVENTS = "text/event-stream"
_GOOD = answer(OBJECT, "text/html", _EVENTS)


def playground_routes(service: Service) -> APIRouter:
    """Addresses of pages that train models."""
    router = APIRouter(tags=["playground"])
    plane = Trainer("bacoun.playground.plane:fit_plane")
    digits = Trainer("bacoun.playground.digits:score_digit", give_up=False)
    service.trainers = [plane, digits]

    @router.get("/", responses=_GOOD | errors(422))
    async def playground(request: Request, settings: Annotated[PlaneSettings, Query()]) -> Response:
        """Maps of one or two methods on points in the plane.

        A page for browsers; `Accept: application/json` waits for the fits and gives all numbers,
        `Accept: text/event-stream` tells how far they are.
        """
        if wants_page(request.headers):
            return page("playground", service)
        fits = [settings.fit_of(method) for method in settings.methods()]
        if _EVENTS in request.headers.get("accept", ""):
            return await _stream(plane, fits)
        results = [await plane.result(each) for each in fits]
        content = json.dumps({"settings": settings.model_dump()})
        body = f'{content[:-1]},"models":[{",".join(results)}]}}'
        return Response(body, media_type="application/json")

    @router.get("/digits", responses=_GOOD | errors(422))
    async def digit(request: Request, settings: Annotated[DigitSettings, Query()]) -> Response:
        """What a classifier of handwritten digits says about a drawing.

        A page for browsers; `Accept: application/json` gives the numbers. The first request trains
        the classifier; `Accept: text/event-stream` tells how far it is.
        """
        if wants_page(request.headers):
            return page("digits", service)
        asked = settings.model_dump()
        if _EVENTS in request.headers.get("accept", ""):
            return await _stream(digits, [asked])
        return Response(await digits.result(asked), media_type="application/json")

    return router


async def _stream(trainer: Trainer, fits: list[dict[str, object]]) -> StreamingResponse:
    """All events; an error that comes before the first one is the answer itself."""
    events = _events(trainer, fits)
    first = await anext(events)

    async def all_events() -> AsyncIterator[str]:
        yield first
        try:
            async for event in events:
                yield event
        except ApiError as error:
            yield f"data: {json.dumps({'event': 'refused', 'message': str(error)})}\n\n"

    return StreamingResponse(all_events(), media_type=_EVENTS)


async def _events(trainer: Trainer, fits: list[dict[str, object]]) -> AsyncIterator[str]:
    """Server-sent events: how far each fit is, without the results, which are data."""
    for place, each in enumerate(fits):
        async for event in trainer.follow(each):
            told = {name: value for name, value in event.items() if name != "result"}
            yield f"data: {json.dumps({'fit': place, **told})}\n\n"
    yield 'data: {"event": "end"}\n\n'
