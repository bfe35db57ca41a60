"""CheXpert: ``train.csv``, ``valid.csv``, ``test.csv`` and the images that they list."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cxrtext.datasets.importing.found import NO_FILE, Aside, Entry, FoundImage, Reading
from cxrtext.datasets.importing.options import ImportOptions, columns_kept, sex, years
from cxrtext.datasets.importing.public_labels import findings_of, label_values
from cxrtext.datasets.importing.table_rows import columns_of, count_rows, find_table, read_rows
from cxrtext.datasets.importing.views import LATERAL, OTHER, read_view
from cxrtext.datasets.importing.walk import inside
from cxrtext.records import BadItem

KEEP = {"age": "Age", "sex": "Sex"}
TABLES = {"train": "train", "valid": "val", "test": "test"}

_PLACE = re.compile(r"(?:^|/)((?:train|valid|test)/)?(patient\d+)/(study\d+)/(view\w+\.\w+)$")


def _tables(root: Path) -> dict[str, Path]:
    found = {stem: find_table(root, stem) for stem in TABLES}
    return {
        stem: path
        for stem, path in found.items()
        if path is not None and "Path" in columns_of(path)
    }


def _file(root: Path, stem: str, listed: str) -> tuple[str, Path] | None:
    """Where an image lies: the tables say ``CheXpert-v1.0-small/train/patient…`` or less."""
    match = _PLACE.search(listed)
    if match is None:
        return None
    below = "/".join(match.groups()[1:])
    for name in (listed, f"{match[1] or ''}{below}", f"{stem}/{below}"):
        path = inside(root, name)
        if path is not None and path.is_file():
            return path.relative_to(root).as_posix() if ".." in name else name, path
    return None


def _image(
    root: Path, stem: str, item: str, row: dict[str, str], shape: tuple[tuple[str, ...], ...]
) -> Entry:
    columns, findings = shape
    match = _PLACE.search(row["Path"])
    if match is None:
        return BadItem(item, "Path does not end in patient…/study…/view…; mend the row")
    view = read_view(row.get("AP/PA", "")) or read_view(row.get("Frontal/Lateral", ""))
    view = view or read_view(match[4])
    if row.get("Frontal/Lateral", "").lower() == "lateral":
        view = LATERAL
    if view in (LATERAL, OTHER):
        return Aside(item, view)
    found = _file(root, stem, row["Path"])
    if found is None:
        return Aside(item, NO_FILE)
    labels = label_values(row, findings)
    if isinstance(labels, str):
        return BadItem(item, f"{labels}: a label is 1, 0, -1 or blank; mend the cell")
    known = {"age": years(row.get("Age", "")), "sex": sex(row.get("Sex", ""))}
    if known["sex"] == "O" or row.get("Sex") == "Unknown":
        known["sex"] = ""
    return FoundImage(
        path=found[1],
        name=found[0],
        study_id=f"{match[2]}-{match[3]}",
        patient_id=match[2],
        split=TABLES[stem],
        view=view,
        metadata={name: known[name] for name in columns},
        labels=labels,
    )


def _images(
    root: Path, tables: dict[str, Path], shape: tuple[tuple[str, ...], ...]
) -> Iterator[Entry]:
    for stem, path in tables.items():
        for row in read_rows(path, ["Path"]):
            yield row if isinstance(row, BadItem) else _image(root, stem, *row, shape)


def _count(tables: dict[str, Path]) -> int:
    return sum(map(count_rows, tables.values()))


def open_chexpert(root: Path, options: ImportOptions, _: Path) -> Reading | None:
    """Open CheXpert; None where the folder does not hold it.

    Raises:
        DataError: A table cannot be read.
        ConfigError: Metadata is wanted that the set does not have.
    """
    tables = _tables(root)
    if not tables:
        return None
    columns, left_out = columns_kept(options.keep, KEEP, "chexpert")
    present = {name for path in tables.values() for name in columns_of(path)}
    findings = findings_of(present)
    return Reading(
        layout="chexpert",
        count=partial(_count, tables),
        images=partial(_images, root, tables, (columns, findings)),
        columns=columns,
        findings=findings,
        left_out=left_out,
    )
