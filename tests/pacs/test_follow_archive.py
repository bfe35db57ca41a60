"""Fetching an archive from a real Orthanc, and from peers that do what real ones do wrong."""

import hashlib
import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydicom import dcmread

from cxrtext.errors import DiskError, WorkError
from cxrtext.pacs import throttle
from cxrtext.pacs.dicomweb import DicomWeb
from cxrtext.pacs.faults import DeniedError, PeerError
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.query import Question
from cxrtext.pacs.retrieval.follow_state import FollowState
from cxrtext.pacs.retrieval.search import search
from tests.pacs.odd_peer import Answer, OddPeer, multipart, served
from tests.pacs.orthanc import PASSWORD_ENV, Known, Orthanc, follow_into, web_peer
from tests.pacs.studies import BEGIN, PLANTED, ROOT, archive, instance, study, uid, wanted

FOLLOW = {"from": BEGIN.isoformat()}


def fetched(folder: Path) -> dict[str, str]:
    """The digest of every object that waits in an inbox, by its UID; each is there once."""
    found: dict[str, str] = {}
    with Inbox(folder / "inbox", reserve=0) as inbox:
        for entry in inbox.waiting(10_000):
            name = str(dcmread(entry.path, stop_before_pixels=True).SOPInstanceUID)
            assert name not in found
            found[name] = hashlib.sha256(entry.path.read_bytes()).hexdigest()
    return found


def odd(url: str, **limits: Any) -> Peer:
    return web_peer("odd", url, FOLLOW, **limits)


def fetch(peer: Peer, folder: Path, say: Callable[[str], None] = lambda _: None) -> str:
    """Follow a peer once, from the day on; gives the counts, or what failed."""
    try:
        return str(follow_into(folder / "inbox", peer, say))
    except WorkError as error:
        if isinstance(error, PeerError | DiskError):
            raise
        return str(error)


def left(folder: Path, name: str = "archive") -> dict[str, int]:
    """Why objects were left out, and how many."""
    with FollowState(folder / "inbox" / f"follow-{name}.sqlite") as state:
        return {why: n for (kind, why), n in state.counts().items() if kind == "left"}


def from_odd(peer: OddPeer, folder: Path, **more: Any) -> str:
    with served(peer) as url:
        return fetch(odd(url), folder, **more)


FEW = "2 new, 0 corrected, 0 gone, 2 left out, 0 failed"
"""Of two studies, each with a lateral view."""


