"""What a server tells of an inbox, of results and of studies to read first; no name of anybody."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from fastapi.testclient import TestClient

from cxrtext.client import Client
from cxrtext.index import build_index, open_index
from cxrtext.index.changes import set_attributes
from cxrtext.index.store.writer import writing
from cxrtext.models import ImageTextModel
from cxrtext.pacs.inbox.deletions import deletion
from cxrtext.pacs.inbox.intake import WorkerSettings
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.worker import Worker
from cxrtext.pacs.results.folder import ResultsFolder
from cxrtext.pacs.results.making import make_results
from cxrtext.service import Service
from cxrtext_api.settings import Settings
from tests.api.conftest import serving
from tests.conftest import as_received, write_data
from tests.pacs.result_sources import write_source
from tests.pacs.studies import PLANTED, archive, instance, uid
from tests.pacs.test_worker import oru


def test_no_planted_name_is_in_the_metrics_or_the_log_of_a_server(
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
    inbox.note_listener("dicom", 2, 7, 1, 0)
    service = Service(model, open_index(index_copy, model))
    served = Settings(inbox=inbox.folder, results=results.path, worklist=True)
    with serving(service, served) as client:
        page = client.get("/metrics").text
        refused = client.get("/v1/worklist", params={"prompt": "P", "since": PLANTED}).text
        missing = client.get("/v1/images/nothing/file").text
    assert 'cxrtext_inbox_entries{outcome="added",what="object"} 7.0' in page
    assert 'cxrtext_inbox_waiting{state="held"} 1.0' in page
    assert 'cxrtext_inbox_waiting{state="failed"} 1.0' in page
    assert "cxrtext_inbox_reports_without_study 1.0" in page
    assert 'cxrtext_listener_associations{kind="dicom"} 2.0' in page
    assert 'cxrtext_listener_requests{kind="dicom",outcome="refused"} 1.0' in page
    said = capfd.readouterr()
    for text in (page, refused, missing, said.out, said.err, caplog.text):
        assert PLANTED not in text
    for path in tmp_path.rglob("*"):
        assert PLANTED not in path.name


@pytest.mark.parametrize("folder", ["inbox", "results"])
def test_a_folder_that_cannot_be_read_alarms(
    model: ImageTextModel, inbox: Inbox, results: ResultsFolder, tmp_path: Path, folder: str
) -> None:
    inbox.close()
    settings = Settings(inbox=inbox.folder, results=results.path)
    with serving(Service(model), settings) as client:
        assert f'cxrtext_readable{{folder="{folder}"}} 1.0' in client.get("/metrics").text
        (database,) = (tmp_path / folder).glob("*.sqlite")
        database.write_bytes(b"no database" * 1000)
        answer = client.get("/metrics")
    assert answer.status_code == 200
    assert f'cxrtext_readable{{folder="{folder}"}} 0.0' in answer.text


NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture(scope="module")
def index(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of nine studies that came a minute apart, the last three in a study of two."""
    folder = write_data(tmp_path_factory.mktemp("received"), 9)
    lines = (folder / "manifest.csv").read_text().splitlines()
    rows = [f"{lines[0]},source,came"]
    for number, line in enumerate(lines[1:]):
        at = NOW - timedelta(hours=2) + timedelta(minutes=number)
        rows.append(f"{line},archive,{at.isoformat(timespec='seconds')}")
    rows[-1] = rows[-1].replace(",s08,", ",s07,")
    (folder / "manifest.csv").write_text("\n".join(rows) + "\n")
    build_index(folder / "manifest.csv", checkpoint, folder / "index")
    return as_received(folder / "index")


@contextmanager
def served(
    model: ImageTextModel, index: Path, settings: Settings
) -> Iterator[tuple[TestClient, Service]]:
    service = Service(model, open_index(index, model))
    with serving(service, settings) as client:
        yield client, service


def test_studies_come_best_first_and_none_is_left_out(model: ImageTextModel, index: Path) -> None:
    with served(model, index, Settings(worklist=True)) as (client, _):
        answer = Client("http://localhost", http=client).worklist("Left pleural effusion.")
        later = Client("http://localhost", http=client).worklist(
            "The lungs are clear.", since=(NOW - timedelta(minutes=117)).isoformat()
        )
    assert (answer.ordered, answer.reason, answer.complete) == (True, None, True)
    assert answer.model == model.fingerprint
    assert sorted(one.study_id for one in answer.entries) == [f"s{n:02d}" for n in range(8)]
    both = next(one for one in answer.entries if one.study_id == "s07")
    assert both.image_ids == ["images/s07.png", "images/s08.png"]
    # Studies 1, 4 and 7 show what is asked for.
    assert {one.study_id for one in answer.entries[:3]} == {"s01", "s04", "s07"}
    probabilities = [one.probability or 0 for one in answer.entries]
    assert probabilities == sorted(probabilities, reverse=True)
    assert not any(one.calibrated for one in answer.entries)
    first = next(one for one in answer.entries if one.study_id == "s00")
    waited = datetime.now(UTC) - (NOW - timedelta(hours=2))
    assert first.age_seconds == pytest.approx(waited.total_seconds(), abs=60)
    assert first.received == NOW - timedelta(hours=2)
    # No sentence denies this one: it is ordered by its similarity.
    assert all(one.probability is None for one in later.entries)
    assert {one.study_id for one in later.entries} == {"s03", "s04", "s05", "s06", "s07"}
    scores = [one.score or 0 for one in later.entries]
    assert scores == sorted(scores, reverse=True)


