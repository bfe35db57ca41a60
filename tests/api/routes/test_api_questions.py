"""Classification and grounding, and the image that every question wants."""

import json
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from fastapi.testclient import TestClient
from numpy.typing import NDArray

from cxrtext.images import Geometry, Preprocessing, read_image_bytes
from cxrtext.models import ImageTextModel
from cxrtext.service import Service
from cxrtext.service.answers import ground_grid
from tests.api.conftest import as_dicom, as_file, check_problem, grey_picture, picture, serving


@pytest.mark.parametrize("kind", ["png", "jpeg", "dicom"])
def test_classify_answers_with_the_services_numbers(
    client: TestClient, service: Service, uploads: dict[str, bytes], kind: str
) -> None:
    response = client.post("/v1/classify", files={"image": (f"{kind}.bin", uploads[kind])})
    assert response.status_code == 200
    body = response.json()
    assert (body["model"], body["calibrated"]) == (service.model.fingerprint, False)
    expected = service.classify(service.embed(read_image_bytes(uploads[kind], "x")))
    assert [found["finding"] for found in body["findings"]] == [one.finding for one in expected]
    for found, one in zip(body["findings"], expected, strict=True):
        assert found["score"] == pytest.approx(one.score, abs=1e-5)
        assert found["probability"] == pytest.approx(1 / (1 + np.exp(-one.score)), abs=1e-5)


def test_ground_also_gives_a_mirrored_files_own_pixels(
    client: TestClient, pixels: NDArray[np.uint8]
) -> None:
    def ground(data: bytes) -> Any:
        form = {"sentence": "Left pleural effusion."}
        response = client.post("/v1/ground", files={"image": data}, data=form)
        assert response.status_code == 200
        return response.json()

    plain = ground(as_dicom(pixels))
    assert plain["stored"] is None
    mirrored = ground(as_dicom(pixels[:, ::-1], PatientOrientation=["R", "F"]))
    stored = mirrored.pop("stored")
    assert mirrored == {key: value for key, value in plain.items() if key != "stored"}
    assert (stored["movement"], stored["width"]) == ("mirrored", plain["width"])
    x, y = plain["peak"]
    assert stored["peak"] == pytest.approx([plain["width"] - x, y])
    (left, top, width, height), *_ = (box["bbox"] for box in plain["boxes"])
    assert stored["boxes"][0] == pytest.approx([plain["width"] - left - width, top, width, height])


def prompts_of(positive: list[Any], name: str = "a", **more: list[str]) -> str:
    return json.dumps({name: {"positive": positive, "negative": ["None."], **more}})


def test_ground_places_the_grid_in_the_original(
    client: TestClient, service: Service, model: ImageTextModel, png: bytes
) -> None:
    sent: dict[str, Any] = {"sentence": "Right pleural effusion."}
    response = client.post("/v1/ground", files={"image": png}, data=sent)
    assert response.status_code == 200
    body = response.json()
    assert body["model"] == model.fingerprint
    assert (body["width"], body["height"]) == (80, 96)
    # 96 × 80 is resized to 86 × 72; the crop of 64 starts at x = 4 and y = (86 − 72) // 2 + 4.
    across, down = 80 / 72, 96 / 86
    x, y, w, h = body["region"]
    assert (x, y, w, h) == pytest.approx((4 * across, 11 * down, 64 * across, 64 * down))
    grid = np.array(body["grid"])
    assert grid.shape == (4, 4)
    row, column = np.unravel_index(grid.argmax(), grid.shape)
    # Stride 16: a region is centered 7.5 pixels of 64 left of and above its cell's middle.
    assert body["shift"] == pytest.approx(7.5 / 64, abs=1e-6)
    moved = 7.5 / 64
    peak = (x + ((column + 0.5) / 4 - moved) * w, y + ((row + 0.5) / 4 - moved) * h)
    assert body["peak"] == pytest.approx(peak, abs=1e-4)
    assert body["threshold"] == body["limits"][0]
    assert bool(body["boxes"]) == body["stands_out"]
    expected = service.ground(service.embed(read_image_bytes(png, "x")), "Right pleural effusion.")
    assert body["score"] == pytest.approx(expected.score, abs=1e-5)


