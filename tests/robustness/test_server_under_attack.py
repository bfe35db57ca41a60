"""The real server while callers ask for the longest work, say nothing, send and read slowly."""

import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

SILENT, HALF_OPEN, SLOW_READERS, VERIFYING = 60, 20, 10, 9
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def server(checkpoint: Path, index_folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``cxrtext serve`` as a user starts it, and its address."""
    command = [sys.executable, "-c", "from cxrtext_cli.main import main; main()", "serve"]
    options = {
        "--model": checkpoint,
        "--index": index_folder,
        "--port": 0,
    }
    arguments = [str(part) for pair in options.items() for part in pair]
    with subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        lines: list[str] = []

        def read(stream: object) -> None:
            for line in stream:  # type: ignore[attr-defined]
                lines.append(line)

        for stream in (process.stdout, process.stderr):
            threading.Thread(target=read, args=(stream,), daemon=True).start()
        try:
            end = time.monotonic() + 90
            while not (found := [w for line in lines for w in line.split() if "http://" in w]):
                assert process.poll() is None, lines
                assert time.monotonic() < end, lines
                time.sleep(0.1)
            address = found[0].removeprefix("http://").rstrip("/.,")
            while ask(address, "/readyz")[0] != 200:
                assert time.monotonic() < end, lines
                time.sleep(0.2)
            yield process, address
        finally:
            process.kill()


def ask(address: str, path: str, body: bytes | None = None, kind: str = "") -> tuple[int, float]:
    """Status and seconds of a request; 0 where there was no answer."""
    begun = time.monotonic()
    request = urllib.request.Request(f"http://{address}{path}", body, {"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            answer.read()
            status = answer.status
    except urllib.error.HTTPError as error:
        status = error.code
    except OSError:
        status = 0
    return status, time.monotonic() - begun


def search(address: str) -> tuple[int, float]:
    body = b"query=Left+pleural+effusion.&k=5"
    return ask(address, "/v1/search", body, FORM)


def searches(address: str, count: int) -> list[float]:
    """Seconds of searches that were answered; each must be."""
    found = [search(address) for _ in range(count)]
    assert Counter(status for status, _ in found) == {200: count}
    return sorted(seconds for _, seconds in found)


def ends(process: subprocess.Popen[str]) -> None:
    """Ended by SIGTERM, however many still ask."""
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code = process.wait(600)
    print(f"ended with {code} {time.monotonic() - begun:.1f} s after SIGTERM")
    assert code in (0, -signal.SIGTERM)


def connect(address: str) -> socket.socket:
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=600)


@pytest.mark.slow
def test_silent_slow_and_half_open_connections_stop_nobody(
    server: tuple[subprocess.Popen[str], str], chance: random.Random
) -> None:
    process, address = server
    usual = searches(address, 30)
    silent = [connect(address) for _ in range(SILENT)]
    half_open = []
    for _ in range(HALF_OPEN):
        one = connect(address)
        path = chance.choice(["/v1/search", "/v1/classify", "/v1/verify"])
        head = f"POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 100000\r\n"
        one.sendall(head.encode() + b"Content-Type: multipart/form-data; boundary=b\r\n\r\n--b")
        half_open.append(one)
    slow = []
    for _ in range(SLOW_READERS):
        one = connect(address)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        one.sendall(f"GET /openapi.json HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        slow.append(one)
    beside = searches(address, 60)
    print(f"median {usual[15]:.3f} s alone, {beside[30]:.3f} s beside; longest {beside[-1]:.3f} s")
    assert ask(address, "/healthz")[0] == 200
    for one in (*silent, *half_open, *slow):
        one.close()
    ends(process)


@pytest.mark.slow
def test_the_longest_reports_stop_no_search_and_no_end(
    server: tuple[subprocess.Popen[str], str],
) -> None:
    process, address = server
    usual = searches(address, 60)
    answers: Counter[int] = Counter()
    stopped = threading.Event()

    def verify(number: int) -> None:
        asked = 0
        while not stopped.is_set():
            asked += 1
            report = " ".join(f"Nodule {number} {asked} {i} of the left lung." for i in range(256))
            form = urlencode({"image_id": "images/s01.png", "report": report})
            answers[ask(address, "/v1/verify", form.encode(), FORM)[0]] += 1

    callers = [threading.Thread(target=verify, args=(n,), daemon=True) for n in range(VERIFYING)]
    for caller in callers:
        caller.start()
    beside = searches(address, 100)
    print(
        f"p50 {usual[30]:.3f} s alone, {beside[50]:.3f} s beside; "
        f"p99 {usual[-1]:.3f} s, {beside[98]:.3f} s; reports {dict(answers)}"
    )
    stopped.set()
    ends(process)
