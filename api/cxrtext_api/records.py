"""What is kept of a request: a line for operators, a line of the audit log, and numbers."""

import logging
import time
from dataclasses import dataclass
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.types import Message, Scope

from cxrtext_api.audit import AuditLog, add_subjects, subjects_of
from cxrtext_api.bodies import Body
from cxrtext_api.keys import CALLER, Caller
from cxrtext_api.metrics import METHODS, Metrics
from cxrtext_api.problems import REQUEST_ID

IMAGES = "/v1/images/"
EXPORTED = "cxrtext.exported"
"""Key of the number of images that an export has given, in the ASGI scope."""

_access = logging.getLogger("cxrtext_api.access")


@dataclass(slots=True)
class Served:
    """What became of a request.

    Args:
        begun: When it came, in monotonic seconds.
        status: Of the answer; 0 where the caller left before there was one.
        location: Address of what it made.
        body: What it sent.
    """

    begun: float
    status: int = 0
    location: str = ""
    body: Body | None = None

    def note(self, message: Message) -> None:
        """Remember how an answer begins."""
        self.status = message["status"]
        if self.status == 201:
            self.location = Headers(raw=message["headers"]).get("location", "")


def route_of(scope: Scope) -> str:
    """A route's pattern, rather than the address, which can name a patient."""
    path: str = getattr(scope.get("route"), "path", "-")
    return path


def method_of(scope: Scope) -> str:
    """A request's method, if it is one of HTTP's; a caller may send any word."""
    return scope["method"] if scope["method"] in METHODS else "other"


def write_records(scope: Scope, served: Served, metrics: Metrics, audit: AuditLog) -> None:
    """Keep what is kept of a request.

    Args:
        scope: Of the request.
        served: What became of it.
        metrics: Where it is counted.
        audit: Where it is written about whom it was.
    """
    seconds = time.monotonic() - served.begun
    route = route_of(scope)
    method = method_of(scope)
    caller: Caller | None = scope.get(CALLER)
    who = caller.key_id if caller else None
    metrics.observe_request(method, route, served.status, seconds)
    fields = {
        "request_id": scope[REQUEST_ID],
        "method": method,
        "route": route,
        "status": served.status,
        "duration_ms": round(1000 * seconds, 1),
        "request_bytes": served.body.received if served.body else 0,
        "key_id": who,
    }
    _access.info("%s %s %d %.0f ms", method, route, served.status, 1000 * seconds, extra=fields)
    # A caller without a good key is in the line above alone, lest it fill the disk.
    if caller is not None and scope["path"].startswith("/v1/"):
        subjects = {name: list(ids) for name, ids in subjects_of(scope).items()}
        if served.location.startswith(IMAGES):
            add_subjects(subjects, "image_id", [unquote(served.location.removeprefix(IMAGES))])
        exported = {"exported": scope[EXPORTED]} if EXPORTED in scope else {}
        audit.write(
            **exported,
            who=who,
            method=method,
            route=route,
            status=served.status,
            request_id=scope[REQUEST_ID],
            **subjects,
        )
