"""CheXpert: ``train.csv``, ``valid.csv``, ``test.csv`` and the images that they list.

With ``chexpert_5x200.csv``, the list that GLoRIA gives out, its images are the test split: 200 for
each of five findings, drawn from the frontal images of ``train.csv`` where exactly one finding is
marked, blanks counted as absent (so says the program that drew them).  It has CheXpert's columns
and "Report Impression"; loaders verify Path, that one and the five findings.  Other images of its
patients, and those of ``test.csv``, are left out: the test split is the list and nothing else.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from cxrtext.datasets.admission.views import LATERAL
from cxrtext.datasets.importing.folder import existing
from cxrtext.datasets.importing.reading import (
    Columns,
    Entry,
    FoundImage,
    LeftOutError,
    Reading,
    columns_of,
    count_rows,
    find_table,
    findings_of,
    frontal_view,
    label_values,
    map_rows,
    read_rows,
    reject,
)
from cxrtext.records import LeftOut, Study
from cxrtext.records.cells import sex, years

TABLES = {"train": "train", "valid": "val", "test": "test"}
LIST_5X200 = "chexpert_5x200"
IMPRESSION = "Report Impression"
OF_LISTED = f"another image of a patient of {LIST_5X200}"
OTHER_TEST = f"of test.csv; {LIST_5X200} is the test set"

_PLACE = re.compile(r"(?:^|/)((?:train|valid|test)/)?(patient\d+)/(study\d+)/(view\w+\.\w+)$")


def _place(item: str, row: dict[str, str]) -> re.Match[str]:
    if (match := _PLACE.search(row["Path"])) is None:
        raise reject(item, "Path does not end in patient…/study…/view…; fix the row")
    return match


def _image(
    root: Path, stem: str, columns: Columns, findings: Columns, item: str, row: dict[str, str]
) -> FoundImage:
    listed, match = row["Path"], _place(item, row)
    if row.get("Frontal/Lateral", "").lower() == "lateral":
        raise LeftOutError(LeftOut(item, what=LATERAL))
    said = row.get("AP/PA", "")
    if row.get("Frontal/Lateral", "").lower() == "frontal" and said not in ("AP", "PA"):
        said = ""  # 17 images of train.csv say LL or RL, and are frontal by that column and name
    view = frontal_view(item, said, row.get("Frontal/Lateral", ""), match[4])
    # The tables say ``CheXpert-v1.0-small/train/patient…`` or less.
    below = "/".join(match.groups()[1:])
    folder = "train" if stem == LIST_5X200 else stem
    name, path = existing(root, item, listed, f"{match[1] or ''}{below}", f"{folder}/{below}")
    known = {"age": years(row.get("Age", "")), "sex": sex(row.get("Sex", ""))}
    if known["sex"] == "O" or row.get("Sex") == "Unknown":
        known["sex"] = ""
    study, split = f"{match[2]}-{match[3]}", TABLES.get(stem, "test")
    name = path.relative_to(root).as_posix() if ".." in name else name
    metadata = {column: known[column] for column in columns}
    labels = label_values(item, row, findings)
    return FoundImage(path, name, study, match[2], split, view, metadata=metadata, labels=labels)


def _listed(table: Path) -> set[tuple[str, ...]]:
    """Patient, study and view of each image of a list."""
    rows = (row[1] for row in read_rows(table, ["Path"]) if isinstance(row, tuple))
    return {match.groups()[1:] for row in rows if (match := _PLACE.search(row["Path"]))}


def _beside(
    listed: set[tuple[str, ...]],
    patients: set[str],
    stem: str,
    make: Callable[[str, dict[str, str]], FoundImage],
    item: str,
    row: dict[str, str],
) -> FoundImage | None:
    """An image of a table beside a list; None where the list has it."""
    match = _place(item, row)
    if match.groups()[1:] in listed:
        return None
    if stem == "test":
        raise LeftOutError(LeftOut(item, what=OTHER_TEST))
    if match[2] in patients:
        raise LeftOutError(LeftOut(item, what=OF_LISTED))
    return make(item, row)


def _impressions(table: Path) -> Iterator[Study]:
    for number, row in enumerate(read_rows(table, ["Path", IMPRESSION]), 1):
        match = _PLACE.search(row[1]["Path"]) if isinstance(row, tuple) else None
        if isinstance(row, tuple) and match and row[1][IMPRESSION]:
            sections = {"impression": row[1][IMPRESSION]}
            yield Study(f"{match[2]}-{match[3]}", sections=sections, row=number)


def open_chexpert(root: Path, _: Path) -> Reading | None:
    """Open CheXpert; None where the folder does not hold it."""
    found = {stem: find_table(root, stem) for stem in (LIST_5X200, *TABLES)}
    tables = {stem: path for stem, path in found.items() if path and "Path" in columns_of(path)}
    if not tables:
        return None
    findings = findings_of({name for path in tables.values() for name in columns_of(path)})
    five = tables.get(LIST_5X200)

    def images(columns: Columns) -> Iterator[Entry]:
        listed = _listed(five) if five else set()
        patients = {patient for patient, *_ in listed}
        for stem, path in tables.items():
            make = partial(_image, root, stem, columns, findings)
            apart = five is not None and stem != LIST_5X200
            listing = partial(_beside, listed, patients, stem, make) if apart else make
            yield from map_rows(path, ["Path"], listing)

    told = five is not None and IMPRESSION in columns_of(five)
    return Reading(
        count=lambda: sum(map(count_rows, tables.values())),
        images=images,
        offered=("age", "sex"),
        findings=findings,
        reports=partial(_impressions, five) if told and five else None,
    )
