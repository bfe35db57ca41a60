"""The images of a manifest: what each holds, what is wrong with it, and which occur twice."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
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
from cxrtext.datasets.checking.manifest import ListedImage
from cxrtext.datasets.checking.problems import Problems
from cxrtext.images.sandbox import ProcessLost, answers
from cxrtext.pausing import StageProgress

SUSPICIOUS = (
    *("image-constant", "image-exposure", "view-lateral", "image-shape", "not-admitted"),
    *("looks-otherwise", "burned-in"),
)
"""Kinds of problem that are worth a look at the image."""

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


def is_lateral(view: str) -> bool:
    """By its name, as manifests and DICOM have it, in capitals."""
    return view in _LATERALS or view.startswith("LAT") or read_view(view) == LATERAL


def suspicions(image: ListedImage, facts: ImageFacts) -> list[str]:
    short, long = sorted((facts.width, facts.height))
    blank = facts.high - facts.low < _MIN_RANGE
    lateral = is_lateral(image.view) or is_lateral(facts.view)
    found = {
        "image-constant": facts.constant,
        "image-exposure": blank or not _DARK <= facts.mean <= _BRIGHT,
        "view-lateral": lateral,
        "image-shape": long > _MAX_ASPECT * short or short < _MIN_SIDE,
        "looks-otherwise": facts.looks and not lateral and not blank,
        "not-admitted": facts.refused and not lateral,
        "burned-in": facts.burned_in,
    }
    if facts.constant:
        found["image-exposure"] = False
    return [code for code, holds in found.items() if holds]


def note_images(images: Sequence[ListedImage], problems: Problems) -> dict[str, list[ListedImage]]:
    """Note what is wrong with single images; return what looks suspicious, by the kind's code."""
    suspicious: dict[str, list[ListedImage]] = defaultdict(list)
    for image in images:
        if image.facts is None:
            problems.add("image-missing", str(image))
        elif image.facts.fault:
            problems.add("image-unreadable", f"{image}: {image.facts.fault}")
        else:
            for code in suspicions(image, image.facts):
                why = f": {image.facts.refused}" if code == "not-admitted" else ""
                if code == "looks-otherwise":
                    why = f": {image.facts.looks} ({image.facts.sure:.2f})"
                problems.add(code, f"{image}{why}")
                suspicious[code].append(image)
    return suspicious


def _relation(group: Sequence[ListedImage]) -> str:
    """The code of what equal images have in common, the worst of it."""
    if len({image.split for image in group}) > 1:
        return "same-image-in-two-splits"
    if len({image.patient for image in group}) > 1:
        return "same-image-of-two-patients"
    return "same-image-again"


def note_duplicates(images: Sequence[ListedImage], problems: Problems) -> list[list[ListedImage]]:
    """Note images of equal 8-bit pixels, but constant ones; give those read, by content."""
    by_pixels: dict[str, list[ListedImage]] = defaultdict(list)
    for image in images:
        if image.read and not image.read.constant:
            by_pixels[image.read.pixel_digest].append(image)
    for first, *others in by_pixels.values():
        relation = _relation([first, *others])
        for other in others:
            files = {image.facts.file_digest for image in (first, other) if image.facts}
            how = "same file" if len(files) == 1 else "same pixels"
            problems.add(relation, f"{first} = {other}: {how}")
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
