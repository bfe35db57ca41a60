"""What archives hold beside the standard: deep codestreams, bare starts, commas, odd palettes."""

import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import numpy.typing as npt
import pydicom
import pytest
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate
from pydicom.uid import (
    UID,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGLosslessSV1,
    JPEGLSLossless,
)

from cxrtext.errors import ImageError
from cxrtext.images import read_image_bytes
from cxrtext.images.dicom.described import texts_of

Make = Callable[..., bytes]
WINDOW = {"WindowCenter": 2048, "WindowWidth": 4096}


def values(kind: str = "u2") -> npt.NDArray[np.uint16]:
    generator = np.random.default_rng(3)
    return generator.integers(0, 4096, (24, 32)).astype(kind)


def whole_cells(make: Make, cells: npt.NDArray[np.uint16], syntax: str, **header: object) -> bytes:
    """Code all 16 bits of the cells, whatever the header says is in use, as DCMTK does."""
    code: dict[UID, Any] = {
        JPEGLosslessSV1: lambda: imagecodecs.jpeg8_encode(cells, lossless=True, bitspersample=16),
        JPEGLSLossless: lambda: imagecodecs.jpegls_encode(cells),
        JPEG2000Lossless: lambda: imagecodecs.jpeg2k_encode(cells, level=0, codecformat="J2K"),
    }
    dataset = pydicom.dcmread(BytesIO(make(cells, stored=12, **{**WINDOW, **header})))
    dataset.file_meta.TransferSyntaxUID = UID(syntax)
    dataset.PixelData = encapsulate([bytes(code[UID(syntax)]())])
    dataset["PixelData"].VR = "OB"
    dataset["PixelData"].is_undefined_length = True
    buffer = BytesIO()
    dataset.save_as(buffer, enforce_file_format=True)
    return buffer.getvalue()


@pytest.mark.parametrize("syntax", [JPEGLosslessSV1, JPEGLSLossless, JPEG2000Lossless])
def test_an_overlay_in_the_bits_above_is_masked_in_a_deep_codestream(
    make_dicom: Make, syntax: str
) -> None:
    plain = read_image_bytes(make_dicom(values(), stored=12, **WINDOW), "x")
    cells = values() | np.uint16(0x5000)
    result = read_image_bytes(whole_cells(make_dicom, cells, syntax), "x")
    np.testing.assert_array_equal(result, plain)


@pytest.mark.parametrize("syntax", [JPEGLosslessSV1, JPEGLSLossless, JPEG2000Lossless])
def test_a_high_bit_at_the_top_is_shifted_down_in_a_deep_codestream(
    make_dicom: Make, syntax: str
) -> None:
    plain = read_image_bytes(make_dicom(values(), stored=12, **WINDOW), "x")
    cells = values() << np.uint16(4)
    result = read_image_bytes(whole_cells(make_dicom, cells, syntax, HighBit=15), "x")
    np.testing.assert_array_equal(result, plain)


def test_signed_values_of_a_deep_codestream_keep_their_sign(make_dicom: Make) -> None:
    signed = values("i2") - 2048
    window = {"WindowCenter": 0, "WindowWidth": 4096, "PixelRepresentation": 1}
    cells = (signed & 0xFFF).astype(np.uint16)
    plain = read_image_bytes(make_dicom(cells, stored=12, **window), "x")
    deep = cells | np.uint16(0x3000)
    data = make_dicom(deep, stored=12, **window)
    np.testing.assert_array_equal(read_image_bytes(data, "x"), plain)
    data = whole_cells(make_dicom, deep, JPEGLosslessSV1, **window)
    np.testing.assert_array_equal(read_image_bytes(data, "x"), plain)


def test_a_file_that_starts_with_its_letters_is_read(make_dicom: Make) -> None:
    data = make_dicom(values(), stored=12, **WINDOW)
    np.testing.assert_array_equal(read_image_bytes(data[128:], "x"), read_image_bytes(data, "x"))


