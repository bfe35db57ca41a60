"""A hospital's month: all ways in at once, with what goes wrong in one; each day adds up.

A real Orthanc is followed, a modality sends over TLS, a made-up RIS sends reports; the gateway runs
as a process whose clock is moved by hand (libfaketime).  ``CXRTEXT_MONTH=full`` takes 3,000 old
studies and 100 a day; else a twentieth of that.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.pacs.inbox.status import InboxStatus, read_status
from tests.cli.conftest import cxrtext
from tests.pacs.certificates import Certificates, make_certificates
from tests.pacs.orthanc import PASSWORD, PASSWORD_ENV, Orthanc, free_port, started, write_gateway
from tests.pacs.studies import PLANTED, assert_nowhere, instance, uid
from tests.pacs.test_hl7_listen import frame
from tests.pacs.test_worker import oru

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
pytestmark = [
    pytest.mark.peers,
    pytest.mark.slow,
    pytest.mark.skipif(not FAKETIME.exists(), reason="needs libfaketime: apt install faketime"),
    pytest.mark.skipif(shutil.which("storescu") is None, reason="needs dcmtk"),
]
FULL = os.environ.get("CXRTEXT_MONTH") == "full"
OLD, A_DAY = (3000, 100) if FULL else (150, 8)
START, DAYS = date(2026, 10, 1), 30
FORGOTTEN = 10
NEVER = 900_000  # numbers of studies that are not to enter
SETTLE_S = 1800 if FULL else 300


def patient(number: int, issuer: str = "HIS") -> str:
    return f"{PLANTED}-{issuer}:{PLANTED}{number:06d}"


@dataclass
class Month:
    """The hospital, and what the index is to hold: the patient of each image."""

    folder: Path
    orthanc: Orthanc
    certificates: Certificates
    file: Path
    clock: Path
    ports: dict[str, int]
    expected: dict[str, str] = field(default_factory=dict)
    held: int = 0
    said: dict[str, str] = field(default_factory=dict)  # a word of the report, by study
    process: subprocess.Popen[bytes] | None = None
    number: int = 0
    random: random.Random = field(default_factory=lambda: random.Random(35))

    # --- the gateway ---

    def run(self) -> None:
        log = (self.folder / "log").open("ab")
        with log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", "from cxrtext_cli import start; start()", "gateway", "run",
                 str(self.file)],
                stdout=log, stderr=log, start_new_session=True,
                env={
                    **os.environ, PASSWORD_ENV: PASSWORD, "LD_PRELOAD": str(FAKETIME),
                    "FAKETIME_TIMESTAMP_FILE": str(self.clock), "FAKETIME_NO_CACHE": "1",
                    "FAKETIME_DONT_FAKE_MONOTONIC": "1", "OMP_NUM_THREADS": "1",
                },
            )  # fmt: skip
        self.until(lambda: self.health()["healthy"], "every part is up")

    def health(self) -> dict[str, Any]:
        try:
            with urlopen(f"http://127.0.0.1:{self.ports['status']}/healthz", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (URLError, OSError):
            return {"healthy": False}

    def kill(self) -> None:
        """End the gateway and all of its parts at once."""
        assert self.process is not None
        for name in os.listdir("/proc"):
            if name.isdigit() and name != str(os.getpid()):
                words = Path(f"/proc/{name}/cmdline")
                try:
                    if str(self.file).encode() in words.read_bytes():
                        os.kill(int(name), signal.SIGKILL)
                except (OSError, ProcessLookupError):
                    continue
        self.process.wait()

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(120)

    def until(self, done: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + SETTLE_S
        while not done():
            if time.monotonic() > end:
                log = (self.folder / "log").read_text()[-3000:]
                raise AssertionError(f"not within {SETTLE_S} s: {what}\n{log}")
            time.sleep(0.2)

    def status(self) -> InboxStatus:
        return read_status(self.folder / "gateway/inbox")

    # --- the index ---

    def indexed(self) -> dict[str, str]:
        with closing(Catalogue(self.folder / "index" / CATALOGUE)) as catalogue:
            query = "SELECT image, patient_id FROM images WHERE image LIKE '1.2%'"
            return dict(catalogue.database.execute(query).fetchall())

    def settle(self) -> None:
        """Wait until all that is there was taken in: the index is as expected, the sums agree."""

        def settled() -> bool:
            found = self.status()
            return not sum(found.waiting.values()) and self.indexed() == self.expected

        try:
            self.until(settled, "the index is as expected")
        except AssertionError as error:
            now = self.indexed()
            lacks = sorted(self.expected.items() - now.items())[:5]
            has = sorted(now.items() - self.expected.items())[:5]
            raise AssertionError(f"lacks {lacks}, has {has}, {self.status()}: {error}") from None
        found = self.status()
        ended = sum(found.outcomes.values())
        assert found.received == ended + found.held + found.failed, found
        assert found.held == self.held, found
        assert not found.failed, found

    # --- the hospital ---

    def new(self, day: date, **more: Any) -> tuple[int, bytes]:
        self.number += 1
        return self.number, instance(self.number, size=32, day=day, **more)

    def acquire(self, day: date, **more: Any) -> int:
        """A study that the PACS gets."""
        number, data = self.new(day, **more)
        self.orthanc.store([data])
        self.expected[uid(number, 1, 1)] = patient(number)
        return number

    def send(self, *objects: bytes, ok: bool = True) -> None:
        """Send objects by DCMTK's storescu, with a certificate of the hospital."""
        folder = self.folder / "sending"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for place, data in enumerate(objects):
            (folder / f"{place}.dcm").write_bytes(data)
        pacs = self.certificates.pacs
        done = subprocess.run(
            ["storescu", "+sd", "-aet", "MODALITY", "-aec", "CXRTEXT", "+tls", str(pacs.key),
             str(pacs.path), "+cf", str(self.certificates.ca), "127.0.0.1",
             str(self.ports["dicom"]), str(folder)],
            capture_output=True, check=False, timeout=600,
        )  # fmt: skip
        assert (done.returncode == 0) == ok, done.stderr[-500:]

    def received(self, day: date, **more: Any) -> int:
        number, data = self.new(day, **more)
        self.send(data)
        self.expected[uid(number, 1, 1)] = patient(number)
        return number

    def report(self, message: bytes) -> bytes:
        import socket

        with socket.create_connection(("127.0.0.1", self.ports["hl7"]), timeout=60) as line:
            line.sendall(frame(message))
            return line.recv(4096)

    def says(self, number: int, text: str, status: str = "F", *, at: datetime) -> None:
        answer = self.report(oru(number, text, status, f"{at:%Y%m%d%H%M%S}"))
        assert b"MSA|AA" in answer, answer
        self.said[uid(number)] = "" if status == "W" else text

    def reported(self) -> dict[str, str]:
        with closing(Catalogue(self.folder / "index" / CATALOGUE)) as catalogue:
            return {
                study: " ".join(text for _, text in catalogue.report(study)) for study in self.said
            }


