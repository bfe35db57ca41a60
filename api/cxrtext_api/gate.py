"""What every request passes first and every response last, whatever happens in between."""

import asyncio
import time
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cxrtext_api.admission import Admission, Refusal
from cxrtext_api.asking import ASKING, Asking
from cxrtext_api.audit import AuditLog
from cxrtext_api.bodies import Body, answer_and_drain
from cxrtext_api.key_ring import KeyRing
from cxrtext_api.metrics import Metrics
from cxrtext_api.problems import REQUEST_ID, RETRY_SECONDS, log_failure, problem_response
from cxrtext_api.records import Served, method_of, route_of, write_records
from cxrtext_api.settings import Settings
from cxrtext_api.tracing import Span, Tracing

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
SHARED_HEADERS = "Content-Disposition, Location, Retry-After, X-Request-ID, X-Total"
"""Headers that a page of another site may read, where such are let in."""

PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Accept",
    "Access-Control-Max-Age": "600",
}
"""What a page of another site that is let in may send."""

TIME_LIMIT = "cxrtext.time_limit"
"""Key of a request's time limit in the ASGI scope; an answer in parts moves it on with each."""

ALWAYS_ANSWERED = frozenset({"/healthz", "/readyz", "/metrics"})
"""Addresses that answer however much the server has to do."""


class Gate:
    """Lets requests in, within limits, and records what became of them.

    It also gives each request an id, adds the security headers to each response, and turns an
    unforeseen error into a problem document.

    Args:
        app: The application behind it.
        settings: The server's settings.
        keys: Who may ask.
        metrics: Where requests are counted.
        audit: Where it is written who asked about whom.
        tracing: Where requests have spans.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        keys: KeyRing,
        metrics: Metrics,
        audit: AuditLog,
        tracing: Tracing,
    ) -> None:
        self._app = app
        self._settings = settings
        self._keys = keys
        self._admission = Admission(settings, keys)
        self._metrics = metrics
        self._audit = audit
        self._tracing = tracing
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[REQUEST_ID] = str(uuid.uuid4())
        served = Served(time.monotonic())
        origin = Headers(scope=scope).get("origin", "")
        shared = origin if self._admission.is_other_site(origin) else ""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message, scope, shared)
                served.note(message)
                _give_back(scope)
            await send(message)

        self._inside += 1
        self._metrics.under_way.set(self._inside)
        with self._tracing.request(method_of(scope)) as span:
            try:
                await self._serve(scope, receive, send_guarded, served)
            finally:
                self._inside -= 1
                self._metrics.under_way.set(self._inside)
                await self._record(scope, served)
                _describe(span, scope, served.status)

    async def _record(self, scope: Scope, served: Served) -> None:
        """Keep what is kept of a request; a file is written on a thread of its own."""
        if self._settings.audit_log is None:
            write_records(scope, served, self._metrics, self._audit)
        else:
            await asyncio.to_thread(write_records, scope, served, self._metrics, self._audit)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, served: Served) -> None:
        request_id = scope[REQUEST_ID]
        body = served.body = Body(
            receive, self._settings.max_body_bytes, self._settings.body_seconds
        )
        # The work has a time limit of its own; this one is for whatever else may hang.
        seconds = self._settings.body_seconds + self._settings.request_seconds
        limit: asyncio.Timeout | None = None
        try:
            if await self._turn_away(scope, receive, send):
                return
            async with asyncio.timeout(seconds) as limit:
                scope[TIME_LIMIT] = limit
                await self._ask(scope, body.receive, send)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            late = isinstance(error, TimeoutError) and limit is not None and limit.expired()
            if late:
                self._metrics.reject("time")
            else:
                self._metrics.count_error(type(error).__name__)
                log_failure(request_id, error)
            if not served.status:
                await _problem(request_id, late)(scope, receive, send)

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

    async def _turn_away(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer a request that is not let in, or asks only whether it would be."""
        if self._keys.is_due:
            await asyncio.to_thread(self._keys.refresh)
        refusal = self._admission.refuse(scope) or await self._refuse_more(scope)
        if refusal is not None:
            self._metrics.reject(refusal.reason)
            answer = problem_response(
                scope[REQUEST_ID], refusal.status, refusal.detail, headers=refusal.headers
            )
            await (answer_and_drain if refusal.drain else _answer)(answer, scope, receive, send)
            return True
        if self._admission.is_preflight(scope):
            await Response(status_code=204, headers=PREFLIGHT)(scope, receive, send)
            return True
        return False

    async def _refuse_more(self, scope: Scope) -> Refusal | None:
        """Why a request that may come in has to wait outside."""
        if scope["path"] in ALWAYS_ANSWERED:
            return None
        wait = {"Retry-After": str(RETRY_SECONDS)}
        if self._inside > self._settings.concurrency:
            return Refusal(503, "concurrency", headers=wait, drain=True)
        fails = scope["path"].startswith("/v1/") and self._audit.failed
        if fails and not await asyncio.to_thread(self._audit.works):
            return Refusal(
                503, "audit", "The audit log cannot be written; see the server's disk.", wait, True
            )
        return None


async def _answer(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    await response(scope, receive, send)


def _give_back(scope: Scope) -> None:
    """Give back what a request holds: its work is done, and its caller may read slowly."""
    asking: Asking | None = scope.get(ASKING)
    if asking is not None:
        asking.begin_answer()


def _problem(request_id: str, late: bool) -> Response:
    if not late:
        return problem_response(request_id, 500)
    return problem_response(
        request_id,
        503,
        "The answer took too long; try again in a moment, or ask for less.",
        headers={"Retry-After": str(RETRY_SECONDS)},
    )


def _add_headers(message: Message, scope: Scope, shared: str) -> None:
    headers = MutableHeaders(scope=message)
    headers.update(SECURITY_HEADERS)
    headers["X-Request-ID"] = scope[REQUEST_ID]
    # Answers about patients stay out of the browser's cache on disk.
    private = scope["path"].startswith("/v1/") or scope["path"] == "/metrics"
    headers["Cache-Control"] = "no-store" if private else "no-cache"
    if shared:
        headers["Access-Control-Allow-Origin"] = shared
        headers["Access-Control-Expose-Headers"] = SHARED_HEADERS
        headers.add_vary_header("Origin")


def _describe(span: Span, scope: Scope, status: int) -> None:
    route = route_of(scope)
    span.update_name(f"{method_of(scope)} {route}")
    span.set_attribute("http.route", route)
    span.set_attribute("http.response.status_code", status)
