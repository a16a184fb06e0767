"""The application: `create_app` puts access, routes and pages together, `serve` runs it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import uvicorn
from fastapi import FastAPI

from bacoun.playground.routes import playground_routes
from bacoun.server.backend import Backend
from bacoun.server.dialects import DIALECTS
from bacoun.server.http.access import Access
from bacoun.server.http.monitoring import monitoring_routes
from bacoun.server.http.protocol import protocol_with
from bacoun.server.pages.routes import add_static_files, page_routes
from bacoun.server.settings import Settings
from bacoun.server.workers.catalog import Catalog
from bacoun.web.errors import handle_errors

_STOP_SECONDS = 30


def create_app(catalog: Catalog, settings: Settings, **options: Any) -> FastAPI:
    """The service as an ASGI application; the arguments are those of `Backend`."""
    backend = Backend(catalog, settings, **options)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        backend.pool.start()
        preparing = asyncio.create_task(backend.prepare())
        try:
            yield
        finally:
            preparing.cancel()
            await backend.pool.close()

    app = FastAPI(
        title="bacoun",
        version=version("bacoun"),
        description="Scores rows: classes, uncertainties, and whether to defer to a person.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_middleware(Access, settings=settings, metrics=backend.metrics)
    handle_errors(app)
    for dialect in DIALECTS.values():
        app.include_router(dialect.routes(backend))
    app.include_router(monitoring_routes(backend))
    app.include_router(page_routes(backend))
    if settings.playground:
        app.include_router(playground_routes())
    add_static_files(app)
    return app


def serve(app: FastAPI, settings: Settings, on_start: Callable[[str], None] | None = None) -> None:
    """Run the application until SIGINT or SIGTERM; `on_start` is told its address."""
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
