"""Gateways that are killed, and their peers too: nothing is lost or comes twice."""

import gc
import hashlib
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from pydicom import dcmread
from pynetdicom import AE
from pynetdicom.presentation import build_context

from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.status import read_status
from tests.pacs.orthanc import PASSWORD, PASSWORD_ENV, Orthanc, free_port, started, write_gateway
from tests.pacs.studies import DX, PLANTED, archive, instance, uid, wanted

pytest.importorskip("pynetdicom")


OBJECTS, ASSOCIATIONS, KILLS = 1000, 4, 8


def send_all(port: int, first: int, acknowledged: set[int]) -> None:
    """Send every fourth object until it was acknowledged, over an association after the other."""
    numbers = list(range(first, OBJECTS + 1, ASSOCIATIONS))
    ae = AE(ae_title="SENDER")
    ae.requested_contexts = [build_context(DX, "1.2.840.10008.1.2.1")]
    while numbers:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
            continue
        association = ae.associate("127.0.0.1", port, ae_title="CXRTEXT")
        if not association.is_established:
            time.sleep(0.2)
            continue
        with suppress(RuntimeError, ValueError):
            while numbers and association.is_established:
                one = dcmread(BytesIO(instance(numbers[0])))
                if association.send_c_store(one).get("Status") != 0:
                    break
                acknowledged.add(numbers.pop(0))
        association.abort()


@contextmanager
def running(file: Path, log: Path) -> Iterator[subprocess.Popen[str]]:
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
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the sender's own sockets after a kill
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_was_acknowledged_is_in_the_index_once_after_kills(
    index_copy: Path, tmp_path: Path
) -> None:
    folder, log, port = tmp_path / "gateway/inbox", tmp_path / "log", free_port()
    file = write_gateway(
        tmp_path / "gateway.yaml", {"name": "archive", "titles": ["SENDER"]}, reserve_gib=0,
        project=str(index_copy), dicom={"port": port}, device="cpu", status={"port": 0},
    )  # fmt: skip
    acknowledged, killed = set[int](), 0
    senders = [
        threading.Thread(target=send_all, args=(port, first, acknowledged))
        for first in range(1, ASSOCIATIONS + 1)
    ]
    for thread in senders:
        thread.start()
    while any(thread.is_alive() for thread in senders):
        with running(file, log) as process:
            goal = len(acknowledged) + OBJECTS // (KILLS + 1)
            while any(thread.is_alive() for thread in senders):
                time.sleep(0.02)
                if killed < KILLS and len(acknowledged) >= goal:
                    process.send_signal(signal.SIGKILL)
                    killed += 1
                    break
    assert len(acknowledged) == OBJECTS
    gc.collect()
    for goal in (700, 350, 0):  # killed while the worker takes them in, too
        with running(file, log):
            end = time.monotonic() + 400
            while sum(read_status(folder).waiting.values()) > goal and time.monotonic() < end:
                time.sleep(0.1)
    status = read_status(folder)
    with Catalogue(index_copy / CATALOGUE) as catalogue:
        images = catalogue.known_images()
        labels = catalogue.labels(list(images.values()), catalogue.meta()["model"])
    there = {uid(number, 1, 1) for number in range(1, OBJECTS + 1)}
    assert (killed, status.waiting, status.failed, status.held) == (KILLS, {}, 0, 0)
    assert there <= set(images)
    assert len(images) == OBJECTS + 48
    assert all(labels[images[name]] for name in there)
    outcomes = Counter({outcome: n for (_, outcome), n in status.outcomes.items()})
    assert outcomes["added"] + outcomes["replaced"] + outcomes["again"] >= OBJECTS
    assert len(list((tmp_path / "gateway/archive").iterdir())) == OBJECTS
    with Inbox(folder) as inbox:
        assert not inbox.waiting(1)
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
