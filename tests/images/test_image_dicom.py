"""Grayscale DICOM: stored values, modality, windows, tables, inversion."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRBigEndian, ExplicitVRLittleEndian, ImplicitVRLittleEndian

from cxrtext.errors import ImageError
from cxrtext.images import read_image_bytes

Make = Callable[..., bytes]


def gray(data: bytes, **options: Any) -> npt.NDArray[np.float32]:
    image = read_image_bytes(data, "image.dcm", **options)
    assert image.dtype == np.float32
    assert image.ndim == 3
    assert image.flags.c_contiguous
    flat: npt.NDArray[np.float32] = image[0]
    return flat


def spread(stored: int, signed: bool) -> npt.NDArray[np.int64]:
    """Give 3 x 5 values from the lowest to the highest that fit."""
    lowest = -(2 ** (stored - 1)) if signed else 0
    return np.rint(np.linspace(lowest, lowest + 2**stored - 1, 15)).astype(np.int64).reshape(3, 5)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("stored", [2, 7, 8, 9, 10, 12, 14, 15, 16, 32])
@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
def test_every_depth_spans_black_to_white(
    make_dicom: Make, stored: int, signed: bool, photometric: str
) -> None:
    allocated = 8 if stored <= 8 else 16 if stored <= 16 else 32
    values = spread(stored, signed)
    unsigned = (values & (2**stored - 1)).astype(f"u{allocated // 8}")
    data = make_dicom(
        unsigned,
        stored=stored,
        photometric=photometric,
        PixelRepresentation=int(signed),
        VOILUTFunction="LINEAR_EXACT",
    )
    low, high = int(values[0, 0]), int(values[-1, -1])
    result = gray(data, window=((low + high) / 2, float(high - low)))
    wanted = (values - low) / (high - low)
    if photometric == "MONOCHROME1":
        wanted = 1 - wanted
    np.testing.assert_allclose(result, wanted, atol=1e-6)


@pytest.mark.parametrize(
    "syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian, ExplicitVRBigEndian]
)
@pytest.mark.parametrize("kind", ["u1", "i2", "u2"])
def test_byte_orders_agree(make_dicom: Make, syntax: str, kind: str) -> None:
    values = np.array([[0, 1, 2], [100, 17, 127]], dtype=kind)
    data = make_dicom(values, syntax=syntax, WindowCenter=64, WindowWidth=128)
    # by the standard, black is 0 and white 127
    np.testing.assert_allclose(gray(data), values / 127, atol=1e-6)


def test_bytes_swapped_in_big_endian_words_are_put_back(make_dicom: Make) -> None:
    values = np.array([[10, 20, 30], [40, 50, 60]], dtype=np.uint8)
    data = make_dicom(values, syntax=ExplicitVRBigEndian, WindowCenter=128, WindowWidth=256)
    place = data.rindex(b"\x7f\xe0\x00\x10OB")
    swapped = values.ravel()[[1, 0, 3, 2, 5, 4]].tobytes()
    words = data[:place] + b"\x7f\xe0\x00\x10OW" + data[place + 6 : -6] + swapped
    np.testing.assert_array_equal(gray(words), gray(data))


def test_bits_outside_the_stored_ones_are_an_overlay_and_ignored(make_dicom: Make) -> None:
    values = np.array([[0, 1000], [2000, 4095]], dtype=np.uint16)
    plain = make_dicom(values, stored=12, WindowCenter=2048, WindowWidth=4096)
    dirty = make_dicom(values | 0xA000, stored=12, WindowCenter=2048, WindowWidth=4096)
    np.testing.assert_array_equal(gray(dirty), gray(plain))
    np.testing.assert_allclose(gray(plain), values / 4095, atol=1e-6)
    shifted = make_dicom(values << 4, stored=12, HighBit=15, WindowCenter=2048, WindowWidth=4096)
    np.testing.assert_array_equal(gray(shifted), gray(plain))


def test_a_window_of_width_1_is_black_at_its_step_and_white_above(make_dicom: Make) -> None:
    data = make_dicom(np.array([[2047, 2048, 2049]], dtype=np.uint16))
    assert gray(data, window=(2048.5, 1)).tolist() == [[0, 0, 1]]


def test_linear_window_follows_the_standard(make_dicom: Make) -> None:
    values = np.array([[-1, 0, 1, 2047, 2048, 4094, 4095, 4096]], dtype=np.int16)
    data = make_dicom(values, WindowCenter=2048, WindowWidth=4096)
    wanted = [0, 0, 1 / 4095, 2047 / 4095, 2048 / 4095, 4094 / 4095, 1, 1]
    np.testing.assert_allclose(gray(data)[0], wanted, atol=1e-6)
    # PS3.3 C.11.2.1.2.1: width 1 is a step; above center - 0.5 is white
    assert gray(data, window=(2048, 1)).tolist() == [[0, 0, 0, 0, 1, 1, 1, 1]]


def test_window_functions(make_dicom: Make) -> None:
    values = np.array([[0, 10, 20, 30, 40]], dtype=np.uint8)
    exact = make_dicom(values, WindowCenter=20, WindowWidth=40, VOILUTFunction="LINEAR_EXACT")
    np.testing.assert_allclose(gray(exact)[0], [0, 0.25, 0.5, 0.75, 1], atol=1e-6)
    sigmoid = make_dicom(values, WindowCenter=20, WindowWidth=40, VOILUTFunction="SIGMOID")
    wanted = [1 / (1 + np.exp(-4 * (x - 20) / 40)) for x in values[0].astype(float)]
    np.testing.assert_allclose(gray(sigmoid)[0], wanted, atol=1e-6)
    assert np.isfinite(gray(sigmoid, window=(0, 1e-300))).all()


def test_unknown_window_function_is_refused(make_dicom: Make) -> None:
    data = make_dicom(
        np.zeros((2, 2), np.uint8), WindowCenter=1, WindowWidth=2, VOILUTFunction="CANARY"
    )
    with pytest.raises(ImageError, match=r"^image\.dcm: VOILUTFunction is none") as caught:
        gray(data)
    assert "CANARY" not in str(caught.value)


def test_windows_are_chosen_by_index_or_given(make_dicom: Make) -> None:
    values = np.array([[0, 50, 100, 200]], dtype=np.uint8)
    data = make_dicom(values, WindowCenter=[50.5, 100.5], WindowWidth=[101, 201])
    np.testing.assert_allclose(gray(data)[0], [0, 0.5, 1, 1], atol=1e-6)
    np.testing.assert_allclose(gray(data, window=1)[0], [0, 0.25, 0.5, 1], atol=1e-6)
    np.testing.assert_allclose(gray(data, window=(25.5, 51))[0], [0, 1, 1, 1], atol=1e-6)
    with pytest.raises(ImageError, match=r"image\.dcm: has 2 window\(s\), counted from 0; pass"):
        gray(data, window=2)
    with pytest.raises(ImageError, match="has 2 window"):
        gray(data, window=-1)
    with pytest.raises(ImageError, match="a width > 0"):
        gray(data, window=(10, 0))
    with pytest.raises(ImageError, match="a finite center"):
        gray(data, window=(float("nan"), 10))
    with pytest.raises(ValueError, match="center, width"):
        gray(data, window=(1, 2, 3))


def test_windows_are_chosen_by_name(make_dicom: Make) -> None:
    values = np.array([[0, 50, 100, 200]], dtype=np.uint8)
    tables = lut(0, [0, 255])
    tables[0].LUTExplanation = "Soft"
    data = make_dicom(
        values,
        VOILUTSequence=tables,
        WindowCenter=[50.5, 100.5],
        WindowWidth=[101, 201],
        WindowCenterWidthExplanation=["LUNG", "BONE"],
    )
    for name, index in (("soft", 0), (" Lung ", 1), ("BONE", 2)):
        np.testing.assert_array_equal(gray(data, window=name), gray(data, window=index))
    for wrong in ("", "CANARY"):
        with pytest.raises(ImageError, match=r"has 3 window\(s\).*another index or name") as caught:
            gray(data, window=wrong)
        assert "CANARY" not in str(caught.value)
    fewer = make_dicom(
        values, WindowCenter=[50.5, 100.5], WindowWidth=[101, 201], WindowCenterWidthExplanation="A"
    )
    np.testing.assert_array_equal(gray(fewer, window="a"), gray(fewer, window=0))
    with pytest.raises(ImageError, match="has 2 window"):
        gray(fewer, window="BONE")


def test_file_window_without_width_is_passed_over(make_dicom: Make) -> None:
    values = np.array([[0, 50, 100, 200]], dtype=np.uint8)
    data = make_dicom(values, WindowCenter=[7, 50.5], WindowWidth=[0, 101])
    np.testing.assert_allclose(gray(data)[0], [0, 0.5, 1, 1], atol=1e-6)
    with pytest.raises(ImageError, match="no width"):
        gray(data, window=0)
    alone = make_dicom(values, WindowCenter=7, WindowWidth=0)
    np.testing.assert_allclose(gray(alone)[0], values[0] / 200, atol=1e-6)


def test_rescale_comes_before_the_window(make_dicom: Make) -> None:
    values = np.array([[0, 512, 1024, 2048]], dtype=np.uint16)
    data = make_dicom(
        values, RescaleSlope="2", RescaleIntercept="-1024", WindowCenter="0", WindowWidth="2049"
    )
    # modality: -1024, 0, 1024, 3072; LINEAR: (x + 0.5) / 2048 + 0.5
    np.testing.assert_allclose(gray(data)[0], [0.5 / 2048, 0.5 + 0.5 / 2048, 1, 1], atol=1e-6)


@pytest.mark.parametrize(
    ("slope", "message"), [("0", "is 0"), ("1E305", "out of range"), ("1E999", "is no number")]
)
def test_impossible_rescale_is_refused(make_dicom: Make, slope: str, message: str) -> None:
    values = np.array([[1, 60000]], np.uint16)
    data = make_dicom(values, RescaleSlope="1.00000", RescaleIntercept="0")
    with pytest.raises(ImageError, match=f"RescaleSlope.*{message}"):
        gray(data.replace(b"1.00000", slope.encode().ljust(7)))


def lut(first: int, entries: list[int], bits: int = 16, words: bool = True) -> Sequence:
    item = Dataset()
    item.add_new("LUTDescriptor", "SS" if first < 0 else "US", [len(entries), first, bits])
    if words:
        item.add_new("LUTData", "US", entries)
    else:
        item.add_new("LUTData", "OW", np.array(entries, np.uint8).tobytes())
    return Sequence([item])


def test_voi_lut(make_dicom: Make) -> None:
    values = np.array([[0, 9, 10, 11, 12, 13, 200]], dtype=np.uint8)
    data = make_dicom(
        values, VOILUTSequence=lut(10, [0, 1023, 2046, 4095], 12), WindowCenter=5, WindowWidth=3
    )
    third = 1023 / 4095
    np.testing.assert_allclose(gray(data)[0], [0, 0, 0, third, 2 * third, 1, 1], atol=1e-6)
    # the window comes after the table
    np.testing.assert_allclose(gray(data, window=1), gray(data, window=(5, 3)))
    inverted = make_dicom(
        values, photometric="MONOCHROME1", VOILUTSequence=lut(10, [0, 1023, 2046, 4095], 12)
    )
    np.testing.assert_allclose(gray(inverted), 1 - gray(data), atol=1e-6)


def test_voi_lut_of_bytes_packed_in_words(make_dicom: Make) -> None:
    values = np.array([[0, 1, 2, 3]], dtype=np.uint8)
    data = make_dicom(values, VOILUTSequence=lut(0, [0, 51, 102, 255], 8, words=False))
    np.testing.assert_allclose(gray(data)[0], [0, 0.2, 0.4, 1], atol=1e-6)


def test_voi_lut_that_overstates_its_depth_is_not_dark(make_dicom: Make) -> None:
    values = np.array([[0, 1, 2]], dtype=np.uint8)
    data = make_dicom(values, VOILUTSequence=lut(0, [0, 1024, 4095], 16))
    np.testing.assert_allclose(gray(data)[0], [0, 1024 / 4095, 1], atol=1e-6)


def test_voi_lut_over_negative_values(make_dicom: Make) -> None:
    values = np.array([[-2, -1, 0, 1]], dtype=np.int16)
    data = make_dicom(values, VOILUTSequence=lut(-1, [0, 128, 255]))
    np.testing.assert_allclose(gray(data)[0], [0, 0, 128 / 255, 1], atol=1e-6)


def test_table_shorter_than_told_is_refused(make_dicom: Make) -> None:
    sequence = lut(0, [0, 1, 2, 3])
    sequence[0].LUTDescriptor = [100, 0, 16]
    with pytest.raises(ImageError, match="look-up table is damaged"):
        gray(make_dicom(np.zeros((2, 2), np.uint8), VOILUTSequence=sequence))


def test_modality_lut(make_dicom: Make) -> None:
    values = np.array([[0, 1, 2, 3]], dtype=np.uint8)
    data = make_dicom(
        values, ModalityLUTSequence=lut(1, [100, 200, 300]), WindowCenter=200.5, WindowWidth=201
    )
    np.testing.assert_allclose(gray(data)[0], [0, 0, 0.5, 1], atol=1e-6)


def test_without_window_percentiles_withstand_outliers(make_dicom: Make) -> None:
    values = np.tile(np.arange(100, 200, dtype=np.uint16), (100, 1))
    values[0, 0], values[0, 1] = 0, 65535
    result = gray(make_dicom(values))
    assert result[0, 0] == 0
    assert result[0, 1] == 1
    # the 0.5th and the 99.5th percentile of 100 to 199, each a hundred times, are 100 and 199
    np.testing.assert_allclose(result[5], (np.arange(100, 200) - 100) / 99, atol=1e-6)


def test_padding_is_left_out_of_percentiles(make_dicom: Make) -> None:
    values = np.tile(np.arange(100, 200, dtype=np.uint16), (100, 1))
    padded = np.concatenate([np.zeros((50, 100), np.uint16), values])
    plain = gray(make_dicom(padded))
    assert plain[50, 50] > 0.7
    result = gray(make_dicom(padded, PixelPaddingValue=0))
    np.testing.assert_allclose(result[50:], gray(make_dicom(values)), atol=1e-6)
    ranged = gray(make_dicom(padded, PixelPaddingValue=0, PixelPaddingRangeLimit=90))
    np.testing.assert_array_equal(ranged, result)


def test_rare_and_flat_values_without_window(make_dicom: Make) -> None:
    mask = np.zeros((100, 100), np.uint8)
    mask[0, 0] = 1
    assert gray(make_dicom(mask)).sum() == 1
    assert gray(make_dicom(np.full((4, 4), 7, np.uint8))).max() == 0
    flat = make_dicom(np.full((4, 4), 7, np.uint8), photometric="MONOCHROME1")
    assert gray(flat).min() == 1


def test_inversion_needs_no_presentation_lut(make_dicom: Make) -> None:
    values = np.array([[0, 100, 200]], dtype=np.uint8)
    for shape in ({}, {"PresentationLUTShape": "INVERSE"}, {"PresentationLUTShape": "IDENTITY"}):
        data = make_dicom(values, photometric="MONOCHROME1", **shape)
        np.testing.assert_allclose(gray(data)[0], [1, 0.5, 0], atol=1e-6)


def test_file_without_preamble_is_read_and_without_meta_refused(make_dicom: Make) -> None:
    values = np.array([[0, 100, 200]], dtype=np.uint8)
    np.testing.assert_array_equal(
        gray(make_dicom(values, preamble=False)), gray(make_dicom(values))
    )
    whole = make_dicom(values)
    bare = whole[whole.index(b"\x08\x00\x16\x00UI") :]
    with pytest.raises(ImageError, match=r"without its file header.*Part 10"):
        gray(bare)