def test_a_value_that_is_damaged_takes_nobody_s_answer(
    model: ImageTextModel, index: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(index, tmp_path / "index"))
    with writing(folder) as catalogue, catalogue.transaction(write=True) as database:
        database.execute(
            "UPDATE images SET metadata = json_set(metadata, '$.received', 'z') WHERE number = 3"
        )
        broken = {"received": "z", "model.unlike": "abc", "label.Pneumothorax": "abc"}
        set_attributes(database, [(3, broken)])
    with served(model, folder, Settings(worklist=True)) as (client, _):
        body = client.get("/v1/worklist", params={"prompt": "Pneumothorax"}).json()
        assert (body["total"], body["ordered"]) == (8, True)
        found = client.post("/v1/search", data={"query": "Pneumothorax.", "k": 9})
    assert (found.status_code, len(found.json()["images"])) == (200, 9)


def test_where_scoring_fails_studies_come_as_they_were_received(
    model: ImageTextModel, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "audit.log"
    with served(model, index, Settings(worklist=True, audit_log=log)) as (client, service):
        broken = Mock(side_effect=RuntimeError("of a secret kind"))
        monkeypatch.setattr(service, "ground", broken)
        response = client.get("/v1/worklist", params={"prompt": "Pneumothorax", "limit": 3})
    assert json.loads(log.read_text())["study_id"] == ["s00", "s01", "s02"]  # whom it showed
    assert response.status_code == 200
    body = response.json()
    assert (body["ordered"], body["total"]) == (False, 8)
    assert body["reason"].startswith("scoring failed; the studies come in the order in which")
    assert [one["study_id"] for one in body["entries"]] == ["s00", "s01", "s02"]
    assert all(one["score"] is None for one in body["entries"])
    assert "secret" not in response.text


def test_the_worklist_is_off_unless_configured_and_says_what_is_wrong(
    model: ImageTextModel, index: Path, index_folder: Path
) -> None:
    with served(model, index, Settings()) as (client, _):
        assert client.get("/v1/model").json()["has_worklist"] is False
        refused = client.get("/v1/worklist", params={"prompt": "Pneumothorax"})
        assert (refused.status_code, "--gateway" in refused.json()["detail"]) == (404, True)
        assert client.get("/v1/results", params={"study_id": "s00"}).status_code == 404
    with served(model, index, Settings(worklist=True)) as (client, _):
        for params, status, said in (
            ({"prompt": "Pneumothorax", "since": "yesterday"}, 422, "since: give a time such as"),
            ({"prompt": "P", "since": "9999-12-31T23:00:00-05:00"}, 422, "since: give a time"),
            ({"prompt": "..."}, 422, "the sentence is empty"),
        ):
            refused = client.get("/v1/worklist", params=params)
            assert (refused.status_code, said in refused.json()["detail"]) == (status, True)
    with served(model, index_folder, Settings(worklist=True)) as (client, _):
        refused = client.get("/v1/worklist", params={"prompt": "Pneumothorax"})
        assert "was received from a hospital system" in refused.json()["detail"]


def test_what_was_sent_back_of_a_study_is_shown(
    model: ImageTextModel, index: Path, tmp_path: Path
) -> None:
    path = write_source(tmp_path / "a.dcm", "cr", pixels=np.full((80, 80), 0.4))
    with served(model, index, Settings(results=tmp_path / "out")) as (client, service):
        ask = Client("http://localhost", http=client)
        assert client.get("/v1/model").json()["has_results"] is True
        assert ask.results("1.2.826.0.1.99.1.1") == []  # nothing was made yet
        folder = ResultsFolder(tmp_path / "out")
        made = make_results(service, path, "Left pleural effusion.", folder).results
        folder.note_sent([made[0].instance], "archive")
        folder.note_revoked([made[1].instance])
        first, second = ask.results("1.2.826.0.1.99.1.1")
        assert ask.results("1.2.826.0.1.99.1.2") == []
        assert (first.kind, first.peer, first.revoked) == ("sc", "archive", None)
        assert (second.kind, second.peer, bool(second.revoked)) == ("sr", None, True)
        assert first.sentence == "Left pleural effusion."
        with sqlite3.connect(tmp_path / "out" / "results.sqlite") as database:
            database.execute("DROP TABLE sent")
        refused = client.get("/v1/results", params={"study_id": "1.2.826.0.1.99.1.1"})
        assert refused.status_code == 503
        shutil.rmtree(tmp_path / "out")
