"""Which requests are let in, decided by their heads before any of their bodies is read."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.types import Scope

from cxrtext.hosts import Host, is_among, known_host, parse_host
from cxrtext_api.gate.keys import ADMIN, CALLER, MARK, METRICS, READ, WRITE, KeyRing
from cxrtext_api.settings import Settings

OPEN_PATHS = frozenset({"/", "/docs", "/openapi.json", "/healthz", "/readyz"})

OPEN_PREFIX = "/web/"  # addresses that want no key: nothing under them is about a patient
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")

MAX_TEXT_BYTES = 2**18
"""Of a body without a file.  It is parsed on the event loop, which takes a second for a megabyte:
of nothing but ampersands, or of lists in lists."""

MAX_HEADERS = 100
MAX_HEADER_BYTES = 16 * 1024
MAX_BUCKETS = 10_000  # keys remembered at a time; the one unheard of for longest is forgotten first
CLOSE = {"Connection": "close"}
PORTS = {"http": 80, "https": 443}

FROM_HERE = frozenset({"same-origin", "none"})
"""What a browser says of requests by this server's own page, and by its user."""

CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a request is turned away, with one word for the metrics."""

    status: int
    reason: str
    detail: str | None = None  # by default what the status means here
    headers: Mapping[str, str] = field(default_factory=dict)
    drain: bool = False  # read on a little, so that a proxy that still sends sees the answer


class Origin(NamedTuple):
    scheme: str
    name: str
    port: int


class RateLimit:
    """Lets each key ask so often a minute (0: any number), in bursts of a quarter of that."""

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_minute / 60
        self._burst = max(1.0, per_minute / 4)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, key_id: str) -> int:
        """Take a token of a key; gives 0, or the whole seconds until there is one."""
        if not self._rate:
            return 0
        now = self._clock()
        tokens, then = self._buckets.pop(key_id, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._rate)
        allowed = tokens >= 1
        self._buckets[key_id] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return 0 if allowed else max(1, math.ceil((1 - tokens) / self._rate - 1e-6))


class Admission:
    """Checks host, origin, key, scope, rate, size and kind, in this order."""

    def __init__(
        self, settings: Settings, keys: KeyRing, taking_files: Collection[str] = ()
    ) -> None:
        self._settings = settings
        self._keys = keys
        self._taking_files = taking_files  # addresses
        self._rate = RateLimit(settings.rate_limit)
        self._others = {parse_origin(origin) for origin in settings.cors_origins}

    def max_bytes(self, scope: Scope) -> int:
        if scope["path"] in self._taking_files and _content_type(Headers(scope=scope)) == FORMS[0]:
            return self._settings.max_body_bytes
        return min(MAX_TEXT_BYTES, self._settings.max_body_bytes)

    def refuse_question(self, scope: Scope) -> Denial | None:
        """Why a request with a good head is not let in; if it is, its scope gets the caller."""
        headers = Headers(scope=scope)
        return self._refuse_caller(scope, headers) or self._refuse_body(scope, headers)

    def refuse_head(self, scope: Scope) -> Denial | None:
        headers = Headers(scope=scope)
        size = sum(len(name) + len(value) for name, value in headers.raw)
        if len(headers.raw) > MAX_HEADERS or size > MAX_HEADER_BYTES:
            return Denial(431, "headers", headers=CLOSE)
        if "content-length" in headers and "transfer-encoding" in headers:
            # Two servers in a row may disagree on where such a request ends.
            return Denial(400, "headers", headers=CLOSE)
        host = known_host(headers.getlist("host"), self._settings.names)
        if host is None:
            return Denial(
                400, "host", "This server is not known by that host name; see trusted hosts."
            )
        if self._is_from_elsewhere(scope["path"], headers, host):
            return Denial(403, "origin", "Requests from other sites are refused.")
        return None

    def _is_from_elsewhere(self, path: str, headers: Headers, host: Host) -> bool:
        """Whether a page of another site asks, as far as its browser says it."""
        origins = headers.getlist("origin")
        if len(origins) > 1:
            return True
        origin = parse_origin(origins[0]) if origins else None
        if origin is not None and origin in self._others:
            return False
        if origins and origin not in self._served_as(host):
            return True
        # A link on another site may lead to the page, and an image of another site to nothing.
        return not _is_open(path) and headers.get("sec-fetch-site", "same-origin") not in FROM_HERE

    def _served_as(self, host: Host) -> set[Origin]:
        """The origins of our pages at a host; at a trusted one a proxy may speak TLS for us."""
        kinds = ["http"]
        if is_among(host.name, self._settings.trusted_names):
            kinds.append("https")
        return {
            Origin(kind, host.name, PORTS[kind] if host.port is None else host.port)
            for kind in kinds
        }

    def _refuse_caller(self, scope: Scope, headers: Headers) -> Denial | None:
        path = scope["path"]
        if _is_open(path):
            return None
        scheme, _, key = headers.get("authorization", "").partition(" ")
        caller = self._keys.find(key.strip() if scheme.lower() == "bearer" else None)
        if caller is None:
            return Denial(401, "key", headers={"WWW-Authenticate": "Bearer"})
        scope[CALLER] = caller
        wanted = scopes_for(scope["method"], path)
        if not any(every <= caller.scopes for every in wanted):
            named = " or ".join(" and ".join(sorted(every)) for every in wanted)
            return Denial(403, "scope", f"This key lacks the scope for that: {named}.")
        seconds = self._rate.wait(caller.key_id) if self._keys.guarded else 0
        return Denial(429, "rate", headers={"Retry-After": str(seconds)}) if seconds else None

    def _refuse_body(self, scope: Scope, headers: Headers) -> Denial | None:
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self.max_bytes(scope):
            return Denial(413, "size", headers=CLOSE, drain=True)
        has_body = length != "0" or "transfer-encoding" in headers
        kind = _content_type(headers)
        # A kind that is named is looked at even where nothing follows.
        if scope["method"] not in CHANGING or not (
            has_body or (scope["method"] == "POST" and kind)
        ):
            return None
        if headers.get("content-encoding", "identity").lower() != "identity":
            return Denial(415, "kind", "Send the body as it is, not compressed.", drain=True)
        if kind not in FORMS:
            return Denial(415, "kind", f"This address takes {' or '.join(FORMS)}.", drain=True)
        return None


def scopes_for(method: str, path: str) -> tuple[frozenset[str], ...]:
    """Sets of scopes; a key that has all of any one of them is let in."""
    if path == "/metrics":
        return frozenset({READ}), frozenset({METRICS})
    under_images = path == "/v1/images" or path.startswith("/v1/images/")
    if under_images and method not in ("GET", "HEAD", "OPTIONS"):
        return (frozenset({WRITE}),)
    if path == "/v1/held":
        return (frozenset({ADMIN, READ}),)  # it names patients
    if path == "/v1/marks" and method == "POST":
        return (frozenset({MARK, READ}),)  # the answer shows whose image it is
    return (frozenset({READ}),)


def parse_origin(value: str) -> Origin | None:
    """An origin such as ``https://viewer.example.org``, with its port; None for what is none."""
    scheme, separator, rest = value.partition("://")
    host = parse_host(rest)
    if not separator or scheme.lower() not in PORTS or host is None:
        return None
    port = PORTS[scheme.lower()] if host.port is None else host.port
    return Origin(scheme.lower(), host.name, port)


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIX)


def _content_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()
