"""How we log in to DICOMweb: passwords, tokens, and tokens of a login service."""

import base64
import json
import logging
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest

from cxrtext.errors import ConfigError
from cxrtext.pacs.dicomweb.client import DicomWeb
from cxrtext.pacs.dicomweb.login import Tokens, open_login
from cxrtext.pacs.faults import AnswerError, BusyError, DeniedError, LoginError
from cxrtext.pacs.peers import OAuth, Peer, Web
from cxrtext.pacs.query import Question
from tests.pacs.odd_peer import http_server
from tests.pacs.orthanc import Known

SECRET = "a secret: that/must not be+shown&"
TODAY = Question(day="20240301")


@dataclass
class Site:
    """A login service and a DICOMweb server behind it, on one port."""

    seconds: Any = 3600  # how long a token is said to last
    answer: tuple[int, bytes] | None = None  # in place of a token
    given: list[str] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)  # of the login service
    good: set[str] = field(default_factory=set)  # tokens that DICOMweb takes
    url: str = ""

    def token(self, headers: Message, form: dict[str, list[str]]) -> tuple[int, bytes]:
        self.asked.append({"authorization": headers.get("Authorization", ""), **form})
        if self.answer is not None:
            return self.answer
        token = f"token-{len(self.given)}"
        self.given.append(token)
        self.good.add(token)
        said = {"access_token": token, "token_type": "Bearer", "expires_in": self.seconds}
        return 200, json.dumps(said).encode()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._send(*site.token(self.headers, parse_qs(form)))

        def do_GET(self) -> None:
            kind, _, token = self.headers.get("Authorization", "").partition(" ")
            self._send(200, b"[]") if kind == "Bearer" and token in site.good else self._send(401)

        def _send(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/dicom+json")
            self.send_header("Location", f"{site.url}/elsewhere")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http_server(Handler) as port:
        site.url = f"http://127.0.0.1:{port}"
        yield site


Open = Callable[..., DicomWeb]


@pytest.fixture
def opened(site: Site, known: Known, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    monkeypatch.setenv("A_SECRET", SECRET)
    clients = []

    def of(**oauth: Any) -> DicomWeb:
        clients.append(DicomWeb(peer_of(site, known, **oauth)))
        return clients[-1]

    yield of
    for client in clients:
        client.close()


def peer_of(site: Site, known: Known, **oauth: Any) -> Peer:
    service = {"token_url": f"{site.url}/token", "client_id": "cxr text", "secret_env": "A_SECRET"}
    web = {"url": f"{site.url}/dicom-web", "oauth": {**service, **oauth}}
    return known({"name": "cloud", "dicomweb": web})


def test_one_token_is_asked_for_and_used(
    site: Site, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = opened(scope="dicomweb read", audience="https://pacs.example.org/")
    for _ in range(3):
        assert client.studies(TODAY).rows == []
    (asked,) = site.asked
    kind, _, value = asked.pop("authorization").partition(" ")
    name, _, secret = base64.b64decode(value).decode().partition(":")
    assert (kind, unquote(name), unquote(secret)) == ("Basic", "cxr text", SECRET)
    assert ":" not in secret  # encoded, as RFC 6749 has it
    assert asked == {
        "grant_type": ["client_credentials"],
        "scope": ["dicomweb read"],
        "audience": ["https://pacs.example.org/"],
    }
    assert SECRET not in caplog.text
    assert "token-0" not in caplog.text


def test_the_secret_may_go_in_the_body(site: Site, opened: Open) -> None:
    opened(credentials="body").studies(TODAY)
    assert site.asked == [
        {
            "authorization": "", "grant_type": ["client_credentials"],
            "client_id": ["cxr text"], "client_secret": [SECRET],
        }
    ]  # fmt: skip


def test_a_token_is_renewed_before_its_end(site: Site) -> None:
    now = [1000.0]
    oauth = OAuth(token_url=f"{site.url}/token", client_id="c", secret_env="A_SECRET")
    tokens = Tokens("cloud", oauth, SECRET, ssl.create_default_context(), lambda: now[0])
    site.seconds = 100
    for later, token in ((0, 0), (69, 0), (1.5, 1)):
        now[0] += later
        assert tokens.headers() == {"Authorization": f"Bearer token-{token}"}
    site.seconds = 10  # too short for half a minute: used for half of it
    for later, token in ((100, 2), (4, 2), (2, 3)):
        now[0] += later
        assert tokens.headers() == {"Authorization": f"Bearer token-{token}"}


def test_a_token_that_is_refused_is_renewed_once(site: Site, opened: Open) -> None:
    client = opened()
    client.studies(TODAY)
    site.good.clear()  # the server was restarted, and knows it no more
    client.studies(TODAY)
    assert site.given == ["token-0", "token-1"]
    site.good.clear()
    site.answer = (200, b'{"access_token": "bad", "token_type": "bearer"}')
    with pytest.raises(LoginError, match=r"\(401\); check scope and audience of oauth"):
        client.studies(TODAY)
    assert len(site.asked) == 3


def test_threads_share_a_token(site: Site, opened: Open) -> None:
    client = opened()
    with ThreadPoolExecutor(8) as pool:
        assert len([*pool.map(lambda _: client.studies(TODAY), range(16))]) == 16
    assert site.given == ["token-0"]


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        ((400, b'{"error": "invalid_client"}'), LoginError, "(invalid_client); check oauth.client"),
        ((400, b'{"error": "QUETZALCOATL"}'), DeniedError, "refuses a token (400)"),
        ((302, b""), AnswerError, "gives no token (302); check oauth.token_url"),
        ((503, b""), BusyError, "its login service has no answer (503)"),
        ((200, b'{"access_token": "a\\r\\nHost: b"}'), AnswerError, "gave no token"),
        ((200, b"x" * 100_000), AnswerError, "its login service's answer is larger than 64 KiB"),
    ],
)
def test_what_a_login_service_does_wrong(
    site: Site, opened: Open, answer: Any, kind: type[Exception], says: str
) -> None:
    site.answer = answer
    with pytest.raises(kind) as caught:
        opened().studies(TODAY)
    assert says in str(caught.value)
    assert str(caught.value).startswith("cloud: its login service")
    assert "QUETZALCOATL" not in str(caught.value)


@pytest.mark.parametrize("seconds", [None, -5, "soon"])
def test_an_odd_end_of_a_token_is_no_matter(site: Site, opened: Open, seconds: object) -> None:
    site.seconds = seconds
    assert opened().studies(TODAY).rows == []


def test_a_token_of_the_environment(
    site: Site, known: Known, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = {"url": f"{site.url}/dicom-web", "token_env": "A_TOKEN"}
    peer = known({"name": "cloud", "dicomweb": web})
    site.good.add("abc.def-_~+/=")
    monkeypatch.setenv("A_TOKEN", "abc.def-_~+/=")
    client = DicomWeb(peer)
    assert client.studies(TODAY).rows == []
    client.close()
    monkeypatch.setenv("A_TOKEN", "old")
    client = DicomWeb(peer)
    with pytest.raises(LoginError, match=r"\(401\); check the variable of token_env"):
        client.studies(TODAY)
    client.close()
    monkeypatch.setenv("A_TOKEN", "a b\n")
    with pytest.raises(ConfigError, match="what A_TOKEN holds is no token"):
        DicomWeb(peer)
    monkeypatch.delenv("A_TOKEN")
    with pytest.raises(ConfigError, match="the environment has no token in A_TOKEN"):
        DicomWeb(peer)
    (tmp_path / "token").write_text("abc.def-_~+/=\n")
    monkeypatch.setenv("A_TOKEN_FILE", str(tmp_path / "token"))
    client = DicomWeb(peer)
    assert client.studies(TODAY).rows == []
    client.close()


def test_a_password_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web(url="https://pacs.example.org/x", user="ü", password_env="A_PASSWORD")
    tls = ssl.create_default_context()
    monkeypatch.setenv("A_PASSWORD", "p:w")
    login = open_login("a", web, tls)
    encoded = base64.b64encode("ü:p:w".encode()).decode()
    assert login.headers() == {"Authorization": f"Basic {encoded}"}
    assert login.said == "user ü"
    monkeypatch.delenv("A_PASSWORD")
    with pytest.raises(ConfigError, match="no password in A_PASSWORD; set that variable"):
        open_login("a", web, tls)
