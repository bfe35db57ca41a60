"""Boxes with the sentence each one illustrates, as MS-CXR lays them out (COCO JSON)."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.files import write_json


@dataclass(frozen=True, slots=True)
class Box:
    """A box in an image.

    Args:
        image: The ``image`` cell of the manifest.
        width: Width of the image, in original pixels.
        height: Height of the image, in original pixels.
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
