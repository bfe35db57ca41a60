"""Search: images by a sentence or an image, sentences by an image."""

import csv
from io import StringIO
from typing import Any

import pytest
from fastapi.testclient import TestClient

from cxrtext.index import ImageHit, IndexedImage
from cxrtext.service import Service
from cxrtext.service.tables import csv_table


def answer(response: Any) -> Any:
    assert response.status_code == 200, response.text
    return response.json()


def names(response: Any) -> list[str]:
    return [hit["image_id"] for hit in answer(response)["images"]]


def test_a_query_is_read_in_the_words_of_the_reports(client: TestClient) -> None:
    meant, data = "Right pneumothorax.", {"query": "R PTX.", "not": "Possible effusion."}
    plain = answer(client.post("/v1/search", data={**data, "query": meant}))
    body = answer(client.post("/v1/search", data=data))
    assert (body["read_as"], plain["read_as"]) == ([meant, None], [None, None])
    assert body["caution"].endswith("its wording is uncertain")
    assert body["images"] == plain["images"]
    exported = [client.post("/v1/search/export", data={"query": q}).text for q in ("R PTX.", meant)]
    assert exported[0] == exported[1]
    ask = {"image_id": "images/s01.png", "sentence": "R PTX."}
    assert answer(client.post("/v1/ground", data=ask))["read_as"] == meant
    ask["as_written"] = "true"
    assert answer(client.post("/v1/ground", data=ask))["read_as"] is None


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("split = 'Test'", "The filter leaves no image: split holds 'train', 'test', 'val'."),
        ("age > 'abc'", "The filter leaves no image: age holds numbers, 40 to 87."),
        ("age > 1000", None),
    ],
)
def test_search_says_why_a_filter_leaves_nothing(
    client: TestClient, where: str, says: str | None
) -> None:
    for target in ("images", "sentences"):
        asked = {"query": "Effusion.", "where": where, "target": target}
        body = client.post("/v1/search", data=asked).json()
        assert not body[target]
        assert says in body["warning"] if says else body["warning"] is None


def test_search_says_how_it_looked(client: TestClient) -> None:
    body = client.post("/v1/search", data={"query": "Effusion.", "offset": 2, "k": 3}).json()
    assert (body["matching"], body["exact"], body["warning"]) == (48, True, None)
    assert (body["offset"], body["k"]) == (2, 3)
    assert 3 <= body["scored"] <= 48
    labels = body["images"][0]["labels"]
    assert set(labels) == set(client.get("/v1/model").json()["prompts"])
    assert all(0 <= p <= 1 for p in labels.values())


def test_pages_of_a_search_follow_each_other(client: TestClient) -> None:
    whole = names(client.post("/v1/search", data={"query": "Effusion.", "k": 20}))
    data = {"query": "Effusion.", "k": 10}
    first = names(client.post("/v1/search", data=data))
    second = names(client.post("/v1/search", data={**data, "offset": 10}))
    assert first + second == whole
    assert names(client.post("/v1/search", data={**data, "offset": 48})) == []
    assert names(client.post("/v1/search", data={**data, "where": ""})) == first, "no filter"


def test_several_sentences_and_what_is_not_to_fit(client: TestClient, service: Service) -> None:
    data = {"query": ["Left pleural effusion.", "Effusion."], "not": ["Right pneumothorax."]}
    body = client.post("/v1/search", data={**data, "k": 5}).json()
    read = service.readings
    query = service.make_query(read(data["query"]), without=read(data["not"]))
    expected = service.search(query, 5).hits
    assert [hit["image_id"] for hit in body["images"]] == [hit.image.image for hit in expected]
    scores = [hit["score"] for hit in body["images"]]
    assert scores == pytest.approx([hit.score for hit in expected], abs=1e-5)


def test_sentences_like_a_sentence_take_filters_and_pages(client: TestClient) -> None:
    data = {"query": "Left pleural effusion.", "target": "sentences", "k": 2}
    body = client.post("/v1/search", data=data).json()
    both = body["sentences"]
    assert both[0]["sentence"] == data["query"]
    assert both[0]["score"] == pytest.approx(1, abs=1e-3)
    assert (body["matching"], len(both)) == (3, 2)
    (second,) = client.post("/v1/search", data={**data, "k": 1, "offset": 1}).json()["sentences"]
    assert second == both[1]
    limit = {**data, "min_score": both[0]["score"] - 1e-6}
    assert client.post("/v1/search", data=limit).json()["sentences"] == both[:1]
    study = {**data, "where": "image = 'images/s07.png'"}
    said = client.post("/v1/search", data=study).json()["sentences"]
    report = client.get("/v1/images/images/s07.png").json()["report"]
    assert {one["sentence"] for one in said} <= {one["sentence"] for one in report}
    assert said


def cohort(response: Any) -> list[dict[str, str]]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert response.headers["content-disposition"] == 'attachment; filename="cohort.csv"'
    return list(csv.DictReader(StringIO(response.text, newline="")))


def test_a_cohort_as_csv_has_its_header_also_where_it_is_empty(client: TestClient) -> None:
    data = {"query": "Effusion.", "k": 7}
    rows = cohort(client.post("/v1/search", data=data, headers={"Accept": "text/csv"}))
    hits = client.post("/v1/search", data=data).json()["images"]
    assert [row["image"] for row in rows] == [hit["image_id"] for hit in hits]
    assert [float(row["score"]) for row in rows] == [hit["score"] for hit in hits]
    assert [row["age"] for row in rows] == [hit["metadata"]["age"] for hit in hits]
    assert list(rows[0])[:6] == ["score", "image", "study_id", "patient_id", "split", "age"]
    assert float(rows[0]["label.Pneumonia"]) == hits[0]["labels"]["Pneumonia"]
    empty = {"query": "Effusion.", "where": "age > 1000"}
    response = client.post("/v1/search", data=empty, headers={"Accept": "text/csv"})
    assert cohort(response) == []
    assert response.text.startswith("score,image,study_id,patient_id,split\r\n")


def test_no_cell_of_a_cohort_is_a_formula() -> None:
    texts = ["=1+1", "+1+1", "-A1", "@a", "\t=1", "\r=1", " =1", "plain", '"quoted", too']
    image = IndexedImage(
        1, "a.png", "", "=s", "@p", "test", 1, 1, {f"={i}": text for i, text in enumerate(texts)}
    )
    text = csv_table([ImageHit(image, -0.5, {"=F": 0.5})])
    header, row = list(csv.reader(StringIO(text, newline="")))
    assert row[0] == "-0.5"  # a number of our own, not a text
    assert row[2:4] == ["'=s", "'@p"]
    assert row[5:14] == [*(f"'{text}" for text in texts[:7]), "plain", '"quoted", too']
    assert header[5] == "'=0"
    assert header[-1] == "label.=F"
