"""Grayscale DICOM: windows, tables, inversion, beside what the variants' script compares."""

import numpy as np
import pytest
from pydicom.sequence import Sequence

from tests.images.conftest import CANARY, gray, lut, make_dicom, refused


def test_a_sigmoid_of_hardly_any_width_is_a_step_and_unknown_functions_are_refused() -> None:
    window = {"WindowCenter": 10, "WindowWidth": 1e-300, "VOILUTFunction": "SIGMOID"}
    values = np.array([[0, 10, 20]], np.uint8)
    assert gray(make_dicom(values, **window)).tolist() == [[0, 0.5, 1]]
    said = refused(make_dicom(values, **{**window, "VOILUTFunction": CANARY}))
    assert said.startswith("VOILUTFunction is not one")


def test_a_file_whose_only_window_has_no_width_is_shown_by_percentiles() -> None:
    values = np.array([[0, 50, 100, 200]], dtype=np.uint8)
    alone = make_dicom(values, WindowCenter=7, WindowWidth=0)
    np.testing.assert_allclose(gray(alone)[0], values[0] / 200, atol=1e-6)


@pytest.mark.parametrize(
    ("slope", "message"), [("0", "is 0"), ("1E305", "out of range"), ("1E999", "is not a number")]
)
def test_impossible_rescale_is_refused(slope: str, message: str) -> None:
    values = np.array([[1, 60000]], np.uint16)
    data = make_dicom(values, RescaleSlope="1.00000", RescaleIntercept="0")
    said = refused(data.replace(b"1.00000", slope.encode().ljust(7)))
    assert said.startswith("RescaleSlope")
    assert message in said


@pytest.mark.parametrize(
    ("values", "table", "wanted"),
    [
        ([0, 9, 10, 11, 12, 13, 200], lut(10, [0, 1023, 2046, 4095], 12),
         [0, 0, 0, 1023 / 4095, 2046 / 4095, 1, 1]),
        ([0, 1, 2, 3], lut(0, [0, 51, 102, 255], 8, words=False), [0, 0.2, 0.4, 1]),
        ([0, 1, 2], lut(0, [0, 1024, 4095], 16), [0, 1024 / 4095, 1]),
        ([-2, -1, 0, 1], lut(-1, [0, 128, 255]), [0, 0, 128 / 255, 1]),
    ],
    ids=["values beside it", "bytes packed in words", "overstated depth", "negative values"],
)  # fmt: skip
def test_voi_lut(values: list[int], table: Sequence, wanted: list[float]) -> None:
    pixels = np.array([values], dtype=np.int16)
    window = {"WindowCenter": 5, "WindowWidth": 3}
    data = make_dicom(pixels, VOILUTSequence=table, **window)
    np.testing.assert_allclose(gray(data)[0], wanted, atol=1e-6)
    inverted = make_dicom(pixels, photometric="MONOCHROME1", VOILUTSequence=table)
    np.testing.assert_allclose(gray(inverted), 1 - gray(data), atol=1e-6)
