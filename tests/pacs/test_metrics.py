"""What a server tells of an inbox and of results: numbers, and no name of anybody."""

import shutil
from pathlib import Path

import pytest

from cxrtext.index import open_index
from cxrtext.models import load_model
from cxrtext.pacs.inbox.deletions import deletion
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.worker import Worker, WorkerSettings
from cxrtext.pacs.results.folder import ResultsFolder
from cxrtext.pacs.results.making import make_results
from cxrtext.service import Service
from cxrtext_api.settings import Settings
from tests.api.conftest import serving
from tests.pacs.studies import PLANTED, archive, instance, uid
from tests.pacs.test_worker import oru


def test_no_planted_name_is_in_the_metrics_or_the_log_of_a_server(
    checkpoint: Path,
    index_folder: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    index = Path(shutil.copytree(index_folder, tmp_path / "index"))
    model = load_model(checkpoint)
    out = ResultsFolder(tmp_path / "results")
    with Inbox(tmp_path / "inbox", reserve=0) as inbox:
        for _, some in archive(8):
            for one in some:
                inbox.put("PACS", one)
        whole = instance(9)
        inbox.put("PACS", whole[: len(whole) // 2])  # fails
        inbox.put("PACS", instance(1, 2, "AP", PatientID=f"{PLANTED}2"))  # is held
        inbox.put("RIS", oru(1, f"Heart of {PLANTED} is large."), "message")
        inbox.put("RIS", oru(77, f"{PLANTED} is not here."), "message")
        inbox.put("RIS", b"MSH|^~\\&|" + PLANTED.encode(), "message")
        inbox.put("PACS", deletion(instance=uid(2, 1, 1)), "deletion")
        settings = WorkerSettings(index, tmp_path / "archive", readers=1)
        with Worker(inbox, settings, say=print) as worker:
            worker.drain()
            made = make_results(
                worker.service, _file(worker.service, 1), "Left pleural effusion.", out
            )
        out.note_sent([one.instance for one in made.results], "archive")
        inbox.put("PACS", instance(9))  # waits
        service = Service(model, open_index(index, model))
        served = Settings(inbox=inbox.folder, results=out.path, worklist=True, metrics=True)
        with serving(service, served) as client:
            page = client.get("/metrics").text
            refused = client.get("/v1/worklist", params={"prompt": "P", "since": PLANTED}).text
            missing = client.get("/v1/images/nothing/file").text
    assert 'cxrtext_inbox_entries{outcome="added",what="object"} 7.0' in page
    assert 'cxrtext_inbox_waiting{state="held"} 1.0' in page
    assert 'cxrtext_inbox_waiting{state="failed"} 1.0' in page
    assert "cxrtext_inbox_reports_without_study 1.0" in page
    said = capfd.readouterr()
    for text in (page, refused, missing, said.out, said.err, caplog.text):
        assert PLANTED not in text
    for path in tmp_path.rglob("*"):
        assert PLANTED not in path.name


@pytest.mark.parametrize("folder", ["inbox", "results"])
def test_a_folder_that_cannot_be_read_alarms(checkpoint: Path, tmp_path: Path, folder: str) -> None:
    inbox = Inbox(tmp_path / "inbox", reserve=0)
    inbox.close()
    ResultsFolder(tmp_path / "results")
    settings = Settings(inbox=tmp_path / "inbox", results=tmp_path / "results")
    with serving(Service(load_model(checkpoint)), settings) as client:
        assert f'cxrtext_readable{{folder="{folder}"}} 1.0' in client.get("/metrics").text
        (database,) = (tmp_path / folder).glob("*.sqlite")
        database.write_bytes(b"no database" * 1000)
        answer = client.get("/metrics")
    assert answer.status_code == 200
    assert f'cxrtext_readable{{folder="{folder}"}} 0.0' in answer.text


def _file(service: Service, number: int) -> Path:
    image = service.index.catalogue.image(uid(number, 1, 1))
    assert image is not None
    return Path(image.path)
