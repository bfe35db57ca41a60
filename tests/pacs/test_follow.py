"""Following a real Orthanc: what is new, corrected or gone there is so in inbox and index."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydicom import dcmread

from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.pacs.identity import MANUFACTURER, series_description
from cxrtext.pacs.inbox.intake import WorkerSettings
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.worker import Worker
from cxrtext.pacs.retrieval import follow
from cxrtext.pacs.retrieval.changes import read_changes
from cxrtext.pacs.retrieval.follow import TOO_MANY, Tally
from cxrtext.pacs.retrieval.follow_state import FollowState, Seen
from tests.datasets.test_import_reports import save_sr
from tests.pacs.orthanc import PASSWORD, PASSWORD_ENV, Known, Orthanc, follow_into, started
from tests.pacs.studies import PLANTED, accept_all, compare_next, instance, study, uid

TODAY = date.today()


@pytest.fixture
def overwriting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Orthanc]:
    """An Orthanc that takes a corrected object in place of the one before."""
    monkeypatch.setenv(PASSWORD_ENV, PASSWORD)
    with started(tmp_path / "orthanc", OverwriteInstances=True) as orthanc:
        yield orthanc


FIRST = TODAY - timedelta(days=3)


Turn = Callable[..., Tally]


@pytest.fixture
def turn(
    orthanc: Orthanc,
    known: Known,
    tmp_path: Path,
    said: list[str],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> Turn:
    """Follows once; another Orthanc and other entries of its peer may be given.

    No planted name may be in a log, nor in what is printed.
    """
    caplog.set_level(logging.DEBUG)

    def once(of: Orthanc = orthanc, *, compare: bool = False, **more: Any) -> Tally:
        peer = known(of.peer(**{"follow": {"from": FIRST.isoformat(), "at": "00:00"}, **more}))
        if compare:
            compare_next(tmp_path / "inbox" / f"follow-{peer.name}.sqlite")
        tally = follow_into(tmp_path / "inbox", peer, said.append)
        out = capfd.readouterr()
        assert PLANTED not in caplog.text + out.out + out.err
        return tally

    return once


def entries(tmp_path: Path) -> list[str]:
    """What waits in the inbox, in its order: UIDs; "-" before those of deletions."""
    found = []
    with Inbox(tmp_path / "inbox", reserve=0) as inbox:
        for entry in inbox.waiting(1000):
            assert entry.source == "archive"
            if entry.what == "deletion":
                found.append(f"-{json.loads(entry.path.read_bytes())['instance']}")
            else:
                found.append(str(dcmread(entry.path, stop_before_pixels=True).SOPInstanceUID))
    return found


def test_what_is_new_comes_once(orthanc: Orthanc, turn: Turn, tmp_path: Path) -> None:
    orthanc.store(study(1, day=TODAY))
    assert str(turn()) == "1 new, 0 corrected, 0 gone, 1 left out, 0 failed"
    assert str(turn()) == "0 new, 0 corrected, 0 gone, 0 left out, 0 failed"
    orthanc.store([*study(2, day=TODAY), instance(1, 3, "AP", day=TODAY)])  # one is late
    orthanc.store(study(3, day=TODAY - timedelta(days=400)))  # an old study, stored today
    assert turn().counts["new"] == 3
    expected = [uid(1, 1, 1), uid(1, 3, 1), uid(2, 1, 1), uid(3, 1, 1)]
    assert sorted(entries(tmp_path)) == expected


def test_what_comes_while_the_days_are_asked_for_comes_once(
    orthanc: Orthanc, turn: Turn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming = study(1, day=TODAY)

    def read_then_store(*given: Any) -> bool:
        gap = read_changes(*given)
        orthanc.store(coming)
        coming.clear()
        return gap

    monkeypatch.setattr(follow, "read_changes", read_then_store)
    assert str(turn()) == "1 new, 0 corrected, 0 gone, 1 left out, 0 failed"
    assert turn().counts == {}
    assert entries(tmp_path) == [uid(1, 1, 1)]


def test_a_structured_report_becomes_the_report_of_its_study_and_an_own_one_is_left_out(
    orthanc: Orthanc, turn: Turn, index_copy: Path, tmp_path: Path
) -> None:
    own = {"Manufacturer": MANUFACTURER, "SeriesDescription": series_description("sr")}
    for number, more in ((1, {}), (2, own)):
        whose = {"PatientID": f"{PLANTED}000001", "AccessionNumber": "A000001"}
        save_sr(tmp_path / f"{number}.dcm", number, "Heart is large.", **whose, **more)
        report = dcmread(tmp_path / f"{number}.dcm")
        report.StudyInstanceUID, report.SeriesInstanceUID = uid(1), uid(1, 90 + number)
        report.save_as(tmp_path / f"{number}.dcm")
    orthanc.store([instance(1, day=TODAY), *(p.read_bytes() for p in tmp_path.glob("*.dcm"))])
    assert str(turn()) == "2 new, 0 corrected, 0 gone, 1 left out, 0 failed"
    settings = WorkerSettings(index_copy, tmp_path / "files", readers=1)
    with Inbox(tmp_path / "inbox", reserve=0) as inbox, Worker(inbox, settings) as worker:
        worker.drain()
    with closing(Catalogue(index_copy / CATALOGUE)) as catalogue:
        assert [text for _, text in catalogue.report(uid(1))] == ["Heart is large.", "Normal."]


def test_inbox_and_index_follow_a_planted_deletion_a_corrected_header_and_an_emptied_list(
    overwriting: Orthanc, turn: Turn, known: Known, index_copy: Path, tmp_path: Path
) -> None:
    more = {"on_deletion": "forget"}
    peers = {"archive": known(overwriting.peer(**more))}
    settings = WorkerSettings(
        index_copy, tmp_path / "files", readers=1, columns=("sex",), peers=peers
    )

    def taken() -> dict[str, str]:
        """The sex of each image that the index has of the PACS, once the inbox is empty."""
        with Inbox(tmp_path / "inbox") as inbox, Worker(inbox, settings) as worker:
            worker.drain()
        with closing(Catalogue(index_copy / CATALOGUE)) as catalogue:
            rows = catalogue.database.execute("SELECT image, metadata FROM images").fetchall()
        found = {image: json.loads(metadata) for image, metadata in rows}
        return {image: said["sex"] for image, said in found.items() if "sex" in said}

    for number in range(1, 5):
        overwriting.store(study(number, day=TODAY))
    assert turn(overwriting, **more).counts["new"] == 4
    assert taken() == {uid(number, 1, 1): "F" for number in range(1, 5)}
    # A deletion leaves no trace in the list, nor does what comes before it is emptied.
    overwriting.delete(uid(1, 1, 1))
    overwriting.delete(uid(4))
    overwriting.store([instance(2, 1, "PA", day=TODAY, PatientSex="M")])
    overwriting.store([instance(3, 1, "lateral", day=TODAY)])  # a view that was wrong
    overwriting.store(study(5, day=TODAY))
    overwriting.ask("DELETE", "/changes")
    assert turn(overwriting, compare=True, **more).counts == {
        "new": 1, "corrected": 1, "gone": 2, "left out": 2,
    }  # fmt: skip
    assert sorted(entries(tmp_path)) == sorted(
        [f"-{uid(1, 1, 1)}", uid(2, 1, 1), f"-{uid(3, 1, 1)}", f"-{uid(4, 1, 1)}", uid(5, 1, 1)]
    )
    for _ in range(2):
        assert taken() == {uid(2, 1, 1): "M", uid(5, 1, 1): "F"}
        assert turn(overwriting, compare=True, **more).counts == {}


def test_a_gap_in_the_list_is_noticed(orthanc: Orthanc, turn: Turn) -> None:
    orthanc.store(study(1, day=TODAY))
    turn()
    orthanc.store(study(2, day=TODAY))
    orthanc.ask("DELETE", "/changes")
    orthanc.store(study(3, day=TODAY))
    assert turn().counts["new"] == 2
    assert turn().counts == {}


def test_without_a_list_the_days_are_compared(orthanc: Orthanc, turn: Turn, tmp_path: Path) -> None:
    plain = {**orthanc.peer()["dicomweb"], "orthanc": None}
    more = {"dicomweb": plain}
    orthanc.store(study(1, day=TODAY))
    turn(compare=True, **more)
    turn(compare=True, **more)
    assert entries(tmp_path) == [uid(1, 1, 1)]
    orthanc.clear()
    orthanc.store(study(2, day=TODAY))
    tally = turn(compare=True, **more)
    assert (tally.counts["new"], tally.counts["gone"]) == (1, 1)


def test_a_study_with_a_corrected_date_is_not_gone(
    overwriting: Orthanc, turn: Turn, tmp_path: Path
) -> None:
    overwriting.store([instance(1, day=TODAY)])
    turn(overwriting)
    overwriting.delete(uid(1))
    overwriting.store([instance(1, day=TODAY - timedelta(days=90))])
    overwriting.ask("DELETE", "/changes")
    tally = turn(overwriting, compare=True)
    assert tally.counts == {"corrected": 1}
    assert entries(tmp_path) == [uid(1, 1, 1)] * 2


def test_that_everything_is_gone_waits_for_somebody_to_accept_it(
    orthanc: Orthanc, turn: Turn, said: list[str], tmp_path: Path
) -> None:
    for number in range(1, 23):
        orthanc.store([instance(number, size=8, day=TODAY)])
    assert turn().counts["new"] == 22
    orthanc.clear()
    assert turn(compare=True).counts["gone"] == 22
    assert "22 images are gone there, suspiciously many" in " ".join(said)
    assert len(entries(tmp_path)) == 22, "no deletion waits to be worked on"
    with Inbox(tmp_path / "inbox", reserve=0) as inbox:
        held = inbox.held()
        assert {one.reason for one in held} == {TOO_MANY}
        accept_all(inbox)
    assert len(entries(tmp_path)) == 44
    assert turn(compare=True).counts == {}


def test_an_earlier_first_day_is_asked_for_and_undated_studies_are(
    orthanc: Orthanc, turn: Turn, tmp_path: Path
) -> None:
    old = TODAY - timedelta(days=900)
    orthanc.store([*study(1, day=old), instance(2, StudyDate=""), instance(3, day=TODAY)])
    assert turn(compare=True).counts["new"] == 2
    assert turn(follow={"from": old.isoformat(), "at": "00:00"}).counts["new"] == 1
    assert sorted(entries(tmp_path)) == [uid(1, 1, 1), uid(2, 1, 1), uid(3, 1, 1)]
    orthanc.delete(uid(1))
    orthanc.delete(uid(2))
    assert turn(compare=True, follow={"from": old.isoformat()}).counts["gone"] == 2


def test_what_is_killed_between_inbox_and_state_is_put_again(
    orthanc: Orthanc, turn: Turn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orthanc.store([*study(1, day=TODAY), *study(2, day=TODAY)])
    know = FollowState.know
    calls: list[str] = []

    def dies(self: FollowState, seen: Seen) -> None:
        calls.append(seen.instance)
        if len(calls) == 3:
            raise KeyboardInterrupt
        know(self, seen)

    monkeypatch.setattr(FollowState, "know", dies)
    with pytest.raises(KeyboardInterrupt):
        turn()
    put = entries(tmp_path)
    turn()
    turn()
    assert set(entries(tmp_path)) == {uid(1, 1, 1), uid(2, 1, 1)}
    assert len(entries(tmp_path)) <= len(put) + 1
    assert not list((tmp_path / "inbox").glob(".follow-*"))
