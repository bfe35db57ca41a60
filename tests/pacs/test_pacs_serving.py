"""What is told of an inbox and of results; no name of anybody."""

import json
from pathlib import Path
from typing import Any

import pytest

from cxrtext.client import Client
from cxrtext.index import open_index
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.models import ImageTextModel
from cxrtext.pacs.gateway.numbers import GatewayMetrics
from cxrtext.pacs.inbox.deletions import deletion
from cxrtext.pacs.inbox.intake import WorkerSettings
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.worker import Worker
from cxrtext.pacs.results.folder import ResultsFolder
from cxrtext.pacs.results.making import make_results
from cxrtext.service import Service
from cxrtext_api.settings import Settings
from tests.api.conftest import serving
from tests.pacs.studies import PLANTED, archive, instance, uid
from tests.pacs.test_worker import oru


def test_no_planted_name_is_in_the_metrics_or_a_log(
    model: ImageTextModel,
    index_copy: Path,
    inbox: Inbox,
    results: ResultsFolder,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for one in archive(8):
        inbox.put("PACS", one)
    whole = instance(9)
    inbox.put("PACS", whole[: len(whole) // 2])  # fails
    inbox.put("PACS", instance(1, 2, "AP", PatientID=f"{PLANTED}2"))  # is held
    inbox.put("RIS", oru(1, f"Heart of {PLANTED} is large."), "message")
    inbox.put("RIS", oru(77, f"{PLANTED} is not here."), "message")
    inbox.put("RIS", b"MSH|^~\\&|" + PLANTED.encode(), "message")
    inbox.put("PACS", deletion(uid(2, 1, 1)), "deletion")
    settings = WorkerSettings(index_copy, tmp_path / "archive", readers=1)
    with Worker(inbox, settings, say=print) as worker:
        worker.drain()
        image = worker.service.archive.catalogue.image(uid(1, 1, 1))
        assert image is not None
        made = make_results(worker.service, Path(image.path), "Left pleural effusion.", results)
    results.note_sent([one.instance for one in made.results], "archive")
    inbox.put("PACS", instance(9))  # waits
    service = Service(model, open_index(index_copy, model))
    with serving(service, Settings(inbox=inbox.folder)) as client:
        refused = client.post("/v1/held", data={"name": PLANTED, "verdict": "drop"}).text
        missing = client.get("/v1/images/nothing/file").text
    measured = GatewayMetrics()
    measured.look(inbox.folder, results.path)
    page = measured.page().decode()
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
def test_a_folder_that_cannot_be_read_alarms(
    inbox: Inbox, results: ResultsFolder, tmp_path: Path, folder: str
) -> None:
    inbox.close()
    measured = GatewayMetrics()
    measured.look(inbox.folder, results.path)
    assert f'cxrtext_readable{{folder="{folder}"}} 1.0'.encode() in measured.page()
    (database,) = (tmp_path / folder).glob("*.sqlite")
    database.write_bytes(b"no database" * 1000)
    measured.look(inbox.folder, results.path)
    assert f'cxrtext_readable{{folder="{folder}"}} 0.0'.encode() in measured.page()


def test_what_is_held_is_listed_and_decided_over_http_and_each_decision_is_in_the_audit_log(
    model: ImageTextModel, index_copy: Path, inbox: Inbox, tmp_path: Path
) -> None:
    settings = WorkerSettings(index_copy, tmp_path / "archive", readers=1)

    def work() -> None:
        with Worker(inbox, settings) as worker:
            worker.drain()

    both: dict[str, Any] = {"AccessionNumber": "A000001", "PatientID": f"{PLANTED}000001"}
    for one in (instance(1), instance(2, **both), instance(3), instance(1, 2, PatientID="X")):
        inbox.put("PACS", one)
    inbox.put("RIS", oru(1, "Nodule of two."), "message")
    work()
    log = tmp_path / "audit.log"
    service = Service(model, open_index(index_copy, model))
    with serving(service, Settings(inbox=inbox.folder, audit_log=log)) as client:
        ask = Client("http://localhost", http=client)
        assert client.get("/v1/model").json()["has_held"] is True
        entry, report = ask.held()
        assert (entry.what, entry.state, entry.studies) == ("object", "held", [uid(1)])
        assert (report.name, report.accession, report.studies) == (
            "r1",
            "A000001",
            [uid(1), uid(2)],
        )
        for form, status in (
            ({"name": "r1", "verdict": "accept"}, 422),
            ({"name": "r1", "verdict": "join"}, 422),
            ({"name": "r7", "verdict": "drop"}, 404),
            ({"name": "r1", "verdict": "keep"}, 422),
        ):
            assert client.post("/v1/held", data=form).status_code == status, form
        ask.decide("r1", "join", uid(2))
        ask.decide(entry.name, "drop")
        assert ask.held() == []
    work()
    with Catalogue(index_copy / CATALOGUE) as catalogue:
        assert [text for _, text in catalogue.report(uid(2))] == ["Nodule of two."]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    said = [(one["held"], one["verdict"], one["study_id"]) for one in lines if "held" in one]
    assert said == [("r1", "join", [uid(2), uid(1)]), (entry.name, "drop", [uid(1)])]
