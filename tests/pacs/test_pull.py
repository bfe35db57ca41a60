"""Pulling from a real Orthanc and from peers that do what real ones do wrong."""

import hashlib
import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydicom import dcmread

from cxrtext.datasets.importing import ImportOptions, import_folder
from cxrtext.errors import ConfigError, DataError, DiskError
from cxrtext.pacs import throttle
from cxrtext.pacs.dicomweb.client import DicomWeb
from cxrtext.pacs.faults import DeniedError, GoneError, PeerError
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.query import Question
from cxrtext.pacs.retrieval.objects import FEWER
from cxrtext.pacs.retrieval.pull import PullOptions, PullSummary, pull_archive
from cxrtext.pacs.retrieval.pull_state import State
from cxrtext.pacs.retrieval.search import search
from tests.pacs.odd_peer import Answer, OddPeer, Short, multipart, served
from tests.pacs.orthanc import PASSWORD_ENV, Known, Orthanc, web_peer
from tests.pacs.studies import BEGIN, PLANTED, ROOT, archive, instance, study, uid, wanted

DAYS = PullOptions(BEGIN, date(2024, 3, 5), patience_s=0.5)
ONE_DAY = PullOptions(BEGIN, BEGIN, modalities=("DX",), patience_s=0.5)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "FIRST_WAIT_S", 0.01)


def pulled(folder: Path) -> dict[str, str]:
    """The digest of every image of a pull by its UID."""
    found = {}
    for path in (folder / "images").rglob("*.dcm"):
        name = str(dcmread(path, stop_before_pixels=True).SOPInstanceUID)
        found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def adds_up(summary: PullSummary) -> bool:
    left, failed = sum(summary.left.values()), sum(summary.failed.values())
    return summary.found == summary.fetched + left + failed


def odd(url: str, **limits: Any) -> Peer:
    return web_peer("odd", url, timeout_s=1, **limits)


def pull(peer: OddPeer, folder: Path, options: PullOptions = ONE_DAY, **more: Any) -> PullSummary:
    """Pull from an odd peer into a folder "out"."""
    with served(peer) as url:
        return pull_archive(odd(url), folder / "out", options, **more)


FEW = "found 4 = 2 fetched + 2 left out + 0 failed"
"""Of two studies, each with a lateral view."""


