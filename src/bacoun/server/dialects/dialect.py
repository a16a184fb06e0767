"""What a dialect is, and what it makes of a body."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fastapi import APIRouter

from bacoun.server.dialects.formats import JSON, Rows, Scored, n_rows_of
from bacoun.server.jobs import Job

if TYPE_CHECKING:
    from bacoun.server.backend import Backend
    from bacoun.server.workers.models import LoadedModel


@dataclass(frozen=True)
class ScoringRequest:
    """A table to score, and how to write the result."""

    rows: Rows
    write: Callable[[Scored], bytes]
    media_type: str = JSON  # of the answer
    because: bool = False  # say in words why a row is deferred
    inputs: bool = False  # repeat the columns of the table, before those that are added
    nearest: bool = False  # with `because`: the nearest known items of accepted rows, too

    def __len__(self) -> int:
        return n_rows_of(self.rows)


class Dialect(Protocol):
    """A module that speaks a protocol."""

    def routes(self, backend: "Backend") -> APIRouter:
        """Addresses; they hand requests on with `backend.ask_with_body`."""

    def read(self, model: "LoadedModel", job: Job) -> ScoringRequest:
        """In a worker: what a body asks for."""
