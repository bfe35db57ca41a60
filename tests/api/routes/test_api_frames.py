"""A DICOM file of several frames is asked about one by one."""

import numpy as np
from fastapi.testclient import TestClient

from tests.api.conftest import as_dicom, check_problem, picture


def test_frames_are_asked_for_one_by_one(client: TestClient) -> None:
    values = np.arange(2400).reshape(40, 60).astype(np.uint8)
    both = {"NumberOfFrames": 2, "PixelData": values.tobytes() + values[::-1].tobytes()}
    data = as_dicom(values, **both)
    check_problem(client.post("/v1/render", files={"image": data}), 422, "holds 2 frames")
    shown = [
        picture(client.post("/v1/render", files={"image": data}, data={"frame": frame}).content)
        for frame in ("0", "1")
    ]
    np.testing.assert_array_equal(shown[1], shown[0][::-1])
    asked = [
        client.post("/v1/classify", files={"image": data}, data={"frame": frame}).json()
        for frame in ("0", "1", "0")
    ]
    assert asked[0] == asked[2] != asked[1]
    check_problem(client.post("/v1/render", files={"image": data}, data={"frame": "2"}), 422)
    check_problem(
        client.post("/v1/render", data={"image_id": "images/s01.png", "frame": "1"}), 422, "frame"
    )
