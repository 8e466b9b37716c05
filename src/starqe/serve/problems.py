"""Errors as HTTP responses: a status, and one JSON body for every error.

    {"error": {"kind": "SparqlError", "message": "…", "line": 3, "column": 5, "offset": 41, "length": 5, "suggestions": []}}

The numbers and the suggestions (texts that may replace the place) are given only where the error has a place in the query.
"""

import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse, Response

from starqe.errors import InputError, SparqlError, StarqeError, UnsupportedError


class HttpError(Exception):
    """A request that is refused."""

    def __init__(self, status: int, message: str, kind: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers
        self.kind = kind or HTTPStatus(status).phrase.title().replace(" ", "").replace("-", "")

    def response(self) -> Response:
        """Returns the response to the client."""
        return error_response(self.status, self.kind, self.message, headers=self.headers)


class BusyError(HttpError):
    """The service is overloaded; the client may try again."""

    def __init__(self, message: str, retry_seconds: int, kind: str = "Busy") -> None:
        super().__init__(503, message, kind, {"Retry-After": str(retry_seconds)})


class ClientGoneError(Exception):
    """The client no longer waits for the answer."""


def error_response(
    status: int, kind: str, message: str, place: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """Returns a response with the body that all errors have."""
    message = message.encode("utf-8", "replace").decode()  # JSON may contain half a surrogate pair, and messages repeat their input
    return JSONResponse({"error": {"kind": kind, "message": message, **(place or {})}}, status, dict(headers or {}))


def refusal(error: StarqeError) -> Response | None:
    """Returns the response to an error that the client can correct, or None: other messages may name files of the server."""
    if not isinstance(error, InputError | UnsupportedError):
        return None
    place = (
        {key: getattr(error, key) for key in ("line", "column", "offset", "length", "suggestions")}
        if isinstance(error, SparqlError)
        else {}
    )
    return error_response(400, type(error).__name__, str(error), place)


def failure() -> tuple[str, Response]:
    """Returns an id for the log, and the response to an unexpected exception, which contains nothing but the id."""
    id_ = secrets.token_hex(6)
    return id_, error_response(500, "InternalError", f"an internal error occurred. The log of the service has it under the id {id_}")
