"""The folder of results, and results that are made and sent by themselves, by a peer's rule."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian

from cxrtext.errors import DataError, WorkError
from cxrtext.files import sha256
from cxrtext.index import IndexedImage, build_index
from cxrtext.pacs.faults import AnswerError, GoneError, PeerError
from cxrtext.pacs.peers import Peer, read_peer
from cxrtext.pacs.results import folder as module
from cxrtext.pacs.results import rules
from cxrtext.pacs.results.folder import Kept, ResultsFolder
from cxrtext.pacs.results.rules import answer
from cxrtext.pacs.results.sending import Delivery
from cxrtext.service import load_service
from tests.conftest import as_received, draw
from tests.pacs.orthanc import Orthanc, free_port
from tests.pacs.result_sources import write_source


def built(number: int = 1, text: str = "one") -> Dataset:
    one = Dataset()
    one.file_meta = FileMetaDataset()
    one.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    one.SOPClassUID, one.SOPInstanceUID = "1.2.840.10008.5.1.4.1.1.88.33", f"2.25.{number}"
    one.StudyInstanceUID, one.SeriesInstanceUID = "1.2", "1.2.3"
    one.SeriesDescription = text
    return one


def put(folder: ResultsFolder, text: str = "one") -> Kept:
    return folder.put(
        built(text=text), kind="sr", source="1.2.3.4", study_id="s", patient_id="p",
        sentence="Left effusion.", probability=0.5, calibrated=False, model="m",
    )  # fmt: skip


def test_a_result_that_is_made_again_was_sent_and_taken_back_before(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path / "out")
    kept = put(folder)
    folder.note_sent([kept.instance], "archive")
    folder.note_revoked([kept.instance])
    (tmp_path / "out" / kept.file).write_bytes(b"cut")
    assert folder.find(kept.instance) is None
    put(folder, "two")
    again = folder.find(kept.instance)
    assert again is not None
    assert again.revoked
    assert folder.peers() == {kept.instance: ["archive"]}


def test_a_folder_of_another_version_is_refused(tmp_path: Path) -> None:
    put(ResultsFolder(tmp_path / "out"))
    with closing(sqlite3.connect(tmp_path / "out" / module.FILE)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (module.VERSION,)
        database.execute("PRAGMA user_version = 9")
    for create in (True, False):
        with pytest.raises(DataError, match="of another version of cxrtext .*; name a new folder"):
            ResultsFolder(tmp_path / "out", create=create)


def test_of_two_that_make_one_result_the_row_is_that_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ResultsFolder(tmp_path / "out")
    other = threading.Thread(target=put, args=(ResultsFolder(tmp_path / "out"), "two"))
    now = module.now

    def slow() -> str:
        if other.ident is None:  # the other one makes it when our file is written
            other.start()
            other.join(0.5)
        return now()

    monkeypatch.setattr(module, "now", slow)
    put(folder)
    other.join()
    assert folder.find("2.25.1") is not None


@pytest.fixture
def received(checkpoint: Path, tmp_path: Path) -> Path:
    """An index of two DICOM images of the peer "archive", one of another, and a picture."""
    rows = ["image,study_id,patient_id,split,source,came", "0.png,s0,p0,test,archive,"]
    for number, source in enumerate(("archive", "archive", "other"), 1):
        pixels = draw("effusion" if number == 1 else "clear", number) / 255
        write_source(tmp_path / f"{number}.dcm", "cr", number=number, pixels=pixels)
        at = f"2026-11-23T06:00:0{number}+00:00"
        rows.append(f"{number}.dcm,s{number},p{number},test,{source},{at}")
    from PIL import Image

    for number in (0, 4):
        Image.fromarray(draw("clear", number)).save(tmp_path / f"{number}.png")
    rows.append("4.png,s4,p4,test,archive,2026-11-23T06:00:04+00:00")
    (tmp_path / "manifest.csv").write_text("\n".join(rows) + "\n")
    build_index(tmp_path / "manifest.csv", checkpoint, tmp_path / "index")
    return as_received(tmp_path / "index")


def test_each_image_of_a_peer_with_a_rule_is_answered_once(
    received: Path, tmp_path: Path, orthanc: Orthanc, peers: Callable[..., Path]
) -> None:
    rule = {"sentences": ["Left pleural effusion."], "kinds": ["sc", "sr"], "above": 0.0}
    entry = orthanc.peer(write=True, results=rule)
    gone = {**entry, "dicomweb": {"url": f"http://127.0.0.1:{free_port()}/dicom-web"}}
    service, folder = load_service(None, received), ResultsFolder(tmp_path / "out")
    said: list[str] = []
    with pytest.raises(PeerError, match="archive: cannot be reached"):
        answer(service, [read_peer(peers(gone), "archive")], folder)
    assert len(folder.all()) == 2  # made, and kept until the peer is there again
    peer = read_peer(peers(entry), "archive")
    done = answer(service, [peer], folder, say=said.append)
    assert (done.images, done.made, done.sent, done.failed) == (3, 2, 4, 1)
    assert len(orthanc.instances()) == 4
    assert len(said) == 1
    assert "4.png: is no DICOM file; results join the study" in said[0]
    assert str(tmp_path) not in said[0]
    again = answer(service, [peer], folder, say=said.append)
    assert (again.images, again.made, again.sent, again.failed) == (0, 0, 0, 0)
    higher = read_peer(
        peers(orthanc.peer(write=True, results={**rule, "above": 0.9999})), "archive"
    )
    third = answer(service, [higher], folder, say=said.append)  # another rule looks at all again
    assert (third.images, third.made) == (3, 0)


def test_without_what_was_received_there_is_nothing_to_answer(
    index_folder: Path, tmp_path: Path, peers: Callable[..., Path]
) -> None:
    entry = {
        "name": "archive", "write": True, "dimse": {"host": "127.0.0.1", "port": 1, "aet": "A"},
        "results": {"sentences": ["Left pleural effusion."]},
    }  # fmt: skip
    peer = read_peer(peers(entry), "archive")
    done = answer(load_service(None, index_folder), [peer], ResultsFolder(tmp_path / "out"))
    assert done.images == 0


def named(name: str = "archive") -> Peer:
    entry = {"name": name, "write": True, "dimse": {"host": "127.0.0.1", "port": 1, "aet": "A"}}
    return Peer.model_validate({**entry, "results": {"sentences": ["Left pleural effusion."]}})


class Sending:
    """Stands for peers; some are gone, and some results are refused."""

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.refused: set[str] = set()  # sources
        self.sent: list[str] = []

    def __call__(self, _folder: object, made: list[Kept], peer: Peer, _: object) -> Delivery:
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
    received: Path, checkpoint: Path, tmp_path: Path, sending: Sending
) -> None:
    folder = ResultsFolder(tmp_path / "out")
    answer(load_service(None, received), [named()], folder)
    write_source(tmp_path / "5.dcm", "cr", number=5, pixels=draw("effusion", 5) / 255)
    with (tmp_path / "manifest.csv").open("a") as manifest:  # it was held for a while
        manifest.write("5.dcm,s5,p5,test,archive,2026-11-23T05:00:00+00:00\n")
    as_received(received, "received", "came")
    build_index(tmp_path / "manifest.csv", checkpoint, received)
    as_received(received)
    assert answer(load_service(None, received), [named()], folder).images == 1
    assert sending.sent == ["1", "2", "5"]


def test_more_images_than_a_page_are_answered_each_once(
    received: Path, tmp_path: Path, sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "PAGE", 2)
    monkeypatch.setattr(rules, "OVERLAP", 1)
    done = answer(load_service(None, received), [named()], ResultsFolder(tmp_path / "out"))
    assert (done.images, sending.sent) == (3, ["1", "2"])


def test_one_peer_and_one_image_at_fault_do_not_keep_others_waiting(
    received: Path, tmp_path: Path, sending: Sending
) -> None:
    service, folder = load_service(None, received), ResultsFolder(tmp_path / "out")
    peers, said = [named("other"), named()], list[str]()
    sending.gone = {"other"}
    sending.refused = {f"1.2.826.0.1.99.1.{number}.1.1" for number in (1, 2, 3)}
    for _ in range(2):  # who takes nothing at all is waited for
        with pytest.raises(PeerError, match="other: cannot be reached"):
            answer(service, peers, folder, say=said.append)
        assert sending.sent == []
    sending.refused = {"1.2.826.0.1.99.1.1.1.1"}
    with pytest.raises(PeerError, match="other: cannot be reached"):
        answer(service, peers, folder, say=said.append)
    assert sending.sent == ["2"]
    assert said[-1] == (
        "archive: no results of an image: did not take an object (A900); 'results send' tries again"
    )
    sending.gone, sending.refused = set(), set()
    done = answer(service, peers, folder)
    assert (done.images, sending.sent) == (1, ["2", "3"])


def test_images_that_are_not_mounted_are_waited_for(
    received: Path, tmp_path: Path, sending: Sending
) -> None:
    away = tmp_path.with_name("away")
    index = received.rename(tmp_path.with_name("index"))
    service, folder = load_service(None, index), ResultsFolder(tmp_path.with_name("results"))
    tmp_path.rename(away)
    for _ in range(2):
        with pytest.raises(WorkError, match="are not there; is it mounted"):
            answer(service, [named()], folder)
        tmp_path.mkdir(exist_ok=True)
    tmp_path.rmdir()
    away.rename(tmp_path)
    assert answer(service, [named()], folder).images == 3


def test_what_was_taken_back_is_not_sent(received: Path, tmp_path: Path, sending: Sending) -> None:
    service, folder = load_service(None, received), ResultsFolder(tmp_path / "out")
    sending.gone = {"archive"}
    with pytest.raises(PeerError):
        answer(service, [named()], folder)
    folder.note_revoked([one.instance for one in folder.all()])
    sending.gone = set()
    assert answer(service, [named()], folder).images == 3
    assert sending.sent == ["2"]


def test_a_kept_file_that_is_gone_does_not_keep_others_waiting(
    received: Path, tmp_path: Path, sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IndexedImage, "require_whole", lambda image: sha256(Path(image.path)))
    (tmp_path / "1.dcm").unlink()
    said: list[str] = []
    folder = ResultsFolder(tmp_path / "out")
    done = answer(load_service(None, received), [named()], folder, say=said.append)
    assert (done.images, done.failed, sending.sent) == (3, 2, ["2"])
    assert "archive: no results of an image: 1.dcm: " in said[0]
