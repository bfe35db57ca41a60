"""Results that are made and sent by themselves, by a peer's rule; stopped and unreachable peers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cxrtext.index import build_index
from cxrtext.pacs.answering import answer
from cxrtext.pacs.faults import PeerError
from cxrtext.pacs.peers import read_peer
from cxrtext.pacs.results.folder import ResultsFolder
from cxrtext.service import load_service
from tests.conftest import draw
from tests.pacs.orthanc import Orthanc, free_port
from tests.pacs.result_sources import write_source


@pytest.fixture
def received(checkpoint: Path, tmp_path: Path) -> Path:
    """An index of two DICOM images of the peer "archive", one of another, and a picture."""
    rows = ["image,study_id,patient_id,split,source,received"]
    for number, source in enumerate(("archive", "archive", "other"), 1):
        pixels = draw("effusion" if number == 1 else "clear", number) / 255
        write_source(tmp_path / f"{number}.dcm", "cr", number=number, pixels=pixels)
        at = f"2026-11-23T06:00:0{number}+00:00"
        rows.append(f"{number}.dcm,s{number},p{number},test,{source},{at}")
    from PIL import Image

    Image.fromarray(draw("clear", 4)).save(tmp_path / "4.png")
    rows.append("4.png,s4,p4,test,archive,2026-11-23T06:00:04+00:00")
    (tmp_path / "manifest.csv").write_text("\n".join(rows) + "\n")
    build_index(tmp_path / "manifest.csv", checkpoint, tmp_path / "index")
    return tmp_path / "index"


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
        "name": "archive",
        "write": True,
        "dimse": {"host": "127.0.0.1", "port": 1, "aet": "A"},
        "results": {"sentences": ["Left pleural effusion."]},
    }
    peer = read_peer(peers(entry), "archive")
    done = answer(load_service(None, index_folder), [peer], ResultsFolder(tmp_path / "out"))
    assert done.images == 0
