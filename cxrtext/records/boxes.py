"""Boxes and masks with their sentences, and sentences without a box.

Files are COCO JSON as in MS-CXR, or tables.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxrtext.errors import DataError
from cxrtext.files import check_listed, note_source, write_json
from cxrtext.records.decoding import read_json
from cxrtext.records.masks import Runs, box_of_mask, mask_of_runs, read_segmentation
from cxrtext.records.numbers import read_number
from cxrtext.records.rows import TABLES, TableRows
from cxrtext.records.study import LeftOut

SMALLEST = 1.0  # least width and height of a box, in pixels
Corners = tuple[float, float, float, float]  # x, y, w, h in pixels, from the top left

_IMAGE = ("image", "dicom_id", "path")
_TEXT = ("label_text", "phrase")
_FINDING = ("finding", "category_name")


@dataclass(frozen=True, slots=True)
class _Sought:
    image: str  # the ``image`` cell of the manifest
    width: int  # of the image, in original pixels; 0 if a table does not say
    height: int
    finding: str  # the category, such as "Pneumonia"
    label_text: str  # the sentence that was looked for in the image


@dataclass(frozen=True, slots=True)
class Box(_Sought):
    bbox: Corners  # where the image shows what the sentence says, in original pixels
    # the mask, as runs over height x width (see `masks`); None if there is only a box.
    segmentation: Runs | None = None


@dataclass(frozen=True, slots=True)
class Absent(_Sought):
    """A sentence without a box: the image does not show what it says."""


def write_boxes(path: Path, boxes: Iterable[Box | Absent]) -> None:
    """Write COCO JSON with ``label_text``, whole or not at all; ``bbox`` is null without a box."""
    images: dict[str, dict[str, object]] = {}
    categories: dict[str, int] = {}
    annotations: list[dict[str, object]] = []
    for box in boxes:
        entry = {"id": len(images) + 1, "file_name": box.image}
        entry = images.setdefault(box.image, {**entry, "width": box.width, "height": box.height})
        if (entry["width"], entry["height"]) != (box.width, box.height):
            raise DataError(f"{path}: image '{box.image}' has boxes for two image sizes")
        annotations.append(
            {
                "id": len(annotations) + 1,
                "image_id": entry["id"],
                "category_id": categories.setdefault(box.finding, len(categories) + 1),
                "label_text": box.label_text,
                **_drawn(box),
                "iscrowd": 0,
            }
        )
    kinds = [{"id": number, "name": name} for name, number in categories.items()]
    content = {"images": list(images.values()), "annotations": annotations, "categories": kinds}
    write_json(path, content)


def _drawn(box: Box | Absent) -> dict[str, object]:
    if isinstance(box, Absent):
        return {"bbox": None, "area": 0}
    if box.segmentation is None:
        return {"bbox": list(box.bbox), "area": box.bbox[2] * box.bbox[3]}
    counts, size = list(box.segmentation), [box.height, box.width]
    return {
        "bbox": list(box.bbox),
        "area": sum(counts[1::2]),
        "segmentation": {"size": size, "counts": counts},
    }


def _load_coco(path: Path) -> dict[str, list[Any]]:
    check_listed(path, DataError)
    note_source(path)
    value = read_json(path, "is it a box file?", "save it again")
    parts = ("images", "annotations", "categories")
    if not isinstance(value, dict) or not all(isinstance(value.get(p, []), list) for p in parts):
        raise DataError(f"{path}: no COCO JSON: it has no lists {', '.join(parts)}")
    if "images" not in value or "annotations" not in value:
        raise DataError(f"{path}: no COCO JSON: 'images' or 'annotations' is missing")
    return value


def _text(value: Any) -> str:
    """A sentence, which MS-CXR gives as text or as a list with one text."""
    if isinstance(value, list):
        return " ".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _coco_boxes(path: Path) -> Iterator[Box | Absent | LeftOut]:
    coco = _load_coco(path)
    images, categories = (
        {
            entry["id"]: entry
            for entry in coco.get(part, [])
            if isinstance(entry, dict) and isinstance(entry.get("id"), (int, str))
        }
        for part in ("images", "categories")
    )
    for number, entry in enumerate(coco["annotations"], 1):
        annotation = entry if isinstance(entry, dict) else {}
        keys = (annotation.get("image_id"), annotation.get("category_id"))
        image_id, kind = (key if isinstance(key, (int, str)) else None for key in keys)
        image, category = images.get(image_id), categories.get(kind, {})
        bbox = annotation.get("bbox")
        yield _checked(
            f"annotation {number}",
            _text(image.get("file_name") or image.get("path")) if image else None,
            (image.get("width"), image.get("height")) if image else (None, None),
            _text(category.get("name")),
            _text(annotation.get("label_text")),
            bbox if isinstance(bbox, list) else None,
            annotation.get("segmentation"),
            absent="bbox" in annotation and bbox is None,
        )


def _table_boxes(path: Path) -> Iterator[Box | Absent | LeftOut]:
    table = TableRows(path)
    table.require("x", "y", "w", "h")
    image, text, finding = (
        next((name for name in names if name in table.columns), "")
        for names in (_IMAGE, _TEXT, _FINDING)
    )
    if not image or not text:
        raise DataError(
            f"{path}: no boxes: columns are image, label_text, x, y, w, h, and optionally finding, "
            f"width, height, segmentation (columns found: {', '.join(table.columns)})"
        )
    for entry in table:
        if isinstance(entry, LeftOut):
            yield entry
            continue
        number, row = entry
        width, height = (row.get(n) or row.get(f"image_{n}") for n in ("width", "height"))
        absent = not any(row[name].strip() for name in "xywh")
        yield _checked(
            f"row {number}",
            row[image],
            (width, height),
            row.get(finding),
            row[text],
            None if absent else [row[name] for name in "xywh"],
            _segmentation(row.get("segmentation", "")),
            absent=absent,
        )


def _segmentation(cell: str) -> Any:
    """COCO's segmentation from a table cell; text that is not JSON stays as it is."""
    try:
        return json.loads(cell) if cell.strip() else None
    except (ValueError, RecursionError):
        return cell


