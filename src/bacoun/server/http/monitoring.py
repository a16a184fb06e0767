"""What machines ask about the server: whether it lives, whether it is ready, its metrics."""

from functools import partial
from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from bacoun.web.documents import answers

if TYPE_CHECKING:
    from bacoun.server.backend import Backend

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters of one server, for Prometheus."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        count, gauge = partial(Counter, registry=own), partial(Gauge, registry=own)
        histogram = partial(Histogram, registry=own)
        self.requests = count("bacoun_requests", "Requests", ["path", "status"])
        taken = "Time from the first byte of a request to the end of its answer"
        self.seconds = histogram("bacoun_request_seconds", taken, ["path"], buckets=_SECONDS)
        self.rows = count("bacoun_rows", "Rows scored", ["model"])
        self.deferred = count("bacoun_deferred_rows", "Rows deferred", ["model"])
        together = "Requests that were scored together"
        self.batch = histogram("bacoun_batch_requests", together, buckets=_SIZES)
        self.active = gauge("bacoun_active_requests", "Requests that are being answered")
        self.waiting = gauge("bacoun_waiting_requests", "Requests that wait for a worker")
        self.restarts = gauge("bacoun_worker_restarts", "Workers that were replaced")


def monitoring_routes(backend: "Backend") -> APIRouter:
    """Addresses that say how the server is."""
    router = APIRouter(tags=["health"])

    @router.get("/healthz", responses=answers())
    @router.get("/ping", responses=answers(), summary="As MLflow's scoring server names /healthz")
    async def is_alive() -> dict[str, str]:
        """Whether the server runs."""
        return {"status": "ok"}

    @router.get("/readyz", responses=answers())
    async def is_ready() -> dict[str, str]:
        """Whether the models are loaded."""
        backend.check_ready()
        return {"status": "ready"}

    @router.get("/metrics", response_class=PlainTextResponse, responses=answers(of=None))
    async def metrics() -> Response:
        """Counters for Prometheus."""
        counters = backend.metrics
        counters.waiting.set(backend.pool.n_waiting)
        counters.restarts.set(backend.pool.n_restarts)
        return PlainTextResponse(generate_latest(counters.registry))

    return router
