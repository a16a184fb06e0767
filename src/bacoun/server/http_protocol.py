"""uvicorn's HTTP protocol, with limits: connections, headers, and clients that send or read slowly.

uvicorn has a setting for none of these (its `limit_concurrency` counts requests, too).
"""

from __future__ import annotations

from asyncio import TimerHandle
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bacoun.server.errors import error_body
from bacoun.server.settings import Limits

_HEADER_BYTES = 64_000
_REASONS = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


def protocol_with(limits: Limits) -> type[HttpToolsProtocol]:
    """A protocol that keeps these limits."""

    class LimitedProtocol(HttpToolsProtocol):
        """HTTP/1.1 for clients that may be slow, or hostile."""

        header_timer: TimerHandle | None = None
        reader_timer: TimerHandle | None = None
        header_bytes = 0
        in_headers = False  # of a request that has begun, perhaps while an earlier one is answered

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                self._refuse(503, f"the server has {limits.connections} connections; try again.")
                return
            self._wait_for_headers()

        def data_received(self, data: bytes) -> None:
            was_in_headers, was_idle = self.in_headers, self._is_between_requests()
            super().data_received(data)
            if self.in_headers:
                # Data in which the headers begin may hold the body of the request before them.
                self.header_bytes += len(data) if was_in_headers or was_idle else 0
                if self.header_bytes > _HEADER_BYTES:
                    self._refuse(431, f"headers may have {_HEADER_BYTES} bytes; these have more.")

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.in_headers, self.header_bytes = True, 0
            if self.header_timer is None:
                self._wait_for_headers()

        def on_headers_complete(self) -> None:
            self.in_headers = False
            self._stop_header_timer()
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_header_timer()
            self._stop_reader_timer()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            unread = sum(each.transport.get_write_buffer_size() for each in self.connections)
            if unread > limits.held_bytes:
                self.transport.abort()
            else:
                self._wait_for_reader()

        def resume_writing(self) -> None:
            self._stop_reader_timer()
            super().resume_writing()

        def send_400_response(self, msg: str) -> None:
            self._refuse(400, "the request must be HTTP/1.1; it cannot be read.")

        def _is_between_requests(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _stop_header_timer(self) -> None:
            if self.header_timer is not None:
                self.header_timer.cancel()
                self.header_timer = None

        def _stop_reader_timer(self) -> None:
            if self.reader_timer is not None:
                self.reader_timer.cancel()
                self.reader_timer = None

        def _wait_for_headers(self) -> None:
            self.header_timer = self.loop.call_later(limits.slow_seconds, self._too_slow)

        def _too_slow(self) -> None:
            if self._is_between_requests():
                self.header_timer = None
                seconds = limits.slow_seconds
                self._refuse(408, f"headers must be complete within {seconds:g} seconds.")
            else:  # an earlier request is answered first
                self._wait_for_headers()

        def _wait_for_reader(self) -> None:
            unread = self.transport.get_write_buffer_size()
            check, seconds = self._check_reader, limits.slow_seconds
            self.reader_timer = self.loop.call_later(seconds, check, unread)

        def _check_reader(self, unread_before: int) -> None:
            if self.transport.get_write_buffer_size() < unread_before:
                self._wait_for_reader()
            else:
                self.transport.abort()

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
