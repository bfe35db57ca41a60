"""Small disks that fill up: nothing acknowledged is lost, a line says so, and work goes on."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cxrtext.errors import DiskError, WorkError
from cxrtext.pacs.inbox.intake import WorkerSettings
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.worker import Worker
from cxrtext.pacs.results.folder import ResultsFolder
from cxrtext.pacs.results.making import make_results
from cxrtext.service import Service
from tests.pacs.studies import PLANTED, instance, uid
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
