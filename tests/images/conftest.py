"""Files made for the tests: DICOM with pydicom, compressed by the encoders at hand."""

import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any, Literal

import imagecodecs
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.sequence import Sequence
from pydicom.uid import (
    UID,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEGBaseline8Bit,
    JPEGExtended12Bit,
    JPEGLossless,
    JPEGLosslessSV1,
)

from cxrtext.errors import ImageError
from cxrtext.images import read_image_bytes

CANARY = "CANARY"
PATIENT = f"{CANARY}^NAME"
_NATIVE = {
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    ExplicitVRBigEndian,
    DeflatedExplicitVRLittleEndian,
}
_JPEG = {JPEGBaseline8Bit, JPEGExtended12Bit, JPEGLossless, JPEGLosslessSV1}


def _described(pixels: npt.NDArray[Any], stored: int | None, photometric: str) -> Dataset:
    color = photometric.startswith(("RGB", "YBR"))
    size = pixels.shape[-3:-1] if color else pixels.shape[-2:]
    samples, allocated = 3 if color else 1, 8 * pixels.dtype.itemsize
    values = {
        "SOPClassUID": "1.2.840.10008.5.1.4.1.1.1", "SOPInstanceUID": "1.2.3.4", "Modality": "CR",
        "PatientName": PATIENT, "PatientID": PATIENT, "SamplesPerPixel": samples,
        "PhotometricInterpretation": photometric, "Rows": size[0], "Columns": size[1],
        "BitsAllocated": allocated, "BitsStored": stored or allocated,
        "HighBit": (stored or allocated) - 1, "PixelRepresentation": int(pixels.dtype.kind == "i"),
    }  # fmt: skip
    if color:
        values["PlanarConfiguration"] = 0
    if pixels.size != size[0] * size[1] * samples:
        values["NumberOfFrames"] = len(pixels)
    dataset = Dataset()
    for keyword, value in values.items():
        setattr(dataset, keyword, value)
    return dataset


def _jpeg_frames(pixels: npt.NDArray[Any], dataset: Dataset, syntax: str) -> list[bytes]:
    lossless = syntax in (JPEGLossless, JPEGLosslessSV1)
    frames = pixels if "NumberOfFrames" in dataset else pixels[np.newaxis]
    unsigned = frames.view(f"u{frames.dtype.itemsize}")
    return [
        bytes(
            imagecodecs.jpeg8_encode(
                frame, level=95, lossless=lossless, bitspersample=int(dataset.BitsStored)
            )
        )
        for frame in unsigned
    ]


def _write_dicom(
    pixels: npt.NDArray[Any],
    *,
    syntax: str = ExplicitVRLittleEndian,
    stored: int | None = None,
    photometric: str = "MONOCHROME2",
    preamble: bool = True,
    codec: dict[str, Any] | None = None,
    drop: tuple[str, ...] = (),
    **attributes: Any,
) -> bytes:
    """Write a DICOM file; ``attributes`` are set last, ``drop`` removed before writing."""
    dataset = _described(pixels, stored, photometric)
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = UID(
        syntax if syntax in _NATIVE else ExplicitVRLittleEndian
    )
    order: Literal["<", ">"] = ">" if syntax == ExplicitVRBigEndian else "<"
    dataset.PixelData = pixels.astype(pixels.dtype.newbyteorder(order)).tobytes()
    dataset["PixelData"].VR = "OB" if dataset.BitsAllocated <= 8 else "OW"
    if syntax in _JPEG:
        dataset.PixelData = encapsulate(_jpeg_frames(pixels, dataset, syntax))
        dataset["PixelData"].VR = "OB"
        dataset["PixelData"].is_undefined_length = True
        dataset.file_meta.TransferSyntaxUID = UID(syntax)
    elif syntax not in _NATIVE:
        dataset.compress(syntax, generate_instance_uid=False, **(codec or {}))
    for keyword, value in attributes.items():
        setattr(dataset, keyword, value)
    for keyword in drop:
        delattr(dataset, keyword)
    buffer = BytesIO()
    dataset.save_as(
        buffer,
        enforce_file_format=True,
        implicit_vr=syntax == ImplicitVRLittleEndian,
        little_endian=syntax != ExplicitVRBigEndian,
    )
    data = buffer.getvalue()
    return data if preamble else data[132:]


make_dicom: Callable[..., bytes] = _write_dicom


def wrapped(data: bytes, frames: list[bytes], syntax: str) -> bytes:
    """A file with other frames, compressed elsewhere, under a syntax that pydicom cannot write."""
    start, place = data.index(b"\xe0\x7f\x10\x00O"), data.index(b"\x02\x00\x10\x00UI")
    old = int.from_bytes(data[place + 6 : place + 8], "little")
    uid = syntax.encode() + b"\0" * (len(syntax) % 2)
    head = data[: place + 6] + len(uid).to_bytes(2, "little") + uid + data[place + 8 + old : start]
    pixels = b"\xe0\x7f\x10\x00OB\0\0\xff\xff\xff\xff" + encapsulate(frames)
    return head + pixels + b"\xfe\xff\xdd\xe0\0\0\0\0"


def lut(first: int, entries: list[int], bits: int = 16, words: bool = True) -> Sequence:
    """A sequence of one look-up table, from a value on; as words or as bytes."""
    item = Dataset()
    item.add_new("LUTDescriptor", "SS" if first < 0 else "US", [len(entries), first, bits])
    if words:
        item.add_new("LUTData", "US", entries)
    else:
        item.add_new("LUTData", "OW", np.array(entries, np.uint8).tobytes())
    return Sequence([item])


def encoded(pixels: npt.NDArray[Any] | Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


def png_chunk(kind: bytes, body: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + body))
    return struct.pack(">I", len(body)) + kind + body + checksum


def png_head(height: int, width: int, color: int = 0) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head)


def jpeg_of_size(data: bytes, marker: bytes, height: int, width: int) -> bytes:
    """A JPEG whose frame header, after its marker, tells another size."""
    place = data.index(marker) + 5
    return data[:place] + struct.pack(">HH", height, width) + data[place + 4 :]


def gray(data: bytes, **options: Any) -> npt.NDArray[np.float32]:
    """What an image that was sent is read as, [H, W]."""
    image = read_image_bytes(data, "upload", **options)
    assert image.dtype == np.float32
    assert image.shape[0] == 1
    assert image.flags.c_contiguous
    flat: npt.NDArray[np.float32] = image[0]
    return flat


def assert_same(one: bytes, other: bytes, **options: Any) -> None:
    np.testing.assert_array_equal(gray(one, **options), gray(other, **options))


def said(error: ImageError) -> str:
    """The one line that says why a file that was sent is refused, which quotes nothing of it."""
    message = str(error)
    assert message.startswith("upload: ")
    assert "; " in message
    assert "\n" not in message
    assert CANARY not in message
    assert len(message) < 200
    return message.removeprefix("upload: ")


def refused(data: bytes, **options: Any) -> str:
    with pytest.raises(ImageError) as caught:
        read_image_bytes(data, "upload", **options)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    return said(caught.value)
