"""NIH ChestX-ray14: ``Data_Entry_2017.csv``, its boxes, its split, and the image folders."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cxrtext.datasets.importing.folder import existing, files_by_name
from cxrtext.datasets.importing.reading import (
    TRAIN_OR_VAL,
    Columns,
    Entry,
    FoundImage,
    Reading,
    check_ids,
    count_rows,
    find_table,
    frontal_view,
    map_rows,
    numbers,
    reject,
    sex,
    years,
)
from cxrtext.errors import DataError
from cxrtext.records import Box
from cxrtext.records.decoding import decode

_NAMES = (
    *("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Effusion", "Emphysema", "Fibrosis"),
    *("Hernia", "Infiltration", "Mass", "Nodule", "Pleural_Thickening", "Pneumonia"),
    "Pneumothorax",
)
# The names of ChestX-ray14, and the columns that they become.
NAMES = {name: name.replace("_", " ") for name in _NAMES} | {"Effusion": "Pleural Effusion"}
COLUMNS = ("No Finding", *NAMES.values())
BOX_NAMES = {**NAMES, "Infiltrate": "Infiltration"}
# The header of the boxes has a comma within "Bbox [x,y,w,h]", which divides it into four columns.
_CORNERS = ("Bbox [x", "y", "w", "h]")
_BOX = ("Image Index", "Finding Label", *_CORNERS)
SIDE = 1024  # pixels along each side of the images as they are given out, for the boxes


def _test_names(root: Path) -> set[str] | None:
    path = root / "test_list.txt"
    if not path.is_file():
        return None
    text = decode(path.read_bytes())
    if text is None:
        raise DataError(f"{path}: not UTF-8 text; copy the file again")
    return set(text.split())


def _labels(item: str, text: str) -> dict[str, str]:
    """Labels from "Effusion|Mass" or "No Finding".

    The set says of every finding whether its reports mention it, so none is blank.
    """
    names = text.split("|")
    if any(name != "No Finding" and name not in NAMES for name in names):
        raise reject(item, "Finding Labels has a name that is not of this set; fix the cell")
    present = {NAMES.get(name, name) for name in names}
    return {name: "1" if name in present else "0" for name in COLUMNS}


def _box(item: str, cells: dict[str, str]) -> Box:
    finding = BOX_NAMES.get(cells["Finding Label"])
    x, y, w, h = numbers(cells, *_CORNERS)
    if finding is None or not (0 <= x < SIDE and 0 <= y < SIDE and w > 0 and h > 0):
        raise reject(item, "no box of a finding of this set; fix the row")
    return Box(cells["Image Index"], SIDE, SIDE, finding, finding, (x, y, w, h))


def open_nih(root: Path, out: Path) -> Reading | None:
    """Open ChestX-ray14; None where the folder does not hold it."""
    table = find_table(root, "Data_Entry_2017", "Data_Entry_2017_v2020")
    if table is None:
        return None
    boxes = find_table(root, "BBox_List_2017")

    def images(columns: Columns) -> Iterator[Entry]:
        places, test = files_by_name(root, out), _test_names(root)

        def make(item: str, row: dict[str, str]) -> FoundImage:
            image, patient = row["Image Index"], row["Patient ID"]
            study = image.rpartition(".")[0]
            check_ids(item, study, patient)
            view = frontal_view(item, row.get("View Position", ""))
            labels = _labels(item, row["Finding Labels"])
            name, path = existing(root, item, places.get(image, ""))
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

        yield from map_rows(table, ["Image Index", "Finding Labels", "Patient ID"], make)

    return Reading(
        count=partial(count_rows, table),
        images=images,
        offered=("age", "sex", "follow_up"),
        findings=COLUMNS,
        boxes=partial(map_rows, boxes, _BOX, _box) if boxes else None,
    )
