"""From a real Orthanc into the index: what is new, corrected and deleted there is so here."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.worker import Worker, WorkerSettings
from cxrtext.pacs.peers import read_peer
from cxrtext.pacs.retrieval.follow import FollowOptions, follow_peer
from tests.pacs.orthanc import PASSWORD, PASSWORD_ENV, Orthanc, missing
from tests.pacs.studies import instance, study, uid

TODAY = date.today()


@pytest.fixture
def overwriting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Orthanc]:
    """An Orthanc that takes a corrected object in place of the one before."""
    if said := missing():
        pytest.skip(said)
    monkeypatch.setenv(PASSWORD_ENV, PASSWORD)
    orthanc = Orthanc(tmp_path / "orthanc", overwrite=True).start()
    yield orthanc
    orthanc.kill()


def test_the_index_follows_a_pacs(
    overwriting: Orthanc, peers: Callable[..., Path], index_folder: Path, tmp_path: Path
) -> None:
    index = Path(shutil.copytree(index_folder, tmp_path / "index"))
    peer = read_peer(peers(overwriting.peer(on_deletion="forget")), "archive")
    settings = WorkerSettings(
        index, tmp_path / "files", readers=1, columns=("sex",), peers={"archive": peer}
    )

    def follow() -> dict[str, str]:
        """The sex of each image that the index has of the PACS, after following once."""
        options = FollowOptions(first=TODAY, once=True, compare=True)
        follow_peer(peer, tmp_path / "inbox", options, lambda _line: None)
        with Inbox(tmp_path / "inbox") as inbox, Worker(inbox, settings) as worker:
            worker.drain()
        with closing(Catalogue(index / CATALOGUE)) as catalogue:
            rows = catalogue.database.execute("SELECT image, metadata FROM images").fetchall()
        found = {image: json.loads(metadata) for image, metadata in rows}
        return {image: said["sex"] for image, said in found.items() if "sex" in said}

    for number in (1, 2, 3):
        overwriting.store(study(number, day=TODAY))
    assert follow() == {uid(1, 1, 1): "F", uid(2, 1, 1): "F", uid(3, 1, 1): "F"}
    (gone,) = overwriting.ask("POST", "/tools/lookup", content=uid(1, 1, 1)).json()
    overwriting.ask("DELETE", gone["Path"])
    overwriting.store([instance(2, 1, "PA", day=TODAY, PatientSex="M")])
    overwriting.store([instance(3, 1, "lateral", day=TODAY)])
    overwriting.store(study(4, day=TODAY))
    overwriting.ask("DELETE", "/changes")
    expected = {uid(2, 1, 1): "M", uid(4, 1, 1): "F"}
    assert follow() == expected
    assert follow() == expected
