"""Many kinds of DICOM file, read by cxrtext and by a plain reference: the largest difference.

    python benchmarks/images/dicom_variants.py  # a Markdown table, a row for each kind

Every file is made here from one small picture, with pydicom and its codecs.  The reference is
pydicom's pixel data (or, of what pydicom cannot decode, the values that were written) and the
formulas of the standard in NumPy.  The error is the largest difference in gray levels of 255;
exit status 1 says that one is above 1.5, or that a file was read that should be refused, or the
other way round.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import imagecodecs
import numpy as np
import numpy.typing as npt
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.pixels.processing import apply_color_lut, apply_modality_lut, convert_color_space
from pydicom.sequence import Sequence
from pydicom.uid import (
    HTJ2K,
    JPEG2000,
    MPEG2MPML,
    UID,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    HTJ2KLossless,
    ImplicitVRLittleEndian,
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

Array = npt.NDArray[Any]
Change = Callable[[Array], Array]
HEIGHT, WIDTH = 48, 64
LIMIT = 1.5  # gray levels; what rounding and color conversion may come to
EXPLICIT = ExplicitVRLittleEndian


@dataclass(frozen=True, slots=True)
class Variant:
    group: str
    name: str
    data: bytes
    wanted: Array | None = None  # gray values in [0, 1]; None asks pydicom
    refused: bool = False
    frame: int | None = None


def picture(bits: int, signed: bool = False, seed: int = 0) -> Array:
    """Draw a smooth picture with a little noise over the whole range of so many bits."""
    y, x = np.mgrid[0 : 1 : HEIGHT * 1j, 0 : 1 : WIDTH * 1j]
    noise = np.random.default_rng(seed).random((HEIGHT, WIDTH)) * 0.08
    values = 0.46 + 0.46 * np.sin(3 * x + 2 * y**2) * np.cos(2 * x - y) + noise
    values = (values - values.min()) / np.ptp(values)
    whole = np.rint(values * (2**bits - 1)).astype(np.int64)
    return whole - 2 ** (bits - 1) if signed else whole


def describe(cells: Array, photometric: str, stored: int, **header: Any) -> Dataset:
    """Describe pixels, [H, W], [n, H, W] or [H, W, 3] of unsigned cells."""
    color = cells.ndim == 3 and cells.shape[-1] == 3
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = EXPLICIT
    dataset.SOPClassUID, dataset.SOPInstanceUID = "1.2.840.10008.5.1.4.1.1.1", "1.2.3.4"
    dataset.Modality, dataset.PatientName, dataset.PatientID = "CR", "MADE^UP", "1"
    dataset.SamplesPerPixel = 3 if color else 1
    dataset.PhotometricInterpretation = photometric
    if color:
        dataset.PlanarConfiguration = 0
    size = cells.shape[:2] if color else cells.shape[-2:]
    dataset.Rows, dataset.Columns = size
    if cells.ndim == 3 and not color:
        dataset.NumberOfFrames = len(cells)
    dataset.BitsAllocated = 8 * cells.dtype.itemsize
    dataset.BitsStored, dataset.HighBit, dataset.PixelRepresentation = stored, stored - 1, 0
    for keyword, value in header.items():
        setattr(dataset, keyword, value)
    dataset.PixelData = cells.tobytes()
    dataset["PixelData"].VR = "OB" if dataset.BitsAllocated <= 8 else "OW"
    return dataset


def saved(dataset: Dataset, syntax: str = EXPLICIT) -> bytes:
    """Write a data set whose pixels are as the syntax wants them."""
    dataset.file_meta.TransferSyntaxUID = UID(syntax)
    buffer = BytesIO()
    implicit, big = syntax == ImplicitVRLittleEndian, syntax == ExplicitVRBigEndian
    dataset.save_as(buffer, enforce_file_format=True, implicit_vr=implicit, little_endian=not big)
    return buffer.getvalue()


def coded(dataset: Dataset, syntax: str, frames: list[bytes]) -> bytes:
    """Write a data set with frames that are compressed already."""
    dataset.PixelData = encapsulate(frames)
    dataset["PixelData"].VR = "OB"
    dataset["PixelData"].is_undefined_length = True
    return saved(dataset, syntax)


def window(bits: int, signed: bool = False) -> dict[str, Any]:
    """Give a window over the whole range."""
    low = -(2 ** (bits - 1)) if signed else 0
    return {"WindowCenter": low + 2 ** (bits - 1), "WindowWidth": 2**bits}


def cells_of(values: Array, bits: int) -> Array:
    """Give two's complement in unsigned cells of 8 or 16 bits."""
    return (values & (2**bits - 1)).astype("u1" if bits <= 8 else "u2")


