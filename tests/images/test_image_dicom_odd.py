"""What archives hold beside the standard: deep codestreams, bare starts, commas, odd palettes."""

import subprocess
import sys
from io import BytesIO
from pathlib import Path

import imagecodecs
import numpy as np
import numpy.typing as npt
import pydicom
import pytest
from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian, JPEGLosslessSV1

from tests.images.conftest import assert_same, gray, lut, make_dicom, wrapped


def values(kind: str = "u2") -> npt.NDArray[np.uint16]:
    generator = np.random.default_rng(3)
    return generator.integers(0, 4096, (24, 32)).astype(kind)


def test_signed_values_of_a_deep_codestream_keep_their_sign() -> None:
    signed = values("i2") - 2048
    window = {"WindowCenter": 0, "WindowWidth": 4096, "PixelRepresentation": 1}
    cells = (signed & 0xFFF).astype(np.uint16)
    plain = make_dicom(cells, stored=12, **window)
    deep = cells | np.uint16(0x3000)
    assert_same(make_dicom(deep, stored=12, **window), plain)
    # All 16 bits of the cells are coded, whatever the header says is in use, as by DCMTK.
    frame = bytes(imagecodecs.jpeg8_encode(deep, lossless=True, bitspersample=16))
    assert_same(wrapped(plain, [frame], JPEGLosslessSV1), plain)


@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
def test_a_voi_table_behind_a_modality_table_counts_without_sign(syntax: str) -> None:
    pixels = np.array([[-2, -1], [0, 1]], dtype=np.int16)
    levels = [39_999, 40_000, 40_001, 40_002]
    data = make_dicom(
        pixels,
        syntax=syntax,
        ModalityLUTSequence=lut(-2, levels),
        VOILUTSequence=lut(40_000, [0, 100, 255]),
    )
    wanted = np.array([[0, 0], [100, 255]]) / 255
    np.testing.assert_allclose(gray(data), wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "padding", "stored"),
    [("US", 65_536 - 2_000, -2_000), ("US", 32_768, -32_768), ("SS", -36, 65_500)],
)
def test_padding_with_the_wrong_sign_is_no_part_of_the_picture(
    kind: str, padding: int, stored: int
) -> None:
    pixels = np.arange(600).reshape(20, 30).astype(np.int16 if stored < 0 else np.uint16)
    pixels[:4] = stored
    data = make_dicom(pixels)
    dataset = pydicom.dcmread(BytesIO(data))
    dataset.add_new("PixelPaddingValue", kind, padding)
    buffer = BytesIO()
    dataset.save_as(buffer)
    result = gray(buffer.getvalue())
    # 0.5 % at each end of the 480 pixels of the picture.
    assert (result[4].min(), result[-1].max()) == (0, 1)
    assert np.unique(result[4:]).size > 400


SCRIPT = Path(__file__).parents[2] / "benchmarks/images/dicom_variants.py"


def test_no_kind_of_file_is_read_otherwise_than_the_plain_reference_does() -> None:
    """Depths, signs, syntaxes, windows, tables, colors, frames, placements: see the script."""
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")][1:]
    assert [row for row in rows if "wrong" in row[2]] == []
    assert done.returncode == 0, done.stderr
    errors = [float(row[2].split()[0]) for row in rows if not row[2].startswith("refused: ")]
    assert max(errors) < 0.05  # gray levels
    assert len(errors) >= 120
    assert len(rows) - len(errors) >= 20
