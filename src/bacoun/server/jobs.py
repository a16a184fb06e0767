"""What travels between the process that accepts requests and those that score."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from bacoun.web.errors import MEDIA_TYPE, error_body


@dataclass(frozen=True)
class Model:
    """A saved model: name, folder, and a stamp that changes when the folder is replaced."""

    name: str
    path: str
    stamp: tuple[int, ...]


@dataclass(frozen=True)
class Job:
    """A request for a worker."""

    kind: str  # what is to be done: a key of `DIALECTS` or of `QUESTIONS`
    model: Model
    body: bytes = b""
    media_type: str = ""  # of the body
    options: Mapping[str, Any] = field(default_factory=dict)  # plain values, such as the query


@dataclass(frozen=True)
class Answer:
    """A response, and what it counts in the metrics."""

    body: bytes
    media_type: str = MEDIA_TYPE
    status: int = 200
    rows: int = 0
    deferred: int = 0

    @classmethod
    def refusal(cls, status: int, message: str) -> Self:
        """An error."""
        return cls(error_body(status, message), status=status)
