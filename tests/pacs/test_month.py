"""A hospital's month: all ways in at once, with what goes wrong in one; each day adds up.

A modality and a PACS send to a real Orthanc, which is followed, and a made-up RIS sends reports and
merges; the gateway runs as a process, in which the follower's clock is moved by hand.
``CXRTEXT_MONTH`` is the share of 3,000 old studies and 100 a day that it has, by default a
twentieth.
"""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import torch

from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.checkpoint import save_checkpoint
from cxrtext.pacs.inbox.status import InboxStatus, read_status
from tests.cli.conftest import cxrtext
from tests.pacs.orthanc import PASSWORD, PASSWORD_ENV, Orthanc, free_port, started, write_gateway
from tests.pacs.studies import PLANTED, assert_nowhere, instance, uid
from tests.pacs.test_hl7_listen import frame, merge
from tests.pacs.test_worker import oru

CLOCK = """
import sys
if "gateway" in sys.orig_argv:
    import datetime, pathlib
    from cxrtext.pacs.retrieval import follow
    def moved():
        seconds = float(pathlib.Path({path!r}).read_text())
        return datetime.datetime.now() + datetime.timedelta(seconds=seconds)
    class Date(datetime.date):
        @classmethod
        def today(cls):
            return moved().date()
    class Datetime(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return moved()
    follow.date, follow.datetime = Date, Datetime
    follow.time = type("Time", (), {{
        "time": staticmethod(lambda: moved().timestamp()), "monotonic": follow.time.monotonic
    }})
"""
"""What the interpreter of each part begins with (``sitecustomize``)."""
pytestmark = [
    pytest.mark.peers,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("storescu") is None, reason="needs dcmtk"),
]
SHARE = float(os.environ.get("CXRTEXT_MONTH", "0.05"))
OLD, A_DAY = round(3000 * SHARE), max(8, round(100 * SHARE))
START, DAYS = date.today(), 30
FORGOTTEN = 10
NEVER = 900_000  # numbers of studies that are not to enter
SETTLE_S = 300 + 3000 * SHARE


def patient(number: int, issuer: str = "HIS") -> str:
    return f"{PLANTED}-{issuer}:{PLANTED}{number:06d}"