@pytest.mark.parametrize(
    ("center", "width", "same"),
    [
        (b"40,5", b"400,0", (40.5, 400.0)), (b"40,5\\99,5 ", b"400\\80", (40.5, 400.0)),
        (b"40, 90", b"400, 80 ", (40.0, 400.0)), (b"40,90,7 ", b"400,80,7", (40.0, 400.0)),
    ],
)  # fmt: skip
def test_commas_in_windows_are_read(
    make_dicom: Make, center: bytes, width: bytes, same: tuple[float, float]
) -> None:
    data = make_dicom(values(), stored=12, WindowCenter="1" * len(center), WindowWidth="2")
    data = data.replace(b"1" * len(center), center)
    old = b"\x28\x00\x51\x10DS\x02\x002 "
    data = data.replace(old, old[:6] + struct.pack("<H", len(width)) + width)
    assert width in data
    np.testing.assert_array_equal(
        read_image_bytes(data, "x"), read_image_bytes(data, "x", window=same)
    )


@pytest.mark.parametrize("center", [b"4O,5", b",,,,", b"abc ", b"    "])
def test_a_window_that_is_no_number_is_passed_over_for_the_next(
    make_dicom: Make, center: bytes
) -> None:
    data = make_dicom(values(), stored=12, WindowCenter=["1111", "999"], WindowWidth=["2", "500"])
    seen = read_image_bytes(data.replace(b"1111", center), "x")
    same = read_image_bytes(data, "x", window=(999, 500))
    np.testing.assert_array_equal(seen, same)
    alone = make_dicom(values(), stored=12, WindowCenter="1111", WindowWidth="2")
    plain = read_image_bytes(make_dicom(values(), stored=12), "x")
    np.testing.assert_array_equal(read_image_bytes(alone.replace(b"1111", center), "x"), plain)


def palette(units: list[int], bits: int) -> dict[str, object]:
    kind = "<u2" if bits == 16 else "u1"
    packed = np.array(units, dtype=kind).tobytes()
    tables: dict[str, object] = {}
    for color in ("Red", "Green", "Blue"):
        tables[f"{color}PaletteColorLookupTableDescriptor"] = [256, 0, bits]
        tables[f"Segmented{color}PaletteColorLookupTableData"] = packed
    return tables


RAMP = np.concatenate([[0, 10], np.rint(np.linspace(10, 200, 101))[1:], np.full(154, 200.0)])


@pytest.mark.parametrize(
    ("units", "bits", "wanted"),
    [
        ([0, 2, 0, 10, 1, 100, 200, 1, 154, 200], 8, RAMP / 255),
        ([0, 2, 0, 2570, 1, 100, 51400, 1, 154, 51400], 16, None),
        # Two discrete entries, then the same line again and again.
        ([0, 1, 0, 1, 127, 254, 0, 1, 0, 2, 1, 3, 0, 0, 0], 8, None),
    ],
)
def test_segmented_palettes_are_expanded(
    make_dicom: Make, units: list[int], bits: int, wanted: npt.NDArray[np.float64] | None
) -> None:
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    units = units if len(units) % 2 == 0 or bits == 16 else [*units, 0]
    data = make_dicom(levels, photometric="PALETTE COLOR", **palette(units, bits))
    result = read_image_bytes(data, "x").ravel()
    if wanted is None and bits == 16:
        wanted = RAMP * 257 / 65535
    if wanted is None:
        line = np.rint(np.linspace(0, 254, 128))
        wanted = np.concatenate([line, [0], line[1:]]) / 255
    np.testing.assert_allclose(result, wanted, atol=1 / 255)


@pytest.mark.parametrize("units", [[1, 2, 3, 4], [0, 2, 1, 2], [2, 1, 0, 0], [7, 1, 1, 1]])
def test_damaged_segments_are_refused(make_dicom: Make, units: list[int]) -> None:
    levels = np.zeros((2, 2), dtype=np.uint8)
    data = make_dicom(levels, photometric="PALETTE COLOR", **palette(units, 16))
    with pytest.raises(ImageError, match="look-up table is damaged"):
        read_image_bytes(data, "x")


