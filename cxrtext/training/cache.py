"""Training images, decoded once into one memory-mapped file."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cxrtext.errors import ImageError
from cxrtext.files import write_json
from cxrtext.images import Preprocessing
from cxrtext.images.isolated import ReaderPool
from cxrtext.images.isolated_prepare import Preparation
from cxrtext.records import ImageRecord, Rejects

Pixels = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True)
class DecodedImages:
    """Images in memory-mapped storage.

    Args:
        pixels: [n, R, R], 8-bit grey.
        usable: [n], False where the image could not be decoded.
    """

    pixels: Pixels
    usable: np.ndarray[tuple[int], np.dtype[np.bool_]]


def _fingerprint(records: Sequence[ImageRecord], size: int) -> str:
    digest = hashlib.sha256(f"size {size};".encode())
    for record in records:
        try:
            status = record.path.stat()
            stamp = f"{status.st_size}:{status.st_mtime_ns}"
        except OSError:
            stamp = "missing"
        digest.update(f"{record.name}:{stamp};".encode())
    return digest.hexdigest()


def _open(path: Path, shape: tuple[int, ...], fresh: bool) -> Pixels:
    return np.memmap(path, dtype=np.uint8, mode="w+" if fresh else "r+", shape=shape)


def decode_images(
    records: Sequence[ImageRecord],
    folder: Path,
    preprocessing: Preprocessing,
    rejects: Rejects,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> DecodedImages:
    """Decode images into ``folder``, or open what an earlier run decoded there.

    A stopped run continues with the first image not decoded; another list of images, another
    size or a changed file starts afresh.

    Args:
        records: The images; duplicates of a path are decoded twice.
        folder: Where the cache is kept.
        preprocessing: Gives the size R of the square that is kept.
        rejects: Takes the images that cannot be decoded; raises past its limit.
        threads: Processes that decode; None for one a core, 0 to decode in this one.
        progress: Called with (done, total).

    Returns:
        The decoded images, in the order of ``records``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    count, size = len(records), preprocessing.resize
    key = {"fingerprint": _fingerprint(records, size), "images": count, "size": size}
    described = folder / "cache.json"
    fresh = not described.is_file() or json.loads(described.read_text(encoding="utf-8")) != key
    if fresh:
        described.unlink(missing_ok=True)
    pixels = _open(folder / "images.u8", (count, size, size), fresh)
    done = _open(folder / "done.u8", (count,), fresh)
    if fresh:
        write_json(described, key)
    todo = [row for row in range(count) if not done[row]]
    if todo:
        with ReaderPool(threads) as pool:
            square = Preparation("square", preprocessing)
            read = pool.map((records[row].path for row in todo), preparation=square)
            for number, (row, image) in enumerate(
                zip(todo, read, strict=True), count - len(todo) + 1
            ):
                if isinstance(image, ImageError):
                    rejects.add(records[row].name, str(image))
                else:
                    pixels[row] = image.pixels[0]
                    done[row] = 1
                if progress:
                    progress(number, count)
    return DecodedImages(pixels, np.asarray(done, dtype=bool))
