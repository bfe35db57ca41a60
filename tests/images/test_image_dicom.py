"""Grayscale DICOM: windows, tables, inversion, beside what the variants' script compares."""

import numpy as np
import pytest
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRBigEndian

from tests.images.conftest import CANARY, assert_same, gray, lut, make_dicom, refused


def test_bytes_swapped_in_big_endian_words_are_put_back() -> None:
    values = np.array([[10, 20, 30], [40, 50, 60]], dtype=np.uint8)
    data = make_dicom(values, syntax=ExplicitVRBigEndian, WindowCenter=128, WindowWidth=256)
    place = data.rindex(b"\x7f\xe0\x00\x10OB")
    swapped = values.ravel()[[1, 0, 3, 2, 5, 4]].tobytes()
    words = data[:place] + b"\x7f\xe0\x00\x10OW" + data[place + 6 : -6] + swapped
    assert_same(words, data)


def test_linear_window_follows_the_standard() -> None:
    values = np.array([[-1, 0, 1, 2047, 2048, 4094, 4095, 4096]], dtype=np.int16)
    data = make_dicom(values, WindowCenter=2048, WindowWidth=4096)
    wanted = [0, 0, 1 / 4095, 2047 / 4095, 2048 / 4095, 4094 / 4095, 1, 1]
    np.testing.assert_allclose(gray(data)[0], wanted, atol=1e-6)
    # PS3.3 C.11.2.1.2.1: width 1 is a step; above center - 0.5 is white
    for center, step in ((2048, [0, 0, 0, 0, 1, 1, 1, 1]), (2048.5, [0, 0, 0, 0, 0, 1, 1, 1])):
        assert gray(make_dicom(values, WindowCenter=center, WindowWidth=1)).tolist() == [step]


def test_a_sigmoid_of_hardly_any_width_is_a_step_and_unknown_functions_are_refused() -> None:
    window = {"WindowCenter": 10, "WindowWidth": 1e-300, "VOILUTFunction": "SIGMOID"}
    values = np.array([[0, 10, 20]], np.uint8)
    assert gray(make_dicom(values, **window)).tolist() == [[0, 0.5, 1]]
    said = refused(make_dicom(values, **{**window, "VOILUTFunction": CANARY}))
    assert said.startswith("VOILUTFunction is none")


def test_file_window_without_width_is_passed_over() -> None:
    values = np.array([[0, 50, 100, 200]], dtype=np.uint8)
    data = make_dicom(values, WindowCenter=[7, 50.5], WindowWidth=[0, 101])
    np.testing.assert_allclose(gray(data)[0], [0, 0.5, 1, 1], atol=1e-6)
    alone = make_dicom(values, WindowCenter=7, WindowWidth=0)
    np.testing.assert_allclose(gray(alone)[0], values[0] / 200, atol=1e-6)


@pytest.mark.parametrize(
    ("slope", "message"), [("0", "is 0"), ("1E305", "out of range"), ("1E999", "is no number")]
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


def test_table_shorter_than_told_is_refused() -> None:
    sequence = lut(0, [0, 1, 2, 3])
    sequence[0].LUTDescriptor = [100, 0, 16]
    data = make_dicom(np.zeros((2, 2), np.uint8), VOILUTSequence=sequence)
    assert "look-up table is damaged" in refused(data)


def test_rare_and_flat_values_without_window() -> None:
    mask = np.zeros((100, 100), np.uint8)
    mask[0, 0] = 1
    assert gray(make_dicom(mask)).sum() == 1
    assert gray(make_dicom(np.full((4, 4), 7, np.uint8))).max() == 0
    flat = make_dicom(np.full((4, 4), 7, np.uint8), photometric="MONOCHROME1")
    assert gray(flat).min() == 1


def test_file_without_meta_is_refused() -> None:
    whole = make_dicom(np.array([[0, 100, 200]], dtype=np.uint8))
    bare = refused(whole[whole.index(b"\x08\x00\x16\x00UI") :])
    assert "without its file header" in bare
    assert "Part 10" in bare
