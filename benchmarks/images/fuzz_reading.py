"""Mutants of real image files, read in reader processes until the time is over.

    python benchmarks/images/fuzz_reading.py --seconds 600 --seed 1 DIR

Prints how many were tried, read and refused, the reader processes that were lost by reason, and
every exception that is not the library's own.  Ends with 1 when there was such an exception, an
image outside its promise, or a wait past the wall clock.
"""

import argparse
import re
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from cxrtext.errors import CxrTextError
from cxrtext.images import ReaderPool
from cxrtext.images.dicom.file import ALLOWED

SLACK_SECONDS = 10.0
_TELLING = [0, 1, 2, 3, 7, 8, 9, 12, 15, 16, 17, 32, 64, 127, 128, 255, 256, 1024, 4096, 9999]
_EDGES = [32767, 32768, 65535, 65534, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 2]
# Group and element of what decides how pixels are read, little endian.
_TAGS = [
    b"\x28\x00" + bytes([element, high])
    for element, high in (
        (0x02, 0), (0x04, 0), (0x06, 0), (0x08, 0), (0x10, 0), (0x11, 0), (0x30, 0),
        (0x00, 1), (0x01, 1), (0x02, 1), (0x03, 1), (0x06, 1), (0x07, 1), (0x20, 1), (0x21, 1),
        (0x50, 0x10), (0x51, 0x10), (0x52, 0x10), (0x53, 0x10), (0x55, 0x10), (0x56, 0x10),
        (0x01, 0x11), (0x02, 0x11), (0x03, 0x11), (0x01, 0x12), (0x02, 0x12), (0x03, 0x12),
        (0x00, 0x30), (0x02, 0x30), (0x06, 0x30), (0x10, 0x30),
    )
]  # fmt: skip
_WORDS = [
    b"MONOCHROME1", b"MONOCHROME2", b"PALETTE COLOR", b"RGB", b"YBR_FULL", b"YBR_FULL_422",
    b"1E308", b"-1", b"0", b"nan", b"inf", b"1\\2\\3", b"\xff\xfe", b"SIGMOID", b"99999", b"1e-320",
]  # fmt: skip

_BEFORE_LENGTHS = [
    b"\xfe\xff\x00\xe0", b"\xfe\xff\xdd\xe0", b"SQ\x00\x00", b"OW\x00\x00", b"OB\x00\x00", b"US",
    b"DS", b"LO", b"UI", b"IHDR", b"IDAT", b"\xff\xc4", b"\xff\xda", b"\xff\x52",
]  # fmt: skip


@dataclass(slots=True)
class Tally:
    """What became of the mutants."""

    tried: int = 0
    read: int = 0
    refused: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    foreign: Counter[str] = field(default_factory=Counter)
    longest: float = 0.0


def seeds(folder: Path) -> list[bytes]:
    """Read a folder's files, and make a PNG and a JPEG of each kind."""
    found = [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()]
    found = [data for data in found if len(data) < 2**21]
    rng = np.random.default_rng(0)
    gray = (np.add.outer(np.arange(90), np.arange(70)) + rng.integers(0, 30, (90, 70))) % 256
    deep = Image.fromarray((gray * 200).astype(np.uint16))
    plain = Image.fromarray(gray.astype(np.uint8))
    pictures: list[tuple[Image.Image, str, dict[str, Any]]] = [
        (plain, "PNG", {}),
        (deep, "PNG", {}),
        (plain.convert("RGBA"), "PNG", {}),
    ]
    pictures += [(plain.convert("P"), "PNG", {}), (plain, "JPEG", {})]
    pictures += [(plain.convert("RGB"), "JPEG", {"progressive": True})]
    for image, kind, options in pictures:
        buffer = BytesIO()
        image.save(buffer, format=kind, **options)
        found.append(buffer.getvalue())
    return found


def _pixel_place(data: bytes | bytearray) -> int:
    return max(data.rfind(b"\xe0\x7f\x10\x00"), data.rfind(b"\x7f\xe0\x00\x10"), 0)


def flip_bits(data: bytearray, rng: np.random.Generator, _: list[bytes]) -> bytearray:
    """Flip a few bits, half of the time before the pixels."""
    end = (_pixel_place(data) + 64) if rng.random() < 0.5 else len(data)
    for place in rng.integers(0, max(1, min(end, len(data))), rng.integers(1, 16)):
        data[place] ^= 1 << rng.integers(8)
    return data


