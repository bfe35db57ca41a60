"""Images that occur twice: the same file, the same pixels, or almost the same picture."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from cxrtext.datasets.checking.image_facts import ImageFacts, likeness_work
from cxrtext.datasets.checking.listing import ListedImage
from cxrtext.datasets.checking.problems import Kind, Problems, Severity
from cxrtext.datasets.checking.processes import Lost, answers

IN_SPLITS = Kind(
    "same-image-in-two-splits",
    Severity.ERROR,
    "images with the same content in two splits",
    "keep one of them: figures on the held-out images would be too good",
)
OF_PATIENTS = Kind(
    "same-image-of-two-patients",
    Severity.ERROR,
    "images with the same content under two patients",
    "find whose image it is and remove the other row: one of them has a wrong report",
)
OF_STUDIES = Kind(
    "same-image-of-two-studies",
    Severity.WARNING,
    "images with the same content under two studies",
    "find which study it belongs to and remove the other row",
)
IN_STUDY = Kind(
    "same-image-twice",
    Severity.NOTE,
    "images with the same content twice in a study",
    "keep one of them; the study counts twice in training",
)
NEAR = Kind(
    "near-duplicates",
    Severity.NOTE,
    "pairs of images that look almost the same",
    "look at them: copies in another size or contrast, or one patient the same day",
)
NEAR_APART = Kind(
    "near-duplicates-apart",
    Severity.WARNING,
    "pairs of images of two patients or splits that look almost the same",
    "look at them: the same image under two names makes figures too good",
)

NEAREST = 7
"""Most of the 256 bits of two outlines that differ between near-duplicates."""

LEAST_LIKENESS = 0.98
"""Least correlation of near-duplicates."""

MOST_PAIRS = 2000
"""Most pairs that are read again."""

_BANDS = NEAREST + 1
_LARGEST_GROUP = 2000


def _relation(group: Sequence[ListedImage]) -> Kind:
    """What equal images have in common, the worst of it."""
    if len({image.split for image in group}) > 1:
        return IN_SPLITS
    if len({image.patient for image in group}) > 1:
        return OF_PATIENTS
    return OF_STUDIES if len({image.study for image in group}) > 1 else IN_STUDY


def _usable(fact: ImageFacts | None) -> bool:
    return fact is not None and not fact.fault and not fact.constant


def note_duplicates(
    images: Sequence[ListedImage], facts: Sequence[ImageFacts | None], problems: Problems
) -> list[list[int]]:
    """Note images of equal 8-bit pixels, whatever files they lie in.

    A DICOM file and a PNG copy of what it shows are found, and so are equal files.  Images of one
    grey level are left out.

    Args:
        images: The images that are listed.
        facts: What each holds; None where it is missing.
        problems: Each image beyond the first of its group is counted.

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
    images: Sequence[ListedImage],
    facts: Sequence[ImageFacts | None],
    workers: int,
    seconds: float,
) -> list[tuple[int, int]]:
    """Find pairs whose outlines differ in few bits and whose grey levels correlate.

    Of equal images one stands for all of them.  Measured on 162 radiographs: copies in half the
    size, as JPEG, or in another contrast correlate by 0.986 or more; on drawn ones of 64 pixels,
    different images with like outlines by 0.976 at most.

    Args:
        images: The images that are listed.
        facts: What each holds; None where it is missing.
        workers: Processes that read the pairs again.
        seconds: Longest time for a pair.

    Returns:
        The pairs, as places in ``images``; of the first ``MOST_PAIRS`` alone.
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
    candidates = sorted({(places[a], places[b]) for a, b in _near_pairs(outlines)})[:MOST_PAIRS]
    by_path = {(images[a].path, images[b].path): (a, b) for a, b in candidates}
    return sorted(
        by_path[paths]
        for paths, answer in answers(likeness_work, by_path, workers, seconds=seconds)
        if not isinstance(answer, Lost) and answer[0] >= LEAST_LIKENESS
    )


def note_near_duplicates(
    images: Sequence[ListedImage], pairs: Sequence[tuple[int, int]], problems: Problems
) -> None:
    """Note pairs that look almost the same; those of two patients or splits are worse."""
    for a, b in pairs:
        first, second = images[a], images[b]
        apart = (first.split, first.patient) != (second.split, second.patient)
        names = f"{first.name} (row {first.row}) ~ {second.name} (row {second.row})"
        problems.add(NEAR_APART if apart else NEAR, names)


def _bits(fact: ImageFacts | None) -> npt.NDArray[np.uint8]:
    outline = bytes.fromhex(fact.outline if fact else "")
    return np.unpackbits(np.frombuffer(outline, dtype=np.uint8))


def _near_pairs(outlines: npt.NDArray[np.uint8]) -> Iterator[tuple[int, int]]:
    """Give pairs of rows [n, 256] that differ in at most ``NEAREST`` bits; may repeat some.

    Of ``NEAREST + 1`` bands of bits such a pair has one in common.  A band takes every eighth bit,
    because neighbouring bits are alike in most radiographs.  Groups of thousands, which only
    empty pictures form, are cut.
    """
    for band in range(_BANDS):
        groups: dict[bytes, list[int]] = defaultdict(list)
        for row, key in enumerate(np.packbits(outlines[:, band::_BANDS], axis=1)):
            groups[key.tobytes()].append(row)
        for group in groups.values():
            members = np.array(group[:_LARGEST_GROUP])
            for place, row in enumerate(members[:-1]):
                others = members[place + 1 :]
                near = (outlines[others] != outlines[row]).sum(axis=1) <= NEAREST
                yield from ((int(row), int(other)) for other in others[near])
