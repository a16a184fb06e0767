"""Read the body of a request: within limits of size and time, counted while it arrives."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from bacoun.server.settings import Limits
from bacoun.web.errors import ApiError


class Bodies:
    """Bodies that are held in memory, all together within a limit."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.held = limits, 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """The body, which counts as held until the end of the block."""
        encoding = request.headers.get("content-encoding", "identity").lower()
        if encoding != "identity":
            raise ApiError(415, f"a body must not be compressed; Content-Encoding is {encoding!r}.")
        declared = request.headers.get("content-length", "")
        if declared.isdigit():
            self._check(int(declared))
        content, seconds = bytearray(), self.limits.slow_seconds
        try:
            async with asyncio.timeout(seconds):
                async for chunk in request.stream():
                    self._check(len(content) + len(chunk))
                    self.held += len(chunk)
                    content += chunk
            yield bytes(content)
        except TimeoutError:
            raise ApiError(408, f"the body must arrive within {seconds:g} seconds.") from None
        except ClientDisconnect:
            raise ApiError(400, "the body must be complete; the connection was closed.") from None
        finally:
            self.held -= len(content)

    def _check(self, size: int) -> None:
        most = self.limits.body_bytes
        if size > most:
            raise ApiError(
                413, f"a body may have {most} bytes; this one has more. Send fewer rows at once."
            )
        if self.held > self.limits.held_bytes:
            raise ApiError(503, "the server is busy with other bodies; try again in a moment.")


def media_type_of(request: Request, allowed: Sequence[str]) -> str:
    """The type of a body, without its parameters; refused if it is not one of those allowed."""
    media_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media_type not in allowed:
        raise ApiError(
            415, f"Content-Type must be {' or '.join(allowed)}; got {media_type[:80] or 'none'!r}."
        )
    return media_type


def accepted_type(request: Request, known: Sequence[str], default: str) -> str:
    """The media type of the answer: the first that `Accept` names and that is known."""
    for part in request.headers.get("accept", "*/*").lower().split(","):
        wanted = part.split(";")[0].strip()
        if wanted in known:
            return wanted
        if wanted in ("*/*", "text/*", "application/*", ""):
            return default
    raise ApiError(406, f"the answer can be {', '.join(known)}; Accept names none of these.")
