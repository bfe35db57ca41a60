"""The images of a manifest: what each holds, what is wrong with it, and which occur twice."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cxrtext.datasets.admission.views import LATERAL, read_view
from cxrtext.datasets.checking.facts import (
    SECONDS,
    FactsCache,
    ImageFacts,
    Stamp,
    likeness_work,
    looked_at,
)
from cxrtext.datasets.checking.problems import Problems
from cxrtext.images.sandbox import ProcessLost, answers
from cxrtext.pausing import StageProgress

MAX_BITS = 7  # most of the 256 bits of two outlines that differ between near-duplicates
MIN_LIKENESS = 0.98  # least correlation of near-duplicates
MAX_PAIRS = 2000  # most pairs that are read again
_BANDS = MAX_BITS + 1
_MAX_GROUP = 2000
_LATERALS = {"L", "R", "LLO", "RLO"}  # beside those that a device writes
_DARK, _BRIGHT = 20.0, 235.0
_MIN_RANGE = 10
_MAX_ASPECT = 1.6
_MIN_SIDE = 64


@dataclass(slots=True)
class ListedImage:
    """An image that a manifest lists, and what its row says of it."""

    row: int
    name: str
    path: str
    study: str
    patient: str  # its patient; the study where none is given
    split: str  # its split; "train" where none or a wrong one is given
    view: str  # its view as the manifest has it, in capitals; "" where unknown
    facts: ImageFacts | None = None  # what its file holds; None where it is missing

    def __str__(self) -> str:
        return f"{self.name} (row {self.row})"

    @property
    def read(self) -> ImageFacts | None:
        """What its file holds, where that can be read."""
        return None if self.facts is None or self.facts.fault else self.facts


def read_images(
    images: Sequence[ListedImage], cache: FactsCache, workers: int, progress: StageProgress
) -> None:
    unread: dict[str, list[ListedImage]] = defaultdict(list)
    stamps: dict[str, Stamp] = {}
    for image in images:
        path = Path(image.path)
        try:
            if not path.is_file():
                if path.exists():
                    image.facts = ImageFacts(fault="is not a file; correct the row")
                continue
            status = path.stat()
        except FileNotFoundError:
            continue  # removed a moment ago
        except (OSError, ValueError):
            image.facts = ImageFacts(fault="has a name that cannot be a file's; correct the row")
            continue
        stamps[image.path] = stamp = status.st_size, status.st_mtime_ns
        image.facts = cache.get(image.path, stamp)
        if image.facts is None:
            unread[image.path].append(image)
    total = len(images)
    done = total - sum(map(len, unread.values()))
    progress("reading images", done, total)
    for name, found in looked_at(list(unread), workers):
        cache.put(name, stamps[name], found)
        for image in unread[name]:
            image.facts = found
        done += len(unread[name])
        progress("reading images", done, total)


def _is_lateral(view: str) -> bool:
    return view in _LATERALS or view.startswith("LAT") or read_view(view) == LATERAL


def _suspicions(image: ListedImage, facts: ImageFacts) -> dict[str, str]:
    """By the code of their kind, what makes one look at an image."""
    short, long = sorted((facts.width, facts.height))
    blank = facts.high - facts.low < _MIN_RANGE
    odd = not facts.constant and (blank or not _DARK <= facts.mean <= _BRIGHT)
    lateral = _is_lateral(image.view) or facts.refused.startswith(LATERAL)
    looks = f": {facts.looks} ({facts.sure:.2f})"
    found = {
        "image-constant": (facts.constant, ""),
        "image-exposure": (odd, ""),
        "view-lateral": (lateral, ""),
        "image-shape": (long > _MAX_ASPECT * short or short < _MIN_SIDE, ""),
        "not-admitted": (facts.refused and not lateral, f": {facts.refused}"),
        "looks-otherwise": (facts.looks and not lateral and not blank, looks),
        "burned-in": (facts.burned_in, ""),
    }
    return {code: why for code, (holds, why) in found.items() if holds}


def note_images(images: Sequence[ListedImage], problems: Problems) -> dict[str, list[ListedImage]]:
    """Note what is wrong with single images; return what looks suspicious, by the kind's code."""
    suspicious: dict[str, list[ListedImage]] = defaultdict(list)
    for image in images:
        if image.facts is None:
            problems.add("image-missing", str(image))
        elif image.facts.fault:
            problems.add("image-unreadable", f"{image}: {image.facts.fault}")
        else:
            for code, why in _suspicions(image, image.facts).items():
                problems.add(code, f"{image}{why}")
                suspicious[code].append(image)
    return suspicious


