"""SIIM-ACR pneumothorax segmentation (2019), as Kaggle gave it out.

``train-rle.csv`` (ImageId, " EncodedPixels") and ``dicom-images-train/<study>/<series>/
<ImageId>.dcm``.  An image has a row for each mask, or one row with " -1".  A mask is given by pairs
of numbers: pixels to skip since the last run, and pixels of the run, counted down the columns from
the upper left, as decoders of several users of the set read it.  Some images have no row; they are
not listed, and neither are the test images, whose masks were not given out with them.
``stage_2_train.csv``, the list of the second stage, is taken too where there is no
``train-rle.csv``; that its columns are the same could not be verified.

Verified on the list that torchxrayvision 1.5.7 carries: 12,954 rows of 12,047 images, 2,669 of them
with 3,576 masks; there " -1" has lost its blank, so both are taken.  The files have the elements of
RSNA's and are taken to be of the same making (secondary captures of ChestX-ray14, 1024 x 1024);
that their class is that of captures could not be verified, and a radiograph's is taken too.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from cxrtext.datasets.importing.folder import files_by_name, inside
from cxrtext.datasets.importing.formats.dicom import KEEP_LISTED, listed_object
from cxrtext.datasets.importing.joining import image_size
from cxrtext.datasets.importing.reading import (
    Columns,
    Entry,
    FoundImage,
    Reading,
    check_ids,
    columns_of,
    count_rows,
    find_table,
    first_rows,
    make_each,
    map_rows,
    read_rows,
    reject,
)
from cxrtext.records import Absent, Box, LeftOut
from cxrtext.records.masks import box_of_mask, mask_of_runs, runs_of_mask

FINDING = "Pneumothorax"
SIDE = 1024  # pixels along each side of the images as they are given out
NO_MASK = "-1"
_NEEDED = ("ImageId", "EncodedPixels")


def runs_of_pairs(text: str, height: int, width: int) -> tuple[int, ...]:
    """The runs of a mask of height x width pixels, out of the pairs of its row.

    >>> runs_of_pairs("1 2", 2, 2)
    (1, 2, 1)
    """
    counts = [int(part) for part in text.split()]
    rest = height * width - sum(counts)
    if not counts or len(counts) % 2 or min(*counts, rest) < 0 or not sum(counts[1::2]):
        raise ValueError("no mask")
    return runs_of_mask(mask_of_runs([*counts, rest], height, width))


def _mask(root: Path, places: dict[str, str], item: str, row: dict[str, str]) -> Box | Absent:
    image, text = row["ImageId"], row["EncodedPixels"]
    if text == NO_MASK:
        return Absent(image, 0, 0, FINDING, FINDING)
    path = inside(root, places.get(f"{image}.dcm", ""))
    width, height = image_size(path) if path is not None and path.is_file() else (0, 0)
    width, height = width or SIDE, height or SIDE
    try:
        runs = runs_of_pairs(text, height, width)
    except ValueError:
        raise reject(
            item, f"EncodedPixels are no mask of {width} x {height} pixels; fix the cell"
        ) from None
    box = box_of_mask(mask_of_runs(runs, height, width))
    return Box(image, width, height, FINDING, FINDING, box, runs)


def open_siim(root: Path, out: Path) -> Reading | None:
    """Open the challenge's data; None where the folder does not hold it."""
    table = find_table(root, "train-rle", "stage_2_train")
    if table is None or not set(_NEEDED) <= set(columns_of(table)):
        return None

    def images(columns: Columns) -> Iterator[Entry]:
        positive: dict[str, bool] = defaultdict(bool)
        for row in read_rows(table, _NEEDED):
            if isinstance(row, tuple):
                positive[row[1]["ImageId"]] |= row[1]["EncodedPixels"] != NO_MASK
        places = files_by_name(root, out, (".dcm",))

        def make(item: str, row: dict[str, str]) -> FoundImage:
            image = row["ImageId"]
            file = places.get(f"{image}.dcm", "")
            found = listed_object(root, item, image, file, columns=columns, layout="siim")
            check_ids(item, image, found.patient_id)
            return replace(found, labels={FINDING: "1" if positive[image] else "0"})

        yield from make_each(first_rows(table, _NEEDED), make)

    def boxes() -> Iterator[Box | Absent | LeftOut]:
        make = partial(_mask, root, files_by_name(root, out, (".dcm",)))
        return map_rows(table, _NEEDED, make)

    return Reading(
        count=partial(count_rows, table),
        images=images,
        offered=KEEP_LISTED,
        findings=(FINDING,),
        boxes=boxes,
    )
