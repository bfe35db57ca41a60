"""Gateways that are killed, and their peers too: nothing is lost or comes twice."""

import hashlib
import random
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cxrtext.errors import CheckpointError
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.pacs.inbox.status import read_status
from tests.pacs.orthanc import PASSWORD, PASSWORD_ENV, Orthanc, free_port, started, write_gateway
from tests.pacs.studies import BEGIN, PLANTED, archive, instance, uid, wanted
from tests.pacs.test_hl7_listen import frame
from tests.pacs.test_worker import oru

if TYPE_CHECKING:
    from collections.abc import Iterator

STUDIES_SENT, KILLS = 300, 8
KILLS_WANTED = 4
"""Kills that find work to do, whatever the machine."""


def report_all(port: int, acknowledged: set[int]) -> None:
    """Send the report of every study until it was acknowledged."""
    numbers = list(range(1, STUDIES_SENT + 1))
    while numbers:
        try:
            with socket.create_connection(("127.0.0.1", port), 60) as line:
                while numbers:
                    line.sendall(frame(oru(numbers[0], f"Nodule {numbers[0]}.")))
                    if b"MSA|AA" not in line.recv(4096):
                        break
                    acknowledged.add(numbers.pop(0))
        except OSError:
            time.sleep(0.2)


def added(inbox: Path) -> int:
    """How many objects are in the index, as far as the inbox knows."""
    try:
        return read_status(inbox).outcomes.get(("object", "added"), 0)
    except CheckpointError:  # it is being made
        return 0


def said_in(index: Path) -> dict[int, list[tuple[str, str]]]:
    with Catalogue(index / CATALOGUE) as catalogue:
        return {n: catalogue.report(uid(n)) for n in range(1, STUDIES_SENT + 1)}


@contextmanager
def running(file: Path, log: Path) -> "Iterator[subprocess.Popen[str]]":
    command = [str(Path(sys.executable).with_name("cxrtext")), "gateway", "run", str(file)]
    with (
        log.open("a") as said,
        subprocess.Popen(command, stdout=said, stderr=said, text=True) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_what_was_acknowledged_and_stored_is_in_the_index_once_after_kills(
    index_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_ENV, PASSWORD)
    folder, log, port = tmp_path / "gateway/inbox", tmp_path / "log", free_port()
    acknowledged, chance = set[int](), random.Random(53)  # noqa: S311
    with started(tmp_path / "orthanc") as orthanc:
        follow = {"from": BEGIN.isoformat(), "every_s": 0.2}
        file = write_gateway(
            tmp_path / "gateway.yaml", orthanc.peer(follow=follow), reserve_gib=0,
            project=str(index_copy), hl7={"port": port}, device="cpu", status={"port": 0},
        )  # fmt: skip
        objects = (instance(number, size=32) for number in range(1, STUDIES_SENT + 1))
        senders = [
            threading.Thread(target=report_all, args=(port, acknowledged), daemon=True),
            threading.Thread(target=orthanc.store, args=(objects,), daemon=True),
        ]
        for thread in senders:
            thread.start()
        kills = 0
        for _ in range(KILLS):
            with running(file, log):
                # An entry that ends the process three times is set aside, so each run gets on.
                before = added(folder)
                end = time.monotonic() + 120
                while time.monotonic() < end and added(folder) < min(before + 10, STUDIES_SENT):
                    time.sleep(0.05)
                time.sleep(chance.uniform(0, 1))
                kills += added(folder) < STUDIES_SENT or len(acknowledged) < STUDIES_SENT
        assert kills >= KILLS_WANTED
        with running(file, log):
            end = time.monotonic() + 600
            while time.monotonic() < end and (
                any(thread.is_alive() for thread in senders)
                or added(folder) < STUDIES_SENT
                or read_status(folder).waiting
                or not all(said_in(index_copy).values())
            ):
                time.sleep(0.5)
    status, said = read_status(folder), said_in(index_copy)
    with Catalogue(index_copy / CATALOGUE) as catalogue:
        images = catalogue.known_images()
    assert (status.waiting, status.failed, status.held, status.undecided) == ({}, 0, 0, 0)
    assert {uid(number, 1, 1) for number in said} <= set(images)
    assert len(images) == STUDIES_SENT + 48
    assert said == {n: [("findings", f"Nodule {n}.")] for n in said}
    assert len(list((tmp_path / "gateway/archive").iterdir())) == STUDIES_SENT
    assert PLANTED not in log.read_text()
    assert "Traceback" not in log.read_text()


STUDIES = 224
FOLLOW_KILLS = 10


@pytest.mark.slow
def test_ten_kills_and_two_restarts_of_the_peer_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_ENV, PASSWORD)
    with started(tmp_path / "orthanc") as orthanc:
        orthanc.store(archive(STUDIES))

        def file(name: str, **limits: Any) -> Path:
            (tmp_path / name).mkdir()
            limits = {"parallel": 2, "requests_per_second": 1000, **limits}
            entry = orthanc.peer(follow={"from": "2024-02-28"}, limits=limits)
            return write_gateway(tmp_path / name / "gateway.yaml", entry, reserve_gib=0)

        whole = _followed(file("whole"))
        whole.communicate(timeout=600)
        assert whole.returncode == 0
        expected = _digests(tmp_path / "whole")
        assert len(expected) == len(wanted(STUDIES))
        _killed(file("killed", requests_per_second=12), orthanc)
    assert _digests(tmp_path / "killed") == expected
    assert _seen(tmp_path / "killed") == _seen(tmp_path / "whole")
    left = [p for p in (tmp_path / "killed").rglob("*") if p.name.startswith(".follow")]
    assert left == []


def _killed(file: Path, orthanc: Orthanc) -> None:
    """Kill the following ten times, and the peer twice while it runs; then let it end."""
    chance = random.Random(22)  # noqa: S311
    alive = 0
    for kill in range(FOLLOW_KILLS):
        process = _followed(file)
        if kill in (3, 7):
            time.sleep(2.0)
            orthanc.kill()
            time.sleep(1.0)
            orthanc.start()
        time.sleep(chance.uniform(1.2, 3.0))
        alive += process.poll() is None
        process.kill()
        process.communicate()
    assert alive >= 8, "it ended before it was killed"
    last = _followed(file)
    said, _ = last.communicate(timeout=600)
    assert last.returncode == 0, said
    assert ", 0 failed" in said
    assert PLANTED not in said


def _followed(file: Path) -> "subprocess.Popen[str]":
    words = ["gateway", "run", str(file), "--once"]
    command = [sys.executable, "-c", "import cxrtext_cli; cxrtext_cli.start()", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _digests(folder: Path) -> set[str]:
    """The digests of the objects; one may lie there twice, which the intake sees."""
    paths = (folder / "gateway/inbox/objects").iterdir()
    return {hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def _seen(folder: Path) -> list[tuple[str, ...]]:
    query = "SELECT instance, state, reason FROM instances ORDER BY instance"
    with closing(sqlite3.connect(folder / "gateway/inbox/follow-archive.sqlite")) as state:
        return state.execute(query).fetchall()