@pytest.fixture
def month(index_copy: Path, tmp_path: Path) -> Iterator[Month]:
    ports = {name: free_port() for name in ("dicom", "hl7", "status")}
    certificates = make_certificates(tmp_path / "certificates")
    for name in ("ours.pem", "ours.key", "ca.pem"):
        shutil.copy(
            certificates.ca if name == "ca.pem" else getattr(
                certificates.ours, "key" if name.endswith("key") else "path"
            ),
            tmp_path / name,
        )  # fmt: skip
    (tmp_path / "ours.key").chmod(0o600)
    with started(tmp_path / "orthanc", OverwriteInstances=True) as orthanc:
        follow = {"from": "2022-01-01", "every_s": 0.5, "at": "02:00"}
        archive = orthanc.peer(on_deletion="forget", follow=follow)
        peers = [archive, {"name": "modality", "titles": ["MODALITY"], "addresses": ["127.0.0.1"]}]
        tls = {"certificate": "ours.pem", "key": "ours.key", "ca": "ca.pem"}
        file = write_gateway(
            tmp_path / "gateway.yaml", *peers,
            {"name": "ris", "addresses": ["127.0.0.2"]},
            project="index", reserve_gib=0, readers=1, device="cpu",
            dicom={"port": ports["dicom"], "tls": tls}, hl7={"port": ports["hl7"]},
            status={"port": ports["status"]},
        )  # fmt: skip
        clock = tmp_path / "clock"
        made = Month(tmp_path, orthanc, certificates, file, clock, ports)
        try:
            yield made
        finally:
            if made.process is not None:
                made.kill()
            if log := os.environ.get("CXRTEXT_MONTH_LOG"):
                shutil.copy(tmp_path / "log", log)


