"""The door that every request passes first and every response last.

A proxy limits rates, slow senders and the sizes of headers: see ``docker/nginx``.
"""

import asyncio
import contextlib
import logging
import time
import uuid
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cxrtext.hosts import is_known_host
from cxrtext_api.gate.keys import CALLER, Caller
from cxrtext_api.observe.audit import DECISION, EXPORTED, SUBJECTS, AuditLog, add_subjects
from cxrtext_api.observe.metrics import METHODS, Metrics
from cxrtext_api.problems import REASONS, REQUEST_ID, RETRY, Refusal, log_failure, problem_response
from cxrtext_api.runtime.scope import Budget
from cxrtext_api.settings import Settings

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

OPEN_PATHS = frozenset({"/", "/openapi.json", "/healthz", "/readyz"})
OPEN_PREFIX = "/web/"  # nothing under it is about a patient
ALWAYS_ANSWERED = frozenset({"/healthz", "/readyz", "/metrics"})
"""Addresses that answer even when the server is busy."""

FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})

MAX_TEXT_BYTES = 2**18
"""For a body without a file.  It is parsed on the event loop; a megabyte of ampersands or of nested
lists takes a second."""

BODIES_HELD = 4
"""How many files of the largest size may be in memory and on disk at once, whole or in part."""

DRAIN_BYTES, DRAIN_SECONDS = 2**23, 3.0
"""How much of a refused body to read, so that its sender sees the answer."""

FROM_HERE = frozenset({"same-origin", "none"})
"""The ``Sec-Fetch-Site`` of requests by this server's own page, and by its user."""

CLOSE = {"Connection": "close"}
IMAGES = "/v1/images/"
_access = logging.getLogger("cxrtext_api.access")