def flip_in_codestream(data: bytearray, rng: np.random.Generator, _: list[bytes]) -> bytearray:
    """Change bytes at the start of the pixels, where a codestream has its header."""
    start = _pixel_place(data)
    end = min(len(data), start + int(rng.choice([60, 200, 800, 5000])))
    for place in rng.integers(start, max(end, start + 1), rng.integers(1, 12)):
        data[place] = int(rng.choice(np.array([0, 1, 127, 128, 255, int(rng.integers(256))])))
    return data


def cut(data: bytearray, rng: np.random.Generator, _: list[bytes]) -> bytearray:
    """Cut the end, or a piece, off."""
    place = int(rng.integers(len(data)))
    if rng.random() < 0.5:
        return data[:place]
    return data[:place] + data[place + int(rng.integers(1, 3000)) :]


def splice(data: bytearray, rng: np.random.Generator, all_seeds: list[bytes]) -> bytearray:
    """Put a piece of another file in."""
    other = all_seeds[rng.integers(len(all_seeds))]
    start = int(rng.integers(len(other)))
    piece = other[start : start + int(rng.integers(1, 4000))]
    place = int(rng.integers(len(data)))
    return data[:place] + piece + data[place + (len(piece) if rng.random() < 0.5 else 0) :]


def other_codestream(
    data: bytearray, rng: np.random.Generator, all_seeds: list[bytes]
) -> bytearray:
    """Keep the header and take the pixels of another file."""
    other = all_seeds[rng.integers(len(all_seeds))]
    return data[: _pixel_place(data)] + other[_pixel_place(other) :]


def change_header(data: bytearray, rng: np.random.Generator, _: list[bytes]) -> bytearray:
    """Give one to three elements that decide about pixels another value or length."""
    for _round in range(int(rng.integers(1, 4))):
        tag = _TAGS[rng.integers(len(_TAGS))]
        if rng.random() < 0.1:
            tag = bytes([tag[1], tag[0], tag[3], tag[2]])
        place = data.find(tag)
        if place < 0 or place + 16 > len(data):
            continue
        kind = rng.random()
        number = int(rng.choice(_TELLING + _EDGES))
        if kind < 0.6:
            data[place + 8 : place + 10] = (number & 0xFFFF).to_bytes(2, "little")
        elif kind < 0.8:
            length = max(1, int.from_bytes(data[place + 6 : place + 8], "little"))
            word = _WORDS[rng.integers(len(_WORDS))][:length]
            data[place + 8 : place + 8 + length] = word.ljust(length)
        else:
            data[place + 6 : place + 8] = (number & 0xFFFF).to_bytes(2, "little")
    return data


def change_lengths(data: bytearray, rng: np.random.Generator, _: list[bytes]) -> bytearray:
    """Overwrite what may be the length of an element, an item or a segment."""
    start = _BEFORE_LENGTHS[rng.integers(len(_BEFORE_LENGTHS))]
    places = [i for i in range(len(data) - 8) if data.startswith(start, i)][:200]
    if not places:
        return flip_bits(data, rng, _)
    place = places[rng.integers(len(places))] + len(start)
    size = int(rng.choice([2, 4]))
    number = int(rng.choice(_TELLING + _EDGES)) & (2 ** (8 * size) - 1)
    data[place : place + size] = number.to_bytes(size, "little" if rng.random() < 0.5 else "big")
    return data


def change_syntax(data: bytearray, rng: np.random.Generator, _: list[bytes]) -> bytearray:
    """Name another transfer syntax, with its right length."""
    place = data.find(b"\x02\x00\x10\x00UI")
    if place < 0:
        return data
    length = int.from_bytes(data[place + 6 : place + 8], "little")
    uid = sorted(ALLOWED)[rng.integers(len(ALLOWED))].encode()
    uid += b"\x00" * (len(uid) % 2)
    after = data[place + 8 + length :]
    return data[: place + 6] + len(uid).to_bytes(2, "little") + uid + after


Mutation = Callable[[bytearray, np.random.Generator, list[bytes]], bytearray]
MUTATIONS: tuple[Mutation, ...] = (
    flip_bits, flip_in_codestream, cut, splice, other_codestream, change_header, change_lengths,
    change_syntax,
)  # fmt: skip


