"""uvicorn's HTTP protocol, with limits: connections, headers, clients that send or read slowly."""

from asyncio import TimerHandle
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bacoun.server.settings import Limits
from bacoun.web.errors import error_body

_HEADER_BYTES = 64_000


def protocol_with(limits: Limits) -> type[HttpToolsProtocol]:
    """A protocol that keeps these limits."""

    # A subclass of what uvicorn runs, because it has no setting for any of these limits (its
    # limit_concurrency counts requests, too), an ASGI application sees a request only once its
    # headers are complete, and a proxy would parse every request a second time.
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
            else:
                self.header_timer = self._later(self._too_slow)

        def data_received(self, data: bytes) -> None:
            was_in_headers, was_idle = self.in_headers, self._is_between_requests()
            super().data_received(data)
            if self.in_headers and (was_in_headers or was_idle):
                # Otherwise the data may hold the body of the request before these headers.
                self.header_bytes += len(data)
                if self.header_bytes > _HEADER_BYTES:
                    self._refuse(431, f"headers may have {_HEADER_BYTES} bytes; these have more.")

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.in_headers, self.header_bytes = True, 0
            self.header_timer = self.header_timer or self._later(self._too_slow)

        def on_headers_complete(self) -> None:
            self.in_headers = False
            self._stop("header_timer")
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop("header_timer", "reader_timer")
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            unread = sum(each.transport.get_write_buffer_size() for each in self.connections)
            if unread > limits.held_bytes:
                self.transport.abort()
            else:
                self._wait_for_reader()

        def resume_writing(self) -> None:
            self._stop("reader_timer")
            super().resume_writing()

        def send_400_response(self, msg: str) -> None:
            self._refuse(400, "the request must be HTTP/1.1; it cannot be read.")

        def _is_between_requests(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _later(self, act: Callable[..., None], *arguments: int) -> TimerHandle:
            return self.loop.call_later(limits.slow_seconds, act, *arguments)

        def _stop(self, *timers: str) -> None:
            for name in timers:
                if (timer := getattr(self, name)) is not None:
                    timer.cancel()
                    setattr(self, name, None)

        def _too_slow(self) -> None:
            self.header_timer = None
            if self._is_between_requests():
                seconds = limits.slow_seconds
                self._refuse(408, f"headers must be complete within {seconds:g} seconds.")
            else:  # an earlier request is answered first
                self.header_timer = self._later(self._too_slow)

        def _wait_for_reader(self) -> None:
            unread = self.transport.get_write_buffer_size()
            self.reader_timer = self._later(self._check_reader, unread)

        def _check_reader(self, unread_before: int) -> None:
            if self.transport.get_write_buffer_size() < unread_before:
                self._wait_for_reader()
            else:
                self.transport.abort()

        def _refuse(self, status: int, message: str) -> None:
            if not self.transport.is_closing():
                body = error_body(status, message)
                head = (
                    f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
                    "content-type: application/json\r\n"
                    f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
                )
                self.transport.write(head.encode() + body)
                self.transport.close()

    return LimitedProtocol
