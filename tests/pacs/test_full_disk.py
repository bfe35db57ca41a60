"""Small disks that fill up: nothing acknowledged is lost, a line says so, and work goes on."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("pynetdicom")

from cxrtext.errors import DiskError, WorkError
from cxrtext.pacs.dimse.server import Listener
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.worker import Worker, WorkerSettings
from cxrtext.pacs.results.folder import ResultsFolder
from cxrtext.pacs.results.making import make_results
from cxrtext.pacs.retrieval.pull import PullOptions, pull_archive
from cxrtext.service import Service
from tests.pacs.odd_peer import OddPeer, served
from tests.pacs.orthanc import web_peer
from tests.pacs.studies import BEGIN, PLANTED, instance, uid
from tests.pacs.test_listen import send
from tests.pacs.test_worker import indexed, outcomes

SIZE = 700  # of the side of an image: an object is nearly a megabyte


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount") or "mount"
    command = [mount, "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def enlarge(disk: Path) -> None:
    """Make room: the disk has 64 MB now."""
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)


def fill(disk: Path) -> None:
    (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free))


def one_line(error: BaseException) -> str:
    text = str(error)
    assert "\n" not in text
    assert PLANTED not in text
    return text


def test_a_listener_answers_a700_until_there_is_room(disk: Path, said: list[str]) -> None:
    objects = [instance(number, size=SIZE) for number in range(1, 13)]
    with (
        Inbox(disk / "inbox", reserve=0) as inbox,
        Listener(inbox, {"SENDER": "archive"}, port=0, say=said.append) as listener,
    ):
        statuses = [send(listener, one)[0] for one in objects]
        assert {0, 0xA700} == set(statuses)
        assert any(line.startswith("archive: refused with A700: ") for line in said)
        kept = [entry.path.stat().st_size for entry in inbox.waiting(99)]
        assert len(kept) == statuses.count(0) > 3
        assert min(kept) > 2 * SIZE * SIZE // 2
        enlarge(disk)
        refused = [one for one, status in zip(objects, statuses, strict=True) if status]
        assert send(listener, *refused) == [0] * len(refused)
    with Inbox(disk / "inbox", reserve=0) as inbox:
        entries = inbox.waiting(99)
        assert len(entries) == len(list((disk / "inbox" / "objects").iterdir())) == 12


@pytest.mark.parametrize("full", ["archive", "inbox", "index"])
def test_a_worker_waits_for_room_and_sets_nothing_aside(
    disk: Path, tmp_path: Path, index_folder: Path, full: str
) -> None:
    places = {name: tmp_path / name for name in ("archive", "inbox", "index")}
    places[full] = disk / full
    shutil.copytree(index_folder, places["index"])
    with Inbox(places["inbox"], reserve=0) as inbox:
        numbers = [inbox.put("PACS", instance(number, size=SIZE)) for number in (1, 2)]
        settings = WorkerSettings(places["index"], places["archive"], readers=1)
        with Worker(inbox, settings) as worker:
            fill(disk)
            for _ in range(5):
                with pytest.raises((WorkError, OSError)) as caught:
                    worker.drain()
                assert str(disk) in one_line(caught.value), "the disk that is full"
            enlarge(disk)
            worker.drain()
        assert [outcome for outcome, _ in outcomes(inbox, numbers)] == ["added"] * 2
    assert set(indexed(places["index"])) == {uid(1, 1, 1), uid(2, 1, 1)}


def test_a_pull_stops_in_a_line_and_resumes(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cxrtext.pacs.retrieval.objects.RESERVE_BYTES", 0)
    options = PullOptions(first=BEGIN, last=BEGIN + timedelta(days=1), patience_s=0.1)
    objects = [instance(number, size=SIZE, day=BEGIN) for number in range(1, 13)]
    with served(OddPeer(objects)) as url:
        peer = web_peer("archive", url)
        for _ in range(2):
            with pytest.raises(DiskError) as caught:
                pull_archive(peer, disk / "out", options)
            one_line(caught.value)
        before = {path for path in (disk / "out" / "images").rglob("*.dcm") if path.stat().st_size}
        assert 3 < len(before) < 12
        enlarge(disk)
        found = pull_archive(peer, disk / "out", options)
    assert str(found) == "found 12 = 12 fetched + 0 left out + 0 failed"
    assert len(list((disk / "out" / "images").rglob("*.dcm"))) == 12


def test_results_are_made_when_there_is_room(disk: Path, effusion: Path, service: Service) -> None:
    folder = ResultsFolder(disk / "out")
    fill(disk)
    with pytest.raises(DiskError) as caught:
        make_results(service, effusion, "Left pleural effusion.", folder)
    assert str(disk) in one_line(caught.value)
    with pytest.raises(DiskError):
        ResultsFolder(disk / "other" / "folder")
    enlarge(disk)
    make_results(service, effusion, "Left pleural effusion.", folder)
    assert len(folder.all()) == 2
    assert len(list((disk / "out" / "objects").iterdir())) == 2
