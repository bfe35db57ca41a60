"""Several frames, color, palettes and the compressed transfer syntaxes."""

import zlib
from collections.abc import Callable
from io import BytesIO

import imagecodecs
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate, generate_frames
from pydicom.sequence import Sequence
from pydicom.uid import (
    HTJ2K,
    JPEG2000,
    DeflatedExplicitVRLittleEndian,
    HTJ2KLossless,
    HTJ2KLosslessRPCL,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGExtended12Bit,
    JPEGLossless,
    JPEGLosslessSV1,
    JPEGLSLossless,
    JPEGLSNearLossless,
    RLELossless,
)

from cxrtext.errors import ImageError
from cxrtext.images import read_image_bytes
from tests.images.conftest import wrapped

Make = Callable[..., bytes]
LOSSLESS = [RLELossless, JPEGLossless, JPEGLosslessSV1, JPEGLSLossless, JPEG2000Lossless]


def picture(kind: str = "u2", top: int = 4095) -> npt.NDArray[np.uint16]:
    """A 40 x 48 gradient with noise."""
    noise = np.random.default_rng(1).random((40, 48)) * 0.1
    gradient = np.add.outer(np.arange(40), np.arange(48)) / 86
    return np.rint((0.9 * gradient + noise) * top).astype(kind)


@pytest.mark.parametrize("syntax", LOSSLESS)
@pytest.mark.parametrize(("kind", "stored"), [("u1", 8), ("u2", 12), ("u2", 16), ("u2", 10)])
def test_lossless_syntaxes_equal_uncompressed(
    make_dicom: Make, syntax: str, kind: str, stored: int
) -> None:
    values = picture(kind, 2**stored - 1)
    window = {"WindowCenter": 2 ** (stored - 1), "WindowWidth": 2**stored}
    plain = read_image_bytes(make_dicom(values, stored=stored, **window), "x")
    data = make_dicom(values, stored=stored, syntax=syntax, **window)
    np.testing.assert_array_equal(read_image_bytes(data, "x"), plain)
    assert plain.max() > 0.95


@pytest.mark.parametrize("syntax", LOSSLESS)
def test_signed_values_survive_compression(make_dicom: Make, syntax: str) -> None:
    values = (picture(top=4000).astype(np.int32) - 2000).astype(np.int16)
    window = {"WindowCenter": 0, "WindowWidth": 4096}
    plain = read_image_bytes(make_dicom(values, **window), "x")
    data = make_dicom(values, syntax=syntax, **window)
    np.testing.assert_array_equal(read_image_bytes(data, "x"), plain)


@pytest.mark.parametrize(
    ("syntax", "kind", "stored"), [(JPEGBaseline8Bit, "u1", 8), (JPEGExtended12Bit, "u2", 12)]
)
def test_lossy_jpeg_is_near(make_dicom: Make, syntax: str, kind: str, stored: int) -> None:
    values = picture(kind, 2**stored - 1)
    window = {"WindowCenter": 2 ** (stored - 1), "WindowWidth": 2**stored}
    plain = read_image_bytes(make_dicom(values, stored=stored, **window), "x")
    data = make_dicom(values, stored=stored, syntax=syntax, **window)
    near = read_image_bytes(data, "x")
    assert np.abs(near - plain).max() < 0.05


@pytest.mark.parametrize(
    ("syntax", "options"), [(JPEGLSNearLossless, {"jls_error": 8}), (JPEG2000, {"j2k_psnr": [60]})]
)
def test_lossy_wavelet_and_near_lossless_are_near(
    make_dicom: Make, syntax: str, options: dict[str, object]
) -> None:
    values = picture()
    window = {"WindowCenter": 2048, "WindowWidth": 4096}
    plain = read_image_bytes(make_dicom(values, stored=12, **window), "x")
    near = read_image_bytes(
        make_dicom(values, stored=12, syntax=syntax, codec=options, **window), "x"
    )
    assert 0 < np.abs(near - plain).max() < 0.01


