"""Images a second from files to 8-bit squares: the decoded cache, and decoding in every epoch.

    python benchmarks/images/decoded_cache.py --images 400
    python benchmarks/images/decoded_cache.py --data DIR --processes 2

The first draws phantoms, the second takes the PNG, JPEG and DICOM files below a folder.  Against
ours stands what a training script does without a cache: a torch DataLoader over a Dataset that
opens each file with Pillow or pydicom and resizes it, in as many processes.  Its squares differ
from ours by what DICOM asks for and it leaves out; the work is what counts here.  All files are
read once before, so that nobody pays alone for a cold disk.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from cxrtext.images import Preprocessing
from cxrtext.images.cache import DecodedCache, Squares, digest_of
from cxrtext.phantom.write import write_phantoms

BATCH = 32


class Plain(Dataset[torch.Tensor]):
    """Files, opened and resized each time that they are asked for."""

    def __init__(self, paths: list[Path], size: int) -> None:
        self.paths, self.size = paths, size

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> torch.Tensor:
        """One square, [1, size, size] uint8."""
        try:
            image = opened(self.paths[row])
        except Exception:  # noqa: BLE001 - what a decoder raises on a damaged file is anything
            return torch.zeros(1, self.size, self.size, dtype=torch.uint8)
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        box = (left, top, left + side, top + side)
        square = image.resize((self.size, self.size), Image.Resampling.BILINEAR, box=box)
        return torch.from_numpy(np.array(square))[None]


def opened(path: Path) -> Image.Image:
    """An image as 8-bit gray; of DICOM the stored values, stretched."""
    if path.suffix.lower() in (".png", ".jpg", ".jpeg"):
        return Image.open(path).convert("L")
    values = pydicom.dcmread(path).pixel_array.astype(np.float32)
    if values.ndim != 2:
        raise ValueError("several frames or colors")
    low, high = values.min(), max(values.max(), values.min() + 1)
    return Image.fromarray(((values - low) * (255 / (high - low))).astype(np.uint8))


def timed(name: str, count: int, work: Callable[[], Any]) -> Any:
    """Do some work, and print what it took."""
    begun = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - begun
    print(f"| {name} | {seconds:.2f} | {count / seconds:.0f} |", flush=True)
    return result


def plain_epoch(paths: list[Path], size: int, processes: int) -> int:
    """Go once through the files with a DataLoader, in random order."""
    loader = DataLoader(Plain(paths, size), BATCH, shuffle=True, num_workers=processes)
    return sum(len(batch) for batch in loader)


def mapped_epoch(squares: Squares) -> int:
    """Go once through the squares in random order."""
    order = np.random.default_rng(0).permutation(squares.slots[squares.slots >= 0])
    batches = range(0, len(order), BATCH)
    return sum(
        len(torch.from_numpy(np.asarray(squares.pixels[order[i : i + BATCH]]))) for i in batches
    )


def compare(paths: list[Path], folder: Path, size: int, processes: int) -> None:
    """Print a row of a Markdown table for each way."""
    sizes, count = Preprocessing(resize=size, crop=size), len(paths)
    print(f"{count} files to {size} x {size}, {processes} process(es)\n")
    print("| | seconds | images/s |\n|---|---|---|")

    def fill() -> Squares:
        return DecodedCache(folder, print).fill(paths, sizes, processes=processes)

    timed("reading and hashing alone", count, lambda: [digest_of(path) for path in paths])
    timed("DataLoader, an epoch", count, lambda: plain_epoch(paths, size, processes))
    squares = timed("cache, first run: hash, decode, keep", count, fill)
    timed("cache, second run: hash again, check", count, fill)
    time.sleep(3)  # files just drawn are too young for their times to be trusted
    fill()
    timed("cache, third run: look up, check", count, fill)
    timed("an epoch from the mapped squares", count, lambda: mapped_epoch(squares))
    print(f"\n{(squares.slots < 0).sum()} could not be read")


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of images, in place of phantoms")
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--format", default="png", choices=["png", "dicom"])
    parser.add_argument("--drawn", type=int, default=1024, help="side of a phantom")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        data = options.data
        if data is None:
            data = Path(name) / "phantoms"
            write_phantoms(
                data, studies=options.images, size=options.drawn, image_format=options.format
            )
            data = data / "images"
        kinds = (".png", ".jpg", ".jpeg", ".dcm")
        paths = sorted(path for path in data.rglob("*") if path.suffix.lower() in kinds)
        compare(paths[: options.images], Path(name) / "cache", options.size, options.processes)


if __name__ == "__main__":
    main()
