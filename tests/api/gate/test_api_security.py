"""Doors that stay shut: other hosts, other sites, slow and large connections; headers."""

import logging
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import uvicorn
from fastapi.testclient import TestClient
from starlette.datastructures import Headers

from cxrtext.service import Service
from cxrtext_api.app import create_app
from cxrtext_api.gate.door import SECURITY_HEADERS, Door
from cxrtext_api.problems import Refusal
from cxrtext_api.runtime.scope import Budget
from cxrtext_api.server.server import MAX_HEAD_BYTES, configured
from cxrtext_api.settings import Settings
from tests.api.conftest import check_problem, serving
from tests.server import running
from tests.waiting import until

SITE = "https://viewer.example.org"


@contextmanager
def served(service: Service, settings: Settings) -> Iterator[int]:
    server = uvicorn.Server(configured(create_app(settings, lambda _: service)))
    with running(server) as address:
        yield int(address.rpartition(":")[2])


def talk(port: int, *pieces: bytes, pause: float = 0.0) -> bytes:
    """What a server answers to raw bytes, until it closes the connection."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=600) as line:
        with suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces:
                line.sendall(piece)
                time.sleep(pause)
        with suppress(ConnectionResetError):
            while part := line.recv(65536):
                answer += part
    return answer


@pytest.fixture(scope="module")
def port(client: TestClient) -> Iterator[int]:
    """A server of small bodies; it never asks its service."""
    settings = Settings(max_body_bytes=4096)
    with served(client.app.state.resources.service, settings) as number:  # type: ignore[attr-defined]
        yield number


ALIVE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
HEAD = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\n"
FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"


def test_a_large_head_is_refused(port: int) -> None:
    long = b"X-Long: " + b"a" * 64 * MAX_HEAD_BYTES + b"\r\n\r\n"
    answer = talk(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", long)
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))


def test_a_large_body_is_answered_before_it_is_sent(port: int) -> None:
    head = HEAD + FORM + b"Content-Length: 5000000\r\n\r\n"
    answer = talk(port, head, *[bytes(100_000)] * 50)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"larger than this address takes" in answer
    endless = HEAD + FORM + b"Transfer-Encoding: chunked\r\n\r\n"
    answer = talk(port, endless, *[b"400\r\n" + bytes(1024) + b"\r\n"] * 10)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize(
    "head",
    [
        b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/model HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n"
        b"\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b\rc\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n X-A: folded\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET http://169.254.169.254/latest/meta-data HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    ],
)
def test_heads_that_smuggle(port: int, head: bytes) -> None:
    answer = talk(port, head)
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert not answer.startswith(b"HTTP/1.1 2")
    assert b"evil" not in answer
    until(lambda: talk(port, ALIVE).startswith(b"HTTP/1.1 200"))


def test_every_answer_has_the_headers(client: TestClient) -> None:
    public = ("/", "/healthz", "/readyz", "/web/x.js")
    for path in (*public, "/v1/model", "/v1/none", "/metrics"):
        response = client.get(path)
        for name, value in SECURITY_HEADERS.items():
            assert response.headers[name] == value, path
        assert response.headers["cache-control"] == ("no-cache" if path in public else "no-store")
        assert "server" not in response.headers
        assert not [name for name in response.headers if name.startswith("access-control")]
    assert SECURITY_HEADERS["X-Content-Type-Options"] == "nosniff"
    assert SECURITY_HEADERS["Referrer-Policy"] == "no-referrer"
    assert SECURITY_HEADERS["X-Frame-Options"] == "DENY"
    parts = SECURITY_HEADERS["Content-Security-Policy"].split(";")
    policy = dict(part.strip().split(" ", 1) for part in parts)
    assert "unsafe" not in str(policy)
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["img-src"] == "'self' blob: data:"


def test_no_other_site_is_let_in(client: TestClient) -> None:
    preflight = {"Origin": SITE, "Access-Control-Request-Method": "POST"}
    responses = [client.options("/v1/search", headers=preflight)]
    asked = {"query": "Effusion."}
    for origin in ("https://evil.example", "null", "http://localhost.evil.example"):
        responses.append(client.post("/v1/search", data=asked, headers={"Origin": origin}))
    for response in responses:
        check_problem(response, 403, "other sites")
        assert not [name for name in response.headers if name.startswith("access-control")]
    own = client.post("/v1/search", data=asked, headers={"Origin": "http://localhost"})
    assert own.status_code == 200


OURS = ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]", "[0:0:0:0:0:0:0:1]:8000"]
OTHERS = [
    *("[::1]evil.com", "[::1].evil.com", "[::1]:80.evil.com", "[::1", "::1", "[::1]:"),
    *("[localhost]", "[::1%25lo]", "localhost:80:80", "localhost:", "localhost:0"),
    *("localhost:65536", "localhost:8000evil.com", "localhost.", "localhost.evil.com"),
    *("localhost:8000@evil.com", "evil.com@localhost", "localhost/evil.com"),
    *("localhost\\evil.com", "localhost evil.com", "127.1", "2130706433", "127.0.0.1.nip.io"),
    *("\u0661\u0662\u0667.0.0.1", "localhost:\u0661", "evil.com", ""),
]


@pytest.mark.parametrize(
    ("host", "named", "trusted"),
    [
        *((host, (), True) for host in OURS),
        *((host, (), False) for host in OTHERS),
        ("cxr.example.org", ("cxr.example.org",), True),
        ("a.example.org:8443", ("*.example.org",), True),
        ("example.org", ("*.example.org",), False),
        (".example.org", ("*.example.org",), False),
        ("evil-example.org", ("*.example.org",), False),
    ],
)
def test_hosts_are_read_whole(host: str, named: tuple[str, ...], trusted: bool) -> None:
    """A name that an attacker's own server can have is not taken for this one's."""
    assert (refused({"host": host}, trusted_hosts=named) != "host") == trusted


FOREIGN = [
    *("http://localhost:8000.evil.com", "http://localhost:8000@evil.com", "null", "", "file://"),
    *("http://evil.com//localhost:8000", "http://localhost:8000/", "http://evil.com"),
    *("http://localhost:8000 http://evil.com", "localhost:8000", "//localhost:8000"),
    *("ftp://localhost:8000", "chrome-extension://localhost:8000"),
]


@pytest.mark.parametrize(
    ("origin", "host", "taken"),
    [
        ("http://[::1]:8000", "[::1]:8000", True),
        ("HTTP://LocalHost:8000", "localhost:8000", True),
        ("https://cxr.example.org", "cxr.example.org", True),  # behind a proxy with TLS
        # Another program of this machine serves a page on another port, or by another name.
        ("http://localhost", "localhost:8000", False),
        ("http://localhost:8000", "localhost", False),
        ("http://127.0.0.1:8000", "localhost:8000", False),
        ("http://[::1]:8000.evil.com", "[::1]:8000", False),
        *((origin, "localhost:8000", False) for origin in FOREIGN),
        ("https://cxr.example.org:8443", "cxr.example.org", False),
        ("https://other.example.org", "cxr.example.org", False),
    ],
)
def test_origins_are_compared_whole(origin: str, host: str, taken: bool) -> None:
    found = refused({"host": host, "origin": origin}, trusted_hosts=("cxr.example.org",))
    assert found == (None if taken else "origin")


@pytest.mark.parametrize(
    ("headers", "path", "taken"),
    [
        ({"sec-fetch-site": "same-origin"}, "/v1/images", True),
        ({"sec-fetch-site": "none"}, "/v1/images", True),
        ({"sec-fetch-site": "same-site"}, "/v1/images", False),
        ({"sec-fetch-site": "cross-site"}, "/v1/images", False),
        ({"sec-fetch-site": "cross-site"}, "/metrics", False),
        ({"sec-fetch-site": "of-their-own"}, "/v1/images", False),
        # The origin is right, but the browser says otherwise: another scheme's page, say.
        ({"sec-fetch-site": "cross-site", "origin": "http://localhost"}, "/v1/images", False),
        # A link may lead to the page.
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, "/", True),
        ({"sec-fetch-site": "cross-site"}, "/web/main.js", True),
    ],
)
def test_what_a_browser_says_of_who_asks(headers: dict[str, str], path: str, taken: bool) -> None:
    found = refused({"host": "localhost", **headers}, path=path)
    assert found == (None if taken else "origin")


def refused(headers: dict[str, str], path: str = "/v1/images", **settings: Any) -> str | None:
    """Why a form that is posted with some headers is not let in: its host, or its origin."""
    given = Settings(**settings)
    sent = {"content-type": "multipart/form-data", "content-length": "9", **headers}
    raw = [(name.encode(), value.encode("utf-8")) for name, value in sent.items()]
    door = Door(Mock(), given, Mock(), Mock(), Budget(9))
    try:
        door.refuse(path, Headers(raw=raw))
    except Refusal as refusal:
        return {400: "host", 403: "origin"}[refusal.status]
    return None


def test_two_origins_are_none(client: TestClient) -> None:
    twice = [("Origin", "http://localhost"), ("Origin", "http://evil.example")]
    check_problem(client.get("/v1/model", headers=twice), 403, "other sites")


def test_a_page_of_another_local_port_changes_nothing(
    service: Service, png: bytes, tmp_path: Path
) -> None:
    """A server without keys that takes images, as whoever is on this machine may run one."""
    with serving(service, Settings(uploads=tmp_path / "uploads")) as client:
        for other in (
            {"Origin": "http://localhost:3000"},
            {"Origin": "http://127.0.0.1"},
            {"Origin": "https://localhost", "Sec-Fetch-Site": "cross-site"},
        ):
            post = client.post("/v1/images", files={"image": png}, headers=other)
            check_problem(post, 403, "other sites")
            check_problem(client.delete("/v1/images/images/s01.png", headers=other), 403)
        assert client.get("/v1/images").json()["total"] == 48
        assert not (tmp_path / "uploads").exists()


def test_a_method_that_is_no_word_of_http_is_not_logged(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "cxrtext_api.access")
    assert client.request("CANARY", "/v1/model").status_code == 405
    assert "CANARY" not in caplog.text
    assert "CANARY" not in client.get("/metrics").text


def test_every_test_that_the_page_names_is_there() -> None:
    tests = Path(__file__).parents[2]
    page = (tests.parent / "docs/reference/security.md").read_text()
    name, named = "", 0
    for file, test in re.findall(r"`(test_\w+\.py)?::(test_\w+)`", page):
        name = file or name
        (found,) = tests.rglob(name)
        assert f"\ndef {test}(" in found.read_text(), f"{name}::{test}"
        named += 1
    assert named > 50