@pytest.mark.parametrize("syntax", [HTJ2KLossless, HTJ2KLosslessRPCL, HTJ2K])
@pytest.mark.parametrize(("kind", "stored"), [("u1", 8), ("u2", 12), ("u2", 16)])
def test_high_throughput_jpeg_2000(make_dicom: Make, syntax: str, kind: str, stored: int) -> None:
    values = picture(kind, 2**stored - 1)
    options = {"stored": stored, "WindowCenter": 2 ** (stored - 1), "WindowWidth": 2**stored}
    frame = bytes(imagecodecs.htj2k_encode(values, reversible=True))
    data = wrapped(make_dicom(values, **options), [frame], syntax)
    plain = read_image_bytes(make_dicom(values, **options), "x")
    np.testing.assert_array_equal(read_image_bytes(data, "x"), plain)


@pytest.mark.parametrize("syntax", ["1.2.840.10008.1.2.4.53", "1.2.840.10008.1.2.4.55"])
def test_progressive_jpeg(make_dicom: Make, syntax: str) -> None:
    values = picture("u1", 255)
    buffer = BytesIO()
    Image.fromarray(values).save(buffer, format="JPEG", quality=95, progressive=True)
    options = {"WindowCenter": 128, "WindowWidth": 256}
    data = wrapped(make_dicom(values, **options), [buffer.getvalue()], syntax)
    plain = read_image_bytes(make_dicom(values, **options), "x")
    assert np.abs(read_image_bytes(data, "x") - plain).max() < 0.05


@pytest.mark.parametrize("deflated", [False, True])
@pytest.mark.parametrize("kind", ["u1", "u2"])
def test_raw_and_deflated_fragments(make_dicom: Make, deflated: bool, kind: str) -> None:
    def packed(raw: bytes) -> bytes:
        packer = zlib.compressobj(9, wbits=-15)
        return packer.compress(raw) + packer.flush()

    frames = np.stack([picture(kind, 200), picture(kind, 100)])[:, :39, :47]
    raw = [frame.tobytes() for frame in frames]
    syntax = "1.2.840.10008.1.2.8.1" if deflated else "1.2.840.10008.1.2.1.98"
    options = {"WindowCenter": 128, "WindowWidth": 256}
    fragments = [packed(one) for one in raw] if deflated else raw
    data = wrapped(make_dicom(frames, **options), fragments, syntax)
    plain = make_dicom(frames, **options)
    for index in range(2):
        np.testing.assert_array_equal(
            read_image_bytes(data, "x", frame=index), read_image_bytes(plain, "x", frame=index)
        )
    for size in (len(raw[0]) - 2, len(raw[0]) + 2, 10_000_000):
        other = packed(bytes(size)) if deflated else bytes(size)
        bad = wrapped(make_dicom(frames, **options), [other] * 2, syntax)
        with pytest.raises(ImageError, match="another size than its header|inflates to more"):
            read_image_bytes(bad, "x", frame=0)


def test_deflated(make_dicom: Make) -> None:
    values = picture()
    plain = make_dicom(values, stored=12)
    data = make_dicom(values, stored=12, syntax=DeflatedExplicitVRLittleEndian)
    assert len(data) < len(plain)
    np.testing.assert_array_equal(read_image_bytes(data, "x"), read_image_bytes(plain, "x"))


def test_frame_must_be_named_where_there_are_several(make_dicom: Make) -> None:
    frames = np.stack([np.full((2, 3), 50 * i, np.uint8) for i in range(4)])
    data = make_dicom(frames, WindowCenter=128, WindowWidth=256)
    with pytest.raises(ImageError, match=r"^x: holds 4 frames, and one picture is read.*frame=3"):
        read_image_bytes(data, "x")
    for wrong in (4, -1):
        with pytest.raises(ImageError, match="holds 4 frames; pass frame=0 to frame=3"):
            read_image_bytes(data, "x", frame=wrong)
    for index in range(4):
        result = read_image_bytes(data, "x", frame=index)
        assert result.shape == (1, 2, 3)
        np.testing.assert_allclose(result, 50 * index / 255, atol=1e-6)
    single = make_dicom(frames[1], WindowCenter=128, WindowWidth=256)
    np.testing.assert_array_equal(
        read_image_bytes(single, "x", frame=0), read_image_bytes(single, "x")
    )
    with pytest.raises(ImageError, match=r"holds 1 frame; leave frame out"):
        read_image_bytes(single, "x", frame=1)


