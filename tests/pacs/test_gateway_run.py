"""A gateway as a process: it says how it does, survives what fails, and stops in order."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from cxrtext.errors import WorkError
from cxrtext.pacs.gateway.file import read_gateway
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext_cli.gateway import run as module
from cxrtext_cli.gateway.status import Part, health
from tests.commands import cxrtext
from tests.pacs.orthanc import absent, free_port, write_gateway
from tests.pacs.studies import PLANTED
from tests.pacs.test_hl7_listen import frame, oru
from tests.waiting import until

KEY_ENV, KEY = "CXRTEXT_STATUS_KEY", "a-key"


class Running:
    def __init__(self, folder: Path) -> None:
        self.file, self.log = folder / "gateway.yaml", folder / "log"
        self.ports = {name: free_port() for name in ("hl7", "status")}
        ports: dict[str, Any] = {name: {"port": port} for name, port in self.ports.items()}
        ports["status"]["key_env"] = KEY_ENV
        follow = {"from": "2024-03-01"}
        write_gateway(self.file, absent(follow=follow), reserve_gib=0, **ports)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", "from cxrtext_cli import start; start()", "gateway", "run",
                 str(self.file)],
                stdout=log, stderr=log,
            )  # fmt: skip

    def ask(self, path: str, host: str = "localhost", key: str = KEY) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.ports['status']}{path}"
        try:
            with urlopen(
                Request(url, headers={"Host": host, "Authorization": f"Bearer {key}"}), timeout=60
            ) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def report(self, number: int) -> bytes:
        with socket.create_connection(("127.0.0.1", self.ports["hl7"]), timeout=60) as line:
            line.sendall(frame(oru(number)))
            return line.recv(4096)


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setenv(KEY_ENV, KEY)
    running = Running(tmp_path)
    try:
        until(lambda: "healthz tells how they are" in running.log.read_text())
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def test_it_takes_reports_says_how_it_does_and_stops(gateway: Running, tmp_path: Path) -> None:
    assert b"MSA|AA" in gateway.report(1)
    assert gateway.ask("/else")[0] == 404
    assert gateway.ask("/healthz", host="evil.example")[0] == 400
    assert gateway.ask("/metrics", key="another")[0] == 401
    (name,) = json.loads(gateway.ask("/healthz")[1])["parts"]
    assert name == "follow-archive"
    numbers = gateway.ask("/metrics")[1]
    for line in (
        'cxrtext_part_restarts{part="follow-archive"} ',
        'cxrtext_inbox_waiting{state="waiting"} 1.0',
        "cxrtext_inbox_received 1.0",
    ):
        assert line in numbers
    status = cxrtext("gateway", "status", gateway.file).stdout
    assert "1 received; 1 wait" in status
    assert "follow-archive" in status
    os.kill(gateway.process.pid, signal.SIGHUP)  # nothing to read anew without a server
    other = cxrtext("gateway", "run", gateway.file, code=1)
    assert "another gateway runs on this state" in other.stderr
    gateway.process.terminate()
    assert gateway.process.wait(120) == 0
    assert "stopping; what was acknowledged is kept" in gateway.log.read_text()
    assert PLANTED not in gateway.log.read_text()
    with Inbox(tmp_path / "gateway/inbox", reserve=0) as inbox:
        assert len(inbox.waiting(99)) == 1


def test_a_part_that_fails_is_begun_again_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    peers = absent("a", follow={}), absent("b", follow={})
    gateway = read_gateway(write_gateway(tmp_path / "gateway.yaml", *peers, status={"port": 0}))
    parts = {name: Part(name) for name in ("follow-a", "follow-b")}
    stopped = threading.Event()

    def follow(peer: Any, *_: Any, **__: Any) -> str:
        if peer.name == "b":
            stopped.wait()
        elif parts["follow-a"].restarts == 0:
            raise RuntimeError(PLANTED)
        elif parts["follow-a"].restarts == 1:
            raise WorkError("a: has no answer")
        else:
            assert health(parts)["parts"]["follow-b"] | {"for_s": 0} == {
                "up": True, "for_s": 0, "restarts": 0, "said": ""
            }  # fmt: skip
            stopped.set()
        return "done"

    monkeypatch.setattr(module, "WAIT_S", (0.01, 0.01))
    monkeypatch.setattr(module, "follow_peer", follow)
    with closing(Inbox(tmp_path / "inbox", reserve=0)) as inbox:
        threads = [
            threading.Thread(target=module._keep, args=(part, gateway, inbox, stopped))
            for part in parts.values()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert parts["follow-a"].restarts == 2
    assert not health(parts)["healthy"]
    said = capfd.readouterr().err
    assert "follow-a: failed (RuntimeError); beginning again" in said
    assert "follow-a: a: has no answer; beginning again" in said
    assert PLANTED not in said
