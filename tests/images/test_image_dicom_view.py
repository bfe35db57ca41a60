"""The header of a DICOM file without its pixels: view, spacing, sizes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence
from pydicom.uid import DeflatedExplicitVRLittleEndian, JPEGLosslessSV1

from cxrtext.errors import ImageError
from cxrtext.images import read_header
from cxrtext.images.dicom.header import view_of

Make = Callable[..., bytes]


@pytest.mark.parametrize(
    ("position", "view"),
    [
        ("PA", "frontal"),
        (" ap ", "frontal"),
        ("LL", "lateral"),
        ("RL", "lateral"),
        ("LATERAL", "lateral"),
        ("LLD", "decubitus"),
        ("RAO", "oblique"),
        ("", None),
        ("CANARY", None),
    ],
)
def test_view_position(position: str, view: str | None) -> None:
    assert view_of(position) == view


@pytest.mark.parametrize(
    ("meaning", "view"),
    [
        ("postero-anterior", "frontal"),
        ("antero-posterior", "frontal"),
        ("Left Lateral", "lateral"),
        ("left lateral decubitus", "decubitus"),
        ("medio-lateral oblique", "oblique"),
        ("bilateral", None),
        ("Erect", None),
    ],
)
def test_view_code_meaning(meaning: str, view: str | None) -> None:
    assert view_of("", ["Erect", meaning]) == view
    assert view_of("PA", [meaning]) == "frontal"


def test_header(tmp_path: Path, make_dicom: Make) -> None:
    code = Dataset()
    code.CodeMeaning = "lateral"
    values = np.zeros((40, 48), np.uint16)
    path = tmp_path / "x.dcm"
    for syntax in (JPEGLosslessSV1, DeflatedExplicitVRLittleEndian):
        path.write_bytes(
            make_dicom(
                values,
                stored=12,
                syntax=syntax,
                photometric="MONOCHROME1",
                ViewCodeSequence=Sequence([code]),
                ImagerPixelSpacing=[0.2, 0.143],
            )
        )
        header = read_header(path)
        assert header.syntax == syntax
        assert header.view == "lateral"
        assert header.spacing == (0.2, 0.143)
        assert (header.pixels.rows, header.pixels.columns, header.pixels.stored) == (40, 48, 12)
        assert header.pixels.photometric == "MONOCHROME1"
        assert "CANARY" not in repr(header)


def test_spacing_in_the_patient_comes_first(tmp_path: Path, make_dicom: Make) -> None:
    path = tmp_path / "x.dcm"
    values = np.zeros((4, 4), np.uint8)
    path.write_bytes(make_dicom(values, PixelSpacing=[0.1, 0.2], ImagerPixelSpacing=[1, 1]))
    assert read_header(path).spacing == (0.1, 0.2)
    path.write_bytes(make_dicom(values, PixelSpacing=[0, 0]))
    assert read_header(path).spacing is None
    assert read_header(path).view is None


def test_pixels_may_be_missing_or_unreadable(tmp_path: Path, make_dicom: Make) -> None:
    path = tmp_path / "x.dcm"
    path.write_bytes(make_dicom(np.zeros((4, 4), np.uint8), ViewPosition="LL", drop=("PixelData",)))
    assert read_header(path).view == "lateral"


def test_what_is_no_header(tmp_path: Path, make_dicom: Make) -> None:
    path = tmp_path / "x.dcm"
    path.write_bytes(b"nothing")
    with pytest.raises(ImageError, match=r"x\.dcm: is no DICOM file"):
        read_header(path)
    with pytest.raises(ImageError, match="is no regular file"):
        read_header(tmp_path)
    path.write_bytes(make_dicom(np.zeros((4, 4), np.uint8), drop=("Rows",)))
    with pytest.raises(ImageError, match=r"x\.dcm: Rows is missing"):
        read_header(path)
