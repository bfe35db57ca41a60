"""Boxes of a data folder, brought to the images of a cohort."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from cxrtext.evaluation.box_mask import box_mask
from cxrtext.evaluation.cohort import Cohort
from cxrtext.records import Box

BoxRow = tuple[float, float, float, float]

ASPECT = 0.02
"""Share by which the sides of an image may be scaled unevenly before its boxes are left out."""

NO_SENTENCE = "boxes without a sentence"
NOT_ONE_SIZE = "boxes that count in another image's size"
NO_PIXEL = "boxes that cover no pixel of their image"


@dataclass(frozen=True, slots=True)
class PlacedBox:
    """A box in an image of the cohort.

    Args:
        row: The image's place in the cohort.
        finding: The category.
        text: The sentence that the box illustrates.
        bbox: x, y, width and height in original pixels.
    """

    row: int
    finding: str
    text: str
    bbox: BoxRow


@dataclass(frozen=True, slots=True)
class Phrase:
    """A sentence with all its boxes in one image.

    Args:
        row: The image's place in the cohort.
        finding: The category; of several, the first.
        text: The sentence.
        boxes: [k, 4], in original pixels.
    """

    row: int
    finding: str
    text: str
    boxes: tuple[BoxRow, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """The boxes of a cohort.

    Args:
        boxes: Those that can be used, in the order of the images.
        left_out: How many were left out, by reason; boxes of images outside the cohort are not
            counted, as they belong to another split.
    """

    boxes: list[PlacedBox]
    left_out: Counter[str]

    @property
    def phrases(self) -> list[Phrase]:
        """The boxes, gathered by image and sentence."""
        gathered: dict[tuple[int, str], list[PlacedBox]] = defaultdict(list)
        for box in self.boxes:
            gathered[box.row, box.text].append(box)
        return [
            Phrase(row, some[0].finding, text, tuple(box.bbox for box in some))
            for (row, text), some in gathered.items()
        ]


def place_boxes(boxes: Iterable[Box], cohort: Cohort) -> Placed:
    """Bring boxes to the images of a cohort.

    An image is found by its name, else by the stem of its file where only one has it (MS-CXR says
    ``.jpg``, an archive ``.dcm``).  Boxes drawn on a resized copy are scaled to the image.

    Args:
        boxes: The boxes.
        cohort: The images.
    """
    find = _Finder([record.name for record in cohort.records])
    placed: list[PlacedBox] = []
    left_out: Counter[str] = Counter()
    for box in boxes:
        row = find.row(box.image)
        if row is None:
            continue
        bbox = _scaled(box, cohort.sizes[row])
        if not box.label_text.strip():
            left_out[NO_SENTENCE] += 1
        elif bbox is None:
            left_out[NOT_ONE_SIZE] += 1
        elif not _covers(bbox, cohort.sizes[row]):
            left_out[NO_PIXEL] += 1
        else:
            placed.append(PlacedBox(row, box.finding, box.label_text.strip(), bbox))
    return Placed(sorted(placed, key=lambda box: box.row), left_out)


class _Finder:
    """Finds images by name, or by the stem of their file."""

    def __init__(self, names: Sequence[str]) -> None:
        self._rows = {name: row for row, name in enumerate(names)}
        stems = Counter(PurePosixPath(name).stem for name in names)
        self._stems = {
            PurePosixPath(name).stem: row
            for row, name in enumerate(names)
            if stems[PurePosixPath(name).stem] == 1
        }

    def row(self, name: str) -> int | None:
        """The place of an image, or None."""
        found = self._rows.get(name)
        return self._stems.get(PurePosixPath(name).stem) if found is None else found


def _scaled(box: Box, size: tuple[int, int]) -> BoxRow | None:
    height, width = size
    if not (box.width and box.height) or (box.width, box.height) == (width, height):
        return box.bbox
    across, down = width / box.width, height / box.height
    if abs(across / down - 1) > ASPECT:
        return None
    x, y, w, h = box.bbox
    return x * across, y * down, w * across, h * down


def _covers(bbox: BoxRow, size: tuple[int, int]) -> bool:
    # Only the rows and columns matter, so a mask of one line each will do.
    x, y, w, h = bbox
    try:
        box_mask(np.array([x, 0, w, 1]), (1, size[1]))
        box_mask(np.array([0, y, 1, h]), (size[0], 1))
    except ValueError:
        return False
    return True
