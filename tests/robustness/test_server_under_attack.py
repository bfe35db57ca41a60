"""The real server while callers say nothing, send and read slowly."""

import random
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import pytest

from tests.server import serving_process
from tests.waiting import until

SILENT, HALF_OPEN, SLOW_READERS = 60, 20, 10

Server = tuple[subprocess.Popen[str], str]


@pytest.fixture
def server(checkpoint: Path, index_folder: Path) -> Iterator[Server]:
    with serving_process(checkpoint, index_folder) as (process, address):

        def is_ready() -> bool:
            with suppress(OSError):
                ask(address, "/readyz")
                return True
            return False

        until(is_ready)
        yield process, address


def ask(address: str, path: str, **form: str) -> None:
    """A request that must be answered well (OSError)."""
    with urlopen(f"{address}{path}", urlencode(form).encode() or None, timeout=600) as answer:
        answer.read()


def search(address: str, count: int) -> None:
    for _ in range(count):
        ask(address, "/v1/search", query="Left pleural effusion.", k="5")


def ends(process: subprocess.Popen[str]) -> None:
    """Ended by SIGTERM, however many still ask."""
    process.send_signal(signal.SIGTERM)
    assert process.wait(600) in (0, -signal.SIGTERM)


def connect(address: str, begin: str = "") -> socket.socket:
    """A connection over which the begin of a request has come."""
    place = urlsplit(address)
    one = socket.create_connection((place.hostname, place.port), timeout=600)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)  # whoever reads reads slowly
    one.sendall(begin.replace("\n", "\r\n").replace("HOST", place.netloc).encode())
    return one


@pytest.mark.slow
def test_silent_slow_and_half_open_connections_stop_nobody(
    server: Server, chance: random.Random
) -> None:
    process, address = server
    search(address, 30)
    paths = chance.choices(["/v1/search", "/v1/classify", "/v1/verify"], k=HALF_OPEN)
    begun = "Content-Length: 100000\nContent-Type: multipart/form-data; boundary=b\n\n--b"
    connections = [
        *(connect(address) for _ in range(SILENT)),
        *(connect(address, f"POST {path} HTTP/1.1\nHost: HOST\n{begun}") for path in paths),
        *(
            connect(address, "GET /openapi.json HTTP/1.1\nHost: HOST\n\n")
            for _ in range(SLOW_READERS)
        ),
    ]
    search(address, 60)
    ask(address, "/healthz")
    for one in connections:
        one.close()
    ends(process)
