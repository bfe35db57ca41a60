"""CheXpert: ``train.csv``, ``valid.csv``, ``test.csv`` and the images that they list."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cxrtext.datasets.admission.views import LATERAL
from cxrtext.datasets.importing.folder import existing
from cxrtext.datasets.importing.reading import (
    Columns,
    Entry,
    FoundImage,
    NotKeptError,
    Reading,
    Skipped,
    columns_of,
    count_rows,
    find_table,
    map_rows,
)
from cxrtext.datasets.importing.values import (
    findings_of,
    frontal_view,
    label_values,
    reject,
    sex,
    years,
)

TABLES = {"train": "train", "valid": "val", "test": "test"}

_PLACE = re.compile(r"(?:^|/)((?:train|valid|test)/)?(patient\d+)/(study\d+)/(view\w+\.\w+)$")


def _image(
    root: Path, stem: str, columns: Columns, findings: Columns, item: str, row: dict[str, str]
) -> FoundImage:
    listed = row["Path"]
    match = _PLACE.search(listed)
    if match is None:
        raise reject(item, "Path does not end in patient…/study…/view…; fix the row")
    if row.get("Frontal/Lateral", "").lower() == "lateral":
        raise NotKeptError(Skipped(item, LATERAL))
    view = frontal_view(item, row.get("AP/PA", ""), row.get("Frontal/Lateral", ""), match[4])
    # The tables say ``CheXpert-v1.0-small/train/patient…`` or less.
    below = "/".join(match.groups()[1:])
    name, path = existing(root, item, listed, f"{match[1] or ''}{below}", f"{stem}/{below}")
    known = {"age": years(row.get("Age", "")), "sex": sex(row.get("Sex", ""))}
    if known["sex"] == "O" or row.get("Sex") == "Unknown":
        known["sex"] = ""
    return FoundImage(
        path=path,
        name=path.relative_to(root).as_posix() if ".." in name else name,
        study_id=f"{match[2]}-{match[3]}",
        patient_id=match[2],
        split=TABLES[stem],
        view=view,
        metadata={name: known[name] for name in columns},
        labels=label_values(item, row, findings),
    )


def open_chexpert(root: Path, _: Path) -> Reading | None:
    """Open CheXpert; None where the folder does not hold it."""
    found = {stem: find_table(root, stem) for stem in TABLES}
    tables = {stem: path for stem, path in found.items() if path and "Path" in columns_of(path)}
    if not tables:
        return None
    findings = findings_of({name for path in tables.values() for name in columns_of(path)})

    def images(columns: Columns) -> Iterator[Entry]:
        for stem, path in tables.items():
            yield from map_rows(path, ["Path"], partial(_image, root, stem, columns, findings))

    return Reading(
        count=lambda: sum(map(count_rows, tables.values())),
        images=images,
        offered=("age", "sex"),
        findings=findings,
    )
