"""Search: images by a sentence or an image, sentences by an image."""

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from cxrtext.models import ImageTextModel
from cxrtext.service import Service


def test_search_by_a_sentence(client: TestClient, service: Service, model: ImageTextModel) -> None:
    query = "Left pleural effusion."
    response = client.post("/v1/search", data={"query": query, "k": 5})
    assert response.status_code == 200
    body = response.json()
    assert (body["model"], body["target"], body["sentences"]) == (model.fingerprint, "images", [])
    expected = service.search_text(query, 5)
    assert [hit["image_id"] for hit in body["images"]] == [hit.image.image for hit in expected]
    scores = [hit["score"] for hit in body["images"]]
    assert scores == pytest.approx([hit.score for hit in expected], abs=1e-5)
    assert scores == sorted(scores, reverse=True)
    first = body["images"][0]
    assert first["study_id"] == expected[0].image.study_id
    assert first["patient_id"] == expected[0].image.patient_id
    assert first["metadata"] == {"age": expected[0].image.metadata["age"]}


def test_search_by_an_indexed_image_finds_itself_first(client: TestClient) -> None:
    response = client.post("/v1/search", data={"image_id": "images/s07.png", "k": 3})
    assert response.status_code == 200
    hits = response.json()["images"]
    assert [len(hits), hits[0]["image_id"]] == [3, "images/s07.png"]
    assert hits[0]["score"] == pytest.approx(1, abs=1e-3)


def test_search_by_a_sent_image(client: TestClient, data_folder: Path) -> None:
    sent = (data_folder / "images/s07.png").read_bytes()
    response = client.post("/v1/search", files={"image": sent}, data={"k": 1})
    assert response.status_code == 200
    assert [hit["image_id"] for hit in response.json()["images"]] == ["images/s07.png"]


def test_search_for_sentences(client: TestClient, data_folder: Path) -> None:
    data = {"image_id": "images/s07.png", "target": "sentences"}
    response = client.post("/v1/search", data=data)
    assert response.status_code == 200
    body = response.json()
    assert (body["target"], body["images"]) == ("sentences", [])
    with (data_folder / "reports.csv").open(newline="") as handle:
        said = Counter(row["findings"] for row in csv.DictReader(handle))
    assert {hit["sentence"]: hit["studies"] for hit in body["sentences"]} == said
    scores = [hit["score"] for hit in body["sentences"]]
    assert scores == sorted(scores, reverse=True)


def test_search_returns_all_there_are_when_k_is_larger(client: TestClient) -> None:
    for data in ({"query": "Effusion."}, {"image_id": "images/s07.png"}):
        response = client.post("/v1/search", data={**data, "k": 1000})
        assert response.status_code == 200
        assert len(response.json()["images"]) == 48


@pytest.mark.parametrize("k", ["0", "-1", "1001", "many", "1e3"])
def test_search_with_k_out_of_range(client: TestClient, check_problem: Any, k: str) -> None:
    body = check_problem(client.post("/v1/search", data={"query": "Effusion.", "k": k}), 422)
    assert body["errors"][0]["field"] == "k"


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        ({}, "give one of"),
        ({"query": ""}, "give one of"),
        ({"query": " "}, "empty"),
        ({"query": "Effusion.", "image_id": "images/s07.png"}, "give one of"),
        ({"query": "Effusion.", "target": "sentences"}, "found by an image"),
        ({"query": "Effusion.", "target": "patients"}, "see errors"),
    ],
)
def test_search_wants_one_question(
    client: TestClient, check_problem: Any, data: dict[str, str], detail: str
) -> None:
    check_problem(client.post("/v1/search", data=data), 422, detail)


def test_search_without_an_index(
    client_without_index: TestClient, check_problem: Any, png: bytes
) -> None:
    for form in (
        {"data": {"query": "Effusion."}},
        {"files": {"image": png}},
        {"files": {"image": png}, "data": {"target": "sentences"}},
        {"data": {"image_id": "images/s07.png"}},
    ):
        check_problem(client_without_index.post("/v1/search", **form), 404, "no index is loaded")
