"""Errors over HTTP: one shape for all, {"error": a sentence, "code": a word}."""

import json
from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

MEDIA_TYPE = "application/json"

# A word by which a client can tell errors apart, and what the document of the interface says.
STATUSES = {
    400: ("bad-request", "The body cannot be read."),
    401: ("unauthorized", "The token is missing or wrong."),
    403: ("forbidden", ""),
    404: ("not-found", "There is no such model or page."),
    405: ("method-not-allowed", "The address knows other methods."),
    406: ("not-acceptable", "The answer has no such format."),
    408: ("too-slow", "The body came too slowly."),
    413: ("too-large", "The body is too large."),
    415: ("unsupported-media-type", "The body has another type."),
    421: ("wrong-host", "The host is not this one."),
    422: ("unprocessable", "The values are not as expected."),
    431: ("headers-too-large", ""),
    500: ("internal-error", ""),
    503: ("unavailable", "The server is busy, or the model cannot be loaded."),
}
CODES = {status: code for status, (code, _) in STATUSES.items()}
_SENTENCES = {
    404: "there is nothing at this address; see /docs.",
    405: "this address knows other methods; see /docs.",
}


class ApiError(Exception):
    """A request that is answered with an error: one sentence, and a status of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def error_body(status: int, message: str) -> bytes:
    """The body of an error."""
    return json.dumps({"error": " ".join(message.split()), "code": CODES[status]}).encode()


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error as a response."""
    return Response(error_body(status, message), status, headers, MEDIA_TYPE)


def handle_errors(app: FastAPI) -> None:
    """Give errors their shape, wherever they come from."""

    @app.exception_handler(ApiError)
    async def refused(request: Request, error: ApiError) -> Response:
        # The rest of a body that was not read would be taken for the next request.
        headers = {"Connection": "close"} if error.status in (408, 413) else {}
        if error.status == 503:
            headers["Retry-After"] = "1"
        return error_response(error.status, str(error), headers)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        status = error.status_code if error.status_code in CODES else 400
        return error_response(status, _SENTENCES.get(status, str(error.detail)), error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = " ".join(str(part) for part in first["loc"])
        return error_response(422, f"{where}: {first['msg']}.")

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        return error_response(500, "something went wrong; the server's log has more.")