class Door:
    """Lets requests in, within limits, and records their outcome.

    It also gives each request an id, adds security headers to each response, and turns an
    unexpected error into a problem document.
    """

    def __init__(
        self, app: ASGIApp, settings: Settings, metrics: Metrics, audit: AuditLog, held: Budget
    ) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._audit = audit
        self._held = held
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[REQUEST_ID] = str(uuid.uuid4())
        headers = Headers(scope=scope)
        most = self._settings.max_body_bytes
        if content_type(headers) != FORMS[0]:
            most = min(MAX_TEXT_BYTES, most)
        # Texts are limited by the number of requests inside; large files do not keep them out.
        body = Body(receive, most, self._held if most > MAX_TEXT_BYTES else Budget(most))

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message, scope)
                body.note(message)
                body.give_back()
            await send(message)

        self._inside += 1
        self._metrics.under_way.set(self._inside)
        try:
            self.refuse(scope["path"], headers)
            self._refuse_body(scope, headers, most)
            await self._app(scope, body.receive, send_guarded)
        except Refusal as refusal:
            self._metrics.rejected.labels(REASONS[refusal.status]).inc()
            answer = refusal.answer(scope[REQUEST_ID])
            await answer_and_drain(answer, scope, receive, send_guarded)
        except ClientDisconnect:
            pass
        except Exception as error:  # noqa: BLE001 - the caller always gets an answer
            self._metrics.errors.labels(type(error).__name__).inc()
            log_failure(scope[REQUEST_ID], error)
            if not body.status:
                await problem_response(scope[REQUEST_ID], 500)(scope, receive, send_guarded)
        finally:
            body.give_back()
            self._inside -= 1
            self._metrics.under_way.set(self._inside)
            if self._settings.audit_log is None:
                self._record(scope, body)
            else:  # writing a file takes another thread
                await asyncio.to_thread(self._record, scope, body)

    def refuse(self, path: str, headers: Headers) -> None:
        """Refuse a request that is not meant for us or comes from another site (Refusal)."""
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy and this server may disagree on where such a request ends.
            raise Refusal(400, headers=CLOSE)
        if not is_known_host(headers.getlist("host"), self._settings.names):
            raise Refusal(400, "This server does not have that host name; see trusted hosts.")
        if is_from_elsewhere(path, headers):
            raise Refusal(403, "Requests from other sites are refused.")

    def _refuse_body(self, scope: Scope, headers: Headers, most: int) -> None:
        """Refuse a body by its headers, and a request if the server is full (Refusal)."""
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > most:
            raise Refusal(413, headers=CLOSE)
        has_body = length != "0" or "transfer-encoding" in headers
        kind = content_type(headers)
        # If a POST names a kind, check it even without a body.
        if scope["method"] in CHANGING and (has_body or (scope["method"] == "POST" and kind)):
            if headers.get("content-encoding", "identity").lower() != "identity":
                raise Refusal(415, "Send the body uncompressed.")
            if kind not in FORMS:
                raise Refusal(415, f"This address takes {' or '.join(FORMS)}.")
        is_too_much = self._inside > self._settings.concurrency
        if is_too_much and scope["path"] not in ALWAYS_ANSWERED:
            raise Refusal(503, headers=RETRY)

    def _record(self, scope: Scope, body: "Body") -> None:
        """Record a request: a line for operators, one in the audit log, and metrics."""
        seconds = time.monotonic() - body.begun
        # The route's pattern, as the address can name a patient; only HTTP's own methods, as a
        # caller may send any word.
        route = getattr(scope.get("route"), "path", "-")
        method = scope["method"] if scope["method"] in METHODS else "other"
        caller: Caller | None = scope.get(CALLER)
        self._metrics.requests.labels(method, route, str(body.status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        fields = {
            "request_id": scope[REQUEST_ID],
            "method": method,
            "route": route,
            "status": body.status,
            "duration_ms": round(1000 * seconds, 1),
            "request_bytes": body.received,
            "key_id": caller.key_id if caller else None,
        }
        _access.info("%s %s %d %.0f ms", method, route, body.status, 1000 * seconds, extra=fields)
        # A caller without a valid key gets only the line above, or it could fill the disk.
        if caller is None or not scope["path"].startswith("/v1/"):
            return
        subjects = {name: list(ids) for name, ids in scope.get(SUBJECTS, {}).items()}
        if body.location.startswith(IMAGES):
            add_subjects(subjects, "image_id", [unquote(body.location.removeprefix(IMAGES))])
        self._audit.write(
            **({"exported": scope[EXPORTED]} if EXPORTED in scope else {}),
            **scope.get(DECISION, {}),
            who=caller.key_id,
            method=method,
            route=route,
            status=body.status,
            request_id=scope[REQUEST_ID],
            **subjects,
        )


class Body:
    """Counts what is received of a request, and notes its outcome.

    ``received`` may be at most ``max_bytes``; all requests together may hold at most a budget,
    from the first byte.
    """

    def __init__(self, receive: Receive, max_bytes: int, held: Budget) -> None:
        self._receive = receive
        self.max_bytes = max_bytes
        self._held, self._holds = held, 0
        self._whole = False
        self.received = 0
        self.begun = time.monotonic()
        self.status = 0  # until there is an answer; stays 0 if the caller leaves before
        self.location = ""  # address of what the request made

    async def receive(self) -> Message:
        """The next part of the body, or the message that the caller has gone."""
        message = await self._receive()
        if self._whole or self.status:
            return message
        size = len(message.get("body", b""))
        self.received += size
        self._whole = not message.get("more_body", False)
        if self.received > self.max_bytes:
            raise HTTPException(413, headers=CLOSE)
        if not self._held.take(size):
            raise HTTPException(503, headers={**RETRY, **CLOSE})
        self._holds += size
        return message

    def give_back(self) -> None:
        self._held.give(self._holds)
        self._holds = 0

    def note(self, message: Message) -> None:
        self.status = message["status"]
        if self.status == 201:
            self.location = Headers(raw=message["headers"]).get("location", "")


async def answer_and_drain(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send an answer at once, then read the rest of the request, up to a limit, before closing.

    Closing a connection with unread data resets it, and the caller, or a proxy before us, may never
    see the answer.
    """

    async def send_open(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "more_body": True}
        await send(message)

    await response(scope, receive, send_open)
    drained = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            while drained < DRAIN_BYTES:
                message = await receive()
                drained += len(message.get("body", b""))
                if not message.get("more_body", False):
                    break
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def is_from_elsewhere(path: str, headers: Headers) -> bool:
    """Whether a page of another site asks, if its browser says so."""
    host = headers["host"].lower()
    ours = (f"http://{host}", f"https://{host}")  # a proxy may speak TLS for us
    if any(origin.lower() not in ours for origin in headers.getlist("origin")):
        return True
    # Another site may link to the page, but must not load anything else as an image.
    is_open = path in OPEN_PATHS or path.startswith(OPEN_PREFIX)
    return not is_open and headers.get("sec-fetch-site", "same-origin") not in FROM_HERE


def content_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _add_headers(message: Message, scope: Scope) -> None:
    headers = MutableHeaders(scope=message)
    headers.update(SECURITY_HEADERS)
    headers["X-Request-ID"] = scope[REQUEST_ID]
    # Answers about patients stay out of the browser's cache on disk.
    private = scope["path"].startswith("/v1/") or scope["path"] == "/metrics"
    headers["Cache-Control"] = "no-store" if private else "no-cache"
