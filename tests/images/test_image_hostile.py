"""Cut, damaged and oversized files of every kind: refused in one line, or read whole.

What a flipped bit may do depends on the kind of file.  PNG has checksums, so that it is refused
or changes nothing.  In the others it may give another picture, never one that is cut off: raw
DICOM, RLE, JPEG, JPEG-LS and JPEG 2000 have no checksum.
"""

import os
import time
import zlib
from collections.abc import Callable
from functools import partial

import imagecodecs
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from pydicom.uid import (
    JPEG2000,
    UID,
    ExplicitVRLittleEndian,
    HTJ2KLossless,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGExtended12Bit,
    JPEGLosslessSV1,
    JPEGLSLossless,
    RLELossless,
)

from cxrtext.errors import ImageError
from cxrtext.images import ReaderPool, read_image_bytes
from tests.images.conftest import (
    assert_same,
    encoded,
    jpeg_of_size,
    make_dicom,
    png_chunk,
    png_head,
    said,
    wrapped,
)

Floats = npt.NDArray[np.float32]

SEED = int(os.environ.get("CXRTEXT_TEST_SEED", "20"))
MUTANTS = 12
"""Of each kind and damage."""

HEIGHT, WIDTH = 90, 117


def picture(levels: int = 256) -> npt.NDArray[np.uint16]:
    """Noise on slow waves, so that no two rows are equal; with a flat border of mid-gray."""
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    noise = np.random.default_rng(4).normal(0, 0.02, (HEIGHT, WIDTH))
    gray = 0.45 + 0.3 * np.sin(columns / 15) * np.cos(rows / 11) + noise
    gray[:, :8] = 0.5
    values: npt.NDArray[np.uint16] = np.clip(gray * levels, 0, levels - 1).astype(np.uint16)
    return values


GRAY = picture().astype(np.uint8)
DEEP = picture(4096)
COLOR = np.stack([GRAY, GRAY[::-1], GRAY[:, ::-1]], axis=-1)


JPEGS: dict[str, Callable[[], bytes]] = {
    "JPEG": lambda: encoded(GRAY, "JPEG"),
    "JPEG, color": lambda: encoded(COLOR, "JPEG"),
    "JPEG, restarts": lambda: encoded(COLOR, "JPEG", restart_marker_blocks=5),
    "JPEG, progressive": lambda: encoded(GRAY, "JPEG", progressive=True),
    "JPEG, progressive color": lambda: encoded(COLOR, "JPEG", progressive=True),
}
PNGS: dict[str, Callable[[], bytes]] = {
    "PNG": lambda: encoded(GRAY, "PNG"),
    "PNG, 16 bits": lambda: encoded(DEEP * 16, "PNG"),
    "PNG, palette": lambda: encoded(GRAY, "PNG", transparency=3),
    "PNG, 16 bits of color": lambda: bytes(imagecodecs.png_encode(np.stack([DEEP * 16] * 3, -1))),
}
JPEG8, JPEGLS = imagecodecs.jpeg8_encode, imagecodecs.jpegls_encode
J2K = partial(imagecodecs.jpeg2k_encode, codecformat="j2k")
FRAMES: dict[str, tuple[UID, int, Callable[[], bytes | bytearray]]] = {
    "DICOM, JPEG": (JPEGBaseline8Bit, 8, lambda: JPEG8(GRAY, level=90)),
    "DICOM, JPEG of 12 bits": (
        JPEGExtended12Bit, 12, lambda: JPEG8(DEEP, level=90, bitspersample=12)
    ),
    "DICOM, JPEG lossless": (
        JPEGLosslessSV1, 12, lambda: JPEG8(DEEP, lossless=True, bitspersample=12, predictor=1)
    ),
    "DICOM, JPEG-LS": (JPEGLSLossless, 12, lambda: JPEGLS(DEEP)),
    "DICOM, JPEG 2000": (JPEG2000Lossless, 12, lambda: J2K(DEEP, level=0, bitspersample=12)),
    "DICOM, lossy JPEG 2000": (JPEG2000, 12, lambda: J2K(DEEP, level=60, bitspersample=12)),
}  # fmt: skip
SYNTAXES = {
    "DICOM": ExplicitVRLittleEndian,
    "DICOM, RLE": RLELossless,
}
WINDOW = {"WindowCenter": 2048, "WindowWidth": 4096}
KINDS = [*JPEGS, *PNGS, *FRAMES, *SYNTAXES]


def around(frame: bytes, syntax: str, bits: int, height: int = HEIGHT, width: int = WIDTH) -> bytes:
    pixels = np.zeros((2, 2), np.uint8 if bits <= 8 else np.uint16)
    data = make_dicom(pixels, stored=bits, Rows=height, Columns=width, **WINDOW)
    return wrapped(data, [frame], syntax)


