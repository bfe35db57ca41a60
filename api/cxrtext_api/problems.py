"""Every error as a problem document (RFC 9457) that quotes nothing of the request."""

import errno
import logging
import sqlite3
import traceback
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from cxrtext.errors import (
    CxrTextError,
    DiskError,
    HeldError,
    ImageError,
    InputError,
    NotFoundError,
    UnavailableError,
    kind_of,
)
from cxrtext_api.observe.metrics import Metrics
from cxrtext_api.runtime.scope import Busy, NotReady

PROBLEM_TYPE = "application/problem+json"

REQUEST_ID = "cxrtext_api.request_id"  # key of the request's id in the ASGI scope
_log = logging.getLogger("cxrtext_api")

DETAILS = {
    400: "The request could not be read; check its form fields and their encoding.",
    401: "Send a key of this server: 'Authorization: Bearer KEY'.",
    403: "This key may not do that.",
    404: "There is nothing at this address; /openapi.json lists the routes.",
    405: "This address does not take this method; /openapi.json lists the routes.",
    409: "This exists already.",
    413: "The request is larger than this address takes: 256 KiB, or a file as a form's part.",
    415: "This address does not take this kind of body; /openapi.json lists the routes.",
    422: "The input is wrong; the detail says what to fix.",
    500: "Something went wrong in the server; its log has the details under this id.",
    503: "Too many requests are waiting; try again in a moment.",
    507: "The server's disk is full or cannot be written; nothing was kept. Tell its operator.",
}
"""The default detail of each status."""

REASONS = {400: "host", 401: "key", 403: "origin", 413: "size", 415: "kind", 503: "queue"}
"""Labels in the metrics for requests refused by their headers or while their body arrives."""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})
"""No space left, quota used up, file system read-only, file too large."""

UNKNOWN = "extra_forbidden"  # pydantic's name for a field that a model does not have
RETRY = {"Retry-After": "2"}
NO_AUDIT = "The audit log cannot be written; see the server's disk."
HELD = "Another process is writing the index; try again in a moment."


class Refusal(Exception):  # noqa: N818 - an answer rather than an error
    """A problem; its detail is by default that of the status, and quotes nothing that was sent."""

    def __init__(
        self, status: int, detail: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers or (RETRY if status == 503 else None)

    def answer(self, request_id: str) -> JSONResponse:
        return problem_response(request_id, self.status, self.detail, headers=self.headers)


class Fault(BaseModel):
    """What is wrong with one field.

    Args:
        field: The field.
        message: What is wrong.
    """

    field: str
    message: str


class Problem(BaseModel):
    """An error.

    Args:
        type: Kind of problem; always ``about:blank``, as the status says enough.
        title: The status in words.
        status: The HTTP status.
        detail: What is wrong and what to do.
        instance: Id of this occurrence, as in the server's log.
        errors: The wrong fields, if the form does not fit.
    """

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    instance: str
    errors: list[Fault] | None = None


def problem_response(
    request_id: str,
    status: int,
    detail: str | None = None,
    *,
    errors: Sequence[Fault] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """An error as the caller sees it; its detail is by default that of the status."""
    phrase = "Unprocessable Content" if status == 422 else HTTPStatus(status).phrase
    problem = Problem(
        title=phrase,
        status=status,
        detail=detail or DETAILS.get(status, phrase),
        instance=f"urn:uuid:{request_id}",
        errors=list(errors) if errors else None,
    )
    return JSONResponse(
        problem.model_dump(exclude_none=True), status, headers, media_type=PROBLEM_TYPE
    )


def log_failure(request_id: str, error: BaseException) -> None:
    """Log where an unexpected error arose; its message may quote a report or file."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    _log.error("%s in request %s\n%s", type(error).__name__, request_id, frames.rstrip())


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def disk_fault(error: BaseException) -> str | None:
    """What is wrong with the disk, if that caused an error: its file and the system's message."""
    for cause in _chain(error):
        if isinstance(cause, OSError) and cause.errno in FULL:
            return f"{cause.filename}: {cause.strerror}" if cause.filename else cause.strerror
        if isinstance(cause, sqlite3.Error) and kind_of(cause) is DiskError:
            return str(cause)
        if isinstance(cause, DiskError):
            return str(cause)
    return None


async def _on_error(request: Request, error: Exception) -> JSONResponse:
    respond = partial(problem_response, request.scope[REQUEST_ID])
    metrics: Metrics = request.app.state.metrics
    full = disk_fault(error)
    match error:
        case RequestValidationError():
            # Cut a location after the field's name: the rest can be the caller's own words, and so
            # can the name of an unknown field.
            faults = [
                Fault(
                    field="-"
                    if fault["type"] == UNKNOWN
                    else ".".join(map(str, fault["loc"][1:2])),
                    message="there is no such field" if fault["type"] == UNKNOWN else fault["msg"],
                )
                for fault in error.errors()
            ]
            return respond(422, "Some fields do not fit; see errors.", errors=faults)
        case HTTPException(status_code=status) if status != 400 or not full:
            if status in (413, 503):
                metrics.rejected.labels(REASONS[status]).inc()
            return respond(status, headers=error.headers)
        case Refusal(status=status):
            if status == 401:
                metrics.rejected.labels("key").inc()
            return error.answer(request.scope[REQUEST_ID])
        case NotReady():
            return respond(503, str(error), headers=RETRY)
        case Busy():
            metrics.rejected.labels("queue").inc()
            return respond(503, headers=RETRY)
        case NotFoundError():
            return respond(404, str(error))
        case UnavailableError():
            return respond(503, str(error))
        case ImageError():
            return respond(422, str(error))
    if type(error) is InputError:
        return respond(422, str(error))
    locked = isinstance(error, sqlite3.Error) and kind_of(error) is HeldError and not full
    if locked or isinstance(error, HeldError):
        metrics.rejected.labels("held").inc()
        return respond(503, HELD, headers=RETRY)
    if full:  # also while a body is parsed, as it lies on a disk
        _log.error(
            "cannot write, in request %s: %s; make room on the disk, or fix it",
            request.scope[REQUEST_ID],
            full,
        )
        metrics.errors.labels("disk").inc()
        return respond(507)
    # The error's message may name files of the server.
    log_failure(request.scope[REQUEST_ID], error)
    metrics.errors.labels(type(error).__name__).inc()
    return respond(500)


def add_problem_handlers(app: FastAPI) -> None:
    for kind in (
        *(HTTPException, RequestValidationError, CxrTextError, OSError, sqlite3.Error),
        *(Busy, NotReady, Refusal),
    ):
        app.add_exception_handler(kind, _on_error)
