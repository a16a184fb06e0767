"""The gate: what every request passes before it is looked at, and every answer on its way out."""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bacoun.server.errors import MEDIA_TYPE, error_body
from bacoun.server.metrics import Metrics
from bacoun.server.settings import Settings

_LOCAL_NAMES = {"localhost", "127.0.0.1", "[::1]"}
_WITHOUT_TOKEN = ("/healthz", "/readyz", "/v2/health/", "/static/", "/favicon.ico")
PAGES = re.compile(r"/|/digits|/docs|/models(/[^/]+(/report)?)?")  # hold no data: they fetch it
_FOREIGN = {"cross-site", "same-site"}  # another site, or another port of this machine
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def wants_page(headers: Headers) -> bool:
    """Whether a browser asks for a page to show, not a program for data."""
    return "text/html" in headers.get("accept", "")


class Gate:
    """ASGI middleware: host, origin, token, headers of answers, metrics."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let it through."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500
        headers = Headers(scope=scope)

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(MutableHeaders(raw=message["headers"]))
            await send(message)

        refusal = self._refusal(scope, headers)
        self.metrics.active.inc()
        try:
            await (refusal or self.app)(scope, receive, send_on)
        finally:
            self.metrics.active.dec()
            route: Any = scope.get("route")
            path = getattr(route, "path", "other")
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - started)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "").lower()
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if self.settings.is_loopback and name not in _LOCAL_NAMES:
            # A page of another site whose name was pointed at this machine.
            message = "this server answers only as localhost; use its address, or serve on --host."
            return _refused(421, message)
        opens_page = scope["method"] == "GET" and _is_page(scope["path"]) and wants_page(headers)
        if self.settings.token is None and not opens_page and _is_foreign(headers, host):
            # No token protects the server from pages of other sites in a browser on this machine.
            message = "this server answers no pages of other sites; set BACOUN_TOKEN and send it."
            return _refused(403, message)
        if opens_page or self._may_ask(scope, headers):
            return None
        message = "a bearer token is needed; send the header 'Authorization: Bearer TOKEN'."
        return _refused(401, message, {"WWW-Authenticate": "Bearer"})

    def _may_ask(self, scope: Scope, headers: Headers) -> bool:
        token = self.settings.token
        if token is None or _starts_with(scope["path"], _WITHOUT_TOKEN):
            return True
        given = headers.get("authorization", "").encode()
        return hmac.compare_digest(given, f"Bearer {token}".encode())


def _is_page(path: str) -> bool:
    return PAGES.fullmatch(path) is not None


def _is_foreign(headers: Headers, host: str) -> bool:
    """Whether a browser sends the request for a page that is not this server's."""
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host:
        return True
    return headers.get("sec-fetch-site", "none") in _FOREIGN


def _starts_with(path: str, known: Iterable[str]) -> bool:
    return any(path == each or (each.endswith("/") and path.startswith(each)) for each in known)


def _refused(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return Response(error_body(status, message), status, headers, MEDIA_TYPE)


def _add_headers(headers: MutableHeaders) -> None:
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
    if headers.get("content-type", "").startswith("text/html"):
        headers.setdefault("Content-Security-Policy", POLICY)
