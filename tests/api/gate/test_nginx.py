"""The configuration of nginx: what it passes on, asks again and keeps to itself."""

import json
import runpy
import shutil
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
PROXY = Path(__file__).parents[3] / "benchmarks/serving/nginx.py"

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


class Replica(ThreadingHTTPServer):
    """A server that answers with its name and the size of what it was sent, or does worse."""

    daemon_threads = True
    name = ""
    does = "answer"
    asked = 0

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.go_on = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Replica

    def _answer(self) -> None:
        self.server.asked += 1
        size = len(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if self.server.does == "die":  # after it has read the question
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        status = 503 if self.server.does == "load" else 200
        host = self.headers["Host"]
        data = json.dumps({"name": self.server.name, "size": size, "host": host}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.server.does == "stream":
            self.wfile.write(data[:1])
            self.server.go_on.wait()
            data = data[1:]
        self.wfile.write(data)

    do_GET = do_POST = _answer  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def replica(name: str) -> Iterator[Replica]:
    with Replica(("127.0.0.1", 0), _Handler) as server:
        server.name = name
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


Proxy = Callable[..., AbstractContextManager[str]]


@pytest.fixture
def proxy(tmp_path: Path) -> Proxy:
    """nginx before servers on some ports of this machine; gives its address."""
    made: Proxy = runpy.run_path(str(PROXY))["proxy"]
    return lambda *ports: made(tmp_path / "proxy", ports, NGINX)


@pytest.fixture
def deaf() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def connected(address: str) -> socket.socket:
    host, _, port = address.partition(":")
    return socket.create_connection((host, int(port)))


FILE = {"Content-Type": "multipart/form-data; boundary=x"}


def ask(
    address: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, Any], Any]:
    asked = urllib.request.Request(f"http://{address}{path}", body, headers or {})
    try:
        with urllib.request.urlopen(asked, timeout=600) as answer:
            return answer.status, json.loads(answer.read()), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            data = error.read()
            return error.code, json.loads(data) if data[:1] == b"{" else {}, error.headers


def test_a_question_is_asked_again_and_nothing_lies_on_a_disk(proxy: Proxy, tmp_path: Path) -> None:
    with ExitStack() as stack:
        replicas = [stack.enter_context(replica(name)) for name in "abc"]
        address = stack.enter_context(proxy(*(one.server_port for one in replicas)))

        def names(count: int = 30) -> set[str]:
            found = [ask(address, "/v1/search", b"query=x") for _ in range(count)]
            assert [status for status, *_ in found] == [200] * count
            return {body["name"] for _, body, _ in found}

        assert names() == {"a", "b", "c"}
        # One that dies with the question, and one that is loading: nobody sees it.
        replicas[0].does, replicas[1].does = "die", "load"
        asked = replicas[2].asked
        assert names() == {"c"}
        assert replicas[2].asked == asked + 30
        assert 0 < replicas[0].asked < 20
        replicas[0].does = replicas[1].does = "answer"
        # A file of some megabytes is passed on while it comes: there is no folder to put it into.
        (tmp_path / "proxy" / "body").rmdir()
        (tmp_path / "proxy" / "proxy").rmdir()
        status, body, _ = ask(address, "/v1/classify", bytes(20 * 2**20), FILE)
        assert (status, body["size"], body["host"]) == (200, 20 * 2**20, address)
        # What it keeps to itself.
        before = sum(one.asked for one in replicas)
        assert {ask(address, "/metrics", *file)[0] for file in ((), (b"", FILE))} == {404}
        for path in ("/v1/classify", "/v1/search/export"):
            status, body, headers = ask(address, path, bytes(2**18 + 1))
            assert (status, body.get("status")) == (413, 413)
            assert headers["Content-Type"] == "application/problem+json"
        assert sum(one.asked for one in replicas) == before
        # Where all are busy, or none is left, it says so as a busy server does.
        for one in replicas:
            one.does = "load"
        before = sum(one.asked for one in replicas)
        status, body, _ = ask(address, "/v1/classify", b"x", FILE)
        assert (status, body["size"]) == (503, 1), "with a file it is the server's own answer"
        assert sum(one.asked for one in replicas) == before + 1
        assert {ask(address, "/v1/search", b"query=x")[0] for _ in range(10)} == {503}
        for one in replicas:
            one.does = "die"
        found = [ask(address, "/v1/search/export", b"query=x") for _ in range(4)]
        found += [ask(address, "/v1/classify", b"x", FILE) for _ in range(4)]
        for status, body, headers in found:
            assert (status, body["status"], headers["Retry-After"]) == (503, 503, "2")
            assert "No replica answers" in body["detail"]


@pytest.mark.parametrize("headers", [{}, FILE])
def test_an_export_is_passed_on_while_it_is_made(proxy: Proxy, headers: dict[str, str]) -> None:
    with replica("a") as only, proxy(only.server_port) as address:
        only.does = "stream"
        asked = urllib.request.Request(f"http://{address}/v1/search/export", b"x", headers)
        with urllib.request.urlopen(asked, timeout=600) as answer:
            assert answer.read(1) == b"{"
            only.go_on.set()
            assert json.loads(b"{" + answer.read())["size"] == 1


@pytest.mark.parametrize("headers", [{}, FILE])
def test_more_questions_than_may_be_open(proxy: Proxy, deaf: int, headers: dict[str, str]) -> None:
    with proxy(deaf) as address, ExitStack() as stack:
        for _ in range(64):
            caller = stack.enter_context(connected(address))
            caller.sendall(f"GET /v1/model HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        status, body, answered = ask(address, "/v1/search", b"x", headers)
        assert (status, body["status"], answered["Retry-After"]) == (503, 503, "2")


def test_what_comes_without_a_key_takes_no_memory(proxy: Proxy, deaf: int, tmp_path: Path) -> None:
    """Files of callers that the server has not looked at yet: none of them lies in the proxy."""
    with proxy(deaf) as address, ExitStack() as stack:
        folder = tmp_path / "proxy"
        before = _memory_of(folder)
        head = f"POST /v1/classify HTTP/1.1\r\nHost: {address}\r\nContent-Length: {60 * 2**20}\r\n"
        head += f"Content-Type: {FILE['Content-Type']}\r\n\r\n"

        def send() -> None:
            caller = stack.enter_context(connected(address))
            caller.settimeout(0.5)
            with suppress(TimeoutError):
                caller.sendall(head.encode() + bytes(16 * 2**20))

        with ThreadPoolExecutor(8) as callers:
            for sent in [callers.submit(send) for _ in range(8)]:
                sent.result()
        assert _memory_of(folder) - before < 16 * 2**20
        assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 2**20


def _memory_of(folder: Path) -> int:
    pid = folder / "nginx.pid"  # written a moment after it listens
    until(lambda: pid.is_file() and pid.read_text())
    parent = pid.read_text().strip()
    workers = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    pages = (int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in workers)
    return sum(pages) * 4096
