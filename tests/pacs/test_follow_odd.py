"""Following peers that leave things out, objects that cannot be taken, full disks, odd clocks."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cxrtext.errors import DiskError, WorkError
from cxrtext.pacs.dicomweb import DicomWeb
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.retrieval.follow import Follower
from cxrtext.pacs.retrieval.follow_state import FollowState
from cxrtext.pacs.throttle import Throttle
from tests.pacs.odd_peer import Answer, OddPeer, Short, multipart, served
from tests.pacs.orthanc import follow_into, web_peer
from tests.pacs.studies import PLANTED, compare_next, instance, study, uid
from tests.pacs.test_follow import entries

TODAY = date.today()
FOLLOW = {"from": TODAY.isoformat()}
STUDY_DATE = "00080020"


def turn(url: str, folder: Path, **limits: Any) -> tuple[str, list[str]]:
    """Follow once and compare; gives the counts, or the error, and what was said."""
    said: list[str] = []
    try:
        peer = web_peer("archive", url, FOLLOW, **limits)
        compare_next(folder / "follow-archive.sqlite")
        found = str(follow_into(folder, peer, said.append))
    except WorkError as error:
        found = str(error)
    assert PLANTED not in "\n".join(said)
    return found, said


@contextmanager
def following(
    url: str, folder: Path, orthanc: str | None = None
) -> Iterator[tuple[Follower, FollowState]]:
    peer = web_peer("archive", url, FOLLOW)
    web = peer.dicomweb.model_copy(update={"orthanc": orthanc})
    peer = peer.model_copy(update={"dicomweb": web})
    with (
        closing(DicomWeb(peer, Throttle(peer.limits))) as source,
        Inbox(folder, reserve=0) as box,
        FollowState(folder / "follow.sqlite") as state,
    ):
        yield Follower(peer, source, box, state, lambda _: None), state


def test_an_object_that_cannot_be_taken_does_not_keep_its_study_out(tmp_path: Path) -> None:
    objects = [instance(1, n, "PA", day=TODAY) for n in (1, 2, 3)]

    def damaged(path: str, _: int) -> Answer | None:
        return multipart(b"no object") if path.endswith(uid(1, 1, 1)) else None

    with served(OddPeer(objects, before=damaged)) as url:
        found, said = turn(url, tmp_path / "inbox")
        assert found == "archive: 1 studies could not be looked at; run it again"
        assert any(
            "sent something that is not a DICOM object; it is tried again" in one for one in said
        )
        assert entries(tmp_path) == [uid(1, 2, 1), uid(1, 3, 1)]
    with served(OddPeer(objects)) as url:
        assert turn(url, tmp_path / "inbox")[0].startswith("1 new, 0 corrected")
    assert entries(tmp_path) == [uid(1, 2, 1), uid(1, 3, 1), uid(1, 1, 1)]


def test_an_object_that_is_too_large_is_left_out(tmp_path: Path) -> None:
    objects = [instance(1, 1, size=1024, day=TODAY), instance(1, 2, day=TODAY)]
    with served(OddPeer(objects)) as url:
        found, _ = turn(url, tmp_path / "inbox", object_mb=1)
    assert found == "1 new, 0 corrected, 0 gone, 1 left out, 0 failed"
    assert entries(tmp_path) == [uid(1, 2, 1)]


class Sparing(OddPeer):
    """Says at the level of instances nothing of the study, as the standard allows."""

    def _rows(self, rows: list[dict[str, Any]], query: Any) -> Answer:
        if any("SOPInstanceUID" in fields for fields in query.get("includefield", [])):
            rows = [{k: v for k, v in row.items() if k != STUDY_DATE} for row in rows]
        return super()._rows(rows, query)


def test_a_deletion_is_noticed_where_instances_do_not_say_their_day(tmp_path: Path) -> None:
    peer = Sparing([*study(1, day=TODAY), *study(2, day=TODAY)])
    with served(peer) as url:
        turn(url, tmp_path / "inbox")
        for number in (1, 2):
            peer.objects.pop(uid(1, number, 1))
        found, _ = turn(url, tmp_path / "inbox")
    assert found == "0 new, 0 corrected, 1 gone, 0 left out, 0 failed"
    assert entries(tmp_path)[-1] == f"-{uid(1, 1, 1)}"


def test_a_study_that_counts_more_objects_than_it_lists_is_looked_at_three_times(
    tmp_path: Path,
) -> None:
    peer = OddPeer(study(1, day=TODAY))
    peer.count(9)
    with served(peer) as url, following(url, tmp_path / "inbox") as (follower, state):
        for _ in range(9):
            follower.poll()
            follower.work()
        assert len([path for path in peer.asked if path.endswith("/instances")]) == 3
        peer.count(10)
        follower.poll()
        assert state.pending(3) == [uid(1)]


def test_a_study_that_grew_is_pending_or_not_known_to_have_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        served(OddPeer(study(1, day=TODAY))) as url,
        following(url, tmp_path / "inbox") as (f, state),
    ):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(FollowState, "pend", Mock(side_effect=KeyboardInterrupt))
            f.poll()
        f.poll()
        assert state.pending(3) == [uid(1)]


def test_a_comparison_in_the_future_was_made_by_a_wrong_clock(tmp_path: Path) -> None:
    with following("http://127.0.0.1:9/dicom-web", tmp_path / "inbox") as (follower, state):
        now = datetime.now().astimezone()
        state.note("from", TODAY.isoformat())
        for days, due in ((0, False), (400, True), (-2, True)):
            state.note("compared", (now + timedelta(days=days)).isoformat())
            assert follower._is_due() == due


def test_a_full_disk_is_said_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    put, tries = Inbox.put, iter(range(9))

    def full(self: Inbox, *arguments: Any, **more: Any) -> int:
        if next(tries) < 2:
            raise DiskError("in: the disk is full; make room on it")
        throttle.stopped.set()
        return put(self, *arguments, **more)

    monkeypatch.setattr(Inbox, "put", full)
    with served(OddPeer(study(1, day=TODAY))) as url:
        peer = web_peer("archive", url, {**FOLLOW, "every_s": 0.1})
        throttle = Throttle(peer.limits)
        follow_into(tmp_path / "inbox", peer, said.append, throttle=throttle, once=False)
    assert "in: the disk is full; make room on it; trying again in 0 s" in said
    assert entries(tmp_path) == [uid(1, 1, 1)]


def test_what_one_or_all_short_listings_leave_out_is_not_gone(tmp_path: Path) -> None:
    peer = Short(study(1, ("PA", "AP"), day=TODAY))
    peer.count(2)
    with served(peer) as url, following(url, tmp_path / "inbox") as (follower, state):
        state.note("compared", "")
        follower.turn()
        assert follower.tally.counts == {"new": 2}
        peer.short = 1
        state.note("compared", "")
        follower.turn()
        assert not peer.short
        assert follower.tally.counts == {"new": 2, "failed": 1}
        peer.short = 999
        state.pend([uid(1)])  # as Orthanc's list of changes does, which counts nothing
        for look in (follower.work, follower.compare):
            look()
            assert state.pending(9) == [uid(1)]
        peer.short = 0
        peer.objects.pop(uid(1, 2, 1))
        peer.count(1)
        follower.work()
        assert state.pending(9) == []
        assert follower.tally.counts == {"new": 2, "failed": 3, "gone": 1}
    assert entries(tmp_path)[2:] == [f"-{uid(1, 2, 1)}"]