@pytest.mark.parametrize("syntax", [*LOSSLESS, JPEGBaseline8Bit])
def test_compressed_frames(make_dicom: Make, syntax: str) -> None:
    frames = np.stack([np.full((64, 64), 50 * i, np.uint8) for i in range(3)])
    data = make_dicom(frames, syntax=syntax, WindowCenter=128, WindowWidth=256)
    for index in range(3):
        result = read_image_bytes(data, "x", frame=index)
        np.testing.assert_allclose(result, 50 * index / 255, atol=0.01)


def test_fragmented_frames_are_put_together_by_their_offsets(make_dicom: Make) -> None:
    frames = np.stack([picture("u1", 200), picture("u1", 100)])
    data = make_dicom(frames, syntax=JPEGLSLossless, WindowCenter=128, WindowWidth=256)
    start = data.index(b"\xe0\x7f\x10\x00OB\x00\x00\xff\xff\xff\xff") + 12
    whole = list(generate_frames(data[start:-8], number_of_frames=2))
    pieces = encapsulate(whole, fragments_per_frame=3)
    fragmented = data[:start] + pieces + b"\xfe\xff\xdd\xe0\x00\x00\x00\x00"
    for index in range(2):
        np.testing.assert_array_equal(
            read_image_bytes(fragmented, "x", frame=index), read_image_bytes(data, "x", frame=index)
        )
    without = encapsulate(whole, fragments_per_frame=3, has_bot=False)
    with pytest.raises(ImageError, match="have no clear limits"):
        read_image_bytes(data[:start] + without + b"\xfe\xff\xdd\xe0\x00\x00\x00\x00", "x", frame=0)


def test_one_bit_frames_do_not_start_at_bytes(make_dicom: Make) -> None:
    rng = np.random.default_rng(2)
    frames = rng.integers(0, 2, (3, 3, 5)).astype(np.uint8)
    packed = np.packbits(frames.ravel(), bitorder="little")
    data = make_dicom(frames, BitsAllocated=1, BitsStored=1, HighBit=0, PixelData=packed.tobytes())
    for index in range(3):
        result = read_image_bytes(data, "x", frame=index)
        np.testing.assert_array_equal(result[0], frames[index])


def group(center: float, slope: float) -> Dataset:
    """How frames are shown: a window, twice as wide as its center, and a slope."""
    voi, rescale, item = Dataset(), Dataset(), Dataset()
    voi.WindowCenter, voi.WindowWidth = center, 2 * center
    rescale.RescaleSlope, rescale.RescaleIntercept = slope, 0
    item.FrameVOILUTSequence = Sequence([voi])
    item.PixelValueTransformationSequence = Sequence([rescale])
    return item


def test_a_frames_own_window_and_slope_count_before_those_of_all_frames(make_dicom: Make) -> None:
    frames = np.full((2, 1, 2), 100, np.uint8)
    own = Sequence([group(100.5, 1), group(400.5, 2)])
    both = {"SharedFunctionalGroupsSequence": Sequence([group(50.5, 3)])}
    for frame in (0, 1):
        found = read_image_bytes(
            make_dicom(frames, PerFrameFunctionalGroupsSequence=own, **both), "x", frame=frame
        )
        alone = make_dicom(frames, PerFrameFunctionalGroupsSequence=own)
        np.testing.assert_array_equal(found, read_image_bytes(alone, "x", frame=frame))


