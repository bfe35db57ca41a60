"""Boxes from COCO JSON or CSV, read past their faults."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxrtext.datasets.checking.rows import BadRow, Rows
from cxrtext.errors import DataError

LARGEST = 2**30
"""Largest JSON file that is read, in bytes."""


@dataclass(frozen=True, slots=True)
class FoundBox:
    """A box as its file has it, right or wrong.

    Args:
        where: "row 3" or "annotation 3".
        image: The image it names; None where it names none.
        finding: Its category; "" where there is none.
        phrase: Its sentence; "" where there is none.
        bbox: x, y, w, h; None where they are not four finite numbers.
        declared: Width and height of the image as the file tells; None where it does not.
    """

    where: str
    image: str | None
    finding: str
    phrase: str
    bbox: tuple[float, float, float, float] | None
    declared: tuple[float, float] | None


def read_boxes(path: Path) -> Iterator[FoundBox]:
    """Read boxes one by one.

    Args:
        path: COCO JSON as MS-CXR lays it out, or CSV with ``image, label_text, x, y, w, h``.

    Raises:
        DataError: The file is not there or is neither.
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
        if isinstance(item, BadRow):
            yield FoundBox(f"row {item.row}", None, "", "", None, None)
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
        if path.stat().st_size > LARGEST:
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
