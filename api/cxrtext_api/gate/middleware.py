"""What every request passes first and every response last, whatever happens in between."""

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Collection
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cxrtext_api.gate.admission import CLOSE, MAX_TEXT_BYTES, Admission, Denial
from cxrtext_api.gate.keys import CALLER, Caller, KeyRing
from cxrtext_api.observe.audit import DECISION, EXPORTED, SUBJECTS, AuditLog, add_subjects
from cxrtext_api.observe.metrics import METHODS, Metrics
from cxrtext_api.problems import REQUEST_ID, RETRY, log_failure, problem_response
from cxrtext_api.runtime.scope import REQUEST_SCOPE, TIME_LIMIT, Budget, RequestScope
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

SHARED_HEADERS = (
    "Content-Disposition",
    "Location",
    "Retry-After",
    "X-Request-ID",
    "X-Total",
    "X-Viewing",
)
"""Headers that a page of another site may read, where such are let in."""

ALWAYS_ANSWERED = frozenset({"/healthz", "/readyz", "/metrics"})
"""Addresses that answer however much the server has to do."""

BODIES_HELD = 4
"""Files of the largest size that may lie in memory and on disk at a time, whole or half sent."""

PACE_BYTES, PACE_SECONDS = 2**16, 10.0
"""How much of a body that is not whole is to arrive in how long, that none is held for nothing."""

DRAIN_BYTES = 2**23

DRAIN_SECONDS = 3.0
"""How far a body that is not wanted is read on, so that a proxy that sends it sees the answer."""

IMAGES = "/v1/images/"
TOO_LATE = "The answer took too long; try again in a moment, or ask for less."

_access = logging.getLogger("cxrtext_api.access")


