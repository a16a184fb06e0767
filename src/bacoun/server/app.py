"""The application: `create_app` puts gate, routes and pages together, `serve` runs it."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from bacoun.server.catalog import Catalog
from bacoun.server.errors import CODES, MEDIA_TYPE, ApiError, error_body
from bacoun.server.gate import Gate
from bacoun.server.http_protocol import protocol_with
from bacoun.server.routes.open_inference import open_inference_routes
from bacoun.server.routes.pages import add_static_files, page_routes
from bacoun.server.routes.playground import playground_routes
from bacoun.server.routes.scoring import health_routes, scoring_routes
from bacoun.server.service import Service
from bacoun.server.settings import Settings

_STOP_SECONDS = 30
_SENTENCES = {
    404: "there is nothing at this address; see /docs.",
    405: "this address knows other methods; see /docs.",
}


def create_app(catalog: Catalog, settings: Settings) -> FastAPI:
    """The service as an ASGI application.

    Parameters
    ----------
    catalog : Catalog
        The models that can be named.
    settings : Settings
        Who may ask, and how much.
    """
    service = Service(catalog, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.pool.start()
        preparing = asyncio.create_task(_prepare(service))
        try:
            yield
        finally:
            preparing.cancel()
            for trainer in service.trainers:
                trainer.close()
            await asyncio.to_thread(service.pool.close)

    app = FastAPI(
        title="bacoun",
        version=version("bacoun"),
        description="Scores rows: classes, uncertainties, and whether to defer to a person.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_middleware(Gate, settings=settings, metrics=service.metrics)
    _handle_errors(app)
    for routes in (scoring_routes, open_inference_routes, health_routes, page_routes):
        app.include_router(routes(service))
    if settings.playground:
        app.include_router(playground_routes(service))
    add_static_files(app)
    return app


async def _prepare(service: Service) -> None:
    for trainer in service.trainers[:1]:  # the playground, which is what people open first
        await trainer.warm_up()
    for answer in await service.prepare():
        if answer.status != 200:
            print(f"bacoun: {answer.body.decode()}", file=sys.stderr, flush=True)


def _handle_errors(app: FastAPI) -> None:
    """Errors of one shape, wherever they come from."""

    @app.exception_handler(ApiError)
    async def refused(request: Request, error: ApiError) -> Response:
        # The rest of a body that was not read would be taken for the next request.
        headers = {"Connection": "close"} if error.status in (408, 413) else {}
        if error.status == 503:
            headers["Retry-After"] = "1"
        return _error(error.status, str(error), headers)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        status = error.status_code if error.status_code in CODES else 400
        return _error(status, _SENTENCES.get(status, str(error.detail)), dict(error.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = " ".join(str(part) for part in first["loc"])
        return _error(422, f"{where}: {first['msg']}.", {})

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        return _error(500, "something went wrong; the server's log has more.", {})


def _error(status: int, message: str, headers: dict[str, str]) -> Response:
    return Response(error_body(status, message), status, headers, MEDIA_TYPE)


def serve(app: FastAPI, settings: Settings, on_start: Callable[[str], None] | None = None) -> None:
    """Run the application until it is told to stop by SIGINT or SIGTERM.

    Parameters
    ----------
    app : FastAPI
        Result of `create_app`.
    settings : Settings
        Address and limits.
    on_start : callable, optional
        Called with the address once the server listens.
    """
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=protocol_with(settings.limits),
        log_level=logging.WARNING,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_STOP_SECONDS,
        backlog=2048,
        ws="none",
    )
    _Server(config, on_start).run()


class _Server(uvicorn.Server):
    """uvicorn's server, which says where it listens."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[str], None] | None) -> None:
        super().__init__(config)
        self.on_start = on_start

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.should_exit:
            raise OSError(f"cannot listen on {self.config.host}:{self.config.port}.")
        if self.on_start is not None:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            self.on_start(f"http://{shown}:{port}")
