"""Health, the model, the indexed images and pictures of them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from numpy.typing import NDArray

import cxrtext
from cxrtext.evaluation import CHEX5_PROMPTS
from cxrtext.evaluation.how_good import NEVER, HowGood
from cxrtext.models import ImageTextModel
from cxrtext.service import Service
from tests.api.conftest import check_problem, picture, serving
from tests.conftest import read_csv


def test_model_tells_what_is_loaded_and_what_it_was_trained_on(
    client: TestClient, model: ImageTextModel, checkpoint: Path
) -> None:
    response = client.get("/v1/model")
    assert response.status_code == 200
    body = response.json()
    assert body["version"] == cxrtext.__version__
    assert body["model"] == model.fingerprint
    assert len(body["model"]) == 64
    assert (body["image_encoder"], body["crop"], body["dimension"]) == ("resnet-narrow", 64, 16)
    assert (body["has_index"], body["images"], body["sentences"]) == (True, 48, 3)
    assert list(body["prompts"]) == list(CHEX5_PROMPTS)
    assert body["prompts"]["Edema"] == {
        "positive": ["Pulmonary edema"],
        "negative": ["No pulmonary edema"],
    }
    assert body["notice"] == "Research use only. Not a medical device."
    assert body["access"]["key_id"] is None
    assert {"read", "write"} <= set(body["access"]["scopes"])
    assert body["exact"] is True
    assert body["calibrated"] is False
    assert body["takes_images"] is False
    assert (body["knows_images"], body["knows_sentences"]) == (True, True)
    assert body["limits"]["max_results"] == 1000
    assert body["limits"]["max_prompts"] == 64
    assert body["limits"]["max_body_bytes"] == 64 * 2**20
    noted = json.loads((checkpoint / "training.json").read_text())
    assert body["trained"]["data"] == noted["data_fingerprint"]
    assert body["trained"]["steps"] == noted["step"] == 200
    assert body["trained"]["objective"] == noted["configuration"]["objective"]["name"]
    assert body["measured"]["loss"] == pytest.approx(noted["validation"]["loss"], abs=1e-5)
    assert body["evaluated"] is None
    unknown = {"measured": False, "at_chance": False, "lines": [], "measures": []}
    assert body["how_good"] == unknown | {"warning": NEVER}


def test_model_says_that_it_is_at_chance(service: Service) -> None:
    measure = {
        "name": "Edema",
        "figure": "AUC",
        "value": 0.5,
        "low": 0.4,
        "high": 0.6,
        "control": 0.5,
    }
    said = {"measured": True, "at_chance": True, "warning": "At chance.", "lines": ["Finds: none"]}
    said |= {"measures": [measure]}
    service.how_good = HowGood.model_validate({"fingerprint": "f", **said})
    with serving(service) as client:
        assert client.get("/v1/model").json()["how_good"] == said


def test_images_are_listed_in_pages_all_or_those_that_a_filter_leaves(client: TestClient) -> None:
    response = client.get("/v1/images", params={"offset": 46, "limit": 5})
    assert response.status_code == 200
    body = response.json()
    assert (body["total"], body["offset"], body["limit"]) == (48, 46, 5)
    assert [image["image_id"] for image in body["images"]] == ["images/s46.png", "images/s47.png"]
    assert body["images"][0] == {
        "image_id": "images/s46.png", "study_id": "s46", "patient_id": "p46", "split": "train",
        "width": 80, "height": 80, "metadata": {"age": "86"},
    }  # fmt: skip
    assert client.get("/v1/images", params={"offset": 48}).json()["images"] == []
    of_some: dict[str, str | int] = {"where": "age between 50 and 52", "offset": 1, "limit": 1}
    body = client.get("/v1/images", params=of_some).json()
    assert (body["total"], body["offset"], body["limit"]) == (3, 1, 1)
    assert [image["metadata"]["age"] for image in body["images"]] == ["51"]


def test_columns_that_filters_can_name(client: TestClient) -> None:
    response = client.get("/v1/columns")
    assert response.status_code == 200
    columns = {column.pop("name"): column for column in response.json()["columns"]}
    assert columns["age"] == {"kind": "number", "least": 40, "most": 87, "values": None}
    assert columns["split"]["kind"] == "text"
    assert set(columns["split"]["values"]) == {"train", "val", "test"}
    assert columns["study_id"]["values"] == []
    assert columns["label.Edema"]["kind"] == "number"
    assert client.get("/v1/model").json()["columns"] == len(columns)


@pytest.mark.parametrize(
    "asked", ["?limit=201", "?offset=-1", "/images/s01.png/rendered?size=4097"]
)
def test_what_is_out_of_range(client: TestClient, asked: str) -> None:
    problem = check_problem(client.get(f"/v1/images{asked}"), 422)
    assert problem["errors"][0]["field"] in asked


def test_an_image_comes_with_its_report(client: TestClient, data_folder: Path) -> None:
    response = client.get("/v1/images/images/s01.png")
    assert response.status_code == 200
    body = response.json()
    assert (body["image_id"], body["study_id"]) == ("images/s01.png", "s01")
    said = {row["study_id"]: row["findings"] for row in read_csv(data_folder / "reports.csv")}
    assert body["report"] == [{"section": "findings", "sentence": said["s01"]}]
    assert "path" not in body


def test_rendered_image_has_the_files_pixels_and_its_longest_side_is_bounded(
    client: TestClient, data_folder: Path
) -> None:
    response = client.get("/v1/images/images/s01.png/rendered")
    assert response.status_code == 200
    assert response.headers["content-type"] == "image/png"
    assert response.headers["cache-control"] == "no-store"
    expected = picture((data_folder / "images/s01.png").read_bytes())
    np.testing.assert_array_equal(picture(response.content), expected)
    for size, shape in ((32, (32, 32)), (4096, (80, 80))):
        sized = client.get("/v1/images/images/s01.png/rendered", params={"size": size})
        assert picture(sized.content).shape == shape


@pytest.mark.parametrize(("kind", "most"), [("png", 0), ("jpeg", 30), ("dicom", 1)])
def test_an_upload_is_rendered(
    client: TestClient, uploads: dict[str, bytes], pixels: NDArray[np.uint8], kind: str, most: int
) -> None:
    response = client.post("/v1/render", files={"image": uploads[kind]})
    assert response.status_code == 200
    assert response.headers["content-type"] == "image/png"
    shown = picture(response.content)
    assert shown.shape == (96, 80)
    difference = np.abs(shown.astype(int) - pixels)
    assert np.quantile(difference, 0.99) <= most


def test_an_indexed_image_is_rendered_by_post_too_and_by_no_path(
    client: TestClient, data_folder: Path
) -> None:
    posted = client.post("/v1/render", data={"image_id": "images/s01.png"}, params={"size": 64})
    got = client.get("/v1/images/images/s01.png/rendered", params={"size": 64})
    assert posted.status_code == got.status_code == 200
    assert posted.content == got.content
    path = data_folder / "images/s01.png"
    response = client.post("/v1/render", data={"image_id": str(path)})
    check_problem(response, 404, "no image of that id")
    assert str(path) not in response.text


def test_a_file_that_is_gone(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    found = service.find_image("images/s01.png")
    moved = replace(found, path=found.path + ".moved")
    monkeypatch.setattr(service, "find_image", lambda _: moved)
    with serving(service) as client:
        response = client.get("/v1/images/images/s01.png/rendered")
    check_problem(response, 404, "no longer where it was indexed")
    assert str(Path(found.path).parent) not in response.text


def test_without_an_index_there_are_no_images(client_without_index: TestClient, png: bytes) -> None:
    for form in (
        {"data": {"query": "Effusion."}},
        {"files": {"image": png}},
        {"files": {"image": png}, "data": {"target": "sentences"}},
        {"data": {"image_id": "images/s07.png"}},
    ):
        check_problem(client_without_index.post("/v1/search", **form), 404, "no index is loaded")
    for path in ("/v1/images", "/v1/images/a.png", "/v1/images/a.png/rendered", "/v1/columns"):
        check_problem(client_without_index.get(path), 404, "no index is loaded")
    body = client_without_index.get("/v1/model").json()
    assert (body["has_index"], body["images"], body["sentences"]) == (False, 0, 0)
    assert body["columns"] == 0