def _checked(
    where: str, image: str | None, size: tuple[Any, Any], finding: str | None, text: str,
    corners: list[Any] | None, segmentation: Any, *, absent: bool,
) -> Box | Absent | LeftOut:  # fmt: skip
    """A box from the values in its file, or what is wrong with it.

    ``image`` is None if an annotation names none, ``finding`` if a table has no column for it;
    ``absent`` means that there is no box.
    """
    if corners is None and not absent:
        return LeftOut(where, "it has no bbox; fix or remove it")
    if image is None:
        return LeftOut(where, "no image has its image_id; fix or remove it")
    if not (image := image.strip()):
        return LeftOut(where, "the image is not named; name it")
    try:
        width, height = (int(read_number(value or 0)) for value in size)
    except ValueError:
        return LeftOut(where, "the size of the image must be numbers; fix it")
    if width < 0 or height < 0:
        return LeftOut(where, "the size of the image must be above 0; fix it")
    try:
        mask = read_segmentation(segmentation, height, width)
    except ValueError as error:
        return LeftOut(where, str(error))
    runs, height, width = mask or (None, height, width)
    finding = text if finding is None else finding
    if corners is not None:
        bbox = _bbox(where, corners, height, width)
    elif runs is not None:
        bbox = box_of_mask(mask_of_runs(runs, height, width))
    else:
        return Absent(image, width, height, finding, text)
    if isinstance(bbox, LeftOut):
        return bbox
    return Box(image, width, height, finding, text, bbox, runs)


def _bbox(where: str, values: list[Any], height: int, width: int) -> Corners | LeftOut:
    try:
        x, y, w, h = map(read_number, values)
    except ValueError:
        return LeftOut(where, "x, y, w, h must be numbers; fix them")
    if min(w, h) < SMALLEST:
        why = f"a box is at least {SMALLEST:g} pixel wide and high; fix it"
        return LeftOut(where, why)
    # Boxes drawn by hand may cross the edge by a pixel, and those of a resized image by more.
    if x + w <= 0 or y + h <= 0 or (width and x >= width) or (height and y >= height):
        return LeftOut(where, "the box lies outside its image; fix it")
    return x, y, w, h


def iter_boxes(path: Path) -> Iterator[Box | Absent | LeftOut]:
    """Give the boxes of a file, the sentences without a box, and what is wrong with others.

    Args:
        path: COCO JSON (``.json``) with ``bbox``, ``label_text`` and optional ``segmentation`` for
            each annotation; or a table (``.csv``, ``.parquet``) with ``image``, ``label_text``,
            ``x``, ``y``, ``w``, ``h`` and optional ``finding``, ``width``, ``height`` and
            ``segmentation`` (COCO's, as JSON).  MS-CXR's own columns work too.  If ``bbox`` is
            null, or ``x``, ``y``, ``w`` and ``h`` are empty, the sentence has no box, or the
            smallest one around its segmentation.
    """
    if path.name.lower().endswith(TABLES):
        return _table_boxes(path)
    if path.suffix.lower() != ".json":
        raise DataError(f"{path}: a box file ends in .json (COCO), .csv or .parquet")
    return _coco_boxes(path)
