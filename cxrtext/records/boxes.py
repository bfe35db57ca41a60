"""Boxes with the sentence each one illustrates: COCO JSON as MS-CXR lays it out, and CSV."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxrtext.errors import DataError
from cxrtext.files import check_listed, write_json
from cxrtext.records.study import Rejected
from cxrtext.records.tables import read_table

FILE_LIMIT = 2**28  # largest box file that is read, in bytes: JSON is read whole
_IMAGE = ("image", "dicom_id", "path")
_TEXT = ("label_text", "phrase")
_FINDING = ("finding", "category_name")


@dataclass(frozen=True, slots=True)
class Box:
    """A box in an image.

    Args:
        image: The ``image`` cell of the manifest.
        width: Width of the image, in original pixels; 0 where a table does not say.
        height: Height of the image, in original pixels; 0 where a table does not say.
        finding: The category, such as "Pneumonia".
        label_text: The sentence that the box illustrates.
        bbox: x, y, w, h in original pixels, from the top left corner.
    """

    image: str
    width: int
    height: int
    finding: str
    label_text: str
    bbox: tuple[float, float, float, float]


def write_boxes(path: Path, boxes: Iterable[Box]) -> None:
    """Write boxes as COCO JSON with ``label_text``, whole or not at all.

    Raises:
        DataError: Two boxes give one image different sizes.
    """
    images: dict[str, dict[str, object]] = {}
    categories: dict[str, int] = {}
    annotations: list[dict[str, object]] = []
    for box in boxes:
        entry = images.setdefault(
            box.image,
            {
                "id": len(images) + 1,
                "file_name": box.image,
                "width": box.width,
                "height": box.height,
            },
        )
        if (entry["width"], entry["height"]) != (box.width, box.height):
            raise DataError(f"{path}: image '{box.image}' has boxes for two image sizes")
        category = categories.setdefault(box.finding, len(categories) + 1)
        annotations.append(
            {
                "id": len(annotations) + 1,
                "image_id": entry["id"],
                "category_id": category,
                "label_text": box.label_text,
                "bbox": list(box.bbox),
                "area": box.bbox[2] * box.bbox[3],
                "iscrowd": 0,
            }
        )
    write_json(
        path,
        {
            "images": list(images.values()),
            "annotations": annotations,
            "categories": [{"id": number, "name": name} for name, number in categories.items()],
        },
    )


def _box(
    image: str, size: Iterable[Any], finding: str, label_text: str, bbox: Iterable[Any]
) -> Box | str:
    """A box from values that nothing vouches for, or what is wrong with them."""
    try:
        x, y, w, h = (float(value) for value in bbox)
        width, height = (int(float(value or 0)) for value in size)
    except (ValueError, TypeError, OverflowError):
        return "x, y, w, h or the size of the image must be numbers; fix them"
    if not all(map(math.isfinite, (x, y, w, h))) or w <= 0 or h <= 0 or width < 0 or height < 0:
        return "a box has a width and a height above 0; fix them"
    # Boxes drawn by hand may stand a pixel over the edge, and those of a resized image more.
    if x + w <= 0 or y + h <= 0 or (width and x >= width) or (height and y >= height):
        return "the box lies outside its image; fix it"
    if not image.strip():
        return "the image is not named; name it"
    return Box(image.strip(), width, height, finding, label_text, (x, y, w, h))


def _load_coco(path: Path) -> Mapping[str, list[Any]]:
    check_listed(path, DataError)
    try:
        if path.stat().st_size > FILE_LIMIT:
            raise DataError(f"{path}: larger than {FILE_LIMIT >> 20} MiB; is it a box file?")
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path}: not readable JSON in UTF-8; save it again") from None
    parts = ("images", "annotations", "categories")
    if not isinstance(value, dict) or not all(isinstance(value.get(p, []), list) for p in parts):
        raise DataError(f"{path}: no COCO JSON: it has no lists {', '.join(parts)}")
    if "images" not in value or "annotations" not in value:
        raise DataError(f"{path}: no COCO JSON: 'images' or 'annotations' is missing")
    return value


def _by_id(entries: list[Any]) -> dict[Any, dict[str, Any]]:
    return {
        entry["id"]: entry
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("id"), (int, str))
    }


def _text(value: Any) -> str:
    """MS-CXR gives a sentence as text, or as a list of one."""
    if isinstance(value, list):
        return " ".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _coco_boxes(path: Path) -> Iterator[Box | Rejected]:
    coco = _load_coco(path)
    images, categories = _by_id(coco["images"]), _by_id(coco.get("categories", []))
    for number, entry in enumerate(coco["annotations"], 1):
        item = f"annotation {number}"
        if not isinstance(entry, dict) or not isinstance(entry.get("bbox"), list):
            yield Rejected(item, "it has no bbox; fix or remove it")
            continue
        key, kind = entry.get("image_id"), entry.get("category_id")
        image = images.get(key) if isinstance(key, (int, str)) else None
        if image is None:
            yield Rejected(item, "its image_id is that of no image; fix or remove it")
            continue
        category = categories.get(kind, {}) if isinstance(kind, (int, str)) else {}
        found = _box(
            _text(image.get("file_name") or image.get("path")),
            (image.get("width"), image.get("height")),
            _text(category.get("name")),
            _text(entry.get("label_text")),
            entry["bbox"],
        )
        yield found if isinstance(found, Box) else Rejected(item, found)


def _csv_boxes(path: Path) -> Iterator[Box | Rejected]:
    table = read_table(path, required=["x", "y", "w", "h"])
    names = [next((n for n in some if n in table.columns), "") for some in (_IMAGE, _TEXT)]
    if not all(names):
        raise DataError(
            f"{path}: no boxes: columns are image, label_text, x, y, w, h, and if wanted finding, "
            f"width, height (columns found: {', '.join(table.columns)})"
        )
    finding = next((n for n in _FINDING if n in table.columns), names[1])
    for number, row in enumerate(table.rows, 1):
        found = _box(
            row[names[0]],
            tuple(row.get(n) or row.get(f"image_{n}") for n in ("width", "height")),
            row[finding],
            row[names[1]],
            (row["x"], row["y"], row["w"], row["h"]),
        )
        yield found if isinstance(found, Box) else Rejected(f"row {number}", found)


def iter_boxes(path: Path) -> Iterator[Box | Rejected]:
    """Give the boxes of a file, and what was rejected among them.

    Args:
        path: COCO JSON (``.json``), whose annotations have ``bbox`` and ``label_text``; or a table
            (``.csv``, ``.parquet``) with ``image``, ``label_text``, ``x``, ``y``, ``w``, ``h`` and
            if wanted ``finding``, ``width``, ``height``.  MS-CXR's own columns are taken too.

    Raises:
        DataError: The file cannot be read as either.
    """
    if path.suffix.lower() in (".csv", ".parquet"):
        return _csv_boxes(path)
    if path.suffix.lower() != ".json":
        raise DataError(f"{path}: a box file ends in .json (COCO), .csv or .parquet")
    return _coco_boxes(path)


def read_boxes(path: Path) -> list[Box]:
    """Read the boxes of a file; see ``iter_boxes``.

    Raises:
        DataError: The file cannot be read, or a box in it is wrong.
    """
    boxes = []
    for entry in iter_boxes(path):
        if isinstance(entry, Rejected):
            raise DataError(f"{path}: {entry.item}: {entry.reason}")
        boxes.append(entry)
    return boxes