def test_what_may_enter_is_pulled_the_last_line_adds_up_and_no_name_is_logged_or_in_the_state(
    orthanc: Orthanc,
    known: Known,
    tmp_path: Path,
    said: list[str],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    orthanc.store(archive(8))
    peer = known(orthanc.peer(follow=FOLLOW))
    expected = wanted(8)
    said.append(fetch(peer, tmp_path, said.append))
    state = tmp_path / "inbox" / "follow-archive.sqlite"
    with closing(sqlite3.connect(state)) as base:
        said += [*base.iterdump(), caplog.text, *capfd.readouterr()]
    assert PASSWORD_ENV not in caplog.text
    assert "7 new, 0 corrected, 0 gone, 7 left out, 0 failed" in said
    assert left(tmp_path)["lateral view"] == 3
    assert sorted(fetched(tmp_path)) == expected
    assert fetch(peer, tmp_path) == "0 new, 0 corrected, 0 gone, 0 left out, 0 failed"
    for path in (tmp_path / "inbox").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_objects_come_as_they_are_stored(orthanc: Orthanc, known: Known, tmp_path: Path) -> None:
    kinds = {
        1: "1.2.840.10008.1.2.5", 2: "1.2.840.10008.1.2.4.90", 3: "1.2.840.10008.1.2.4.80",
        4: "1.2.840.10008.1.2", 5: "1.2.840.10008.1.2.4.57",
    }  # fmt: skip
    objects = {number: instance(number, syntax=syntax) for number, syntax in kinds.items()}
    orthanc.store(objects.values())
    assert fetch(known(orthanc.peer(follow=FOLLOW)), tmp_path).startswith("5 new")
    assert fetched(tmp_path) == {
        uid(number, 1, 1): hashlib.sha256(one).hexdigest() for number, one in objects.items()
    }


@cache
def in_the_course_of_a_day(n: int) -> bytes:
    time = f"{n * 341 // 3600 % 24:02d}{n * 341 // 60 % 60:02d}00"
    return instance(n, size=8, StudyTime=time)


@pytest.mark.parametrize("ignored", ["offset", "StudyTime"])
def test_a_peer_that_cuts_its_answers_off(ignored: str) -> None:
    objects = [in_the_course_of_a_day(n) for n in range(250)]
    peer = OddPeer(objects, cap=100, ignores=[ignored])
    with served(peer) as url, closing(DicomWeb(odd(url))) as source:
        found, complete = search(source, Question("20240301", modality="DX"))
    assert (len(found), complete) == (250, True)


def test_many_days_take_few_questions() -> None:
    objects = [in_the_course_of_a_day(n) for n in range(250)]
    peer = OddPeer(objects, cap=100)
    with served(peer) as url, closing(DicomWeb(odd(url))) as source:
        found, complete = search(source, Question("19700101-20991231", modality="DX"))
    assert (len(found), complete) == (250, True)
    assert len(peer.asked) < 60


def test_a_peer_that_can_give_no_more_is_named(tmp_path: Path, said: list[str]) -> None:
    objects = [in_the_course_of_a_day(n) for n in range(105)]
    peer = OddPeer(objects, cap=100, ignores=("offset", "StudyTime"))
    assert from_odd(peer, tmp_path, say=said.append).startswith("100 new")
    assert any("cuts its answers off; it may have more studies" in line for line in said)


def answers(path: str, *said: Answer) -> Callable[[str, int], Answer | None]:
    """Answers for a path, one after the other, then the usual ones; a single one for ever."""
    left = list(said) if len(said) > 1 else [*said] * 1000
    return lambda asked, _: left.pop(0) if path in asked and left else None


INSTANCE = f"/instances/{uid(1, 1, 1)}"


@pytest.mark.parametrize(
    ("path", "by", "says"),
    [
        (INSTANCE, (404, {}, b""), "does not have an image (404); is its url that of DICOMweb?"),
        (INSTANCE, (302, {"Location": "http://evil/"}, b""), "sends on to another address (302)"),
        (INSTANCE, multipart(instance(9)), "sent another object than was asked for"),
        (INSTANCE, multipart(instance(1)[:132] + b"\xff" * 64), "sent a damaged object"),
        (INSTANCE, (200, {"Content-Length": "9", "Connection": "close"}, b"DICM"), "broke off an"),
        (f"studies/{uid(1)}/instances", (200, {}, b"<html>"), "an answer is not JSON"),
        (
            f"studies/{uid(1)}/instances",
            (200, {}, b'[{"0020000D": {"Value": ["1.2.3"]}}]'),
            "lists images of another study",
        ),
    ],
)  # fmt: skip
def test_what_a_peer_does_wrong_fails_in_one_line_and_leaves_the_rest(
    path: str, by: Answer, says: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[str] = []
    objects = [*study(1), *study(2)]
    with caplog.at_level(logging.DEBUG):
        found = from_odd(OddPeer(objects, before=answers(path, by)), tmp_path, say=lines.append)
    assert found == "odd: 1 studies could not be looked at; run it again"
    assert any(says in line for line in lines)
    assert list(fetched(tmp_path)) == [uid(2, 1, 1)]
    assert PLANTED not in caplog.text + "\n".join(lines)
    # Once the peer does right, the next turn gets what lacked.
    with served(OddPeer(objects)) as url:
        follow_into(tmp_path / "inbox", odd(url), lines.append)
    assert sorted(fetched(tmp_path)) == [uid(1, 1, 1), uid(2, 1, 1)]


def test_a_busy_peer_is_asked_again_and_what_it_repeats_is_taken_once(tmp_path: Path) -> None:
    class Twice(OddPeer):
        def _rows(self, rows: list[dict[str, Any]], query: Any) -> Answer:
            return super()._rows([*rows, *rows], query)

    busy, many = ((status, {"Retry-After": "0"}, b"") for status in (503, 429))
    peer = Twice([*study(1), *study(2)], before=answers("/", busy, busy, many))
    assert from_odd(peer, tmp_path) == FEW


def test_a_peer_that_denies_access_stops_it(tmp_path: Path) -> None:
    peer = OddPeer([*study(1), *study(2)], before=answers("/instances/", (403, {}, b"")))
    with served(peer) as url, pytest.raises(DeniedError, match="its user has no right to an image"):
        fetch(odd(url, parallel=1), tmp_path)
    assert sum("/instances/" in path for path in peer.asked) <= 2


@pytest.mark.parametrize("bad", ["1.2.3/../../x", "", "1" * 65])
def test_a_uid_that_is_none_is_never_asked_for_and_names_no_file(bad: str, tmp_path: Path) -> None:
    rows = f'[{{"0020000D": {{"Value": ["{uid(1)}"]}}, "0020000E": {{"Value": ["1.2"]}}, '
    rows += f'"00080018": {{"Value": ["{bad}"]}}}}]'
    before = answers(f"studies/{uid(1)}/instances", (200, {}, rows.encode()))
    peer = OddPeer([*study(1), *study(2)], before=before)
    assert from_odd(peer, tmp_path).startswith("1 new")
    assert all(path.startswith(f"/dicom-web/studies/{ROOT}") for path in peer.asked if "." in path)
    assert {p.name for p in tmp_path.iterdir()} == {"inbox"}


def test_what_cannot_be_told_before_is_told_by_the_object_itself(tmp_path: Path) -> None:
    # The peer's answer leaves out what decides.
    hidden = OddPeer([*study(1, ["lateral"]), *study(2)])
    for row, _ in hidden.objects.values():
        for tag in ("00185101", "00200020", "00280010", "00080016"):
            row.pop(tag, None)
    assert from_odd(hidden, tmp_path) == "1 new, 0 corrected, 0 gone, 2 left out, 0 failed"
    assert left(tmp_path, "odd") == {"lateral view": 2}


def test_patience_ends() -> None:
    assert [throttle.back_off(n, asked) for n, asked in ((0, 7.0), (9, 1e9))] == [7.0, 300.0]
    assert all(0.5 * 0.01 * 2**n <= throttle.back_off(n) <= 0.01 * 2**n for n in range(5))
