"""The configuration of nginx: what it passes on and keeps to itself."""

import json
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
CONFIGURATION = Path(__file__).parents[3] / "docker/nginx"

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


class Server(ThreadingHTTPServer):
    """A server that answers with the size of what it was sent, or does worse."""

    daemon_threads = True
    does = "answer"
    asked = 0

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.go_on = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def _answer(self) -> None:
        self.server.asked += 1
        size = len(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if self.server.does == "die":  # after it has read the question
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        status = 503 if self.server.does == "load" else 200
        host = self.headers["Host"]
        data = json.dumps({"size": size, "host": host}).encode()
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


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


Proxy = Callable[[int], AbstractContextManager[str]]

MAIN = """
worker_processes 1;
daemon off;
error_log stderr crit;
pid nginx.pid;
events { worker_connections 1024; }
http {
    include http.conf;
    upstream cxrtext { server 127.0.0.1:SERVER; keepalive 32; }
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server { listen 127.0.0.1:LISTEN; include site.conf; }
}
"""
"""As docker/nginx/gateway.conf, without TLS, with its files below one folder."""


@pytest.fixture
def proxy(tmp_path: Path) -> Proxy:
    """nginx before a server on a port of this machine; gives its address."""

    @contextmanager
    def started(port: int) -> Iterator[str]:
        folder = Path(shutil.copytree(CONFIGURATION, tmp_path / "proxy"))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            own = taken.getsockname()[1]
        main = folder / "main.conf"
        main.write_text(MAIN.replace("SERVER", str(port)).replace("LISTEN", str(own)))

        def listens() -> bool:
            with suppress(OSError), closing(socket.create_connection(("127.0.0.1", own))):
                return True
            return process.poll() is not None

        with subprocess.Popen([str(NGINX), "-p", str(folder), "-c", str(main)]) as process:
            try:
                until(listens)
                assert process.poll() is None
                yield f"127.0.0.1:{own}"
            finally:
                process.terminate()

    return started


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


def test_what_is_passed_on_and_nothing_lies_on_a_disk(
    proxy: Proxy, server: Server, tmp_path: Path
) -> None:
    with proxy(server.server_port) as address:
        status, body, _ = ask(address, "/v1/search", b"query=x")
        assert (status, body) == (200, {"size": 7, "host": address})
        # A file of some megabytes is passed on while it comes: there is no folder to put it into.
        (tmp_path / "proxy" / "body").rmdir()
        (tmp_path / "proxy" / "proxy").rmdir()
        status, body, _ = ask(address, "/v1/classify", bytes(20 * 2**20), FILE)
        assert (status, body["size"], body["host"]) == (200, 20 * 2**20, address)
        # What it keeps to itself.
        before = server.asked
        assert {ask(address, "/metrics", *file)[0] for file in ((), (b"", FILE))} == {404}
        for path in ("/v1/classify", "/v1/search/export"):
            status, body, headers = ask(address, path, bytes(2**18 + 1))
            assert (status, body.get("status")) == (413, 413)
            assert headers["Content-Type"] == "application/problem+json"
        assert server.asked == before
        # A server that is busy says so itself; where it does not answer, the proxy does.
        server.does = "load"
        for file in ({}, FILE):
            status, body, _ = ask(address, "/v1/classify", b"x", file)
            assert (status, body["size"]) == (503, 1)
        server.does = "die"
        for path, file in (("/v1/search/export", {}), ("/v1/classify", FILE)):
            status, body, headers = ask(address, path, b"x", file)
            assert (status, body["status"], headers["Retry-After"]) == (503, 503, "2")
            assert "The server does not answer" in body["detail"]


@pytest.mark.parametrize("headers", [{}, FILE])
def test_an_export_is_passed_on_while_it_is_made(
    proxy: Proxy, server: Server, headers: dict[str, str]
) -> None:
    with proxy(server.server_port) as address:
        server.does = "stream"
        asked = urllib.request.Request(f"http://{address}/v1/search/export", b"x", headers)
        with urllib.request.urlopen(asked, timeout=600) as answer:
            assert answer.read(1) == b"{"
            server.go_on.set()
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
