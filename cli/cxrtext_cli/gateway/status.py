"""The state of a gateway: one health answer and one set of metrics for all its parts."""

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from cxrtext.hosts import is_known_host, names_of
from cxrtext.pacs.gateway.file import Gateway
from cxrtext.pacs.gateway.numbers import CONTENT_TYPE, GatewayMetrics
from cxrtext.pacs.ports import Served

ASK_S = 5.0


@dataclass
class Part:
    name: str
    up: bool = False
    started: float = 0.0  # on the monotonic clock
    restarts: int = 0
    said: str = ""  # its last line


def health(parts: Mapping[str, Part]) -> dict[str, Any]:
    """Whether every part is up; for each its time up, its restarts and its last line."""
    now = time.monotonic()
    states = {
        name: {
            "up": part.up,
            "for_s": round(now - part.started) if part.up else 0,
            "restarts": part.restarts,
            "said": part.said,
        }
        for name, part in sorted(parts.items())
    }
    return {"healthy": all(state["up"] for state in states.values()), "parts": states}


class StatusServer(Served):
    """``/healthz`` and ``/metrics`` of a gateway, on the port in its file."""

    def __init__(self, gateway: Gateway, parts: Mapping[str, Part]) -> None:
        measured, lock = GatewayMetrics(), threading.Lock()
        place = gateway.status
        names = names_of(place.host, place.trusted_hosts)
        login = place.login.get("Authorization", "").encode()

        class Handler(BaseHTTPRequestHandler):
            timeout = ASK_S

            def do_GET(self) -> None:
                if not is_known_host(self.headers.get_all("Host", []), names):
                    self._answer(400, "text/plain", b"this server has no such host name\n")
                    return
                given = self.headers.get("Authorization", "").encode("utf-8", "replace")
                if login and not compare_digest(given, login):
                    self._answer(401, "text/plain", b"give the key: Authorization: Bearer KEY\n")
                    return
                state = health(parts)
                if self.path == "/healthz":
                    status = 200 if state["healthy"] else 503
                    self._answer(status, "application/json", json.dumps(state).encode())
                elif self.path == "/metrics":
                    with lock:
                        measured.look(gateway.inbox, gateway.results, state["parts"])
                        page = measured.page()
                    self._answer(200, CONTENT_TYPE, page)
                else:
                    self._answer(404, "text/plain", b"there is /healthz and /metrics\n")

            def _answer(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Do not log requests."""

        super().__init__(
            (place.host, place.port), lambda address: ThreadingHTTPServer(address, Handler)
        )
        self.address = f"http://{place.host}:{self.port}"


def ask(gateway: Gateway) -> dict[str, Any] | None:
    """What a running gateway says about its parts, or None if none answers."""
    place = gateway.status
    with suppress(URLError, OSError, ValueError):
        try:
            url = f"http://{place.host}:{place.port}/healthz"
            answer = urlopen(Request(url, headers=place.login), timeout=ASK_S)
        except HTTPError as error:  # a part is down
            answer = error
        with answer:
            state: dict[str, Any] = json.load(answer)
            return state
    return None
