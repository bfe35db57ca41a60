"""The folder of results, and results that are made and sent by themselves, by a peer's rule."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian

from cxrtext.errors import WorkError
from cxrtext.files import sha256
from cxrtext.index import IndexedImage, build_index
from cxrtext.pacs.faults import AnswerError, GoneError, PeerError
from cxrtext.pacs.peers import Peer, ResultsRule
from cxrtext.pacs.results import folder as module
from cxrtext.pacs.results import rules
from cxrtext.pacs.results.folder import Kept, ResultsFolder
from cxrtext.pacs.results.rules import Answered, Answerer, Preview, preview
from cxrtext.pacs.results.sending import Delivery
from cxrtext.service import load_service
from tests.conftest import as_received, draw
from tests.pacs.orthanc import Known, Orthanc, absent, free_port
from tests.pacs.result_sources import write_source

Answering = Callable[..., Answered]


def built(text: str) -> Dataset:
    one = Dataset()
    one.file_meta = FileMetaDataset()
    one.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    one.SOPClassUID, one.SOPInstanceUID = "1.2.840.10008.5.1.4.1.1.88.33", "2.25.1"
    one.StudyInstanceUID, one.SeriesInstanceUID = "1.2", "1.2.3"
    one.SeriesDescription = text
    return one


def put(folder: ResultsFolder, text: str = "one") -> Kept:
    return folder.put(
        built(text), kind="sr", source="1.2.3.4", study_id="s", patient_id="p",
        sentence="Left effusion.", model="m",
    )  # fmt: skip


def test_a_result_that_is_made_again_was_sent_and_taken_back_before(results: ResultsFolder) -> None:
    kept = put(results)
    results.note_sent([kept.instance], "archive")
    results.note_revoked([kept.instance])
    (results.path / kept.file).write_bytes(b"cut")
    assert results.find(kept.instance) is None
    put(results, "two")
    again = results.find(kept.instance)
    assert again is not None
    assert again.revoked
    assert results.peers() == {kept.instance: ["archive"]}


def test_of_two_that_make_one_result_the_row_is_that_of_the_file(
    results: ResultsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = threading.Thread(target=put, args=(ResultsFolder(results.path), "two"))
    now = module.now

    def slow() -> str:
        if other.ident is None:  # the other one makes it when our file is written
            other.start()
            other.join(0.5)
        return now()

    monkeypatch.setattr(module, "now", slow)
    put(results)
    other.join()
    assert results.find("2.25.1") is not None


@pytest.fixture
def received(checkpoint: Path, tmp_path: Path) -> Path:
    """An index of two DICOM images of the peer "archive", one of another, and a picture."""
    rows = ["image,study_id,patient_id,split,source,came", "0.png,s0,p0,test,archive,"]
    for number, source in enumerate(("archive", "archive", "other"), 1):
        pixels = draw("effusion" if number == 1 else "clear", number) / 255
        write_source(tmp_path / f"{number}.dcm", "cr", number=number, pixels=pixels)
        at = f"2026-11-23T06:00:0{number}+00:00"
        rows.append(f"{number}.dcm,s{number},p{number},test,{source},{at}")
    for number in (0, 4):
        Image.fromarray(draw("clear", number)).save(tmp_path / f"{number}.png")
    rows.append("4.png,s4,p4,test,archive,2026-11-23T06:00:04+00:00")
    (tmp_path / "manifest.csv").write_text("\n".join(rows) + "\n")
    build_index(tmp_path / "manifest.csv", checkpoint, tmp_path / "index")
    return as_received(tmp_path / "index")


@pytest.fixture(autouse=True)
def approved(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "approval" not in request.node.name:
        monkeypatch.setattr(ResultsFolder, "is_approved", lambda *_: True)


@pytest.fixture
def answering(received: Path, results: ResultsFolder) -> Iterator[Answering]:
    """Makes and sends what the rules of peers ask for, by default those of "archive"."""

    def run(*some: Peer, **more: Any) -> Answered:
        return Answerer(some or [named()], results, **more).answer(service)

    with closing(load_service(None, received)) as service:
        yield run


def test_each_image_of_a_peer_with_a_rule_is_answered_once(
    answering: Answering, results: ResultsFolder, tmp_path: Path, orthanc: Orthanc, known: Known
) -> None:
    rule = {"sentences": ["Left pleural effusion."], "above": 0.0}
    entry = orthanc.peer(write=True, results=rule)
    gone = {**entry, "dicomweb": {"url": f"http://127.0.0.1:{free_port()}/dicom-web"}}
    said: list[str] = []
    with pytest.raises(PeerError, match="archive: cannot be reached"):
        answering(known(gone))
    assert len(results.all()) == 2  # made, and kept until the peer is there again
    peer = known(entry)
    done = answering(peer, say=said.append)
    assert (done.images, done.made, done.sent, done.failed) == (3, 2, 4, 1)
    assert len(orthanc.instances()) == 4
    assert len(said) == 2
    assert "4.png: is not a DICOM file; results join the study" in said[0]
    assert str(tmp_path) not in said[0]
    assert answering(peer) == Answered()
    higher = known({**entry, "results": {**rule, "above": 0.9999}})
    third = answering(higher)  # another rule looks at all again
    assert (third.images, third.made) == (3, 0)


def test_a_rule_waits_for_its_approval_which_another_model_or_rule_asks_for_again(
    answering: Answering, received: Path, results: ResultsFolder, sending: "Sending"
) -> None:
    done = answering()
    assert (done.images, done.waits) == (0, [f"archive: {rules.UNAPPROVED}"])
    with closing(load_service(None, received)) as service:
        assert preview(service, named(), 2).images == 2
        assert preview(service, named(), 30) == Preview(3, {"Left pleural effusion.": 3})
        results.approve(rules.rule_name(named(), service))
    assert (answering().images, sending.sent) == (3, ["1", "2"])
    assert answering().waits == []
    other = named().model_copy(update={"results": ResultsRule(sentences=("Pneumothorax.",))})
    assert answering(other).images == 0


def test_no_more_results_are_sent_in_a_day_than_the_rule_allows(
    answering: Answering, results: ResultsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sent(folder: ResultsFolder, made: list[Kept], peer: Peer) -> Delivery:
        folder.note_sent([one.instance for one in made], peer.name)
        return Delivery(len(made), 0)

    monkeypatch.setattr(rules, "send_results", sent)
    rule = ResultsRule(sentences=("Left pleural effusion.",), daily=3)
    peer = named().model_copy(update={"results": rule})
    done = answering(peer)
    assert (done.sent, done.images) == (2, 1)
    assert done.waits == [
        "archive: 2 results were sent in 24 hours; 'daily' of its rule allows 3, so the rest waits"
    ]
    with closing(sqlite3.connect(results.path / module.FILE)) as database, database:
        database.execute("UPDATE sent SET at = '2026-11-01T00:00:00+00:00'")
    assert answering(peer).sent == 2


def named(name: str = "archive") -> Peer:
    rule = {"sentences": ["Left pleural effusion."]}
    return Peer.model_validate(absent(name, write=True, results=rule))


class Sending:
    """Stands for peers; some are gone, and some results are refused."""

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.refused: set[str] = set()  # sources
        self.sent: list[str] = []

    def __call__(self, _folder: object, made: list[Kept], peer: Peer) -> Delivery:
        if peer.name in self.gone:
            raise GoneError(peer.name, "cannot be reached")
        if any(one.source in self.refused for one in made):
            raise AnswerError(peer.name, "did not take an object (A900)")
        self.sent += [one.source.split(".")[-3] for one in made if one.kind == "sr"]
        return Delivery(len(made), 0)


@pytest.fixture
def sending(monkeypatch: pytest.MonkeyPatch) -> Sending:
    stands = Sending()
    monkeypatch.setattr(rules, "send_results", stands)
    return stands


def test_an_image_that_enters_the_index_late_is_answered(
    received: Path, results: ResultsFolder, checkpoint: Path, tmp_path: Path, sending: Sending
) -> None:
    Answerer([named()], results).answer(load_service(None, received))
    write_source(tmp_path / "5.dcm", "cr", number=5, pixels=draw("effusion", 5) / 255)
    with (tmp_path / "manifest.csv").open("a") as manifest:  # it was held for a while
        manifest.write("5.dcm,s5,p5,test,archive,2026-11-23T05:00:00+00:00\n")
    as_received(received, "received", "came")
    build_index(tmp_path / "manifest.csv", checkpoint, received)
    as_received(received)
    assert Answerer([named()], results).answer(load_service(None, received)).images == 1
    assert sending.sent == ["1", "2", "5"]


def test_more_images_than_a_page_are_answered_each_once(
    answering: Answering, sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "PAGE", 2)
    monkeypatch.setattr(rules, "OVERLAP", 1)
    assert (answering().images, sending.sent) == (3, ["1", "2"])


def test_one_peer_and_one_image_at_fault_do_not_keep_others_waiting(
    answering: Answering, sending: Sending
) -> None:
    peers, said = [named("other"), named()], list[str]()
    sending.gone = {"other"}
    sending.refused = {f"1.2.826.0.1.99.1.{number}.1.1" for number in (1, 2, 3)}
    for _ in range(2):  # who takes nothing at all is waited for
        with pytest.raises(PeerError, match="other: cannot be reached"):
            answering(*peers, say=said.append)
        assert sending.sent == []
    sending.refused = {"1.2.826.0.1.99.1.1.1.1"}
    with pytest.raises(PeerError, match="other: cannot be reached"):
        answering(*peers, say=said.append)
    assert sending.sent == ["2"]
    assert said[-1] == (
        "archive: no results of an image: did not take an object (A900); 'gateway results send' "
        "tries again"
    )
    sending.gone, sending.refused = set(), set()
    assert (answering(*peers).images, sending.sent) == (1, ["2", "3"])


def test_images_that_are_not_mounted_are_waited_for(
    received: Path, tmp_path: Path, sending: Sending
) -> None:
    away = tmp_path.with_name("away")
    index = received.rename(tmp_path.with_name("index"))
    service, folder = load_service(None, index), ResultsFolder(tmp_path.with_name("results"))
    tmp_path.rename(away)
    for _ in range(2):
        with pytest.raises(WorkError, match="are not there; is it mounted"):
            Answerer([named()], folder).answer(service)
        tmp_path.mkdir(exist_ok=True)
    tmp_path.rmdir()
    away.rename(tmp_path)
    assert Answerer([named()], folder).answer(service).images == 3


def test_what_was_taken_back_is_not_sent(
    answering: Answering, results: ResultsFolder, sending: Sending
) -> None:
    sending.gone = {"archive"}
    with pytest.raises(PeerError):
        answering()
    results.note_revoked([one.instance for one in results.all()])
    sending.gone = set()
    assert answering().images == 3
    assert sending.sent == ["2"]


def test_a_kept_file_that_is_gone_does_not_keep_others_waiting(
    answering: Answering, tmp_path: Path, sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IndexedImage, "require_whole", lambda image: sha256(Path(image.path)))
    (tmp_path / "1.dcm").unlink()
    said: list[str] = []
    done = answering(say=said.append)
    assert (done.images, done.failed, sending.sent) == (3, 2, ["2"])
    assert "archive: no results of an image: 1.dcm: " in said[0]