def test_a_month(month: Month) -> None:
    counts: list[str] = []
    for number in range(OLD):  # the archive, from 2022 on, some of it undated
        day = date(2022, 1, 1) + timedelta(days=number * (START - date(2022, 1, 1)).days // OLD)
        month.acquire(day, **({"StudyDate": ""} if number % 50 == 7 else {}))
    begun = time.monotonic()
    for turn in range(DAYS):
        day = START + timedelta(days=turn)
        month.clock.write_text(f"@{day} 10:00:00\n")
        if turn == 0:
            month.run()
        _day(month, turn, day)
        month.settle()
        found = month.status()
        counts.append(
            f"{day} received {found.received} = {dict(sorted(found.outcomes.items()))} + "
            f"{found.held} held; {len(month.expected)} in the index; "
            f"{time.monotonic() - begun:.0f} s"
        )
    month.until(lambda: month.reported() == month.said, "every report is as it was sent last")
    _forget(month)
    log = (month.folder / "log").read_text()
    print("\n".join(counts))  # noqa: T201 - shown by -s
    assert PLANTED not in log
    assert "Traceback" not in log


def _day(month: Month, turn: int, day: date) -> None:
    at = datetime(day.year, day.month, day.day, 10)
    numbers = [month.received(day) if n % 2 else month.acquire(day) for n in range(A_DAY)]
    for number in numbers:
        month.says(number, f"Nodule {number}.", at=at)
    if turn % 3 == 0:  # a correction of the header, and an addendum to the report
        month.orthanc.store([instance(numbers[0], size=32, day=day, PatientSex="M")])
        month.says(numbers[0], f"No nodule {numbers[0]}.", "C", at=at + timedelta(hours=1))
    if turn % 4 == 1:  # two patients were one
        merged = numbers[0]
        data = instance(merged, size=32, day=day, PatientID=f"{PLANTED}777777")
        month.orthanc.store([data])
        month.expected[uid(merged, 1, 1)] = patient(777777)
        month.said.pop(uid(merged))  # its report names the other
    if turn % 4 == 2:  # deleted in the PACS; a report is withdrawn
        month.orthanc.delete(uid(numbers[0]))
        month.settle_before_deletion(numbers[0]) if False else None
        month.expected.pop(uid(numbers[0], 1, 1))
        month.said.pop(uid(numbers[0]))
        month.says(numbers[2], "", "W", at=at + timedelta(hours=2))
    if turn % 5 == 3:  # the same UID, another patient and other pixels
        wrong = instance(
            NEVER + turn, size=32, day=day, SOPInstanceUID=uid(numbers[1], 1, 1),
            StudyInstanceUID=uid(numbers[1]),
        )  # fmt: skip
        month.send(wrong)
        month.held += 1
    if turn % 5 == 4:  # the same number by another issuer is another patient
        number, data = month.new(day, IssuerOfPatientID=f"{PLANTED}-OTHER")
        month.send(data)
        month.expected[uid(number, 1, 1)] = patient(number, "OTHER")
    if turn == 6:  # no UID
        month.send(instance(NEVER + turn, size=32, day=day, SOPInstanceUID="1.2.3..4"))
        month.held += 1
    if turn in (5, 12, 19):
        month.kill()
        month.run()
    if turn == 15:
        _rotate(month)