@dataclass
class Month:
    """The hospital, and what the index is to hold: the patient of each image."""

    folder: Path
    orthanc: Orthanc
    file: Path
    clock: Path
    ports: dict[str, int]
    expected: dict[str, str] = field(default_factory=dict)
    held: int = 0
    undecided: int = 0  # reports that are held
    said: dict[str, str] = field(default_factory=dict)  # a word of the report, by study
    process: subprocess.Popen[bytes] | None = None
    number: int = 0
    state: Path = Path()
    index: Path = Path()
    pacs: list[int] = field(default_factory=list)  # studies that the PACS has and nothing befell
    gone: list[int] = field(default_factory=list)  # deleted there; noticed in the night
    resend: list[bytes | tuple[bytes, None]] = field(default_factory=list)  # since the backup
    twin: tuple[str, Any] = ("", b"")  # the last object under a known UID, which overwrites it

    # --- the gateway ---

    def run(self) -> None:
        log = (self.folder / "log").open("ab")
        with log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", "from cxrtext_cli import start; start()", "gateway", "run",
                 str(self.file)],
                stdout=log, stderr=log, start_new_session=True,
                env={
                    **os.environ, PASSWORD_ENV: PASSWORD, "OMP_NUM_THREADS": "1",
                    "PYTHONPATH": f"{self.clock.parent}:{os.environ.get('PYTHONPATH', '')}",
                },
            )  # fmt: skip
        self.until(
            lambda: self.health()["healthy"] and all(map(self.listens, ("hl7",))),
            "every part is up",
        )

    def listens(self, name: str) -> bool:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.ports[name]), 5).close()
            return True
        return False

    def turn_clock(self, to: datetime) -> None:
        self.clock.write_text(f"{(to - datetime.now()).total_seconds():+.0f}\n")

    def health(self) -> dict[str, Any]:
        try:
            with urlopen(f"http://127.0.0.1:{self.ports['status']}/healthz", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (URLError, OSError):
            return {"healthy": False}

    def compared(self) -> str:
        """The day on which all days were compared last."""
        with (
            suppress(sqlite3.Error, TypeError),
            closing(sqlite3.connect(self.state / "inbox/follow-archive.sqlite")) as base,
        ):
            query = "SELECT value FROM facts WHERE name = 'compared'"
            return str(base.execute(query).fetchone()[0])[:10]
        return ""

    def kill(self) -> None:
        """End the gateway and all of its parts at once."""
        assert self.process is not None
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (process / "cmdline").read_bytes()
                if str(self.file).encode() in words and process.name != str(os.getpid()):
                    os.kill(int(process.name), signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(120)

    def write(self, **more: Any) -> None:
        follow = {"from": "2022-01-01", "every_s": 0.5, "at": "02:00"}
        given = {
            "project": str(self.index), "state": str(self.state), "reserve_gib": 0, "readers": 1,
            "device": "cpu", "hl7": {"port": self.ports["hl7"]},
            "status": {"port": self.ports["status"]}, **more,
        }  # fmt: skip
        write_gateway(
            self.file,
            self.orthanc.peer(on_deletion="forget", follow=follow),
            **given,
        )

    def until(self, done: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + SETTLE_S
        while not done():
            if time.monotonic() > end:
                log = (self.folder / "log").read_text()[-3000:]
                raise AssertionError(f"not within {SETTLE_S} s: {what}\n{log}")
            time.sleep(0.2)

    def status(self) -> InboxStatus:
        return read_status(self.state / "inbox")

    # --- the index ---

    def indexed(self) -> dict[str, str]:
        with closing(Catalogue(self.index / CATALOGUE)) as catalogue:
            query = "SELECT image, patient_id FROM images WHERE image LIKE '1.2%'"
            return dict(catalogue.database.execute(query).fetchall())

    def settle(self) -> None:
        """Wait until all that is there was taken in: the index is as expected, the sums agree."""

        found = self.status()

        def settled() -> bool:
            nonlocal found  # more may come after it, such as an object that is there already
            found = self.status()
            decided = (found.held, found.undecided) == (self.held, self.undecided)
            return decided and not sum(found.waiting.values()) and self.indexed() == self.expected

        try:
            self.until(settled, "the index is as expected")
        except AssertionError as error:
            now = self.indexed()
            lacks = sorted(self.expected.items() - now.items())[:5]
            has = sorted(now.items() - self.expected.items())[:5]
            raise AssertionError(f"lacks {lacks}, has {has}, {self.status()}: {error}") from None
        assert found.received == sum(found.outcomes.values()) + found.held + found.failed, found
        assert found.held == self.held, found
        assert found.undecided == self.undecided, found
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
        self.pacs.append(number)
        return number

    def send(self, *objects: bytes) -> None:
        """Send objects to Orthanc by DCMTK's storescu."""
        self.resend += objects
        folder = self.folder / "sending"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for place, data in enumerate(objects):
            (folder / f"{place}.dcm").write_bytes(data)
        done = subprocess.run(
            ["storescu", "+sd", "-aet", "MODALITY", "-aec", "CXRTEXT", "127.0.0.1",
             str(self.orthanc.dimse_port), str(folder)],
            capture_output=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-500:]

    def received(self, day: date, **more: Any) -> int:
        number, data = self.new(day, **more)
        self.send(data)
        self.expected[uid(number, 1, 1)] = patient(number)
        return number

    def report(self, message: bytes) -> bytes:
        self.resend.append((message, None))
        with socket.create_connection(("127.0.0.1", self.ports["hl7"]), timeout=60) as line:
            line.sendall(frame(message))
            return line.recv(4096)

    def says(self, number: int, text: str, status: str = "F", *, at: datetime) -> None:
        answer = self.report(oru(number, text, status, f"{at:%Y%m%d%H%M%S}"))
        assert b"MSA|AA" in answer, answer
        self.said[uid(number)] = "" if status == "W" else text

    def reported(self) -> dict[str, str]:
        with closing(Catalogue(self.index / CATALOGUE)) as catalogue:
            return {
                study: " ".join(text for _, text in catalogue.report(study)) for study in self.said
            }


@pytest.fixture
def month(index_copy: Path, tmp_path: Path) -> Iterator[Month]:
    ports = {name: free_port() for name in ("hl7", "status")}
    with started(tmp_path / "orthanc", OverwriteInstances=True) as orthanc:
        made = Month(
            tmp_path, orthanc, tmp_path / "gateway.yaml",
            tmp_path / "clock/now", ports, state=tmp_path / "gateway", index=index_copy,
        )  # fmt: skip
        (tmp_path / "clock").mkdir()
        customize = CLOCK.format(path=str(made.clock))
        (tmp_path / "clock/sitecustomize.py").write_text(customize)
        made.write()
        try:
            yield made
        finally:
            if made.process is not None:
                made.kill()
            if log := os.environ.get("CXRTEXT_MONTH_LOG"):
                shutil.copy(tmp_path / "log", log)


def test_a_month(month: Month, checkpoint: Path) -> None:
    for number in range(OLD):  # the archive, from 2022 on, some of it undated
        day = date(2022, 1, 1) + timedelta(days=number * (START - date(2022, 1, 1)).days // OLD)
        month.acquire(day, **({"StudyDate": ""} if number % 50 == 7 else {}))
    month.pacs.clear()
    begun = time.monotonic()
    for turn in range(DAYS):
        day = START + timedelta(days=turn)
        month.turn_clock(datetime(day.year, day.month, day.day, 10))
        if turn == 0:
            month.run()
        month.until(lambda day=day: month.compared() == str(day), "the night is over")  # type: ignore[misc]
        _night(month)
        _day(month, turn, day)
        _trouble(month, turn, day, checkpoint)
        month.settle()
        found = month.status()
        print(  # noqa: T201 - shown by -s
            f"{day} received {found.received} = {dict(sorted(found.outcomes.items()))} + "
            f"{found.held} held; {len(month.expected)} in the index; "
            f"{time.monotonic() - begun:.0f} s"
        )
    month.until(lambda: month.reported() == month.said, "every report is as it was sent last")
    month.stop()
    _forget(month)
    log = (month.folder / "log").read_text()
    assert PLANTED not in log
    assert "Traceback" not in log


def _night(month: Month) -> None:
    """What the PACS lost or merged the day before is noticed."""
    for number in month.gone:
        month.expected.pop(uid(number, 1, 1))
        month.said.pop(uid(number), None)
    month.gone.clear()


def _day(month: Month, turn: int, day: date) -> None:
    at = datetime(day.year, day.month, day.day, 10)
    numbers = [month.received(day) if n % 2 else month.acquire(day) for n in range(A_DAY)]
    for number in numbers:
        month.says(number, f"Nodule {number}.", at=at)
    month.send(instance(numbers[1], size=32, day=day))  # again
    month.report(oru(NEVER + turn, "Of a study that is not here."))
    wrong = oru(numbers[0], "Of another patient.")
    month.report(wrong.replace(f"||{PLANTED}{numbers[0]:06d}^".encode(), f"||{PLANTED}1^".encode()))
    month.undecided += 1
    if turn % 3 == 0:  # a header that is corrected, a corrected report, an addendum to it
        month.orthanc.store([instance(numbers[0], size=32, day=day, PatientSex="M")])
        month.says(numbers[2], f"No nodule {numbers[2]}.", "C", at=at + timedelta(hours=1))
        more = oru(numbers[2], "There is a small effusion.", "F", f"{at:%Y%m%d}120000").replace(
            b"59776-5", b"ADT"
        )
        month.report(more)
        month.said[uid(numbers[2])] = f"There is a small effusion. No nodule {numbers[2]}."
    if turn % 4 == 1:  # two patients were one, as the RIS says or as the PACS has it then
        number = month.pacs.pop(0)
        month.expected[uid(number, 1, 1)] = patient(777777)
        if turn % 8 == 1:
            his = f"^^^{PLANTED}-HIS"
            old, new = f"{PLANTED}{number:06d}{his}", f"{PLANTED}777777{his}"
            assert b"MSA|AA" in month.report(merge(old, new))
        else:
            month.orthanc.delete(uid(number))
            month.orthanc.store([instance(number, size=32, day=day, PatientID=f"{PLANTED}777777")])
            month.said[uid(number)] = ""  # its report names the other, and is held
            month.undecided += 1
    if turn % 4 == 2:  # deleted in the PACS; a report is withdrawn
        month.gone.append(month.pacs.pop(0))
        month.orthanc.delete(uid(month.gone[0]))
        month.says(numbers[2], "", "W", at=at + timedelta(hours=2))
    if turn % 5 == 3:  # the same UID, another patient and other pixels
        month.settle()
        one: dict[str, Any] = {
            "SOPInstanceUID": uid(numbers[1], 1, 1),
            "StudyInstanceUID": uid(numbers[1]),
        }
        month.send(instance(NEVER + turn, size=32, day=day, **one))
        month.twin = one["SOPInstanceUID"], month.resend.pop()
        month.held += 1
    if turn % 5 == 4:  # the same number by another issuer is another patient
        number, data = month.new(day, IssuerOfPatientID=f"{PLANTED}-OTHER")
        month.send(data)
        month.expected[uid(number, 1, 1)] = patient(number, "OTHER")


def _trouble(month: Month, turn: int, day: date, checkpoint: Path) -> None:
    if turn in (5, 12, 19):
        month.kill()
        month.run()
    if turn == 8:  # a full disk: nothing is taken, and nothing lost
        month.settle()
        month.write(reserve_gib=100_000)
        month.stop()
        month.run()
        number, data = month.new(day)
        month.send(data)
        assert b"MSA|AR" in month.report(oru(number, "Nodule."))
        month.write()
        month.stop()
        month.run()
        month.expected[uid(number, 1, 1)] = patient(number)
    if turn == 20:
        model = _other_model(checkpoint, month.folder / "model")
        cxrtext("index", "compact", month.index, "--model", model, "--device", "cpu")
        month.received(day)
    if turn == 22:
        month.settle()
        month.resend.clear()
        out = month.folder / "backup"
        cxrtext("backup", month.index, "--gateway", month.state, "--out", out)
    if turn == 24:  # all is lost; what was sent since the backup is sent again
        month.settle()
        month.kill()
        shutil.rmtree(month.state)
        shutil.rmtree(month.index)
        out = month.folder / "restored"
        cxrtext("restore", month.folder / "backup", "--out", out)
        month.state, month.index = out / "gateway", out / "index"
        month.write()
        name, second = month.twin
        month.orthanc.delete_of(name, f"{PLANTED}{NEVER + turn - 1:06d}")  # and comes again, below
        month.run()
        again, month.resend = month.resend, []
        for one in again:
            if isinstance(one, tuple):
                month.report(one[0])
            else:
                month.send(one)
        month.until(lambda: name in month.indexed(), "the first of a UID is there")
        month.send(second)


def _other_model(checkpoint: Path, out: Path) -> Path:
    """A checkpoint of other weights."""
    known = load_model(checkpoint)
    torch.manual_seed(35)
    save_checkpoint(out, ImageTextModel(known.spec, known.tokenizer), {})
    return out


def _forget(month: Month) -> None:
    """Ten patients are forgotten: nothing names them any more, in any byte."""
    numbers = month.pacs[:FORGOTTEN]
    assert len(numbers) == FORGOTTEN
    for number in numbers:
        done = cxrtext(
            "forget", month.index, month.state, month.folder / "restored/uploads", "--patient",
            patient(number), "--json",
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
    names = [f"{PLANTED}{number:06d}" for number in numbers]
    names += [f"A{number:06d}" for number in numbers] + [f"{uid(number)}.1" for number in numbers]
    assert_nowhere(names, month.index, month.state, month.folder / "restored/uploads")
    kept = month.indexed()
    assert kept == {
        image: whose for image, whose in month.expected.items()
        if whose not in {patient(number) for number in numbers}
    }  # fmt: skip