def test_a_map_on_a_smaller_copy_lies_where_it_does_on_the_image() -> None:
    grid = np.zeros((4, 4), np.float32)
    grid[1, 2] = 1
    found = ground_grid(grid, 1.0, Geometry(400, 320, Preprocessing(resize=256, crop=224)))
    large = found.drawn_on(np.zeros((400, 320), np.uint8)).resize((160, 200))
    small = found.drawn_on(np.zeros((200, 160), np.uint8))
    first, second = np.asarray(large, float), np.asarray(small, float)
    assert np.abs(first - second).mean() < np.abs(first - second[:, ::-1]).mean() / 2


def test_a_large_image_is_drawn_no_larger_than_it_is_shown(client: TestClient) -> None:
    """It leaves the process that decodes it in that size, and what is held of it is given back."""
    sent = as_file(np.tile(grey_picture(60, 60), (1, 100)), "png")
    form: dict[str, Any] = {"files": {"image": sent}, "data": {"sentence": "Effusion."}}
    drawn = client.post("/v1/ground", **form, headers={"Accept": "image/png"})
    overlay = picture(drawn.content)
    assert overlay.shape == (20, 2048, 3)
    uploads = client.app.state.resources.uploads  # type: ignore[attr-defined]
    assert uploads._pixels.taken == 0
    uploads._pixels.take(uploads._pixels.amount - 9)
    try:
        assert client.post("/v1/render", files={"image": sent}).status_code == 503
    finally:
        uploads._pixels.give(uploads._pixels.amount - 9)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json, image/png", "application/json"),
        ("text/html, image/png;q=0.2", "image/png"),
        ("text/html", "application/json"),
    ],
)
def test_ground_is_json_unless_a_picture_is_asked_for(
    client: TestClient, accept: str, kind: str
) -> None:
    data = {"image_id": "images/s01.png", "sentence": "Left pleural effusion."}
    response = client.post("/v1/ground", data=data, headers={"Accept": accept})
    assert response.status_code == 200
    assert response.headers["content-type"] == kind


@pytest.mark.parametrize("threshold", ["1.5", "nan", "inf", "high"])
def test_a_threshold_out_of_range(client: TestClient, threshold: str) -> None:
    data = {"image_id": "images/s01.png", "sentence": "Effusion.", "threshold": threshold}
    for route, more in (("ground", {}), ("verify", {"report": "Effusion."})):
        body = check_problem(client.post(f"/v1/{route}", data={**data, **more}), 422)
        assert body["errors"][0]["field"] == "threshold"


@pytest.mark.parametrize(
    ("route", "data"),
    [
        ("/v1/classify", {}),
        ("/v1/ground", {"sentence": "Effusion."}),
        ("/v1/render", {}),
        ("/v1/verify", {"report": "Effusion."}),
    ],
)
def test_an_image_is_wanted_once(
    client: TestClient, png: bytes, route: str, data: dict[str, str]
) -> None:
    check_problem(client.post(route, data=data), 422, "give image, or the image_id")
    both = client.post(route, files={"image": png}, data={**data, "image_id": "images/s07.png"})
    check_problem(both, 422, "not both")
    unknown = client.post(route, data={**data, "image_id": "images/none.png"})
    check_problem(unknown, 404, "no image of that id")


def test_a_second_question_of_an_upload_does_not_decode_it_again(
    service: Service, png: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = Mock(wraps=service.embed_squares)
    with serving(service) as client:
        monkeypatch.setattr(service, "embed_squares", embed)  # after the first, warming question
        first = client.post("/v1/classify", files={"image": png}).json()
        assert client.post("/v1/classify", files={"image": png}).json() == first
        client.post("/v1/ground", files={"image": png}, data={"sentence": "Effusion."})
    embed.assert_called_once()
    assert [square.shape for square in embed.call_args.args[0]] == [(1, 72, 72)]
