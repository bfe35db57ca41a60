"""1,000 objects over four associations to a listener that is killed: none acknowledged is lost."""

import gc
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest

pytest.importorskip("pynetdicom")

from pydicom import dcmread
from pynetdicom import AE
from pynetdicom.presentation import build_context

from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.status import read_status
from tests.pacs.orthanc import free_port
from tests.pacs.studies import PLANTED, instance, uid

OBJECTS, ASSOCIATIONS, KILLS = 1000, 4, 8
DX = "1.2.840.10008.5.1.4.1.1.1.1"


class Senders:
    """Threads that send until every object was acknowledged, each over its own association."""

    def __init__(self, port: int) -> None:
        self.acknowledged: set[int] = set()
        self.again = 0
        self._port = port
        self.threads = [
            threading.Thread(target=self._send, args=(first,)) for first in range(ASSOCIATIONS)
        ]

    def _send(self, first: int) -> None:
        numbers = list(range(first + 1, OBJECTS + 1, ASSOCIATIONS))
        while numbers:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
            except OSError:
                time.sleep(0.2)
                continue
            ae = AE(ae_title="SENDER")
            ae.requested_contexts = [build_context(DX, "1.2.840.10008.1.2.1")]
            association = ae.associate("127.0.0.1", self._port, ae_title="CXRTEXT")
            if not association.is_established:
                time.sleep(0.2)
                continue
            while numbers and association.is_established:
                try:
                    one = dcmread(BytesIO(instance(numbers[0])))
                    status = association.send_c_store(one).get("Status")
                except (RuntimeError, ValueError):
                    break
                if status != 0:
                    self.again += 1
                    break
                self.acknowledged.add(numbers.pop(0))
            association.abort()


@contextmanager
def listening(port: int, folder: Path, log: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [
        str(Path(sys.executable).with_name("cxrtext")), "listen", str(folder), "--port", str(port),
        "--allow", "SENDER=archive", "--reserve", "0", *options,
    ]  # fmt: skip
    with log.open("a") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the sender's own sockets after a kill
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_was_acknowledged_is_in_the_index_once_after_kills(
    index_folder: Path, tmp_path: Path
) -> None:
    index = Path(shutil.copytree(index_folder, tmp_path / "index"))
    folder, log, port = tmp_path / "inbox", tmp_path / "log", free_port()
    into = ("--index", str(index), "--archive", str(tmp_path / "archive"), "--device", "cpu")
    senders = Senders(port)
    killed = 0
    for thread in senders.threads:
        thread.start()
    while any(thread.is_alive() for thread in senders.threads):
        with listening(port, folder, log, *into) as process:
            goal = len(senders.acknowledged) + OBJECTS // (KILLS + 1)
            while any(thread.is_alive() for thread in senders.threads):
                time.sleep(0.02)
                if killed < KILLS and len(senders.acknowledged) >= goal:
                    process.send_signal(signal.SIGKILL)
                    killed += 1
                    break
    assert len(senders.acknowledged) == OBJECTS
    gc.collect()
    for goal in (700, 350, 0):  # killed while the worker takes them in, too
        with listening(port, folder, log, *into):
            end = time.monotonic() + 400
            while sum(read_status(folder).waiting.values()) > goal and time.monotonic() < end:
                time.sleep(0.1)
    status = read_status(folder)
    with Catalogue(index / CATALOGUE) as catalogue:
        images = catalogue.known_images()
        labels = catalogue.labels(list(images.values()))
    there = {uid(number, 1, 1) for number in range(1, OBJECTS + 1)}
    assert (killed, status.waiting, status.failed, status.held) == (KILLS, {}, 0, 0)
    assert there <= set(images)
    assert len(images) == OBJECTS + 48
    assert all(labels[images[name]] for name in there)
    outcomes = Counter({outcome: n for (_, outcome), n in status.outcomes.items()})
    assert outcomes["added"] + outcomes["replaced"] + outcomes["again"] >= OBJECTS
    assert len(list((tmp_path / "archive").iterdir())) == OBJECTS
    with Inbox(folder) as inbox:
        assert not inbox.waiting(1)
    assert PLANTED not in log.read_text()
    assert not re.search(r"Traceback", log.read_text())
