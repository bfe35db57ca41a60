"""A gateway as a process: its parts restart alone, tell how they are, and take over a new file."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from cxrtext.pacs.inbox.queue import Inbox
from cxrtext_cli.gateway.supervisor import Supervisor
from tests.commands import cxrtext
from tests.pacs.orthanc import free_port, write_gateway
from tests.pacs.test_hl7_listen import frame, oru
from tests.waiting import until

pytest.importorskip("pynetdicom")


class Running:
    def __init__(self, folder: Path) -> None:
        self.file, self.log = folder / "gateway.yaml", folder / "log"
        self.ports = {name: free_port() for name in ("dicom", "hl7", "status")}
        self.write()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", "from cxrtext_cli import start; start()", "gateway", "run",
                 str(self.file)],
                stdout=log, stderr=log,
            )  # fmt: skip

    def write(self, address: str = "127.0.0.1", **more: Any) -> None:
        ports: dict[str, Any] = {name: {"port": port} for name, port in self.ports.items()}
        peers = {"name": "ris", "addresses": [address], "titles": ["SENDER"]}
        write_gateway(self.file, peers, reserve_gib=0, **ports, **more)

    def ask(self, path: str, host: str = "localhost") -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.ports['status']}{path}"
        try:
            with urlopen(Request(url, headers={"Host": host}), timeout=60) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def parts(self) -> dict[str, Any]:
        known: dict[str, Any] = json.loads(self.ask("/healthz")[1])["parts"]
        return known

    def pids(self) -> dict[str, int]:
        """The process of each part."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if str(self.file) in words and "--part" in words:
                found[words[words.index("--part") + 1]] = int(folder.name)
        return found

    def report(self, number: int) -> bytes:
        try:
            with socket.create_connection(("127.0.0.1", self.ports["hl7"]), timeout=60) as line:
                line.sendall(frame(oru(number)))
                return line.recv(4096)
        except OSError:
            return b""

    def says(self, text: str) -> bool:
        return text in self.log.read_text()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path)
    try:
        until(lambda: all(running.says(f"{n}: listens") for n in ("dicom", "hl7")))
        assert b"MSA|AA" in running.report(1)
        yield running
    finally:
        running.process.terminate()
        running.process.wait(120)


def test_a_part_restarts_alone_and_health_and_metrics_name_it(gateway: Running) -> None:
    assert gateway.ask("/healthz")[0] == 200
    assert gateway.ask("/else")[0] == 404
    assert gateway.ask("/healthz", host="evil.example")[0] == 400
    before = gateway.pids()
    assert before.keys() == {"dicom", "hl7"}
    kills = 0
    while gateway.ask("/healthz")[0] != 503:  # each time it stays down for twice as long
        kills += 1
        until(lambda: "hl7" in gateway.pids())
        os.kill(gateway.pids()["hl7"], signal.SIGKILL)
        until(lambda kills=kills: gateway.parts()["hl7"]["restarts"] == kills)  # type: ignore[misc]
    until(lambda: b"MSA|AA" in gateway.report(2))
    after = gateway.pids()
    assert after["dicom"] == before["dicom"]
    assert {name: one["restarts"] for name, one in gateway.parts().items()} == {
        "dicom": 0, "hl7": kills,
    }  # fmt: skip
    assert gateway.parts()["dicom"]["said"].startswith("listens on 127.0.0.1")
    numbers = gateway.ask("/metrics")[1]
    for line in (
        'cxrtext_part_up{part="hl7"} 1.0',
        f'cxrtext_part_restarts{{part="hl7"}} {kills}.0',
        'cxrtext_inbox_waiting{state="waiting"} 2.0',
        "cxrtext_inbox_received 2.0",
    ):
        assert line in numbers
    status = cxrtext("gateway", "status", gateway.file).stdout
    assert f"hl7 up {kills} listens on 127.0.0.1" in " ".join(status.split())
    assert "2 received; 2 wait" in status


def test_a_changed_file_is_taken_over_a_wrong_one_and_another_gateway_are_not(
    gateway: Running, tmp_path: Path
) -> None:
    def again(done: Callable[[], bool], **change: Any) -> None:
        gateway.write(**change)
        gateway.process.send_signal(signal.SIGHUP)
        until(done)

    before = gateway.pids()
    again(lambda: gateway.report(2) == b"", address="10.0.0.7")
    assert gateway.pids() == before, "listeners change in place"
    again(lambda: b"MSA|AA" in gateway.report(3))
    again(lambda: gateway.says("goes on as before"), stat="x")
    assert b"MSA|AA" in gateway.report(4)
    dicom = gateway.ports.pop("dicom")
    again(lambda: gateway.pids().keys() == {"hl7"})
    gateway.ports["dicom"] = dicom
    again(lambda: gateway.pids().keys() == {"hl7", "dicom"})
    assert gateway.pids()["hl7"] == before["hl7"]
    other = cxrtext("gateway", "run", gateway.file, code=1)
    assert "another gateway runs on this state" in other.stderr
    gateway.process.terminate()
    assert gateway.process.wait(120) == 0
    assert gateway.pids() == {}
    with Inbox(tmp_path / "gateway/inbox", reserve=0) as inbox:
        assert len(inbox.waiting(99)) >= 3


@pytest.mark.parametrize(
    ("change", "ended"),
    [
        ({"reserve_gib": 2}, {"hl7": "told", "dicom": "told"}),
        ({"dicom": {"port": 11113}}, {"hl7": "told", "dicom": "ended"}),
        ({"state": "other"}, {"hl7": "ended", "dicom": "ended"}),
        ({"readers": 2, "silent": "hl7"}, {"hl7": "ended", "dicom": "told"}),
    ],
)
def test_what_a_hangup_tells_and_what_it_ends(
    change: dict[str, Any], ended: dict[str, str], tmp_path: Path
) -> None:
    peer = {"name": "ris", "addresses": ["127.0.0.1"], "titles": ["SENDER"]}
    silent = change.get("silent", "")
    change = {name: value for name, value in change.items() if name != "silent"}
    before: dict[str, Any] = {"dicom": {"port": 11112}, "hl7": {"port": 2575}}
    file = write_gateway(tmp_path / "gateway.yaml", peer, **before)
    supervisor = Supervisor(file, lambda _: None)
    parts, processes = (
        supervisor._parts,
        {name: Mock(**{"poll.return_value": None}) for name in before},
    )
    for name, part in parts.items():
        part.process, part.said = processes[name], "" if name == silent else "listens"
    write_gateway(file, peer, **before | change)
    supervisor._read_again()
    assert ended == {
        name: "told" if one.send_signal.called else "ended" if one.terminate.called else "as before"
        for name, one in processes.items()
    }
