"""What a viewer gets of a film: 16-bit values, windows, the size of pixels, frames."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from numpy.typing import NDArray

from tests.api.conftest import as_dicom, check_problem, picture

GRAYS = {"Accept": "application/octet-stream"}


def deep_film(**elements: Any) -> tuple[NDArray[np.uint16], bytes]:
    """Twelve bits that no eight can tell apart, 40 x 60, with two windows."""
    values = np.arange(2400, dtype="<u2").reshape(40, 60) + 1000
    film = {
        "Rows": 40, "Columns": 60, "BitsAllocated": 16, "BitsStored": 12, "HighBit": 11,
        "PixelData": values.tobytes(), "WindowCenter": ["2000", "1500"],
        "WindowWidth": ["1200", "400"], "WindowCenterWidthExplanation": ["NORMAL", "HÄRTER"],
        "ImagerPixelSpacing": ["0.2", "0.2"],
    }  # fmt: skip
    return values, as_dicom(np.zeros((40, 60), np.uint8), **film | elements)


def table(span: tuple[int, int], curve: Callable[[float], float]) -> Any:
    """A look-up table from a first value over so many."""
    from pydicom.dataset import Dataset

    item = Dataset()
    first, count = span
    item.LUTDescriptor = [count, first, 16]
    item["LUTDescriptor"].VR = "US"
    item.LUTData = [round(curve(at / (count - 1))) for at in range(count)]
    item["LUTData"].VR = "US"
    return item


def viewed(client: TestClient, film: bytes, **asked: Any) -> tuple[Any, dict[str, Any]]:
    response = client.post("/v1/render", files={"image": film}, headers=GRAYS, **asked)
    assert response.status_code == 200, response.text
    said = json.loads(response.headers["x-viewing"])
    if response.headers["content-type"] == "image/png":
        return picture(response.content), said
    width, height = said["shown"]
    return np.frombuffer(response.content, "<u2").reshape(height, width), said


def shown(values: NDArray[Any], said: dict[str, Any]) -> NDArray[np.float64]:
    """Eight bits by the film's first window, as a viewer makes them."""
    facts, first = said["values"], said["values"]["windows"][0]
    units = values * facts["slope"] + facts["intercept"]
    gray = np.clip((units - first["level"]) / first["width"] + 0.5, 0, 1)
    if "curve" in first:
        gray = np.interp(gray, np.linspace(0, 1, len(first["curve"])), first["curve"]) / 255
    return np.asarray(np.rint(255 * (1 - gray if facts["inverted"] else gray)))


def test_a_deep_film_comes_with_its_own_values_and_windows(client: TestClient) -> None:
    values, data = deep_film()
    found, said = viewed(client, data)
    np.testing.assert_array_equal(found, values)
    assert (said["size"], said["frames"]) == ([60, 40], 1)
    assert said["spacing"] == {"mm": [pytest.approx(0.2)] * 2, "of": "ImagerPixelSpacing"}
    windows = said["values"]["windows"]
    assert [(one["name"], one["level"], one["width"]) for one in windows] == [
        ("NORMAL", 2000, 1200), ("HÄRTER", 1500, 400),
    ]  # fmt: skip
    small, said = viewed(client, data, params={"size": 32})
    assert small.shape == (21, 32)
    assert abs(small.mean() - values.mean()) < 2


@pytest.mark.parametrize(
    "elements",
    [
        {"RescaleSlope": "-2", "RescaleIntercept": "9", "PhotometricInterpretation": "MONOCHROME1"},
        {"PixelRepresentation": 1, "BitsStored": 16, "HighBit": 15, "RescaleIntercept": "-30"},
        {"WindowCenter": None, "WindowWidth": None},
        {"VOILUTSequence": [table((1200, 900), lambda x: 255 * x**2)]},
        {"ModalityLUTSequence": [table((1000, 2400), lambda x: 4000 * (1 - x))]},
        {"PatientOrientation": ["P", "F"], "WindowCenter": "2000", "WindowWidth": "900"},
    ],
)  # fmt: skip
def test_the_first_window_shows_what_the_png_shows(
    client: TestClient, elements: dict[str, Any]
) -> None:
    _, data = deep_film(**elements)
    found, said = viewed(client, data)
    png = client.post("/v1/render", files={"image": data})
    assert png.headers["content-type"] == "image/png"
    assert "values" not in json.loads(png.headers["x-viewing"])
    assert np.abs(shown(found, said) - picture(png.content)).max() <= 1


def test_eight_bits_stay_a_picture(client: TestClient, uploads: dict[str, bytes]) -> None:
    """And so do 32, of which no viewer has a table."""
    wide = deep_film()[0].astype("<u4")
    bits = {"BitsAllocated": 32, "BitsStored": 32, "HighBit": 31, "ImagerPixelSpacing": None}
    for data in (
        uploads["png"],
        uploads["dicom"],
        deep_film(PixelData=wide.tobytes(), **bits)[1],
    ):
        found, said = viewed(client, data)
        assert (found.dtype, said["spacing"], "values" in said) == (np.uint8, None, False)
    indexed = client.get("/v1/images/images/s01.png/rendered", headers=GRAYS)
    assert json.loads(indexed.headers["x-viewing"])["size"] == [80, 80]


def test_spacing_said_twice_is_the_detectors(client: TestClient) -> None:
    for pixel, of in (("0.2", "ImagerPixelSpacing"), ("0.15", "PixelSpacing")):
        _, data = deep_film(PixelSpacing=[pixel, pixel])
        assert viewed(client, data)[1]["spacing"]["of"] == of


def test_frames_are_asked_for_one_by_one(client: TestClient) -> None:
    values, _ = deep_film()
    frames = {"NumberOfFrames": 2, "PixelData": values.tobytes() + values[::-1].tobytes()}
    _, data = deep_film(**frames)
    check_problem(client.post("/v1/render", files={"image": data}), 422, "holds 2 frames")
    found, said = viewed(client, data, data={"frame": "1"})
    assert said["frames"] == 2
    np.testing.assert_array_equal(found, values[::-1])
    asked = [
        client.post("/v1/classify", files={"image": data}, data={"frame": frame}).json()
        for frame in ("0", "1", "0")
    ]
    assert asked[0] == asked[2] != asked[1]
    check_problem(client.post("/v1/render", files={"image": data}, data={"frame": "2"}), 422)
    check_problem(
        client.post("/v1/render", data={"image_id": "images/s01.png", "frame": "1"}), 422, "frame"
    )
