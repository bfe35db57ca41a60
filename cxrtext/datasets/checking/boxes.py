"""Boxes from COCO JSON or CSV, read past their faults, and what is wrong with them."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxrtext.datasets.checking.facts import ImageFacts
from cxrtext.datasets.checking.manifest import ListedImage, Rows
from cxrtext.datasets.checking.problems import Problems, printable
from cxrtext.datasets.checking.report import FactTable
from cxrtext.errors import DataError
from cxrtext.records import Rejected

MAX_BYTES = 2**30  # largest JSON file that is read
_TOLERANCE = 1.0
_MAX_FINDINGS = 40


@dataclass(frozen=True, slots=True)
class FoundBox:
    """A box as its file has it, right or wrong."""

    where: str  # "row 3" or "annotation 3"
    image: str | None  # the image it names; None where it names none
    finding: str  # its category; "" where there is none
    phrase: str  # its sentence; "" where there is none
    # x, y, w, h; None where they are not four finite numbers.
    bbox: tuple[float, float, float, float] | None
    # width and height of the image as the file tells; None where it does not.
    declared: tuple[float, float] | None


def read_boxes(path: Path) -> Iterator[FoundBox]:
    """Read boxes one by one.

    Args:
        path: COCO JSON as MS-CXR lays it out, or CSV with ``image, label_text, x, y, w, h``.
    """
    if path.suffix.lower() == ".json":
        return _coco(path)
    return _table(path)


def _bbox(values: Any) -> tuple[float, float, float, float] | None:
    try:
        x, y, w, h = (float(value) for value in values)
    except (TypeError, ValueError):
        return None
    return (x, y, w, h) if all(map(math.isfinite, (x, y, w, h))) else None


def _size(width: Any, height: Any) -> tuple[float, float] | None:
    found = _bbox((width, height, 0, 0))
    return None if found is None else found[:2]


def _table(path: Path) -> Iterator[FoundBox]:
    rows = Rows(path)
    rows.require("image", "x", "y", "w", "h")
    for item in rows:
        if isinstance(item, Rejected):
            yield FoundBox(item.item, None, "", "", None, None)
            continue
        number, cells = item
        yield FoundBox(
            where=f"row {number}",
            image=cells["image"].strip() or None,
            finding=cells.get("finding", "") or cells.get("category_name", ""),
            phrase=cells.get("label_text", "") or cells.get("phrase", ""),
            bbox=_bbox([cells[name] for name in "xywh"]),
            declared=_size(cells.get("image_width"), cells.get("image_height")),
        )


def _lists(path: Path) -> dict[str, list[dict[str, Any]]]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(f"{path}: is larger than 1 GiB; divide it")
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path}: not readable JSON; write it again") from None
    if not isinstance(content, dict):
        content = {}
    for name in ("images", "annotations"):
        if not isinstance(content.get(name), list):
            raise DataError(f"{path}: has no list '{name}'; boxes are COCO JSON as in MS-CXR")
    return {
        name: [one if isinstance(one, dict) else {} for one in value]
        for name, value in content.items()
        if isinstance(value, list)
    }


def _coco(path: Path) -> Iterator[FoundBox]:
    lists = _lists(path)
    images = {str(one.get("id")): one for one in lists["images"]}
    names = {str(one.get("id")): str(one.get("name", "")) for one in lists.get("categories", [])}
    for number, one in enumerate(lists["annotations"], 1):
        image = images.get(str(one.get("image_id")), {})
        name = image.get("path") or image.get("file_name")
        yield FoundBox(
            where=f"annotation {number}",
            image=str(name) if name else None,
            finding=names.get(str(one.get("category_id")), ""),
            phrase=str(one.get("label_text") or ""),
            bbox=_bbox(one.get("bbox")),
            declared=_size(image.get("width"), image.get("height")),
        )


class _Images:
    """The size of each image by name; None where unknown."""

    def __init__(self, images: Sequence[ListedImage], facts: Sequence[ImageFacts | None]) -> None:
        self._sizes: dict[str, tuple[int, int] | None] = {}
        self._by_stem: dict[str, str] = {}
        for image, fact in zip(images, facts, strict=True):
            known = fact is not None and not fact.fault
            self._sizes[image.name] = (fact.width, fact.height) if fact and known else None
            self._by_stem[Path(image.name).stem] = image.name

    def find(self, name: str) -> str | None:
        """The image of the manifest; MS-CXR names it by its file's name alone."""
        return name if name in self._sizes else self._by_stem.get(Path(name).stem)

    def size(self, name: str) -> tuple[int, int] | None:
        return self._sizes[name]


def check_boxes(
    path: Path,
    images: Sequence[ListedImage],
    facts: Sequence[ImageFacts | None],
    problems: Problems,
) -> tuple[FactTable, dict[str, int]] | None:
    """Read boxes and note what is wrong with them.

    Returns:
        Boxes by finding, and counts for the summary; None where the file cannot be read.
    """
    known = _Images(images, facts)
    findings: Counter[str] = Counter()
    phrases: set[int] = set()
    boxed: set[str] = set()
    total = 0
    try:
        for box in read_boxes(path):
            total += 1
            findings[printable(box.finding.strip())[:40] or "(none)"] += 1
            if box.phrase.strip():
                phrases.add(hash(" ".join(box.phrase.lower().split())))
            else:
                problems.add("box-without-phrase", box.where)
            name = _note(box, known, problems)
            if name is not None:
                boxed.add(name)
    except DataError as error:
        problems.add("boxes-unusable", str(error))
        return None
    rows = [(name, str(count)) for name, count in findings.most_common(_MAX_FINDINGS)]
    counts = {"boxes": total, "images with boxes": len(boxed), "different phrases": len(phrases)}
    return FactTable("Boxes", ("finding", "boxes"), rows), counts


def _note(box: FoundBox, known: _Images, problems: Problems) -> str | None:
    """Note what is wrong with a box; return its image."""
    name = None if box.image is None else known.find(box.image)
    where = f"{box.where} ({name})" if name else box.where
    if name is None:
        problems.add("box-without-image", f"{box.where}: {box.image or 'names none'}")
    if box.bbox is None:
        problems.add("box-unreadable", where)
        return name
    x, y, w, h = box.bbox
    if w <= 0 or h <= 0:
        problems.add("box-size", where)
        return name
    actual = known.size(name) if name else None
    if actual and box.declared and actual != box.declared:
        problems.add("box-image-resized", where)
    within = box.declared or actual
    if within is None:
        return name
    width, height = within
    low = min(x, y) < -_TOLERANCE
    if low or x + w > width + _TOLERANCE or y + h > height + _TOLERANCE:
        problems.add("box-outside", where)
    return name