class Kind:
    """One kind of file: the compressed picture, and the file around it."""

    def __init__(self, name: str) -> None:
        self.around: Callable[[bytes], bytes] = bytes
        if name in FRAMES:
            syntax, bits, encode = FRAMES[name]
            self.picture = bytes(encode())
            self.around = lambda frame: around(frame, syntax, bits)
        elif name in SYNTAXES:
            self.picture = make_dicom(DEEP, stored=12, syntax=SYNTAXES[name], **WINDOW)
        else:
            self.picture = bytes({**JPEGS, **PNGS}[name]())
        self.has_end = name in FRAMES or name in JPEGS
        self.whole = read_image_bytes(self.around(self.picture), "x")

    def read(self, damaged: bytes) -> Floats | None:
        """Read it; None where it is refused, as it has to be."""
        return read(self.around(damaged))


def read_whole(data: bytes) -> Floats:
    image = read(data)
    assert image is not None
    return image


def read(data: bytes) -> Floats | None:
    begun = time.process_time()
    try:
        image = read_image_bytes(data, "upload")
    except ImageError as error:
        said(error)
        return None
    finally:
        assert time.process_time() - begun < 5
    assert np.isfinite(image).all()
    assert 0 <= image.min() <= image.max() <= 1
    return image


def cut(kind: Kind, rng: np.random.Generator) -> bytes:
    """Leave the end out; where there is an end marker, it is put on again."""
    data = kind.picture
    kept = data[: int(rng.integers(1, len(data)))]
    return kept + b"\xff\xd9" if kind.has_end else kept


def check_cuts(kind: Kind, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for number in range(count):
        image = kind.read(cut(kind, rng))
        where = f"seed {seed}, mutant {number}"
        if image is None:
            continue
        # What lies after the picture may be cut off: padding, a checksum, the last block's end.
        assert image.shape == kind.whole.shape, where
        changed = np.argwhere(np.abs(image - kind.whole)[0] > 0.01)
        assert len(changed) <= 256, where
        assert (changed >= np.array(kind.whole.shape[1:]) - 16).all(), where


def check_flips(kind: Kind, count: int, seed: int, *, checksum: bool) -> None:
    rng = np.random.default_rng(seed)
    for number in range(count):
        data = bytearray(kind.picture)
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        image = kind.read(bytes(data))
        if image is not None and checksum:
            np.testing.assert_array_equal(image, kind.whole, f"seed {seed}, mutant {number}")
        data = bytearray(kind.around(kind.picture))  # and some bytes of its header
        for place in rng.integers(0, min(len(data), 1200), rng.integers(1, 8)):
            data[place] = rng.integers(256)
        read(bytes(data))


@pytest.mark.parametrize("name", KINDS)
def test_what_is_cut_off_is_refused(name: str) -> None:
    check_cuts(Kind(name), MUTANTS, SEED)


def test_a_lossless_jpeg_whose_filled_end_wraps_around_is_refused() -> None:
    kind = Kind("DICOM, JPEG lossless")
    for short in range(20, 80):  # a difference that repeats goes below 0 and on from the highest
        assert kind.read(kind.picture[:-short] + b"\xff\xd9") is None, short


@pytest.mark.parametrize("bits", [8, 12])
@pytest.mark.parametrize("predictor", [1, 4])
def test_a_lossless_frame_with_a_flat_end_is_read(bits: int, predictor: int) -> None:
    values = (DEEP >> (12 - bits)).astype(np.uint8 if bits == 8 else np.uint16)
    values[70:] = 1 << (bits - 1)
    frame = bytes(JPEG8(values, lossless=True, bitspersample=bits, predictor=predictor))
    syntax = JPEGLosslessSV1 if predictor == 1 else UID("1.2.840.10008.1.2.4.57")
    whole = read_whole(around(frame, syntax, bits))
    window = np.clip((values.astype(np.float64) - 2047.5) / 4095 + 0.5, 0, 1)
    np.testing.assert_allclose(whole[0], window, atol=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_a_flipped_bit_is_refused_or_gives_a_picture(name: str) -> None:
    check_flips(Kind(name), MUTANTS, SEED, checksum=name in PNGS)


def test_a_png_of_deep_color_without_its_end_is_refused() -> None:
    kind = Kind("PNG, 16 bits of color")
    assert kind.read(kind.picture[:-14]) is None  # else Pillow reads 8 of its 16 bits


@pytest.mark.parametrize("name", JPEGS)
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.97])
def test_a_jpeg_without_its_end_is_refused(name: str, share: float) -> None:
    data = JPEGS[name]()
    assert read(data) is not None
    start = data.index(b"\xff\xda") + 14
    kept = data[: start + int(share * (len(data) - start))]
    assert read(kept) is None
    assert read(kept + b"\xff\xd9") is None


@pytest.mark.parametrize("name", ["JPEG", "JPEG, color"])
def test_a_jpeg_that_lost_or_gained_a_piece_is_refused(name: str) -> None:
    data = JPEGS[name]()
    middle = len(data) * 2 // 3
    assert read(data[: middle - 300] + data[middle:]) is None
    assert read(data[:middle] + data[middle - 300 :]) is None