def by(way: str, orthanc: Orthanc, entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of a peer that gives images by C-GET or C-MOVE, or by DICOMweb ("web")."""
    if way == "web":
        return entry
    port = orthanc.modalities["CXRTEXT"]
    dimse = {"retrieve": way, "our_port": port, "our_host": "127.0.0.1"}
    return {"name": entry["name"], "limits": entry["limits"], "dimse": {**entry["dimse"], **dimse}}


@pytest.mark.parametrize("way", ["web", "get", "move"])
def test_what_may_enter_is_pulled_the_last_line_adds_up_and_no_name_is_logged_or_in_the_state(
    way: str,
    orthanc: Orthanc,
    known: Known,
    tmp_path: Path,
    said: list[str],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    orthanc.store(archive(8))
    peer = known(by(way, orthanc, orthanc.peer()))
    expected = wanted(8)
    dry = pull_archive(peer, tmp_path / "out", PullOptions(DAYS.first, DAYS.last, dry_run=True))
    assert (dry.found, dry.fetched, dry.bytes) == (14, len(expected), 0)
    assert not (tmp_path / "out").exists()
    summary = pull_archive(peer, tmp_path / "out", DAYS, say=said.append)
    with closing(sqlite3.connect(tmp_path / "out" / "pull.sqlite")) as state:
        said += [str(summary), repr(summary), *state.iterdump(), caplog.text, *capfd.readouterr()]
    assert PASSWORD_ENV not in caplog.text
    assert str(summary) == "found 14 = 7 fetched + 7 left out + 0 failed"
    assert adds_up(summary)
    assert summary.left == dry.left
    assert summary.left["lateral view"] == 3
    assert sorted(pulled(tmp_path / "out")) == expected
    done = import_folder(tmp_path / "out/images", tmp_path / "data", ImportOptions(pixels=False))
    assert (done.images, sum(done.set_aside.values())) == (len(expected), 0)
    for path in (tmp_path / "out").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_objects_come_as_they_are_stored(orthanc: Orthanc, known: Known, tmp_path: Path) -> None:
    kinds = {
        1: "1.2.840.10008.1.2.5", 2: "1.2.840.10008.1.2.4.90", 3: "1.2.840.10008.1.2.4.80",
        4: "1.2.840.10008.1.2", 5: "1.2.840.10008.1.2.4.57",
    }  # fmt: skip
    objects = {number: instance(number, syntax=syntax) for number, syntax in kinds.items()}
    orthanc.store(objects.values())
    for place, entry in enumerate((orthanc.peer(), orthanc.peer(dicomweb=None))):
        out = tmp_path / str(place)
        summary = pull_archive(known(entry), out, DAYS)
        assert (summary.fetched, summary.whole) == (len(kinds), True)
        found = {dcmread(p).SOPInstanceUID: dcmread(p) for p in (out / "images").rglob("*.dcm")}
        for number, syntax in kinds.items():
            one = found[uid(number, 1, 1)]
            assert one.file_meta.TransferSyntaxUID == syntax
            if place == 0:
                assert pulled(out)[uid(number, 1, 1)] == hashlib.sha256(objects[number]).hexdigest()


def test_only_listed_accession_numbers(orthanc: Orthanc, known: Known, tmp_path: Path) -> None:
    orthanc.store(archive(8))
    peer = known(orthanc.peer())
    options = PullOptions(DAYS.first, DAYS.last, accessions=("A000001", "A000003", "NONE"))
    assert pull_archive(peer, tmp_path / "out", options).fetched == 2
    assert sorted(pulled(tmp_path / "out")) == [uid(1, 1, 1), uid(3, 1, 1)]


def test_a_second_run_fetches_only_what_is_new(
    orthanc: Orthanc, known: Known, tmp_path: Path
) -> None:
    orthanc.store(study(1))
    peer = known(orthanc.peer())
    today = PullOptions(date.today(), date.today())
    now = date.today()
    orthanc.store(study(2, day=now))
    assert pull_archive(peer, tmp_path / "out", today).fetched == 1
    orthanc.store([*study(3, day=now), instance(2, 3, "AP", day=now)])  # one more of study 2
    summary = pull_archive(peer, tmp_path / "out", today)
    assert (summary.fetched, summary.found) == (3, 5)
    other = peer.model_copy(update={"name": "other"})
    with pytest.raises(ConfigError, match="was pulled from 'archive'; name a folder for 'other'"):
        pull_archive(other, tmp_path / "out", today)


@cache
def in_the_course_of_a_day(n: int) -> bytes:
    time = f"{n * 341 // 3600 % 24:02d}{n * 341 // 60 % 60:02d}00"
    return instance(n, size=8, StudyTime=time)


@pytest.mark.parametrize(
    ("studies", "peer"),
    [
        (250, {"cap": 100}), (250, {"cap": 100, "ignores": ("offset",)}),
        (250, {"cap": 100, "ignores": ("StudyTime",)}),
        (120, {"ignores": ("offset", "StudyTime")}), (95, {}),
    ],
)  # fmt: skip
def test_a_peer_that_cuts_its_answers_off(studies: int, peer: dict[str, Any]) -> None:
    objects = [in_the_course_of_a_day(n) for n in range(studies)]
    with served(OddPeer(objects, **peer)) as url, closing(DicomWeb(odd(url))) as source:
        found = search(source, Question("20240301", modality="DX"))
    assert len(found.studies) == studies
    assert found.cut == (len(peer.get("ignores", ())) == 2)


def test_a_peer_that_can_give_no_more_is_named(tmp_path: Path) -> None:
    objects = [in_the_course_of_a_day(n) for n in range(105)]
    peer = OddPeer(objects, cap=100, ignores=("offset", "StudyTime"))
    summary = pull(peer, tmp_path, PullOptions(BEGIN, BEGIN, modalities=("DX",), dry_run=True))
    assert (summary.fetched, summary.cut, summary.whole) == (100, 1, False)
    assert str(summary).endswith("; 1 questions that the peer cuts off may have more")


@pytest.mark.parametrize("answers_whole", [1, 2, 1000])
def test_a_study_that_lists_fewer_images_than_it_counts_is_asked_again_and_told(
    answers_whole: int, tmp_path: Path
) -> None:
    """A peer that is busy storing gives a part at first, or for ever."""

    peer = Short([*study(1, ("PA", "AP")), *study(2)])
    peer.of, peer.short = uid(1), answers_whole
    peer.count(2)
    for _ in range(2):
        summary = pull(peer, tmp_path)
        assert summary.whole == (answers_whole < 1000)
        assert summary.fetched == 3 - (answers_whole == 1000)
        assert (FEWER in summary.unlisted) == (answers_whole == 1000)


def test_a_pull_killed_after_a_short_listing_asks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_study = State.list_study

    def killed(*arguments: Any) -> None:
        list_study(*arguments)
        raise KeyboardInterrupt

    peer = OddPeer(study(1, ("PA", "AP")))
    peer.count(2)
    late = peer.objects.popitem()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(State, "list_study", killed)
        pull(peer, tmp_path)
    peer.objects.update([late])
    summary = pull(peer, tmp_path)
    assert (summary.fetched, summary.whole) == (2, True)


def answers(path: str, *said: Answer) -> Callable[[str, int], Answer | None]:
    """Answers for a path, one after the other, then the usual ones; a single one for ever."""
    left = list(said) if len(said) > 1 else [*said] * 1000
    return lambda asked, _: left.pop(0) if path in asked and left else None


INSTANCE = f"/instances/{uid(1, 1, 1)}"


@pytest.mark.parametrize(
    ("path", "by", "says"),
    [
        (INSTANCE, (404, {}, b""), "does not have an image (404); is its url that of DICOMweb?"),
        (INSTANCE, (500, {}, PLANTED.encode()), "has no answer for an image (500)"),
        (INSTANCE, (302, {"Location": "http://evil/"}, b""), "sends on to another address (302)"),
        (INSTANCE, multipart(instance(9)), "sent another object than was asked for"),
        (INSTANCE, multipart(b"<html>" + PLANTED.encode()), "sent something that is no DICOM"),
        (INSTANCE, multipart(instance(1)[:132] + b"\xff" * 64), "sent a damaged object"),
        (INSTANCE, (200, {"Content-Type": "multipart/related"}, b""), "multipart without a bound"),
        (
            INSTANCE,
            (200, {"Content-Type": "multipart/related; boundary=edge"}, b"--edge\r\n\r\nabc"),
            "an image did not come whole",
        ),
        (INSTANCE, (200, {"Content-Length": "9", "Connection": "close"}, b"DICM"), "broke off an"),
        (f"studies/{uid(1)}/instances", (200, {}, b"<html>"), "an answer is not JSON"),
        (f"studies/{uid(1)}/instances", (200, {}, b"{}"), "is not a list of DICOM JSON"),
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
        summary = pull(OddPeer(objects, before=answers(path, by)), tmp_path, say=lines.append)
    (reason,) = [*summary.failed, *summary.unlisted]
    assert says in reason
    assert adds_up(summary)
    assert not summary.whole
    assert list(pulled(tmp_path / "out")) == [uid(2, 1, 1)]
    for said in (reason, caplog.text, "\n".join(lines)):
        assert PLANTED not in said
    # Once the peer does right, the same command gets what lacked.
    assert str(pull(OddPeer(objects), tmp_path)) == FEW


def test_a_busy_peer_is_asked_again_and_what_it_repeats_is_taken_once(tmp_path: Path) -> None:
    class Twice(OddPeer):
        def _rows(self, rows: list[dict[str, Any]], query: Any) -> Answer:
            return super()._rows([*rows, *rows], query)

    busy, many = ((status, {"Retry-After": "0"}, b"") for status in (503, 429))
    peer = Twice([*study(1), *study(2)], before=answers("/", busy, busy, many))
    assert str(pull(peer, tmp_path)) == FEW


@pytest.mark.parametrize(
    ("status", "says"),
    [(401, "does not take the login"), (403, "its user has no right to an image")],
)
def test_a_peer_that_denies_access_stops_the_pull(status: int, says: str, tmp_path: Path) -> None:
    peer = OddPeer([*study(1), *study(2)], before=answers("/instances/", (status, {}, b"")))
    with served(peer) as url, pytest.raises(DeniedError, match=says):
        pull_archive(odd(url, parallel=1), tmp_path / "out", ONE_DAY)
    assert sum("/instances/" in path for path in peer.asked) <= 2


def test_a_silent_peer_and_a_closed_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "TRIES", 1)
    says = "odd: was silent too long when asked for its studies"
    with served(OddPeer(study(1)), seconds=1.2) as url, pytest.raises(PeerError, match=says):
        pull_archive(odd(url), tmp_path / "out", ONE_DAY)
    lines: list[str] = []
    with pytest.raises(GoneError, match="odd: has been gone for 0 min; run the same command again"):
        pull_archive(odd(url), tmp_path / "out", ONE_DAY, say=lines.append)
    assert lines == ["odd is gone; waiting for it"]


@pytest.mark.parametrize("way", ["web", "get", "move"])
def test_an_object_that_is_too_large_is_left_out(
    way: str, orthanc: Orthanc, known: Known, tmp_path: Path
) -> None:
    orthanc.store([instance(1, size=1800), *study(2)])
    limits = {"object_mb": 1, "requests_per_second": 1000}
    entry = by(way, orthanc, orthanc.peer(limits=limits))
    summary = pull_archive(known(entry), tmp_path / "out", ONE_DAY)
    assert summary.left == {"larger than limits.object_mb": 1, "lateral view": 1}
    assert (summary.fetched, summary.whole) == (1, True)


@pytest.mark.parametrize("bad", ["../../x", "1.2.3/../../x", "", "1" * 65, "1.2.é"])
def test_a_uid_that_is_none_is_never_asked_for_and_names_no_file(bad: str, tmp_path: Path) -> None:
    rows = f'[{{"0020000D": {{"Value": ["{uid(1)}"]}}, "0020000E": {{"Value": ["1.2"]}}, '
    rows += f'"00080018": {{"Value": ["{bad}"]}}}}]'
    before = answers(f"studies/{uid(1)}/instances", (200, {}, rows.encode()))
    peer = OddPeer([*study(1), *study(2)], before=before)
    summary = pull(peer, tmp_path)
    assert summary.left["no UID by which it can be asked for"] == 1
    assert (summary.found, summary.fetched) == (3, 1)
    assert all(path.startswith(f"/dicom-web/studies/{ROOT}") for path in peer.asked if "." in path)
    assert {p.name for p in tmp_path.iterdir()} == {"out"}


def test_what_cannot_be_told_before_is_told_by_the_object_itself(tmp_path: Path) -> None:
    # The peer's answer leaves out what decides.
    hidden = OddPeer([*study(1, ["lateral"]), *study(2)])
    for row, _ in hidden.objects.values():
        for tag in ("00185101", "00200020", "00280010", "00080016"):
            row.pop(tag, None)
    summary = pull(hidden, tmp_path)
    assert str(summary) == "found 3 = 1 fetched + 2 left out + 0 failed"
    assert summary.left == {"lateral view": 2}


def test_a_full_disk_stops_the_pull(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = pytest.raises(DiskError, match="MiB are free, and .* make room, then run the same")
    with monkeypatch.context() as patch, full:
        patch.setattr("cxrtext.pacs.retrieval.objects.RESERVE_BYTES", 2**60)
        pull(OddPeer(study(1)), tmp_path)
    assert pull(OddPeer(study(1)), tmp_path).fetched == 1


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/pull.sqlite").write_bytes(b"not a database, far from it" * 100)
    with pytest.raises(DataError, match=r"pull\.sqlite: is damaged"):
        pull(OddPeer(study(1)), tmp_path)


def test_patience_ends() -> None:
    assert throttle.PATIENCE_S == 600
    assert [throttle.back_off(n, asked) for n, asked in ((0, 7.0), (9, 1e9))] == [7.0, 300.0]
    assert all(0.5 * 0.01 * 2**n <= throttle.back_off(n) <= 0.01 * 2**n for n in range(5))