class Gate:
    """Lets requests in, within limits, and records what became of them.

    It also gives each request an id, adds the security headers to each response, and turns an
    unforeseen error into a problem document.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        keys: KeyRing,
        metrics: Metrics,
        audit: AuditLog,
        taking_files: Collection[str],
        held: Budget,
    ) -> None:
        self._app = app
        self._settings = settings
        self._keys = keys
        self._admission = Admission(settings, keys, taking_files)
        self._held = held
        self._metrics = metrics
        self._audit = audit
        self._inside = 0
        self._question: ASGIApp = self._answer_question
        if settings.cors_origins:  # it answers preflights by itself, which bring no key yet
            self._question = CORSMiddleware(
                self._answer_question,
                allow_origins=settings.cors_origins,
                allow_methods=("GET", "HEAD", "POST", "DELETE"),
                allow_headers=("Authorization", "Content-Type", "Accept"),
                expose_headers=SHARED_HEADERS,
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[REQUEST_ID] = str(uuid.uuid4())
        most = self._admission.max_bytes(scope)
        # Texts are bounded by how many requests may be inside; no file keeps them out.
        held = self._held if most > MAX_TEXT_BYTES else Budget(most)
        served = Served(receive, most, self._settings.body_seconds, held)
        scope[_SERVED] = served

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message, scope)
                served.note(message)
                served.give_back()
                _give_back(scope)
            await send(message)

        self._inside += 1
        self._metrics.under_way.set(self._inside)
        try:
            denial = self._admission.refuse_head(scope)
            if denial is None:
                await self._question(scope, served.receive, send_guarded)
            else:
                await self._turn_away(denial, scope, receive, send_guarded)
        finally:
            served.give_back()
            self._inside -= 1
            self._metrics.under_way.set(self._inside)
            if self._settings.audit_log is None:
                self._record(scope, served)
            else:  # a file is written on a thread of its own
                await asyncio.to_thread(self._record, scope, served)

    async def _answer_question(self, scope: Scope, receive: Receive, send: Send) -> None:
        served: Served = scope[_SERVED]
        # The work has a time limit of its own; this one is for whatever else may hang.
        seconds = self._settings.body_seconds + self._settings.request_seconds
        limit: asyncio.Timeout | None = None
        try:
            denial = await self._refuse(scope)
            if denial is not None:
                await self._turn_away(denial, scope, served.raw_receive, send)
                return
            async with asyncio.timeout(seconds) as limit:
                scope[TIME_LIMIT] = limit
                await self._ask(scope, receive, send)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            if isinstance(error, TimeoutError) and limit is not None and limit.expired():
                self._metrics.rejected.labels("time").inc()
                answer = problem_response(scope[REQUEST_ID], 503, TOO_LATE, headers=RETRY)
            else:
                self._metrics.errors.labels(type(error).__name__).inc()
                log_failure(scope[REQUEST_ID], error)
                answer = problem_response(scope[REQUEST_ID], 500)
            if not served.status:
                await answer(scope, receive, send)

    async def _ask(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask the application; HEAD is answered as GET, without the body."""
        if scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        asked = {**scope, "method": "GET"}
        try:
            await self._app(asked, receive, send_head)
        finally:
            _give_back(asked)
            scope.update({**asked, "method": "HEAD"})  # what is noted in it is kept

    async def _refuse(self, scope: Scope) -> Denial | None:
        if self._keys.is_due:
            await asyncio.to_thread(self._keys.refresh)
        denial = self._admission.refuse_question(scope)
        if denial is not None or scope["path"] in ALWAYS_ANSWERED:
            return denial
        if self._inside > self._settings.concurrency:
            return Denial(503, "concurrency", headers=RETRY, drain=True)
        fails = scope["path"].startswith("/v1/") and self._audit.failed
        if fails and not await asyncio.to_thread(self._audit.works):
            return Denial(
                503, "audit", "The audit log cannot be written; see the server's disk.", RETRY, True
            )
        return None

    async def _turn_away(self, denial: Denial, scope: Scope, receive: Receive, send: Send) -> None:
        self._metrics.rejected.labels(denial.reason).inc()
        answer = problem_response(
            scope[REQUEST_ID], denial.status, denial.detail, headers=denial.headers
        )
        if denial.drain:
            await answer_and_drain(answer, scope, receive, send)
        else:
            await answer(scope, receive, send)

    def _record(self, scope: Scope, served: "Served") -> None:
        """Keep what is kept of a request: a line for operators, one of the audit log, numbers."""
        seconds = time.monotonic() - served.begun
        # A route's pattern, rather than the address, which can name a patient; a method of HTTP's,
        # rather than any word that a caller may send.
        route = getattr(scope.get("route"), "path", "-")
        method = scope["method"] if scope["method"] in METHODS else "other"
        caller: Caller | None = scope.get(CALLER)
        self._metrics.requests.labels(method, route, str(served.status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        fields = {
            "request_id": scope[REQUEST_ID],
            "method": method,
            "route": route,
            "status": served.status,
            "duration_ms": round(1000 * seconds, 1),
            "request_bytes": served.received,
            "key_id": caller.key_id if caller else None,
        }
        _access.info("%s %s %d %.0f ms", method, route, served.status, 1000 * seconds, extra=fields)
        # A caller without a good key is in the line above alone, lest it fill the disk.
        if caller is None or not scope["path"].startswith("/v1/"):
            return
        subjects = {name: list(ids) for name, ids in scope.get(SUBJECTS, {}).items()}
        if served.location.startswith(IMAGES):
            add_subjects(subjects, "image_id", [unquote(served.location.removeprefix(IMAGES))])
        self._audit.write(
            **({"exported": scope[EXPORTED]} if EXPORTED in scope else {}),
            **scope.get(DECISION, {}),
            who=caller.key_id,
            method=method,
            route=route,
            status=served.status,
            request_id=scope[REQUEST_ID],
            **subjects,
        )


_SERVED = "cxrtext_api.served"


class Served:
    """What is received of a request, counted and timed, and what became of it.

    ``received`` bytes may be up to ``max_bytes``, and be waited for up to ``seconds``, which the
    server's own work on them is not counted in; what is held of all requests together may be up to
    a budget, from the first byte on.
    """

    def __init__(self, receive: Receive, max_bytes: int, seconds: float, held: Budget) -> None:
        self.raw_receive = receive
        self._max_bytes = max_bytes
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._held, self._holds = held, 0
        self._whole = False
        self.received = self._paced = 0
        self._patience = PACE_SECONDS
        self.begun = time.monotonic()
        self.status = 0  # while there is no answer, or where the caller left before
        self.location = ""  # address of what it made

    async def receive(self) -> Message:
        """The next part of the body, or that the caller has gone; after an answer only that."""
        if self._whole or self.status:
            return await self.raw_receive()
        begun = self._loop.time()
        try:
            async with asyncio.timeout(min(self._seconds, self._patience)):
                message = await self.raw_receive()
        except TimeoutError:
            raise HTTPException(408, headers=CLOSE) from None
        waited = self._loop.time() - begun
        self._seconds -= waited
        self._patience -= waited
        size = len(message.get("body", b""))
        self.received += size
        self._whole = not message.get("more_body", False)
        if self.received > self._max_bytes:
            raise HTTPException(413, headers=CLOSE)
        if not self._held.take(size):
            raise HTTPException(503, headers={**RETRY, **CLOSE})
        self._holds += size
        if self.received - self._paced >= PACE_BYTES:
            self._paced, self._patience = self.received, PACE_SECONDS
        return message

    def give_back(self) -> None:
        self._held.give(self._holds)
        self._holds = 0

    def note(self, message: Message) -> None:
        self.status = message["status"]
        if self.status == 201:
            self.location = Headers(raw=message["headers"]).get("location", "")


async def answer_and_drain(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send an answer at once, then read what still comes, up to a bound, before closing.

    A connection that is closed while data lies unread is reset, and the caller, or a proxy before
    it, may never see the answer.
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


def _give_back(scope: Scope) -> None:
    """Give back what a request holds: its work is done, and its caller may read slowly."""
    request: RequestScope | None = scope.get(REQUEST_SCOPE)
    if request is not None:
        request.begin_answer()


def _add_headers(message: Message, scope: Scope) -> None:
    headers = MutableHeaders(scope=message)
    headers.update(SECURITY_HEADERS)
    headers["X-Request-ID"] = scope[REQUEST_ID]
    # Answers about patients stay out of the browser's cache on disk.
    private = scope["path"].startswith("/v1/") or scope["path"] == "/metrics"
    headers["Cache-Control"] = "no-store" if private else "no-cache"
