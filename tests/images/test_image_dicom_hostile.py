"""Damaged, cut off, oversized and unsuitable DICOM files, and random damage to all kinds."""

import logging
import os
import warnings
from pathlib import Path
from unittest.mock import Mock

import imagecodecs
import numpy as np
import numpy.typing as npt
import pytest
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGLosslessSV1,
    JPEGLSLossless,
    RLELossless,
)

from cxrtext.errors import ImageError
from cxrtext.images import read_image, read_image_bytes
from tests.images.conftest import CANARY, make_dicom, refused

COMPRESSED = [RLELossless, JPEGLosslessSV1, JPEGBaseline8Bit, JPEGLSLossless, JPEG2000Lossless]


def picture() -> npt.NDArray[np.uint8]:
    noise = np.random.default_rng(3).integers(0, 40, (40, 48))
    return (np.add.outer(np.arange(40), np.arange(48)) * 2 + noise).astype(np.uint8)


def test_truncated_native_pixels() -> None:
    data = make_dicom(picture())
    assert "cut off" in refused(data[:-1])
    assert "cut off" in refused(data[:-1000])
    short = make_dicom(picture(), Rows=41)
    assert "cut off" in refused(short)
    several = make_dicom(np.stack([picture()] * 2), drop=("NumberOfFrames",))
    assert "more pixel data" in refused(several)


@pytest.mark.parametrize("syntax", COMPRESSED)
@pytest.mark.parametrize(("rows", "columns"), [(40, 47), (9000, 9000), (1, 1)])
def test_codestream_of_another_size_than_the_header(syntax: str, rows: int, columns: int) -> None:
    message = refused(make_dicom(picture(), syntax=syntax, Rows=rows, Columns=columns))
    assert "another size than its header tells" in message


def test_sizes_are_bounded_before_decoding() -> None:
    assert "more than 100 million" in refused(make_dicom(picture(), Rows=60000, Columns=60000))
    assert "not empty" in refused(make_dicom(picture(), Rows=0))
    assert "NumberOfFrames" in refused(make_dicom(picture(), NumberOfFrames="2000000000"))
    assert "NumberOfFrames" in refused(make_dicom(picture(), NumberOfFrames="0"))


def test_unsuitable_files_say_what_they_are() -> None:
    bare = picture()
    report = make_dicom(bare, SOPClassUID="1.2.840.10008.5.1.4.1.1.88.11", drop=("PixelData",))
    assert "'Basic Text SR Storage', which has no image" in refused(report)
    without = make_dicom(bare, drop=("PixelData",))
    for data in (without, without.replace(b"5.1.4.1.1.1\0", b"1.2.CANARY\0\0")):
        assert "holds no pixel data" in refused(data)
    assert "Rows is missing" in refused(make_dicom(bare, drop=("Rows",)))
    wrong = {"SamplesPerPixel": 3, "HighBit": 3, "BitsAllocated": 64}
    for keyword, value in {"PhotometricInterpretation": CANARY, **wrong}.items():
        assert keyword in refused(make_dicom(bare, **{keyword: value}))
    assert "not a PNG, JPEG or DICOM" in refused(b"GIF89a" + bytes(200))
    assert "is empty" in refused(b"")


def test_transfer_syntaxes_outside_the_list() -> None:
    data = make_dicom(picture(), syntax=JPEGLosslessSV1)
    mpeg = data.replace(b"1.2.840.10008.1.2.4.70", b"1.2.840.10008.1.2.4.92")
    assert "'JPEG 2000 Part 2 Multi-component Image Compression (Lossless Only)'" in refused(mpeg)
    private = data.replace(b"1.2.840.10008.1.2.4.70", b"1.2.CANARY.CANARY.1.99")
    assert "of a private kind" in refused(private)
    # pydicom takes blanks off a UID, and so gave what was left of a damaged one for its name
    blank = data.replace(b"1.2.840.10008.1.2.4.70", b"1.2.840.CANARY.1.470\r\n")
    assert "of a private kind" in refused(blank)
    element = data.index(b"\x02\x00\x10\x00UI")
    without = data[:element] + data[element + 8 + data[element + 6] :]
    assert "no transfer syntax" in refused(without)
    packed = make_dicom(picture(), syntax=DeflatedExplicitVRLittleEndian)
    assert "'Deflated Explicit VR Little Endian' that is not supported" in refused(packed)
    native = data.replace(b"1.2.840.10008.1.2.4.70", b"1.2.840.10008.1.2.1\0\0\0")
    assert "does not fit its transfer syntax" in refused(native)


def test_a_path_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "two\nlines.dcm").write_bytes(b"nothing")
    os.mkfifo(tmp_path / "pipe.dcm")
    (tmp_path / "folder").mkdir()
    for name, why in (
        ("missing.dcm", r"missing\.dcm: cannot be opened \(no such file"),
        ("folder", r"cannot be opened \(is a directory"),
        ("two\nlines.dcm", r"two\?lines\.dcm: is not a PNG"),
        ("pipe.dcm", r"pipe\.dcm: is not a regular file"),  # and is not waited for
    ):
        with pytest.raises(ImageError, match=why):
            read_image(tmp_path / name)
    (tmp_path / "image.png").write_bytes(make_dicom(picture()))
    assert read_image(tmp_path / "image.png").shape == (1, 40, 48)


class Panic(BaseException):
    """As decoders written in Rust raise it."""


@pytest.mark.parametrize(
    ("raised", "message"),
    [(Panic("CANARY"), r"is damaged \(Panic\)"), (MemoryError(), "needs more memory")],
)
def test_whatever_a_decoder_raises_becomes_one_line(
    monkeypatch: pytest.MonkeyPatch, raised: BaseException, message: str
) -> None:
    monkeypatch.setattr(imagecodecs, "jpeg8_decode", Mock(side_effect=raised))
    with pytest.raises(ImageError, match=rf"^x: {message}.*; ") as caught:
        read_image_bytes(make_dicom(picture(), syntax=JPEGLosslessSV1), "x")
    assert "CANARY" not in str(caught.value)
    monkeypatch.setattr("cxrtext.images.read._decode", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        read_image_bytes(b"", "x")


def test_nothing_is_warned_or_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    data = make_dicom(picture(), InstanceCreationDate="20200101")
    # a value that pydicom warns about, quoting it
    broken = data.replace(b"20200101", b"CANARY\\x").replace(b"MONOCHROME2 ", b"MONOCHROME\xff\xff")
    with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        refused(broken)
        read_image_bytes(data, "upload")
    assert not caught
    assert not caplog.records
    assert capfd.readouterr() == ("", "")
