"""Access: host, origin and token of a request, before it is looked at; headers of every answer."""

import hmac
import re
import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bacoun.server.http.monitoring import Metrics
from bacoun.server.settings import Settings
from bacoun.web.errors import error_response
from bacoun.web.pages import wants_page

_LOCAL_NAMES = {"localhost", "127.0.0.1", "[::1]"}
_WITHOUT_TOKEN = re.compile(r"/healthz|/readyz|/favicon\.ico|/v2/health/.*|/static/.*", re.DOTALL)
_PAGES = re.compile(r"/|/digits|/docs|/models(/[^/]+(/report)?)?")  # hold no data: they fetch it
_FOREIGN = {"cross-site", "same-site"}  # another site, or another port of this machine
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class Access:
    """ASGI middleware that refuses requests, adds headers to answers, and counts both."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let it through."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(MutableHeaders(raw=message["headers"]))
            await send(message)

        refusal = self._refusal(scope, Headers(scope=scope))
        self.metrics.active.inc()
        try:
            await (refusal or self.app)(scope, receive, send_on)
        finally:
            self.metrics.active.dec()
            path = getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - started)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host, token, path = headers.get("host", "").lower(), self.settings.token, scope["path"]
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if self.settings.is_loopback and name not in _LOCAL_NAMES:
            # A page of another site whose name was pointed at this machine.
            message = "this server answers only as localhost; use its address, or serve on --host."
            return error_response(421, message)
        if scope["method"] == "GET" and _PAGES.fullmatch(path) and wants_page(headers):
            return None
        if token is None:
            # Nothing else protects it from pages of other sites in a browser on this machine.
            message = "this server answers no pages of other sites; set BACOUN_TOKEN and send it."
            return error_response(403, message) if _is_foreign(headers, host) else None
        authorization = headers.get("authorization", "").encode()
        if _WITHOUT_TOKEN.fullmatch(path) or hmac.compare_digest(
            authorization, f"Bearer {token}".encode()
        ):
            return None
        message = "a bearer token is needed; send the header 'Authorization: Bearer TOKEN'."
        return error_response(401, message, {"WWW-Authenticate": "Bearer"})


def _is_foreign(headers: Headers, host: str) -> bool:
    """Whether a browser sends the request for a page that is not this server's."""
    origin = headers.get("origin")
    is_other = origin is not None and urlsplit(origin).netloc.lower() != host
    return is_other or headers.get("sec-fetch-site") in _FOREIGN


def _add_headers(headers: MutableHeaders) -> None:
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
    if headers.get("content-type", "").startswith("text/html"):
        headers.setdefault("Content-Security-Policy", _PAGE_POLICY)
