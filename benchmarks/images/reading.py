"""Images a second from file to the model's input, against pydicom and Pillow used plainly.

    python benchmarks/images/reading.py --images 8

It makes files of one radiograph-like picture and reads each kind in one process and in two, ours
and theirs in turn.
"""

import argparse
import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import numpy.typing as npt
import pydicom
from PIL import Image
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.pixels.processing import apply_rescale, apply_voi_lut
from pydicom.uid import UID, ExplicitVRLittleEndian, JPEG2000Lossless, JPEGLosslessSV1, RLELossless

from cxrtext.errors import ImageError
from cxrtext.images import Preprocessing, ReaderPool
from cxrtext.images.reader_pool import ReadImage

Floats = npt.NDArray[np.float32]
SIZES = Preprocessing(resize=512, crop=480)
Read = Callable[[Sequence[Path]], object]
ROWS, COLUMNS = 2500, 2000


def radiograph() -> npt.NDArray[np.uint16]:
    """Two dark lungs in a bright body with the noise of a detector, 12 bits."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[-1 : 1 : ROWS * 1j, -1 : 1 : COLUMNS * 1j]
    body = 2600 - 900 * x**2 - 300 * y
    lungs = sum(np.exp(-(((x - side) / 0.28) ** 2) - (y / 0.55) ** 2) for side in (-0.42, 0.42))
    noise = rng.normal(0, 18, (ROWS, COLUMNS))
    pixels: npt.NDArray[np.uint16] = np.clip(body - 1700 * lungs + noise, 0, 4095).astype(np.uint16)
    return pixels


def dicom(pixels: npt.NDArray[np.uint16], syntax: str) -> Dataset:
    """Describe a chest radiograph, and compress it."""
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.SOPClassUID, dataset.SOPInstanceUID = UID("1.2.840.10008.5.1.4.1.1.1.1"), UID("1.2.3")
    dataset.Rows, dataset.Columns = pixels.shape
    dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME2"
    dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit = 16, 12, 11
    dataset.PixelRepresentation = 0
    dataset.RescaleSlope, dataset.RescaleIntercept = "1", "0"
    dataset.WindowCenter, dataset.WindowWidth = "1700", "2600"
    dataset.PixelData = pixels.tobytes()
    dataset["PixelData"].VR = "OW"
    if syntax == JPEGLosslessSV1:
        frame = imagecodecs.jpeg8_encode(pixels, lossless=True, bitspersample=12)
        dataset.PixelData = encapsulate([bytes(frame)])
        dataset["PixelData"].VR = "OB"
        dataset["PixelData"].is_undefined_length = True
        dataset.file_meta.TransferSyntaxUID = JPEGLosslessSV1
    elif syntax != ExplicitVRLittleEndian:
        dataset.compress(syntax, generate_instance_uid=False)
    return dataset


def make_files(folder: Path, images: int) -> dict[str, list[Path]]:
    """Write some files of each kind."""
    pixels = radiograph()
    byte = Image.fromarray((pixels >> 4).astype(np.uint8))
    kinds: dict[str, Callable[[Path], Any]] = {}
    for name, syntax in (
        ("uncompressed", ExplicitVRLittleEndian),
        ("RLE", RLELossless),
        ("JPEG lossless", JPEGLosslessSV1),
        ("JPEG 2000", JPEG2000Lossless),
    ):
        described = dicom(pixels, syntax)
        kinds[f"DICOM {name}"] = partial(described.save_as, enforce_file_format=True)
    kinds["PNG 8 bits"] = lambda path: byte.save(path, format="PNG")
    kinds["JPEG"] = lambda path: byte.save(path, format="JPEG", quality=95)
    found: dict[str, list[Path]] = {}
    for kind, write in kinds.items():
        first = folder / f"{kind} 0"
        write(first)
        found[kind] = [folder / f"{kind} {i}" for i in range(images)]
        for path in found[kind][1:]:
            path.write_bytes(first.read_bytes())
    return found


def plainly(path: Path) -> Floats:
    """Read with pydicom or Pillow as their tutorials do, then resize, crop and normalize."""
    if path.name.startswith("DICOM"):
        dataset = pydicom.dcmread(path)
        values = apply_voi_lut(apply_rescale(dataset.pixel_array, dataset), dataset)
        image = Image.fromarray((values / (2**dataset.BitsStored - 1)).astype(np.float32))
    else:
        image = Image.open(path).convert("L")
    scale = SIZES.resize / min(image.size)
    size = (round(image.width * scale), round(image.height * scale))
    image = image.resize(size, Image.Resampling.BILINEAR)
    left, top = ((extent - SIZES.crop) // 2 for extent in image.size)
    crop = np.asarray(image.crop((left, top, left + SIZES.crop, top + SIZES.crop)), np.float32)
    gray = crop if path.name.startswith("DICOM") else crop / np.float32(255)
    return ((gray - SIZES.mean) / SIZES.std)[np.newaxis].astype(np.float32)


def ours(path: Path) -> Floats:
    """Read and prepare in this process."""
    with ReaderPool(0) as here:
        (image,) = here.map([path], square=SIZES)
    if isinstance(image, ImageError):
        raise image
    return SIZES.normalize(image.pixels)


def _tried(read: Callable[[Path], Floats], path: Path) -> str:
    """Why a file cannot be read this way; empty where it can."""
    try:
        read(path)
    except (RuntimeError, ImageError) as error:
        return type(error).__name__
    return ""


@contextmanager
def both_ways(
    processes: int,
) -> Iterator[tuple[Read, Read]]:
    """Give our reading and theirs of several files, with that many processes, warmed up."""
    if processes == 1:

        def here(read: Callable[[Path], Floats]) -> Read:
            return lambda paths: [read(path) for path in paths]

        yield here(ours), here(plainly)
        return
    context = multiprocessing.get_context("spawn")
    with ReaderPool(processes) as pool, ProcessPoolExecutor(processes, context) as others:

        def our_pool(paths: Sequence[Path]) -> None:
            for image in pool.map(paths, square=SIZES):
                assert isinstance(image, ReadImage), image
                SIZES.normalize(image.pixels)

        yield our_pool, lambda paths: list(others.map(plainly, paths))


def compare(images: int, rounds: int) -> None:
    """Print images a second of each kind."""
    print(f"{ROWS} x {COLUMNS} pixels to {SIZES.crop} x {SIZES.crop}; images a second, best of")
    print(f"{rounds} rounds of {images} images; ratio of ours to theirs\n")
    print(
        "| file | ours, 1 process | theirs | ratio | ours, 2 processes | theirs | ratio | error |"
    )
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name, both_ways(1) as one, both_ways(2) as two:
        for kind, paths in make_files(Path(name), images).items():
            refused = _tried(plainly, paths[0])
            error = 0.0 if refused else float(np.abs(ours(paths[0]) - plainly(paths[0])).max())
            cells = [kind]
            for our, their in (one, two):
                our(paths[:2])  # what is imported late
                if not refused:
                    their(paths[:2])
                mine, other = _best(our, None if refused else their, paths, rounds)
                theirs = [refused, ""] if refused else [f"{other:.1f}", f"{mine / other:.2f}"]
                cells += [f"{mine:.1f}", *theirs]
            print("|", " | ".join([*cells, "" if refused else f"{error:.3f}"]), "|", flush=True)


def _best(
    our: Read,
    their: Read | None,
    paths: Sequence[Path],
    rounds: int,
) -> tuple[float, float]:
    speeds: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for read, found in zip((our, their), speeds, strict=True):
            if read is not None:
                begun = time.perf_counter()
                read(paths)
                found.append(len(paths) / (time.perf_counter() - begun))
    return max(speeds[0]), max(speeds[1], default=0.0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    compare(options.images, options.rounds)


if __name__ == "__main__":
    main()
