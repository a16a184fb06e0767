"""Service: what the routes share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from bacoun.playground.training import Trainer
from bacoun.server.bodies import Bodies
from bacoun.server.catalog import Catalog
from bacoun.server.jobs import Answer, Job, Model
from bacoun.server.metrics import Metrics
from bacoun.server.pool import CANNOT_START, FIRST_SECONDS, Pool
from bacoun.server.settings import Settings


@dataclass
class Service:
    """The parts of a running server."""

    catalog: Catalog
    settings: Settings
    metrics: Metrics = field(default_factory=Metrics)
    trainers: list[Trainer] = field(default_factory=list)
    is_prepared: bool = False

    def __post_init__(self) -> None:
        self.bodies = Bodies(self.settings.limits)
        self.pool = Pool(self.settings, self.metrics.batch.observe)

    async def ask(self, kind: str, name: str, **job: Any) -> Response:
        """Let a worker answer about a model."""
        model = self.catalog[name]
        return self._response(name, await self.pool.ask(Job(kind, model, **job)))

    async def ask_with_body(
        self, request: Request, kind: str, name: str, media_type: str, **options: Any
    ) -> Response:
        """Let a worker answer about a model and the body of a request."""
        model = self.catalog[name]
        async with self.bodies.read(request) as body:
            answer = await self.pool.ask(Job(kind, model, body, media_type, options))
        return self._response(name, answer)

    def _response(self, name: str, answer: Answer) -> Response:
        if answer.rows:
            self.metrics.rows.labels(name).inc(answer.rows)
            self.metrics.deferred.labels(name).inc(answer.deferred)
        headers = {"Retry-After": "1"} if answer.status == 503 else None
        return Response(answer.body, answer.status, headers, answer.media_type)

    async def prepare(self) -> list[Answer]:
        """Have every model loaded once; the answers tell which cannot be."""
        models: list[Model] = [self.catalog[name] for name in self.catalog.names()]
        found = [await self.pool.ask(Job("describe", each), FIRST_SECONDS) for each in models]
        self.is_prepared = True
        return found

    @property
    def is_ready(self) -> bool:
        """Whether models were loaded, and processes that score can be started."""
        return self.is_prepared and self.pool.is_able

    @property
    def reason_to_wait(self) -> str:
        """Why the service is not ready."""
        if not self.pool.is_able:
            return CANNOT_START
        return "models are being loaded; try again in a moment."
