"""Results taken back: each peer is told of what it has, and of nothing else, whatever happens."""

from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

import pytest
from pydicom import dcmread
from pydicom.uid import UID

from cxrtext.pacs.faults import GoneError
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.results import rejection
from cxrtext.pacs.results.folder import Kept, ResultsFolder
from cxrtext.pacs.results.making import make_results
from cxrtext.pacs.results.rejection import revoke
from cxrtext.pacs.results.sending import Delivery
from cxrtext.service import Service
from tests.pacs.orthanc import absent
from tests.pacs.result_sources import write_source

PEERS = {name: Peer.model_validate(absent(name, write=True)) for name in ("north", "south")}


def every(_: Kept) -> bool:
    return True


def none(_: Kept) -> bool:
    return False


class KilledError(BaseException):
    """Stands for kill -9: nothing catches it."""


class Sending:
    """Stands for peers; notes what each is told: by patient, the results that are named."""

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.killed = ""  # "before" or "after" the first note is with its peer
        self.told: dict[str, list[tuple[str, set[str]]]] = {}

    def __call__(self, folder: ResultsFolder, notes: list[Kept], peer: Peer) -> Delivery:
        if peer.name in self.gone:
            raise GoneError(peer.name, "cannot be reached")
        if self.killed == "before":
            raise KilledError
        for note in notes:
            read = dcmread(folder.path / note.file)
            (evidence,) = read.CurrentRequestedProcedureEvidenceSequence
            named = {
                str(one.ReferencedSOPInstanceUID)
                for series in evidence.ReferencedSeriesSequence
                for one in series.ReferencedSOPSequence
            }
            self.told.setdefault(peer.name, []).append((read.PatientID, named))
            if self.killed == "after":
                raise KilledError
            folder.note_sent([note.instance], peer.name)
        return Delivery(len(notes), 0)


@pytest.fixture
def sending(monkeypatch: pytest.MonkeyPatch) -> Sending:
    stands = Sending()
    monkeypatch.setattr(rejection, "send_results", stands)
    return stands


@pytest.fixture(scope="module")
def template(
    service: Service, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[set[str]]]:
    """Results of three patients: north has the first's, south the second's, nobody the third's."""
    folder = tmp_path_factory.mktemp("made")
    results, found = ResultsFolder(folder / "results"), []
    for number in (1, 2, 3):
        path = write_source(folder / f"{number}.dcm", "cr", number=number)
        some = make_results(service, path, "Left pleural effusion.", results).results
        found.append({one.instance for one in some})
    results.note_sent([*found[0]], "north")
    results.note_sent([*found[1]], "south")
    return results.path, found


@pytest.fixture
def results(template: tuple[Path, list[set[str]]], tmp_path: Path) -> ResultsFolder:
    return ResultsFolder(copytree(template[0], tmp_path / "results"))


@pytest.fixture
def made(template: tuple[Path, list[set[str]]]) -> list[set[str]]:
    return template[1]


def test_each_peer_is_told_once_of_what_it_has(
    results: ResultsFolder, made: list[set[str]], sending: Sending
) -> None:
    done = revoke(results, every, PEERS)
    assert (done.results, done.told, done.faults) == (6, {"north": 1, "south": 1}, ())
    assert sending.told == {"north": [("CANARY-1", made[0])], "south": [("CANARY-2", made[1])]}
    assert all(one.revoked for one in results.all() if one.kind != "reject")
    (note, _) = results.all(kind="reject")
    title = dcmread(results.path / note.file).ConceptNameCodeSequence[0]
    assert title.CodeMeaning == "Rejected for Quality Reasons"
    assert revoke(results, every, PEERS).told == {}


def test_a_peer_that_is_gone_is_told_by_the_next_call(
    results: ResultsFolder, made: list[set[str]], sending: Sending
) -> None:
    sending.gone = {"north"}
    done = revoke(results, every, PEERS)
    assert (done.told, done.faults) == ({"south": 1}, ("north: cannot be reached",))
    done = revoke(results, none, {})
    assert done.faults == ("north: has results to take back, but is not among the peers; add it",)
    sending.gone = set()
    done = revoke(results, none, PEERS)
    assert (done.results, done.told, done.faults) == (0, {"north": 1}, ())
    assert sending.told == {"south": [("CANARY-2", made[1])], "north": [("CANARY-1", made[0])]}