def test_a_jpeg_of_several_pictures_gives_the_first() -> None:
    several = encoded(GRAY, "MPO", save_all=True, append_images=[Image.fromarray(GRAY[::-1])])
    assert_same(several, JPEGS["JPEG"]())


def test_restart_markers_are_counted() -> None:
    data = JPEGS["JPEG, restarts"]()
    first, second = data.index(b"\xff\xd0") + 2, data.index(b"\xff\xd1")
    assert read(data[:first] + data[second:]) is None  # an empty interval
    assert read(data[: first - 2] + data[second:]) is None  # a missing one
    assert read(data[:first] + data[first - 40 : first - 2] + data[second:]) is None


def test_a_whole_jpeg_that_looks_cut_off_is_read() -> None:
    """Mid-gray is what libjpeg fills with; fill and zeros may stand before the end marker."""
    gray = GRAY.copy()
    gray[60:] = 128
    for pixels in (gray, np.full((64, 64), 128, np.uint8), np.zeros((1, 1), np.uint8)):
        data = encoded(pixels, "JPEG")
        for padding in (b"", b"\xff", b"\xff" * 9, b"\0" * 40):
            padded = data[:-2] + padding + b"\xff\xd9"
            np.testing.assert_array_equal(read_whole(padded), read_whole(data))
        assert read(data + b"after the end") is not None
    for name in ("JPEG, restarts", "JPEG, progressive"):
        data = JPEGS[name]()
        assert read(data[:-2] + b"\xff\xff\xff\xd9") is not None


def png_of(rows: bytes, height: int, width: int, extra: bytes = b"", color: int = 0) -> bytes:
    body = png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b"")
    return png_head(height, width, color) + extra + body


def many_scans(data: bytes, count: int) -> bytes:
    """Repeat the last scan, which then adds nothing."""
    start = data.rindex(b"\xff\xda")
    return data[:-2] + data[start:-2] * count + b"\xff\xd9"


def with_long_text(kind: bytes, before: bytes, color: int = 0) -> bytes:
    """A sound PNG with a text of 256 MiB, which is packed."""
    rows = bytes(HEIGHT * ((3 if color else 1) * WIDTH + 1))
    text = png_chunk(kind, before + zlib.compress(bytes(2**28), 9))
    return png_of(rows, HEIGHT, WIDTH, text, color)


SMALL = GRAY[:8, :8]
BLANK = np.zeros((5000, 5000), np.uint8)
BOMBS: dict[str, Callable[[], bytes]] = {
    "JPEG": lambda: jpeg_of_size(encoded(SMALL, "JPEG"), b"\xff\xc0", 9999, 9999),
    "progressive JPEG": lambda: jpeg_of_size(
        encoded(SMALL, "JPEG", progressive=True), b"\xff\xc2", 9999, 9999
    ),
    "scans": lambda: many_scans(JPEGS["JPEG, progressive"](), 500),
    "PNG": lambda: png_of(bytes(10**7), 9999, 9999),
    "palette PNG": lambda: png_of(bytes(10**7), 9999, 9999, color=3),
    "iCCP": lambda: with_long_text(b"iCCP", b"x\0\0"),
    "zTXt": lambda: with_long_text(b"zTXt", b"x\0\0"),
    "iTXt": lambda: with_long_text(b"iTXt", b"x\0\1\0\0\0", color=2),
    "JPEG 2000": lambda: around(bytes(J2K(BLANK, level=0)), JPEG2000Lossless, 8, *BLANK.shape),
    "JPEG-LS": lambda: around(bytes(JPEGLS(BLANK)), JPEGLSLossless, 8, *BLANK.shape),
    "JPEG lossless": lambda: around(
        jpeg_of_size(bytes(JPEG8(SMALL, lossless=True)), b"\xff\xc3", 9999, 9999),
        JPEGLosslessSV1, 8, 9999, 9999,
    ),
    "RLE": lambda: make_dicom(GRAY, syntax=RLELossless, Rows=9999, Columns=9999),
    "HTJ2K": lambda: around(b"\xff\x4f\xff\x51" + bytes(300) + b"\xff\xd9", HTJ2KLossless, 8),
}  # fmt: skip
HARMLESS = {"iCCP", "zTXt", "iTXt"}
"""Their picture is sound, and may be read."""


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_costs_little_memory_and_time(name: str) -> None:
    data = BOMBS[name]()
    assert len(data) < 2**20
    with ReaderPool(1, memory_bytes=2**29, seconds=5) as pool:
        pool.view_bytes(encoded(GRAY, "PNG"), "warm")
        try:
            pool.view_bytes(data, "upload")
        except ImageError as error:
            message = said(error)
            assert "needs more" not in message
            assert "within" not in message
        else:
            assert name in HARMLESS
        assert not pool.lost  # neither for memory nor for time
