"""The images of a manifest: what each holds, what is wrong with it, and which occur twice."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cxrtext.datasets.checking.facts import FactsCache, ImageFacts, Stamp, facts_work, likeness_work
from cxrtext.datasets.checking.manifest import ListedImage
from cxrtext.datasets.checking.problems import Problems
from cxrtext.images.sandbox import ProcessLost, answers

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

SUSPICIOUS = (
    *("image-constant", "image-blank", "image-dark", "image-bright", "view-lateral"),
    *("odd-shape", "image-small", "other-modality", "view-differs"),
)
"""Kinds of problem that are worth a look at the image."""

MAX_BITS = 7  # most of the 256 bits of two outlines that differ between near-duplicates
MIN_LIKENESS = 0.98  # least correlation of near-duplicates
MAX_PAIRS = 2000  # most pairs that are read again
_BANDS = MAX_BITS + 1
_MAX_GROUP = 2000
_LATERALS = {"LL", "RL", "LAT", "L", "R", "XTABLE LATERAL", "LLO", "RLO"}
_DARK, _BRIGHT = 20.0, 235.0
_MIN_RANGE = 10
_MAX_ASPECT = 1.6
_MIN_SIDE = 64
_RADIOGRAPHS = {"CR", "DX", "RF", "RG", "XA", ""}


def read_images(
    images: Sequence[ListedImage],
    cache: FactsCache,
    workers: int,
    seconds: float,
    progress: Progress,
) -> list[ImageFacts | None]:
    """Give what each image holds, from the cache or read anew; None where it is missing."""
    facts: list[ImageFacts | None] = [None] * len(images)
    places: dict[str, list[int]] = defaultdict(list)
    stamps: dict[str, Stamp] = {}
    for place, image in enumerate(images):
        reason = absent(image)
        if reason is None and (stamp := _stamp(image.path)) is not None:
            stamps[image.path] = stamp
            facts[place] = cache.get(image.path, stamp)
            if facts[place] is None:
                places[image.path].append(place)
        elif reason:
            facts[place] = ImageFacts(fault=f"{reason}; correct the row")
    done, total = len(images) - sum(map(len, places.values())), len(images)
    progress("reading images", done, total)
    for name, answer in answers(facts_work, list(places), workers, seconds=seconds):
        if isinstance(answer, ProcessLost):
            found = ImageFacts(fault=answer.line("read"))
        else:
            found = ImageFacts(**answer[0])
        cache.put(name, stamps[name], found)
        for place in places[name]:
            facts[place] = found
            done += 1
        progress("reading images", done, total)
    return facts


def _stamp(path: str) -> Stamp | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None  # removed a moment ago
    return status.st_size, status.st_mtime_ns


def is_lateral(view: str) -> bool:
    """Tell a lateral view by its name, as manifests and DICOM have it, in capitals."""
    return view.startswith("LAT") or view.endswith("LATERAL") or view in _LATERALS


def absent(image: ListedImage) -> str | None:
    """Say why there is no image file to read, or None where there is one."""
    path = Path(image.path)
    try:
        if path.is_file():
            return None
        return "is not a file" if path.exists() else ""
    except (OSError, ValueError):
        return "has a name that cannot be a file's"


def suspicions(image: ListedImage, facts: ImageFacts) -> list[str]:
    """Return the codes of what looks wrong in an image that can be read."""
    found: list[str] = []
    if facts.constant:
        found.append("image-constant")
    elif facts.high - facts.low < _MIN_RANGE:
        found.append("image-blank")
    elif facts.mean < _DARK:
        found.append("image-dark")
    elif facts.mean > _BRIGHT:
        found.append("image-bright")
    if is_lateral(image.view) or is_lateral(facts.view):
        found.append("view-lateral")
    elif image.view and facts.view and image.view.split()[0] != facts.view.split()[0]:
        found.append("view-differs")
    short, long = sorted((facts.width, facts.height))
    if long > _MAX_ASPECT * short:
        found.append("odd-shape")
    if short < _MIN_SIDE:
        found.append("image-small")
    if facts.modality not in _RADIOGRAPHS:
        found.append("other-modality")
    return found


def note_images(
    images: Sequence[ListedImage], facts: Sequence[ImageFacts | None], problems: Problems
) -> dict[str, list[int]]:
    """Note what is wrong with single images.

    Returns:
        The places, in ``images``, of what looks suspicious, by the kind's code.
    """
    suspicious: dict[str, list[int]] = defaultdict(list)
    for place, (image, fact) in enumerate(zip(images, facts, strict=True)):
        if fact is None:
            problems.add("image-missing", f"{image.name} (row {image.row})")
            continue
        if fact.fault:
            problems.add("image-unreadable", f"{image.name} (row {image.row}): {fact.fault}")
            continue
        for code in suspicions(image, fact):
            problems.add(code, f"{image.name} (row {image.row})")
            suspicious[code].append(place)
        if not (image.view or fact.view):
            problems.add("view-unknown", f"{image.name} (row {image.row})")
    return suspicious


def _relation(group: Sequence[ListedImage]) -> str:
    """The code of what equal images have in common, the worst of it."""
    if len({image.split for image in group}) > 1:
        return "same-image-in-two-splits"
    if len({image.patient for image in group}) > 1:
        return "same-image-of-two-patients"
    return (
        "same-image-of-two-studies"
        if len({image.study for image in group}) > 1
        else "same-image-twice"
    )


def _usable(fact: ImageFacts | None) -> bool:
    return fact is not None and not fact.fault and not fact.constant


def note_duplicates(
    images: Sequence[ListedImage], facts: Sequence[ImageFacts | None], problems: Problems
) -> list[list[int]]:
    """Note images of equal 8-bit pixels, whatever files they lie in.

    A DICOM file and a PNG copy of what it shows are found, and so are equal files.  Images of one
    gray level are left out.

    Args:
        facts: What each holds; None where it is missing.

    Returns:
        The groups: places in ``images``, the first of the list first.
    """
    by_pixels: dict[str, list[int]] = defaultdict(list)
    for place, fact in enumerate(facts):
        if fact is not None and _usable(fact):
            by_pixels[fact.pixel_digest].append(place)
    groups = [group for group in by_pixels.values() if len(group) > 1]
    for group in groups:
        members = [images[place] for place in group]
        files = {fact.file_digest for place in group if (fact := facts[place])}
        how = "same file" if len(files) == 1 else "same pixels"
        names = " = ".join(f"{image.name} (row {image.row})" for image in members[:2])
        problems.add(_relation(members), f"{names}: {how}", len(group) - 1)
    return groups


def near_duplicates(
    images: Sequence[ListedImage], facts: Sequence[ImageFacts | None], workers: int, seconds: float
) -> list[tuple[int, int]]:
    """Find pairs whose outlines differ in few bits and whose gray levels correlate.

    Of equal images one stands for all of them.  Measured on 162 radiographs: copies in half the
    size, as JPEG, or in another contrast correlate by 0.986 or more; on drawn ones of 64 pixels,
    different images with like outlines by 0.976 at most.

    Args:
        facts: What each holds; None where it is missing.

    Returns:
        The pairs, as places in ``images``; of the first ``MAX_PAIRS`` alone.
    """
    places: list[int] = []
    seen: set[str] = set()
    for place, fact in enumerate(facts):
        if fact is not None and _usable(fact) and fact.pixel_digest not in seen:
            seen.add(fact.pixel_digest)
            places.append(place)
    if len(places) < 2:
        return []
    outlines = np.stack([_bits(facts[place]) for place in places])
    candidates = sorted({(places[a], places[b]) for a, b in _near_pairs(outlines)})[:MAX_PAIRS]
    by_path = {(images[a].path, images[b].path): (a, b) for a, b in candidates}
    return sorted(
        by_path[paths]
        for paths, answer in answers(likeness_work, by_path, workers, seconds=seconds)
        if not isinstance(answer, ProcessLost) and answer[0] >= MIN_LIKENESS
    )


def note_near_duplicates(
    images: Sequence[ListedImage], pairs: Sequence[tuple[int, int]], problems: Problems
) -> None:
    """Note pairs that look almost the same; those of two patients or splits are worse."""
    for a, b in pairs:
        first, second = images[a], images[b]
        apart = (first.split, first.patient) != (second.split, second.patient)
        names = f"{first.name} (row {first.row}) ~ {second.name} (row {second.row})"
        problems.add("near-duplicates-apart" if apart else "near-duplicates", names)


def _bits(fact: ImageFacts | None) -> npt.NDArray[np.uint8]:
    outline = bytes.fromhex(fact.outline if fact else "")
    return np.unpackbits(np.frombuffer(outline, dtype=np.uint8))


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