def full(values: Array) -> Array:
    return (values - values.min()) / np.ptp(values)


def luma(rgb: Array, top: float) -> Array:
    """Give gray of colors."""
    return rgb.astype(float) @ np.array([0.299, 0.587, 0.114]) / top


def reference(dataset: Dataset, frame: int | None) -> Array:
    """Show a file with pydicom and the formulas of PS3.3 C.11."""
    values = dataset.pixel_array
    if int(dataset.get("NumberOfFrames", 1) or 1) > 1:
        values = values[frame or 0]
    photometric = dataset.PhotometricInterpretation
    if photometric == "PALETTE COLOR":
        colors = apply_color_lut(values, dataset)
        return luma(colors, 255 if colors.dtype == np.uint8 else 65535)
    if values.ndim == 3:
        return luma(values, 2**dataset.BitsStored - 1)
    levels = np.asarray(apply_modality_lut(values, dataset), dtype=float)
    if dataset.get("VOILUTSequence"):
        # pydicom 3.0's apply_voi counts places in 8 bits where the entries have 8
        table = dataset.VOILUTSequence[0]
        entries = np.asarray(table.LUTData)
        places = np.clip(levels.astype(int) - table.LUTDescriptor[1], 0, len(entries) - 1)
        gray = entries[places] / (2 ** int(entries.max()).bit_length() - 1)
    elif dataset.get("WindowWidth"):
        gray = windowed(levels, dataset)
    else:
        gray = stretched(levels, values, dataset)
    return 1 - gray if photometric == "MONOCHROME1" else gray


def windowed(levels: Array, dataset: Dataset) -> Array:
    first = [dataset[key].value for key in ("WindowCenter", "WindowWidth")]
    c, w = (float(one if not hasattr(one, "__iter__") else one[0]) for one in first)
    function = dataset.get("VOILUTFunction", "LINEAR")
    if function == "SIGMOID":
        return 1 / (1 + np.exp(-4 * (levels - c) / w))
    if function == "LINEAR_EXACT":
        return np.clip((levels - c) / w + 0.5, 0, 1)
    if w == 1:
        return np.where(levels > c - 0.5, 1.0, 0.0)
    return np.clip((levels - (c - 0.5)) / (w - 1) + 0.5, 0, 1)


def stretched(levels: Array, values: Array, dataset: Dataset) -> Array:
    """Spread the 0.5th to the 99.5th percentile, padding left out."""
    kept = np.ones(values.shape, dtype=bool)
    if "PixelPaddingValue" in dataset:
        ends = dataset.PixelPaddingValue, dataset.get("PixelPaddingRangeLimit")
        low, high = ends[0], ends[0] if ends[1] is None else ends[1]
        kept = (values < min(low, high)) | (values > max(low, high))
    low, high = np.percentile(levels[kept], [0.5, 99.5], method="inverted_cdf")
    return np.clip((levels - low) / (high - low), 0, 1)