def note_duplicates(images: Sequence[ListedImage], problems: Problems) -> list[list[ListedImage]]:
    """Note images of equal 8-bit pixels, but constant ones; give those read, by content."""
    by_pixels: dict[str, list[ListedImage]] = defaultdict(list)
    for image in images:
        if image.read and not image.read.constant:
            by_pixels[image.read.pixel_digest].append(image)
    for first, *others in by_pixels.values():
        for other in others:
            if len({image.split for image in (first, *others)}) > 1:
                problems.add("same-image-in-two-splits", f"{first} = {other}")
            elif len({image.patient for image in (first, *others)}) > 1:
                problems.add("same-image-of-two-patients", f"{first} = {other}")
    return list(by_pixels.values())


Pair = tuple[ListedImage, ListedImage]


def note_near_duplicates(
    groups: Sequence[Sequence[ListedImage]], workers: int, problems: Problems
) -> list[Pair]:
    """Note and return pairs of two patients or splits that look alike.

    Their outlines differ in few bits, and their gray levels correlate.  Of equal images one stands
    for all of them.
    Measured on 162 radiographs: copies in half the size, as JPEG, or in another contrast correlate
    by 0.986 or more; on drawn ones of 64 pixels, different images with like outlines by 0.976 at
    most.  Only the first ``MAX_PAIRS`` are looked at.
    """
    firsts = [group[0] for group in groups]
    if len(firsts) < 2:
        return []
    outlines = b"".join(bytes.fromhex(one.facts.outline) for one in firsts if one.facts)
    bits = np.unpackbits(np.frombuffer(outlines, dtype=np.uint8)).reshape(len(firsts), -1)
    whose = [(one.split, one.patient) for one in firsts]
    near = sorted({(a, b) for a, b in _near_pairs(bits) if whose[a] != whose[b]})[:MAX_PAIRS]
    by_path = {(firsts[a].path, firsts[b].path): (firsts[a], firsts[b]) for a, b in near}
    found = [
        by_path[paths]
        for paths, answer in answers(likeness_work, by_path, workers, seconds=SECONDS)
        if not isinstance(answer, ProcessLost) and answer[0] >= MIN_LIKENESS
    ]
    for first, second in found:
        problems.add("near-duplicates", f"{first} ~ {second}")
    return found


def _near_pairs(outlines: npt.NDArray[np.uint8]) -> Iterator[tuple[int, int]]:
    """Give pairs of rows [n, 256] that differ in at most ``MAX_BITS`` bits; may repeat some.

    Of ``MAX_BITS + 1`` bands of bits such a pair has one in common.  A band takes every eighth bit,
    because neighboring bits are alike in most radiographs.  Groups of thousands, which only
    empty pictures form, are cut.
    """
    for band in range(_BANDS):
        groups: dict[bytes, list[int]] = defaultdict(list)
        for row, key in enumerate(np.packbits(outlines[:, band::_BANDS], axis=1)):
            groups[key.tobytes()].append(row)
        for group in groups.values():
            members = np.array(group[:_MAX_GROUP])
            for place, row in enumerate(members[:-1]):
                others = members[place + 1 :]
                near = (outlines[others] != outlines[row]).sum(axis=1) <= MAX_BITS
                yield from ((int(row), int(other)) for other in others[near])
