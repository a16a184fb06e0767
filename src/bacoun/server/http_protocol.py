"""uvicorn's HTTP protocol, with limits: connections, size of headers, and how slowly they come."""

from __future__ import annotations

from asyncio import TimerHandle
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bacoun.server.errors import error_body

_HEADER_BYTES = 64_000
_REASONS = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


def protocol_with(header_seconds: float, most_connections: int) -> type[HttpToolsProtocol]:
    """A protocol for so many connections, whose headers must be complete after that time."""

    class LimitedProtocol(HttpToolsProtocol):
        """HTTP/1.1 for clients that may be slow, or hostile."""

        timer: TimerHandle | None = None
        header_bytes = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > most_connections:
                self._refuse(503, f"the server has {most_connections} connections; try again.")
                return
            self._wait_for_headers()

        def data_received(self, data: bytes) -> None:
            if self.timer is None and self._is_between_requests():
                self._wait_for_headers()
            super().data_received(data)
            if not self._is_between_requests():
                self._stop_waiting()
                return
            self.header_bytes += len(data)
            if self.header_bytes > _HEADER_BYTES:
                self._refuse(431, f"headers may have {_HEADER_BYTES} bytes; these have more.")

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            self._refuse(400, "the request must be HTTP/1.1; it cannot be read.")

        def _is_between_requests(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _wait_for_headers(self) -> None:
            self.header_bytes = 0
            self.timer = self.loop.call_later(header_seconds, self._too_slow)

        def _stop_waiting(self) -> None:
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None

        def _too_slow(self) -> None:
            self.timer = None
            if self._is_between_requests():
                self._refuse(408, f"headers must be complete within {header_seconds:g} seconds.")

        def _refuse(self, status: int, message: str) -> None:
            if self.transport.is_closing():
                return
            body = error_body(status, message)
            head = (
                f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self.transport.close()

    return LimitedProtocol