def depths() -> Iterator[Variant]:
    """Uncompressed gray: depth, sign, photometric interpretation, place of the high bit."""
    for stored in (8, 7, 10, 12, 14, 15, 16):
        for signed in (False, True):
            for photometric in ("MONOCHROME2", "MONOCHROME1"):
                if photometric == "MONOCHROME1" and stored in (7, 14, 15):
                    continue
                values = picture(stored, signed)
                header = {**window(stored, signed), "PixelRepresentation": int(signed)}
                cells = cells_of(values, stored)
                data = saved(describe(cells, photometric, stored, **header))
                wanted = windowed(values.astype(float), pydicom.dcmread(BytesIO(data)))
                wanted = 1 - wanted if photometric == "MONOCHROME1" else wanted
                kind = "signed" if signed else "unsigned"
                bits = f"{stored} of {8 * cells.dtype.itemsize} bits"
                yield Variant("depths", f"{bits}, {kind}, {photometric}", data, wanted)
    for stored, high, allocated in ((12, 15, 16), (12, 13, 16), (10, 15, 16), (6, 7, 8)):
        values = picture(stored)
        cells = (values << (high - stored + 1)).astype(f"u{allocated // 8}")
        data = saved(describe(cells, "MONOCHROME2", stored, HighBit=high, **window(stored)))
        yield Variant("depths", f"{stored} bits, high bit {high}", data, full(values))
    cells = (picture(12) | (picture(4, seed=1) << 12)).astype("u2")
    data = saved(describe(cells, "MONOCHROME2", 12, **window(12)))
    yield Variant("overlays", "12 bits, overlay in the bits above", data, full(picture(12)))
    signed = cells_of(picture(12, True), 12) | 0x3000
    header = {**window(12, True), "PixelRepresentation": 1}
    data = saved(describe(signed, "MONOCHROME2", 12, **header))
    yield Variant("overlays", "12 bits, signed, bits above in use", data, full(picture(12)))
    separate = describe(picture(12).astype("u2"), "MONOCHROME2", 12, **window(12))
    separate.add_new(0x60000010, "US", HEIGHT)
    separate.add_new(0x60000011, "US", WIDTH)
    separate.add_new(0x60003000, "OW", b"\xff" * (HEIGHT * WIDTH // 8))
    yield Variant("overlays", "an overlay plane of its own", saved(separate))


def syntaxes() -> Iterator[Variant]:
    """The transfer syntaxes, each at several depths."""
    values = picture(12)
    implicit = describe(values.astype("u2"), "MONOCHROME2", 12, **window(12))
    yield Variant("syntaxes", "Implicit VR Little Endian", saved(implicit, ImplicitVRLittleEndian))
    dataset = describe(values.astype(">u2"), "MONOCHROME2", 12, **window(12))
    yield Variant("syntaxes", "Explicit VR Big Endian", saved(dataset, ExplicitVRBigEndian))
    lossless = (RLELossless, JPEGLSLossless, JPEG2000Lossless)
    for syntax in lossless:
        for stored, signed in ((8, False), (12, False), (16, False), (12, True), (16, True)):
            values = picture(stored, signed)
            header = {**window(stored, signed), "PixelRepresentation": int(signed)}
            dataset = describe(cells_of(values, stored), "MONOCHROME2", stored, **header)
            dataset.compress(syntax, generate_instance_uid=False)
            name = f"{UID(syntax).name}, {stored} bits{', signed' if signed else ''}"
            yield Variant("syntaxes", name, saved(dataset, syntax), full(values))
    for syntax in (JPEGLossless, JPEGLosslessSV1):
        for stored, signed in ((8, False), (12, False), (16, False), (16, True)):
            values = picture(stored, signed)
            header = {**window(stored, signed), "PixelRepresentation": int(signed)}
            cells = cells_of(values, stored)
            frame = imagecodecs.jpeg8_encode(cells, lossless=True, bitspersample=stored)
            data = coded(describe(cells, "MONOCHROME2", stored, **header), syntax, [frame])
            name = f"JPEG Lossless ({syntax[-2:]}), {stored} bits{', signed' if signed else ''}"
            yield Variant("syntaxes", name, data, full(values))
    yield from lossy()
    yield from deep_codestreams()


def lossy() -> Iterator[Variant]:
    """Lossy codestreams, which pydicom or the codec itself decodes for comparison."""
    eight, twelve = picture(8).astype("u1"), picture(12).astype("u2")
    frame = imagecodecs.jpeg8_encode(eight, level=90)
    data = coded(describe(eight, "MONOCHROME2", 8, **window(8)), JPEGBaseline8Bit, [frame])
    yield Variant("lossy", "JPEG Baseline", data, imagecodecs.jpeg8_decode(frame) / 255)
    frame = imagecodecs.jpeg8_encode(twelve, level=90, bitspersample=12)
    data = coded(describe(twelve, "MONOCHROME2", 12, **window(12)), JPEGExtended12Bit, [frame])
    wanted = imagecodecs.jpeg8_decode(frame) / 4095
    yield Variant("lossy", "JPEG Extended, 12 bits", data, wanted)
    frame = imagecodecs.jpegls_encode(twelve, level=3)
    data = coded(describe(twelve, "MONOCHROME2", 12, **window(12)), JPEGLSNearLossless, [frame])
    wanted = np.minimum(imagecodecs.jpegls_decode(frame), 4095) / 4095
    yield Variant("lossy", "JPEG-LS near lossless", data, wanted)
    for syntax in (JPEG2000, HTJ2K):
        encode = imagecodecs.jpeg2k_encode if syntax == JPEG2000 else imagecodecs.htj2k_encode
        decode = imagecodecs.jpeg2k_decode if syntax == JPEG2000 else imagecodecs.htj2k_decode
        options = {"codecformat": "j2k", "level": 40} if syntax == JPEG2000 else {"level": 0.001}
        frame = encode(picture(16).astype("u2"), reversible=False, **options)
        dataset = describe(picture(16).astype("u2"), "MONOCHROME2", 16, **window(16))
        wanted = decode(frame) / 65535
        yield Variant("lossy", UID(syntax).name, coded(dataset, syntax, [bytes(frame)]), wanted)
    frame = imagecodecs.htj2k_encode(picture(16).astype("u2"), reversible=True)
    dataset = describe(picture(16).astype("u2"), "MONOCHROME2", 16, **window(16))
    data = coded(dataset, HTJ2KLossless, [bytes(frame)])
    yield Variant("syntaxes", UID(HTJ2KLossless).name, data, full(picture(16)))


def deep_codestreams() -> Iterator[Variant]:
    """Lossless codestreams of whole cells, of which fewer bits are in use."""
    values = picture(12)
    overlay = (values | (picture(4, seed=1) << 12)).astype("u2")
    shifted = (values << 4).astype("u2")
    encoders: dict[str, Callable[[Array], bytes]] = {
        JPEGLosslessSV1: lambda x: imagecodecs.jpeg8_encode(x, lossless=True, bitspersample=16),
        JPEGLSLossless: lambda x: imagecodecs.jpegls_encode(x),
        JPEG2000Lossless: lambda x: imagecodecs.jpeg2k_encode(x, level=0, codecformat="j2k"),
    }
    for syntax, encode in encoders.items():
        for name, cells, high in (("overlay above", overlay, 11), ("high bit 15", shifted, 15)):
            dataset = describe(cells, "MONOCHROME2", 12, HighBit=high, **window(12))
            data = coded(dataset, syntax, [bytes(encode(cells))])
            name = f"{UID(syntax).name.split(',')[0]}, 12 of 16 bits coded, {name}"
            yield Variant("overlays", name, data, full(values))


def colors() -> Iterator[Variant]:
    """Color, palettes, planar configuration."""
    rgb = np.stack([picture(8, seed=n) if n else 255 - picture(8) for n in range(3)], -1)
    rgb = rgb.astype("u1")
    yield Variant("colors", "RGB by pixel", saved(describe(rgb, "RGB", 8)))
    dataset = describe(rgb, "RGB", 8, PlanarConfiguration=1)
    dataset.PixelData = np.moveaxis(rgb, -1, 0).tobytes()
    yield Variant("colors", "RGB by plane", saved(dataset))
    deep = rgb.astype("u2") * 257
    yield Variant("colors", "RGB, 16 bits", saved(describe(deep, "RGB", 16)))
    ybr = convert_color_space(rgb, "RGB", "YBR_FULL")
    data = saved(describe(ybr, "YBR_FULL", 8))
    yield Variant("colors", "YBR_FULL", data, ybr[..., 0] / 255)
    for syntax in (RLELossless, JPEGLSLossless, JPEG2000Lossless):
        dataset = describe(rgb, "RGB", 8)
        dataset.compress(syntax, generate_instance_uid=False)
        yield Variant("colors", f"RGB, {UID(syntax).name}", saved(dataset, syntax), luma(rgb, 255))
    frame = imagecodecs.jpeg8_encode(rgb, level=95, subsampling="422")
    dataset = describe(rgb, "YBR_FULL_422", 8)
    planes = imagecodecs.jpeg8_decode(frame, colorspace="YCBCR", outcolorspace="YCBCR")
    wanted = planes[..., 0] / 255
    yield Variant("colors", "YBR_FULL_422, JPEG", coded(dataset, JPEGBaseline8Bit, [frame]), wanted)
    yield from palettes()


def palettes() -> Iterator[Variant]:
    """Look-up tables of color of 8 and 16 bits."""
    levels = picture(8).astype("u1")
    ramps = [np.linspace(0, 65535, 256), np.linspace(65535, 0, 256), np.full(256, 30000.0)]
    ramps = [np.rint(ramp).astype("u2") for ramp in ramps]
    for bits in (8, 16):
        tables: dict[str, Any] = {}
        for color, ramp in zip(("Red", "Green", "Blue"), ramps, strict=True):
            entries = (ramp >> 8).astype("u1") if bits == 8 else ramp
            tables[f"{color}PaletteColorLookupTableDescriptor"] = [256, 0, bits]
            tables[f"{color}PaletteColorLookupTableData"] = entries.tobytes()
        name = f"PALETTE COLOR, {bits} bits"
        yield Variant("colors", name, saved(describe(levels, "PALETTE COLOR", 8, **tables)))


def lut(entries: Array, first: int, bits: int) -> Dataset:
    item = Dataset()
    item.LUTDescriptor = [len(entries) & 0xFFFF, first, bits]
    item["LUTDescriptor"].VR = "US"
    item.LUTData = entries.astype("u2").tolist()
    item["LUTData"].VR = "US"
    return item


def contrasts() -> Iterator[Variant]:
    """Windows, tables, rescaling, padding."""
    cells = picture(12).astype("u2")

    def made(name: str, **header: Any) -> Variant:
        return Variant("contrast", name, saved(describe(cells, "MONOCHROME2", 12, **header)))

    for function in ("LINEAR", "LINEAR_EXACT", "SIGMOID"):
        narrow = {"WindowCenter": 1800, "WindowWidth": 900, "VOILUTFunction": function}
        yield made(f"window, {function}", **narrow)
    yield made("window of width 1", WindowCenter=2000, WindowWidth=1)
    yield made("two windows", WindowCenter=[1800, 900], WindowWidth=[900, 300])
    rescaled = {"RescaleSlope": "0.5", "RescaleIntercept": "-1000"}
    yield made("rescaled, window", WindowCenter=0, WindowWidth=1500, **rescaled)
    falling = {"RescaleSlope": "-1", "RescaleIntercept": "4095"}
    yield made("negative slope, window", WindowCenter=2048, WindowWidth=4096, **falling)
    yield made("no window")
    yield made("rescaled, no window", **rescaled)
    yield made("padding value, no window", PixelPaddingValue=int(cells.min()))
    limits = {"PixelPaddingValue": 0, "PixelPaddingRangeLimit": 300}
    yield made("padding range, no window", **limits)
    curve = np.rint(4095 * np.linspace(0, 1, 4096) ** 2)
    yield made("VOI LUT of 12 bits", VOILUTSequence=Sequence([lut(curve, 0, 12)]))
    yield made("VOI LUT of 16 bits", VOILUTSequence=Sequence([lut(curve * 16, 0, 16)]))
    table = lut(np.rint(np.linspace(0, 255, 2000)), 1000, 8)
    yield made("VOI LUT of 8 bits from 1000 on", VOILUTSequence=Sequence([table]))
    both = {"WindowCenter": 100, "WindowWidth": 50}
    yield made("VOI LUT and window", VOILUTSequence=Sequence([lut(curve, 0, 12)]), **both)
    modality = lut(4095 - np.arange(4096), 0, 16)
    modality.ModalityLUTType = "US"
    yield made("modality LUT, window", ModalityLUTSequence=Sequence([modality]), **window(12))


def frames() -> Iterator[Variant]:
    """Files of several frames."""
    cells = np.stack([picture(12, seed=n).astype("u2") // (n + 1) for n in range(3)])
    data = saved(describe(cells, "MONOCHROME2", 12, **window(12)))
    yield Variant("frames", "3 frames, one not chosen", data, refused=True)
    yield Variant("frames", "frame 1 of 3", data, frame=1)
    for syntax in (RLELossless, JPEGLSLossless, JPEG2000Lossless):
        dataset = describe(cells, "MONOCHROME2", 12, **window(12))
        dataset.compress(syntax, generate_instance_uid=False)
        name = f"frame 2 of 3, {UID(syntax).name}"
        yield Variant("frames", name, saved(dataset, syntax), cells[2] / 4095, frame=2)


def placements() -> Iterator[Variant]:
    """Turned and mirrored images, and pixels that are not square."""
    upright = picture(12)
    stored: dict[str, Array] = {
        "L\\F": upright,
        "R\\F": upright[:, ::-1],
        "L\\H": upright[::-1],
        "R\\H": upright[::-1, ::-1],
        "F\\L": upright.T,
        "F\\R": upright[:, ::-1].T,
        "H\\L": upright[::-1].T,
        "H\\R": upright[::-1, ::-1].T,
        "A\\F": upright,
    }
    for letters, values in stored.items():
        cells = np.ascontiguousarray(values).astype("u2")
        header = {"PatientOrientation": letters.split("\\"), **window(12)}
        data = saved(describe(cells, "MONOCHROME2", 12, **header))
        yield Variant("placement", f"PatientOrientation {letters}", data, full(upright))
    header = {"ImageOrientationPatient": [-1, 0, 0, 0, 0, -1], **window(12)}
    cells = np.ascontiguousarray(upright[:, ::-1]).astype("u2")
    data = saved(describe(cells, "MONOCHROME2", 12, **header))
    yield Variant("placement", "ImageOrientationPatient −1 0 0 0 0 −1", data, full(upright))
    gray = full(upright)
    for keyword, value, down, across in (
        ("ImagerPixelSpacing", [0.2, 0.1], 2, 1),
        ("PixelSpacing", [0.1, 0.15], 1, 1.5),
        ("PixelAspectRatio", [1, 2], 1, 2),
    ):
        header = {keyword: value, **window(12)}
        data = saved(describe(upright.astype("u2"), "MONOCHROME2", 12, **header))
        wanted = enlarged(enlarged(gray, down).T, across).T
        yield Variant("placement", f"{keyword} {value[0]}\\{value[1]}", data, wanted)


def enlarged(gray: Array, times: float) -> Array:
    """Interpolate rows linearly between the centers of pixels."""
    rows = round(len(gray) * times)
    at = np.clip((np.arange(rows) + 0.5) * len(gray) / rows - 0.5, 0, len(gray) - 1)
    low = np.minimum(at.astype(int), max(len(gray) - 2, 0))
    part = (at - low)[:, None]
    return gray[low] * (1 - part) + gray[low + 1] * part


def odd() -> Iterator[Variant]:
    """Headers that archives hold beside the standard."""
    cells = picture(12).astype("u2")
    plain = saved(describe(cells, "MONOCHROME2", 12, **window(12)))
    wanted = full(picture(12))
    yield Variant("odd", "no preamble", plain[132:], wanted)
    yield Variant("odd", "DICM at the first byte", plain[128:], wanted)
    yield Variant("odd", "zeros after the pixels", plain + bytes(64), wanted)
    for name, keyword in (("HighBit", "HighBit"), ("PixelRepresentation", "PixelRepresentation")):
        dataset = describe(cells, "MONOCHROME2", 12, **window(12))
        delattr(dataset, keyword)
        yield Variant("odd", f"no {name}", saved(dataset), wanted)
    dataset = describe(cells, "MONOCHROME2", 12, **window(12), NumberOfFrames="1")
    yield Variant("odd", "NumberOfFrames 1", saved(dataset))
    dataset = describe(cells, "MONOCHROME2", 12, WindowCenter="", WindowWidth="")
    yield Variant("odd", "empty window", saved(dataset))
    dataset = describe(
        cells, "MONOCHROME2", 12, WindowCenter=["0", "2048"], WindowWidth=["0", "4096"]
    )
    yield Variant("odd", "first window of width 0", saved(dataset), wanted)
    dataset = describe(cells, "MONOCHROME2", 12, **window(12))
    dataset.add_new(0x00091001, "LO", "private")
    dataset.add_new(0x00091002, "SQ", Sequence([Dataset(), Dataset()]))
    yield Variant("odd", "private elements and sequences", saved(dataset), wanted)
    odd_bytes = describe(picture(8)[:, :-1][:-1].astype("u1"), "MONOCHROME2", 8, **window(8))
    odd_bytes.PixelData += b"\0"
    levels = picture(8)[:, :-1][:-1] / 255
    yield Variant("odd", "an odd number of bytes, padded", saved(odd_bytes), levels)
    # The data set is explicit, its file header says implicit.
    place = plain.index(b"\x08\0\x16\0")
    head = saved(describe(cells, "MONOCHROME2", 12), ImplicitVRLittleEndian)
    mislabeled = head[: head.index(b"\x08\0\x16\0")] + plain[place:]
    yield Variant("odd", "explicit, mislabeled as implicit", mislabeled, wanted)


def refusals() -> Iterator[Variant]:
    """Files that have to be refused, in one line."""
    cells = picture(12).astype("u2")
    plain = saved(describe(cells, "MONOCHROME2", 12, **window(12)))
    syntax = b"1.2.840.10008.1.2.1\0"

    def with_syntax(uid: bytes) -> bytes:
        return plain.replace(syntax, uid.ljust(len(syntax), b"\0"))

    def described(name: str, **header: Any) -> Variant:
        data = saved(describe(cells, "MONOCHROME2", 12, **{**window(12), **header}))
        return Variant("refusals", name, data, refused=True)

    for name, data in {
        "pixels cut off": plain[:-100],
        "header cut off": plain[:400],
        "no transfer syntax": with_syntax(b""),
        "a private transfer syntax": with_syntax(b"1.2.3.4.5"),
        "compressed, it says, but is not": with_syntax(b"1.2.840.10008.1.2.5"),
        "elements without a file header": plain[plain.index(b"\x08\0\x16\0UI") :],
        "empty": b"",
    }.items():
        yield Variant("refusals", name, data, refused=True)
    dataset = describe(cells, "MONOCHROME2", 12, **window(12))
    yield Variant("refusals", "MPEG-2", coded(dataset, MPEG2MPML, [bytes(4)]), refused=True)
    for allocated in (1, 12, 32):
        yield described(f"{allocated} bits allocated", BitsAllocated=allocated)
    yield described("no palette", PhotometricInterpretation="PALETTE COLOR")
    groups = Sequence([Dataset()])
    yield described("functional groups", SharedFunctionalGroupsSequence=groups)
    yield described("more bits stored than allocated", BitsStored=17)
    yield described("an ARGB image", PhotometricInterpretation="ARGB")
    yield described("no rows", Rows=0)
    yield described("more rows than pixels", Rows=4000)
    yield described("slope 0", RescaleSlope="0")
    yield described("an unknown VOI LUT function", VOILUTFunction="CUBIC")
    broken = lut(np.arange(10), 0, 12)
    broken.LUTDescriptor = [4096, 0, 12]
    yield described("a table cut off", VOILUTSequence=Sequence([broken]))
    frame = imagecodecs.jpegls_encode(cells)
    dataset = describe(cells, "MONOCHROME2", 12, **window(12), Rows=HEIGHT - 1)
    data = coded(dataset, JPEGLSLossless, [frame])
    yield Variant("refusals", "a codestream of another size", data, refused=True)
    dataset = describe(cells, "MONOCHROME2", 12, **window(12))
    data = coded(dataset, JPEGLSLossless, [frame[: len(frame) // 2]])
    yield Variant("refusals", "a codestream cut off", data, refused=True)
    float_pixels = describe(cells, "MONOCHROME2", 12, **window(12))
    del float_pixels.PixelData
    float_pixels.add_new(0x7FE00008, "OF", picture(12).astype("f4").tobytes())
    yield Variant("refusals", "float pixel data", saved(float_pixels), refused=True)


def compare(variant: Variant) -> tuple[float | None, str]:
    """Give the largest error in gray levels; or None, and the line of the refusal."""
    try:
        ours = read_image_bytes(variant.data, "x", frame=variant.frame)[0]
    except ImageError as error:
        return None, str(error).removeprefix("x: ")
    if variant.refused:
        return None, ""
    wanted = variant.wanted
    if wanted is None:
        wanted = reference(pydicom.dcmread(BytesIO(variant.data), force=True), variant.frame)
    if ours.shape != wanted.shape:
        return float("inf"), f"{ours.shape} instead of {wanted.shape}"
    return 255 * float(np.abs(ours - wanted).max()), ""


def variants() -> Iterator[Variant]:
    """Give every kind of file."""
    for group in (depths, syntaxes, colors, contrasts, frames, placements, odd, refusals):
        yield from group()


def main() -> None:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    warnings.simplefilter("ignore")
    print("| group | file | largest error, gray levels; or the refusal |\n|---|---|---|")
    files = faults = 0
    for variant in variants():
        error, line = compare(variant)
        wrong = (
            (error is None) != variant.refused
            or (error is None and not line)
            or (error is not None and error > LIMIT)
        )
        said = f"{error:.2f} {line}".strip() if error is not None else f"refused: {line}"
        name = variant.name.replace("|", "/")
        print(f"| {variant.group} | {name} | {said}{' **wrong**' if wrong else ''} |")
        files, faults = files + 1, faults + wrong
    print(f"\n{files} files, {faults} wrong", file=sys.stderr)
    sys.exit(int(faults > 0))


if __name__ == "__main__":
    main()
