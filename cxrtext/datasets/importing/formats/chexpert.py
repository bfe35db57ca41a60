"""CheXpert: ``train.csv``, ``valid.csv``, ``test.csv`` and the images that they list.

With ``chexpert_5x200.csv``, the list that GLoRIA gives out (CheXpert's columns and "Report
Impression"), its images are the test split: 200 for each of five findings, drawn from the frontal
images of ``train.csv`` where exactly one finding is marked.  Other images of its patients, and
those of ``test.csv``, are left out: the test split is the list and nothing else.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cxrtext.datasets.admission.views import LATERAL
from cxrtext.datasets.importing.formats.listing import find_image
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


def _image(
    root: Path, stem: str, match: re.Match[str], columns: Columns, findings: Columns, item: str,
    row: dict[str, str],
) -> FoundImage:  # fmt: skip
    frontal = row.get("Frontal/Lateral", "")
    if frontal.lower() == "lateral":
        raise LeftOutError(LeftOut(item, what=LATERAL))
    view = row.get("AP/PA", "")
    if frontal.lower() == "frontal" and view not in ("AP", "PA"):
        view = ""  # 17 images of train.csv say LL or RL, and are frontal by that column and name
    # The tables say ``CheXpert-v1.0-small/train/patient…`` or less.
    below = "/".join(match.groups()[1:])
    folder = "train" if stem == LIST_5X200 else stem
    names = (row["Path"], f"{match[1] or ''}{below}", f"{folder}/{below}")
    letter = sex(row.get("Sex", "")).replace("O", "")
    return find_image(
        root, item, names, (f"{match[2]}-{match[3]}", match[2]), columns,
        {"age": years(row.get("Age", "")), "sex": letter}, views=[view, frontal, match[4]],
        split=TABLES.get(stem, "test"), labels=label_values(item, row, findings),
    )  # fmt: skip


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
        rows = read_rows(five, ["Path"]) if five else ()
        places = (_PLACE.search(row[1]["Path"]) for row in rows if isinstance(row, tuple))
        listed = {match.groups()[1:] for match in places if match}  # patient, study and view
        patients = {patient for patient, *_ in listed}

        def make(stem: str, item: str, row: dict[str, str]) -> FoundImage | None:
            if (match := _PLACE.search(row["Path"])) is None:
                raise reject(item, "Path does not end in patient…/study…/view…; fix the row")
            if five and stem != LIST_5X200:
                if match.groups()[1:] in listed:
                    return None
                if stem == "test":
                    raise LeftOutError(LeftOut(item, what=OTHER_TEST))
                if match[2] in patients:
                    raise LeftOutError(LeftOut(item, what=OF_LISTED))
            return _image(root, stem, match, columns, findings, item, row)

        for stem, path in tables.items():
            yield from map_rows(path, ["Path"], partial(make, stem))

    told = five is not None and IMPRESSION in columns_of(five)
    return Reading(
        count=lambda: sum(map(count_rows, tables.values())),
        images=images,
        offered=("age", "sex"),
        findings=findings,
        reports=partial(_impressions, five) if told and five else None,
    )