@pytest.mark.parametrize("command", [["dcmcjpeg", "+e1"], ["dcmcjpeg", "+el"], ["dcmcjpls"]])
@pytest.mark.parametrize("kind", ["overlay", "high bit"])
def test_files_that_dcmtk_compressed_are_those_before(
    make_dicom: Make, tmp_path: Path, command: list[str], kind: str
) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip("DCMTK is not installed")
    plain = read_image_bytes(make_dicom(values(), stored=12, **WINDOW), "x")
    cells = values() | np.uint16(0x5000) if kind == "overlay" else values() << np.uint16(4)
    high = {"HighBit": 11 if kind == "overlay" else 15}
    files = [str(tmp_path / name) for name in ("in.dcm", "out.dcm")]
    Path(files[0]).write_bytes(make_dicom(cells, stored=12, **WINDOW, **high))
    subprocess.run([*command, *files], check=True, capture_output=True)
    np.testing.assert_array_equal(read_image_bytes(Path(files[1]).read_bytes(), "x"), plain)


def lut(first: int, entries: list[int], kind: str = "US") -> Dataset:
    """An item of a look-up table."""
    item = Dataset()
    item.add_new("LUTDescriptor", kind, [len(entries), first, 16])
    item.add_new("LUTData", "US", entries)
    return item


@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
def test_a_voi_table_behind_a_modality_table_counts_without_sign(
    make_dicom: Make, syntax: str
) -> None:
    pixels = np.array([[-2, -1], [0, 1]], dtype=np.int16)
    levels = [39_999, 40_000, 40_001, 40_002]
    result = read_image_bytes(
        make_dicom(
            pixels,
            syntax=syntax,
            ModalityLUTSequence=[lut(-2, levels, "SS")],
            VOILUTSequence=[lut(40_000, [0, 100, 255])],
        ),
        "x",
    )
    expected = np.array([[0, 0], [100, 255]], dtype=np.float32) / 255
    np.testing.assert_allclose(result[0], expected, atol=1e-6)


def test_a_voi_table_counts_with_the_sign_of_rescaled_values(make_dicom: Make) -> None:
    pixels = np.array([[0, 1024], [2048, 4095]], dtype=np.uint16)
    data = make_dicom(
        pixels, RescaleSlope=-1, RescaleIntercept=0, VOILUTSequence=[lut(65_536 - 2_048, [0, 255])]
    )
    np.testing.assert_array_equal(read_image_bytes(data, "x")[0], [[1, 1], [0, 0]])


@pytest.mark.parametrize(
    ("kind", "padding", "stored"),
    [("US", 65_536 - 2_000, -2_000), ("US", 32_768, -32_768), ("SS", -36, 65_500)],
)
def test_padding_with_the_wrong_sign_is_no_part_of_the_picture(
    make_dicom: Make, kind: str, padding: int, stored: int
) -> None:
    pixels = np.arange(600).reshape(20, 30).astype(np.int16 if stored < 0 else np.uint16)
    pixels[:4] = stored
    data = make_dicom(pixels)
    dataset = pydicom.dcmread(BytesIO(data))
    dataset.add_new("PixelPaddingValue", kind, padding)
    buffer = BytesIO()
    dataset.save_as(buffer)
    result = read_image_bytes(buffer.getvalue(), "x")[0]
    # 0.5 % at each end of the 480 pixels of the picture.
    assert (result[4].min(), result[-1].max()) == (0, 1)
    assert np.unique(result[4:]).size > 400


def test_a_uid_that_is_written_as_bytes_is_read_as_the_text_that_it_is() -> None:
    dataset = Dataset()
    dataset.add_new("StudyInstanceUID", "OB", b"1.2.840.1\0")
    assert texts_of(dataset, "StudyInstanceUID") == ["1.2.840.1"]


SCRIPT = Path(__file__).parents[2] / "benchmarks/images/dicom_variants.py"


def test_no_kind_of_file_is_read_wrongly() -> None:
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, "\n".join(
        line for line in (done.stdout + done.stderr).splitlines() if "wrong" in line
    )
    assert done.stdout.count("\n| ") >= 140  # more where DCMTK is installed