def test_enhanced_files_have_windows_a_frame(make_dicom: Make) -> None:
    frames = np.full((2, 1, 2), 100, np.uint8)
    per_frame = make_dicom(
        frames, PerFrameFunctionalGroupsSequence=Sequence([group(100.5, 1), group(400.5, 2)])
    )
    # by the standard, (x - c + 1/2) / (w - 1) + 1/2 of x = 100 and of x = 200
    first = read_image_bytes(per_frame, "x", frame=0)
    second = read_image_bytes(per_frame, "x", frame=1)
    np.testing.assert_allclose(first, 0.5, atol=1e-6)
    np.testing.assert_allclose(second, (200 - 400) / 800 + 0.5, atol=1e-6)
    shared = make_dicom(frames, SharedFunctionalGroupsSequence=Sequence([group(400.5, 2)]))
    np.testing.assert_array_equal(read_image_bytes(shared, "x", frame=0), second)


COLORS = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]]], np.uint8)
LUMA = np.array([[0.299, 0.587, 0.114]])


def test_rgb_becomes_luma_in_both_layouts(make_dicom: Make) -> None:
    data = make_dicom(COLORS, photometric="RGB")
    np.testing.assert_allclose(read_image_bytes(data, "x")[0], LUMA, atol=1e-6)
    planes = np.moveaxis(COLORS, -1, 0).tobytes()
    planar = make_dicom(COLORS, photometric="RGB", PlanarConfiguration=1, PixelData=planes + b"\0")
    np.testing.assert_allclose(read_image_bytes(planar, "x")[0], LUMA, atol=1e-6)
    with pytest.raises(ImageError, match=r"color image.*leave window out"):
        read_image_bytes(data, "x", window=0)


@pytest.mark.parametrize("syntax", [RLELossless, JPEGLSLossless, JPEG2000Lossless, JPEGLosslessSV1])
def test_compressed_rgb(make_dicom: Make, syntax: str) -> None:
    colors = np.repeat(np.repeat(COLORS, 64, axis=0), 32, axis=1)
    data = make_dicom(colors, photometric="RGB", syntax=syntax)
    result = read_image_bytes(data, "x")[0]
    np.testing.assert_allclose(result, np.repeat(np.repeat(LUMA, 64, 0), 32, 1), atol=1e-6)


def test_ycbcr_keeps_its_luma(make_dicom: Make) -> None:
    samples = np.array([[[10, 200, 3], [250, 7, 99]]], np.uint8)
    data = make_dicom(samples, photometric="YBR_FULL")
    np.testing.assert_allclose(read_image_bytes(data, "x")[0], [[10 / 255, 250 / 255]], atol=1e-6)
    half = np.array([10, 250, 128, 128], np.uint8).tobytes()
    subsampled = make_dicom(samples, photometric="YBR_FULL_422", PixelData=half)
    np.testing.assert_array_equal(read_image_bytes(subsampled, "x"), read_image_bytes(data, "x"))


def palette(make_dicom: Make, top: int, bits: int) -> bytes:
    options: dict[str, object] = {}
    for color, entries in {"Red": [0, top, 0], "Green": [0, 0, top], "Blue": [0, 0, 0]}.items():
        name = f"{color}PaletteColorLookupTable"
        options[f"{name}Descriptor"] = [3, 1, bits]
        options[f"{name}Data"] = np.array(entries, "<u2").tobytes()
    values = np.array([[0, 1, 2, 3, 200]], np.uint8)
    return make_dicom(values, photometric="PALETTE COLOR", **options)


@pytest.mark.parametrize(("top", "bits"), [(65535, 16), (255, 16), (255, 8)])
def test_palette(make_dicom: Make, top: int, bits: int) -> None:
    result = read_image_bytes(palette(make_dicom, top, bits), "x")
    np.testing.assert_allclose(result[0], [[0, 0, 0.299, 0.587, 0.587]], atol=1e-5)


def test_missing_palette_is_refused(make_dicom: Make) -> None:
    data = make_dicom(np.zeros((2, 2), np.uint8), photometric="PALETTE COLOR")
    with pytest.raises(ImageError, match="has no palette"):
        read_image_bytes(data, "x")
