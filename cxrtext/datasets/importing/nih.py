"""NIH ChestX-ray14: ``Data_Entry_2017.csv``, its boxes, its split, and the image folders."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cxrtext.datasets.importing.found import (
    NO_FILE,
    TRAIN_OR_VAL,
    Aside,
    Entry,
    FoundImage,
    Reading,
)
from cxrtext.datasets.importing.options import (
    ImportOptions,
    bad_ids,
    columns_kept,
    sex,
    years,
)
from cxrtext.datasets.importing.public_labels import NIH, NIH_COLUMNS, nih_labels
from cxrtext.datasets.importing.table_rows import count_rows, find_table, read_rows
from cxrtext.datasets.importing.views import LATERAL, OTHER, read_view
from cxrtext.datasets.importing.walk import inside, pictures_by_name
from cxrtext.errors import DataError
from cxrtext.records import BadItem, Box

KEEP = {"age": "Patient Age", "sex": "Patient Sex", "follow_up": "Follow-up #"}
TABLES = ("Data_Entry_2017", "Data_Entry_2017_v2020")
BOX_NAMES = {**NIH, "Infiltrate": "Infiltration"}
SIDE = 1024
"""Pixels along each side of the images as they are given out, which the boxes count in."""


def _test_names(root: Path) -> set[str] | None:
    path = root / "test_list.txt"
    if not path.is_file():
        return None
    try:
        return set(path.read_text(encoding="utf-8").split())
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8 text; copy the file again") from None


def _image(
    files: tuple[Path, dict[str, str]],
    test: set[str] | None,
    columns: tuple[str, ...],
    item: str,
    row: dict[str, str],
) -> Entry:
    root, places = files
    image, patient = row["Image Index"], row["Patient ID"]
    study = image.rpartition(".")[0]
    wrong = bad_ids(item, study, patient)
    if wrong is not None:
        return wrong
    view = read_view(row.get("View Position", ""))
    if view in (LATERAL, OTHER):
        return Aside(item, view)
    labels = nih_labels(row["Finding Labels"])
    if labels is None:
        return BadItem(item, "Finding Labels has a name that is not of this set; mend the cell")
    name = places.get(image, "")
    path = inside(root, name)
    if path is None or not path.is_file():
        return Aside(item, NO_FILE)
    known = {
        "age": years(row.get("Patient Age", "")),
        "sex": sex(row.get("Patient Sex") or row.get("Patient Gender", "")),
        "follow_up": row.get("Follow-up #", ""),
    }
    return FoundImage(
        path=path,
        name=name,
        study_id=study,
        patient_id=patient,
        split="" if test is None else "test" if image in test else TRAIN_OR_VAL,
        view=view,
        box_key=image,
        metadata={column: known[column] for column in columns},
        labels=labels,
    )


def _images(root: Path, out: Path, table: Path, columns: tuple[str, ...]) -> Iterator[Entry]:
    files, test = (root, pictures_by_name(root, out)), _test_names(root)
    for row in read_rows(table, ["Image Index", "Finding Labels", "Patient ID"]):
        yield row if isinstance(row, BadItem) else _image(files, test, columns, *row)


def _boxes(path: Path) -> Iterator[Box | BadItem]:
    # Its header has a comma within "Bbox [x,y,w,h]", which divides it into four columns.
    for row in read_rows(path, ["Image Index", "Finding Label", "Bbox [x", "h]"]):
        if isinstance(row, BadItem):
            yield row
            continue
        item, cells = row
        finding = BOX_NAMES.get(cells["Finding Label"])
        try:
            x, y, w, h = (float(cells[name]) for name in ("Bbox [x", "y", "w", "h]"))
        except ValueError:
            finding = None
        if finding is None or not (0 <= x < SIDE and 0 <= y < SIDE and w > 0 and h > 0):
            yield BadItem(item, "no box of a finding of this set; mend the row")
        else:
            yield Box(cells["Image Index"], SIDE, SIDE, finding, finding, (x, y, w, h))


def open_nih(root: Path, options: ImportOptions, out: Path) -> Reading | None:
    """Open ChestX-ray14; None where the folder does not hold it.

    Raises:
        DataError: A table cannot be read.
        ConfigError: Metadata is wanted that the set does not have.
    """
    table = next((path for path in (find_table(root, stem) for stem in TABLES) if path), None)
    if table is None:
        return None
    columns, left_out = columns_kept(options.keep, KEEP, "nih")
    boxes = find_table(root, "BBox_List_2017") if options.boxes is None else None
    return Reading(
        layout="nih",
        count=partial(count_rows, table),
        images=partial(_images, root, out, table, columns),
        columns=columns,
        findings=NIH_COLUMNS,
        boxes=None if boxes is None else _boxes(boxes),
        left_out=left_out,
    )