def mutant(number: int, seed: int, all_seeds: list[bytes]) -> tuple[bytes, int | None]:
    """Make a mutant, the same for the same numbers, and choose a frame to ask for."""
    rng = np.random.default_rng([seed, number])
    data = bytearray(all_seeds[rng.integers(len(all_seeds))])
    for _ in range(int(rng.integers(1, 4))):
        if data:
            data = MUTATIONS[rng.integers(len(MUTATIONS))](data, rng, all_seeds)
    return bytes(data), (int(rng.integers(3)) if rng.random() < 0.15 else None)


def read_one(pool: ReaderPool, data: bytes, frame: int | None) -> tuple[str, str, float]:
    """Read a mutant; gives what became of it, more exactly, and the seconds it took."""
    begun = time.monotonic()
    try:
        image = pool.read_bytes(data, "mutant", frame=frame)
        sound = (
            image.dtype == np.float32 and image.ndim == 3 and 0 <= image.min() <= image.max() <= 1
        )
        found = ("read", "") if sound else ("foreign", "an image outside its promise")
    except CxrTextError as error:
        said = str(error)
        found = ("refused", said) if "\n" not in said else ("foreign", "a message of two lines")
    except Exception as error:  # noqa: BLE001 - what the run looks for
        found = ("foreign", type(error).__name__)
    return *found, time.monotonic() - begun


def _note(tally: Tally, outcome: tuple[str, str, float], wall: float) -> bool:
    """Count an outcome; whether the mutant is worth keeping."""
    what, exactly, seconds = outcome
    tally.tried += 1
    tally.longest = max(tally.longest, seconds)
    if seconds > wall + SLACK_SECONDS:
        tally.foreign["a wait past the wall clock"] += 1
    if what == "read":
        tally.read += 1
    elif what == "refused":
        tally.refused += 1
        reason = exactly.removeprefix("mutant: ").partition(";")[0]
        tally.kinds[re.sub(r"\d+", "N", reason)] += 1
    else:
        tally.foreign[exactly] += 1
    lost = any(
        word in exactly for word in ("reader process", "needs more", "within", "is damaged (")
    )
    return what == "foreign" or lost or "cannot be decoded" in exactly


def fuzz(
    folder: Path, seconds: float, seed: int, workers: int, keep: Path | None
) -> tuple[Tally, Counter[str]]:
    """Read mutants until the time is over."""
    all_seeds = seeds(folder)
    tally = Tally()
    with (
        ReaderPool(workers, seconds=10, wall_seconds=30) as pool,
        ThreadPoolExecutor(workers) as threads,
    ):
        end, number = time.monotonic() + seconds, 0
        pending: deque[tuple[int, Future[tuple[str, str, float]]]] = deque()
        while time.monotonic() < end or pending:
            while time.monotonic() < end and len(pending) < 2 * workers:
                data, frame = mutant(number, seed, all_seeds)
                pending.append((number, threads.submit(read_one, pool, data, frame)))
                number += 1
            first, future = pending.popleft()
            if _note(tally, future.result(), 30) and keep is not None:
                data, frame = mutant(first, seed, all_seeds)
                said = future.result()[1].encode()
                (keep / f"{seed}-{first}.bin").write_bytes(data)
                (keep / f"{seed}-{first}.txt").write_bytes(b"frame %d: " % (frame or 0) + said)
        return tally, Counter(pool.lost)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="real files to make mutants of")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for mutants that cost a reader")
    options = parser.parse_args()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    tally, lost = fuzz(options.folder, options.seconds, options.seed, options.workers, options.keep)
    for reason, count in tally.kinds.most_common():
        print(f"{count:8}  {reason}")
    print(f"seed {options.seed}, {options.seconds:g} s, workers {options.workers}")
    print(f"tried {tally.tried}, read {tally.read}, refused {tally.refused}")
    print(f"longest wait {tally.longest:.1f} s")
    print(f"reader processes lost: {dict(lost) or 0}")
    print(f"exceptions other than the library's own, hangs: {dict(tally.foreign) or 0}")
    sys.exit(bool(tally.foreign))


if __name__ == "__main__":
    main()
