"""Exports: every hit, in the order of a search, in steps that let others in; breaks are told."""

import csv
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from cxrtext.index.search import hits as cohort_module
from cxrtext.service import Service
from cxrtext_api.runtime.resources import EXPORTS_AT_ONCE
from cxrtext_api.settings import Settings
from tests.api.conftest import check_problem, serving


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """48 images take several blocks and pages."""
    monkeypatch.setattr(cohort_module, "BLOCK", 7)
    monkeypatch.setattr(cohort_module, "PAGE", 5)


def rows_of(response: Any) -> list[dict[str, str]]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(StringIO(response.text, newline="")))
    assert response.headers["x-total"] == str(len(rows))
    return rows


@pytest.mark.parametrize(
    "asked",
    [
        {"query": "Effusion."},
        {"image_id": "images/s05.png", "query": "Effusion.", "other_patients": "true"},
        {"query": "Effusion.", "where": "age > 60 and age < 75"},
        {"query": "Effusion.", "unique": "study", "exclude_patient": ["p01", "p02"]},
        {"query": "Effusion.", "unique": "picture"},
    ],
)
def test_every_hit_in_the_order_of_a_search(client: TestClient, asked: dict[str, Any]) -> None:
    found = client.post("/v1/search", data={**asked, "k": 1000, "mode": "exact"}).json()
    rows = rows_of(client.post("/v1/search/export", data=asked))
    hits = {hit["image_id"]: hit for hit in found["images"]}
    assert len(hits) == len(rows)
    # Both are the order of scores; two that differ by rounding alone may have changed places.
    for row, there in zip(rows, found["images"], strict=True):
        hit = hits[row["image"]]
        assert float(row["score"]) == pytest.approx(hit["score"], abs=2e-6)
        assert hit["score"] == pytest.approx(there["score"], abs=2e-6)
        assert row["age"] == hit["metadata"]["age"]
        assert float(row["label.Pneumonia"]) == hit["labels"]["Pneumonia"]


def test_what_is_wrong_is_refused(client: TestClient) -> None:
    asked = {"query": "Effusion.", "target": "sentences"}
    check_problem(client.post("/v1/search/export", data=asked), 422, "an export is of images")
    asked = {"query": "Effusion.", "where": "age >"}
    check_problem(client.post("/v1/search/export", data=asked), 422)


def test_others_are_answered_in_between(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another search is answered while an export is half scored."""
    begun, go_on = threading.Event(), threading.Event()
    find = cohort_module.Cohort.find

    def slowly(self: cohort_module.Cohort) -> Any:
        for step, _ in enumerate(find(self)):
            yield
            if step == 2:
                begun.set()
            if begun.is_set() and not go_on.is_set():
                # A step that waits a little; the model's thread is free between two of them.
                go_on.wait(0.02)
                while not go_on.is_set():
                    yield

    monkeypatch.setattr(cohort_module.Cohort, "find", slowly)
    with serving(service) as client, ThreadPoolExecutor(1) as pool:
        export = pool.submit(client.post, "/v1/search/export", data={"query": "Effusion."})
        assert begun.wait(600)
        assert client.post("/v1/search", data={"query": "Left effusion."}).status_code == 200
        assert not export.done()
        go_on.set()
        assert len(rows_of(export.result(600))) == 48


def test_an_archive_that_changes_breaks_it_off_with_a_sign(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = service.archive.catalogue.images
    asked_for: list[int] = []

    def gone(numbers: Any) -> Any:
        found = images(numbers)
        if len(numbers) > 1:  # not one of the questions by which the server warms up
            asked_for.append(len(numbers))
        return [*found[:-1], None] if len(asked_for) == 3 else found

    monkeypatch.setattr(service.archive.catalogue, "images", gone)
    with serving(service) as client:
        response = client.post("/v1/search/export", data={"query": "Effusion."})
        assert response.headers["x-total"] == "48"
        *rows, last = response.text.splitlines()
        assert last == "# broken off after 10 of 48 images"
        assert len(rows) == 11
        monkeypatch.undo()
        # It gave its place back.
        for _ in range(EXPORTS_AT_ONCE + 1):
            again = client.post("/v1/search/export", data={"query": "Effusion."})
            assert again.status_code == 200


def test_each_of_its_steps_has_the_time_of_a_request(
    service: Service, monkeypatch: pytest.MonkeyPatch, skip_ahead: Callable[[float], None]
) -> None:
    """An export may take longer than one answer may, while it goes on."""
    hits = cohort_module.Cohort.hits

    def slow(self: cohort_module.Cohort, start: int) -> Any:
        skip_ahead(400)
        return hits(self, start)

    monkeypatch.setattr(cohort_module.Cohort, "hits", slow)
    with serving(service, Settings(request_seconds=600)) as client:
        assert len(rows_of(client.post("/v1/search/export", data={"query": "Effusion."}))) == 48


def test_the_audit_log_says_how_many_were_given(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with serving(service, Settings(audit_log=path)) as client:
        client.post("/v1/search/export", data={"image_id": "images/s02.png"})
    (line,) = [json.loads(line) for line in path.read_text().splitlines()]
    told = {"route": "/v1/search/export", "status": 200, "image_id": ["images/s02.png"]}
    assert {**told, "exported": 48}.items() <= line.items()
