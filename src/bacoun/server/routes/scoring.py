"""The service's own interface, MLflow's, and what machines ask about the server."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import generate_latest

from bacoun.server.bodies import media_type_of
from bacoun.server.dialects.media_types import CSV, JSON, MEDIA_TYPES
from bacoun.server.documented import INVOCATIONS, OBJECT, PREDICT, SCORED, answer, errors
from bacoun.server.errors import ApiError
from bacoun.server.service import Service

_Because = Annotated[
    bool, Query(description="Say in words why a row is deferred; takes milliseconds for each.")
]
_Inputs = Annotated[
    bool, Query(description="Repeat the columns of the request, before those that are added.")
]


def scoring_routes(service: Service) -> APIRouter:
    """Addresses that score."""
    router = APIRouter(tags=["score"])

    @router.get("/v1/models", responses=answer(OBJECT) | errors())
    async def list_models() -> dict[str, Any]:
        """Names of the models that can be asked."""
        return {"models": service.catalog.names()}

    @router.get("/v1/models/{name}", responses=answer(OBJECT) | errors(404))
    async def describe_model(name: str) -> Response:
        """Columns, classes, a typical row, and when the model defers."""
        return await service.ask("describe", name)

    @router.post(
        "/v1/models/{name}/predict",
        openapi_extra=PREDICT,
        responses=SCORED | errors(404, 406, 408, 413, 415, 422),
    )
    async def predict(
        name: str, request: Request, because: _Because = False, inputs: _Inputs = False
    ) -> Response:
        """Classes, uncertainties and decisions for rows of JSON, CSV or Arrow.

        The answer has the format of the request, or the one that `Accept` names.
        """
        media_type = media_type_of(request, MEDIA_TYPES)
        options = {"because": because, "inputs": inputs, "answer": _accepted(request, media_type)}
        return await service.ask_with_body(request, "predict", name, media_type, **options)

    @router.post(
        "/v1/models/{name}/check",
        openapi_extra=PREDICT,
        responses=answer(OBJECT) | errors(404, 408, 413, 415, 422),
    )
    async def check(name: str, request: Request) -> Response:
        """What is different about a table, compared with the training table."""
        media_type = media_type_of(request, MEDIA_TYPES)
        most = service.settings.limits.rows
        return await service.ask_with_body(request, "check", name, media_type, max_rows=most)

    @router.post(
        "/v1/models/{name}/invocations",
        openapi_extra=INVOCATIONS,
        responses=answer(OBJECT) | errors(404, 408, 413, 415, 422),
    )
    async def invoke_model(name: str, request: Request) -> Response:
        """Score the body of MLflow's scoring server."""
        media_type = media_type_of(request, (JSON, CSV))
        return await service.ask_with_body(request, "invocations", name, media_type)

    @router.post(
        "/invocations",
        openapi_extra=INVOCATIONS,
        responses=answer(OBJECT) | errors(404, 408, 413, 415, 422),
    )
    async def invoke(request: Request) -> Response:
        """Score as MLflow's scoring server does; for a server with one model."""
        names = service.catalog.names()
        if len(names) != 1:
            raise ApiError(
                404,
                f"/invocations is for a server with one model; this one has {len(names)}. Use "
                "/v1/models/NAME/invocations.",
            )
        return await invoke_model(names[0], request)

    return router


def health_routes(service: Service) -> APIRouter:
    """Addresses that say how the server is."""
    router = APIRouter(tags=["health"])

    @router.get("/healthz", responses=answer(OBJECT) | errors())
    async def is_alive() -> dict[str, str]:
        """Whether the server runs."""
        return {"status": "ok"}

    @router.get("/ping", responses=answer(OBJECT) | errors())
    async def ping() -> dict[str, str]:
        """The same, as MLflow's scoring server names it."""
        return {"status": "ok"}

    @router.get("/readyz", responses=answer(OBJECT) | errors())
    async def is_ready() -> JSONResponse:
        """Whether the models are loaded."""
        if not service.is_ready:
            raise ApiError(503, service.reason_to_wait)
        return JSONResponse({"status": "ready"})

    @router.get("/metrics", response_class=PlainTextResponse, responses=errors())
    async def metrics() -> Response:
        """Counters for Prometheus."""
        service.metrics.waiting.set(service.pool.n_waiting)
        service.metrics.restarts.set(service.pool.restarts)
        return PlainTextResponse(generate_latest(service.metrics.registry))

    return router


def _accepted(request: Request, default: str) -> str:
    """The format of the answer: the first that `Accept` names and there is."""
    accepted = request.headers.get("accept", "*/*")
    for each in accepted.lower().split(","):
        wanted = each.split(";")[0].strip()
        if wanted in MEDIA_TYPES:
            return wanted
        if wanted in ("*/*", "text/*", "application/*", ""):
            return default
    raise ApiError(406, f"the answer can be {', '.join(MEDIA_TYPES)}; Accept names none of these.")
