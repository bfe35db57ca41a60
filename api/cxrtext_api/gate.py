"""What every request passes first and every response last, whatever happens in between."""

import logging
import time
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cxrtext_api.keys import is_known
from cxrtext_api.problems import REQUEST_ID, log_failure, problem_response
from cxrtext_api.settings import Settings

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

OPEN_PATHS = frozenset({"/", "/docs", "/openapi.json", "/healthz", "/readyz"})
OPEN_PREFIX = "/web/"
"""Addresses that want no key: nothing under them is about a patient."""

_access = logging.getLogger("cxrtext_api.access")


class Gate:
    """Checks host, origin, key and size of a request before any of its body is read.

    It also gives each request an id, adds the security headers to each response, and turns an
    unforeseen error into a problem document.

    Args:
        app: The application behind it.
        settings: The server's settings.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[REQUEST_ID] = request_id = str(uuid.uuid4())
        begun, status = time.monotonic(), 0

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(message, scope["path"], request_id)
            await send(message)

        refusal = self._refusal(scope, request_id)
        try:
            if refusal is not None:
                await refusal(scope, receive, send_guarded)
            else:
                await self._app(scope, self._limited(receive), send_guarded)
        except Exception as error:
            log_failure(request_id, error)
            if status:
                raise
            await problem_response(request_id, 500)(scope, receive, send_guarded)
        finally:
            _log_access(scope, status, time.monotonic() - begun)

    def _refusal(self, scope: Scope, request_id: str) -> Response | None:
        """The answer to a request that is not let in."""
        headers = Headers(scope=scope)
        if not self._is_trusted(_host(headers.get("host", ""))):
            return problem_response(
                request_id, 400, "This server is not known by that host name; see trusted hosts."
            )
        origin = headers.get("origin")
        if origin is not None and not self._is_trusted(_host(origin.rpartition("//")[2])):
            return problem_response(request_id, 403, "Requests from other sites are refused.")
        if self._settings.keys and not self._is_authorised(scope["path"], headers):
            return problem_response(request_id, 401, headers={"WWW-Authenticate": "Bearer"})
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self._settings.max_body_bytes:
            return problem_response(request_id, 413, headers={"Connection": "close"})
        return None

    def _is_trusted(self, host: str) -> bool:
        return any(
            host == name or (name.startswith("*.") and host.endswith(name[1:]))
            for name in self._settings.names
        )

    def _is_authorised(self, path: str, headers: Headers) -> bool:
        if path in OPEN_PATHS or path.startswith(OPEN_PREFIX):
            return True
        scheme, _, key = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and is_known(key.strip(), self._settings.keys)

    def _limited(self, receive: Receive) -> Receive:
        """Count what is received, for a request that does not say its length."""
        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._settings.max_body_bytes:
                raise HTTPException(413)
            return message

        return receive_limited


def _host(value: str) -> str:
    """The name in ``name:port`` or ``[address]:port``, in lower case."""
    if value.startswith("["):
        return value[1:].partition("]")[0].lower()
    return value.partition(":")[0].lower()


def _add_headers(message: Message, path: str, request_id: str) -> None:
    headers = MutableHeaders(scope=message)
    headers.update(SECURITY_HEADERS)
    headers["X-Request-ID"] = request_id
    # Answers about patients stay out of the browser's cache on disk.
    headers["Cache-Control"] = "no-store" if path.startswith("/v1/") else "no-cache"


def _log_access(scope: Scope, status: int, seconds: float) -> None:
    """One line a request: the route's pattern rather than the address, which can name a patient."""
    route = getattr(scope.get("route"), "path", "-")
    _access.info("%s %s %d %.0f ms", scope["method"], route, status, 1000 * seconds)
