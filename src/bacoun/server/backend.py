"""Backend: what routes ask; models by their names, answered by worker processes."""

import sys
from collections.abc import Callable
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from bacoun.server.http.bodies import Bodies
from bacoun.server.http.monitoring import Metrics
from bacoun.server.jobs import Job
from bacoun.server.settings import Settings
from bacoun.server.workers.catalog import Catalog
from bacoun.server.workers.pool import CANNOT_START, FIRST_SECONDS, Pool
from bacoun.server.workers.worker import score_jobs
from bacoun.web.errors import ApiError


class Backend:
    """The parts of a running server that routes share; `work` is what a worker process does."""

    def __init__(
        self, catalog: Catalog, settings: Settings, work: Callable[..., None] = score_jobs
    ) -> None:
        self.catalog, self.settings = catalog, settings
        self.metrics, self.bodies = Metrics(), Bodies(settings.limits)
        self.pool = Pool(settings, work, self.metrics.batch.observe)
        self.is_prepared = False

    async def ask(self, kind: str, name: str, **options: Any) -> Response:
        """Let a worker answer a question about a model."""
        return await self._answer(Job(kind, self.catalog[name], options=options))

    async def ask_with_body(
        self, request: Request, kind: str, name: str, media_type: str, **options: Any
    ) -> Response:
        """Let a worker answer about a model and the body of a request."""
        model = self.catalog[name]
        async with self.bodies.read(request) as body:
            return await self._answer(Job(kind, model, body, media_type, options))

    async def _answer(self, job: Job) -> Response:
        answer = await self.pool.ask(job)
        if answer.rows:
            self.metrics.rows.labels(job.model.name).inc(answer.rows)
            self.metrics.deferred.labels(job.model.name).inc(answer.deferred)
        headers = {"Retry-After": "1"} if answer.status == 503 else None
        return Response(answer.body, answer.status, headers, answer.media_type)

    async def prepare(self) -> None:
        """Have every model loaded and its typical row scored; say which cannot be."""
        typical = {"values": dict[str, str]()}
        jobs = [Job("row", self.catalog[name], options=typical) for name in self.catalog.names()]
        answers = [await self.pool.ask(job, FIRST_SECONDS) for job in jobs]
        self.is_prepared = True
        for answer in answers:
            if answer.status != 200:
                print(f"bacoun: {answer.body.decode()}", file=sys.stderr, flush=True)

    def check_ready(self) -> None:
        """Raise an ApiError unless models were loaded and processes that score can be started."""
        if not self.pool.is_able:
            raise ApiError(503, CANNOT_START)
        if not self.is_prepared:
            raise ApiError(503, "models are being loaded; try again in a moment.")
