"""Errors of the service: one shape for all, {"error": a sentence, "code": a word}."""

from __future__ import annotations

import json

MEDIA_TYPE = "application/json"

# What a client can tell apart by the word instead of by the sentence.
CODES = {
    400: "bad-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    408: "too-slow",
    413: "too-large",
    415: "unsupported-media-type",
    421: "wrong-host",
    422: "unprocessable",
    431: "headers-too-large",
    500: "internal-error",
    503: "unavailable",
}


class ApiError(Exception):
    """A request that is answered with an error.

    Parameters
    ----------
    status : int
        HTTP status.
    message : str
        One sentence: what was expected, what came, what to do.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def error_body(status: int, message: str) -> bytes:
    """The body of an error."""
    one_line = " ".join(message.split())
    return json.dumps({"error": one_line, "code": CODES.get(status, "error")}).encode()