@pytest.mark.parametrize("where", ["revoked", "written", "before", "after"])
def test_whatever_is_cut_off_the_next_call_goes_on(
    results: ResultsFolder,
    made: list[set[str]],
    sending: Sending,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    cut = {"revoked": "peers", "written": "put"}.get(where)
    sending.killed = where
    with monkeypatch.context() as patch:
        if cut:
            whole: Any = getattr(ResultsFolder, cut)

            def killed(*given: Any, **more: Any) -> None:
                if where == "written":
                    whole(*given, **more)
                raise KilledError

            patch.setattr(ResultsFolder, cut, killed)
        with pytest.raises(KilledError):
            revoke(results, every, PEERS)
    assert all(one.revoked for one in results.all() if one.kind != "reject"), "before any is told"
    sending.killed = ""
    done = revoke(ResultsFolder(results.path), none, PEERS)
    assert (done.told, done.faults) == ({"north": 1, "south": 1}, ())
    assert sending.told["north"][-1] == ("CANARY-1", made[0])
    assert len(sending.told["north"]) == (2 if where == "after" else 1)
    assert sending.told["south"] == [("CANARY-2", made[1])]
    assert len(results.all(kind="reject")) == 2, "a note is written once"


def test_a_peer_that_may_have_a_result_is_told_and_one_on_its_way_is_not_sent(
    results: ResultsFolder, made: list[set[str]], sending: Sending
) -> None:
    third = [one for one in results.all() if one.instance in made[2]]
    assert all(results.begin(one, "south") for one in third)  # and was killed then
    assert results.peers().keys() == made[0] | made[1]
    assert results.tally() == {
        (name, kind): 1 for name in ("north", "south") for kind in ("sc", "sr")
    }
    revoke(results, every, PEERS)
    south = sorted(sending.told["south"], key=lambda one: one[0])
    assert south == [("CANARY-2", made[1]), ("CANARY-3", made[2])]
    assert not any(results.begin(one, "north") for one in third)
    assert (
        not results.peers(begun=True).keys()
        - made[0]
        - made[1]
        - made[2]
        - {one.instance for one in results.all(kind="reject")}
    )
    assert not [one for one in third if "north" in results.peers(begun=True)[one.instance]]


def test_what_is_taken_back_later_has_a_note_of_its_own(
    results: ResultsFolder, made: list[set[str]], sending: Sending
) -> None:
    for one in sorted(made[0]):
        assert revoke(results, lambda kept, one=one: kept.instance == one, PEERS).results == 1  # type: ignore[misc]
    assert sending.told == {"north": [("CANARY-1", {one}) for one in sorted(made[0])]}


def test_a_note_is_of_one_model(
    results: ResultsFolder, made: list[set[str]], sending: Sending
) -> None:
    (first, *_) = results.all()
    again = dcmread(results.path / first.file)
    again.SOPInstanceUID = again.file_meta.MediaStorageSOPInstanceUID = UID("2.25.1")
    kept = results.put(
        again, kind="sc", source=first.source, study_id=first.study_id, model="another",
        patient_id=first.patient_id, sentence="x",
    )  # fmt: skip
    results.note_sent([kept.instance], "north")
    revoke(results, every, PEERS)
    assert {one.model for one in results.all(kind="reject")} == {first.model, "another"}


def test_a_file_that_is_gone_does_not_keep_others_waiting(
    results: ResultsFolder, made: list[set[str]], sending: Sending, tmp_path: Path
) -> None:
    results.note_sent([*made[2]], "north")
    (lost, *_) = [one for one in results.all() if one.instance in made[0]]
    file = results.path / lost.file
    copyfile(file, tmp_path / "copy")
    file.unlink()
    done = revoke(results, every, PEERS)
    assert done.told == {"north": 1, "south": 1}
    assert done.faults == (f"{file}: is gone or changed; restore it from a copy, then revoke it",)
    copyfile(tmp_path / "copy", file)
    assert revoke(results, none, PEERS).told == {"north": 1}
    assert sending.told["north"] == [("CANARY-3", made[2]), ("CANARY-1", made[0])]
