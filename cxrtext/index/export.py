"""The images that were added over HTTP, as a data folder that any command reads."""

import json
import shutil
from pathlib import Path
from typing import Any

from cxrtext.errors import CheckpointError, DataError
from cxrtext.files import is_empty, replacing_folder, sha256
from cxrtext.index.store.catalogue import CATALOGUE, TEXT_COLUMNS, Catalogue
from cxrtext.index.store.writer import disk_errors
from cxrtext.records import write_table
from cxrtext.records.columns import SECTION_COLUMNS
from cxrtext.records.manifest import is_own_column


def export_uploads(folder: Path, out: Path) -> int:
    """Write the uploads of an index into a new folder, which only its owner can read; counts them.

    It gets the images, under their ids and the ending of their kind; ``manifest.csv``, with their
    metadata; ``reports.csv``, with what their studies' reports say, if any; and ``SHA256SUMS``.
    """
    if out.is_dir() and not is_empty(out):
        raise DataError(f"{out}: is not empty; name a new folder")
    with Catalogue(folder / CATALOGUE) as catalogue, catalogue.transaction() as database:
        images = database.execute(
            "SELECT image, study_id, patient_id, split, metadata, path, file FROM images "
            "JOIN roots USING (root) WHERE file IS NOT NULL ORDER BY number"
        ).fetchall()
        studies = dict.fromkeys(study for _, study, *_ in images)
        reports = {study: catalogue.report(study) for study in studies}
    if not images:
        raise DataError(f"{folder}: holds no image that was added over HTTP")
    with disk_errors(out, "nothing was written"), replacing_folder(out, private=True) as made:
        rows = [_copied(made, row) for row in images]
        names = dict.fromkeys(name for row in rows for name in row)
        write_table(made / "manifest.csv", list(names), rows)
        said = [_report(study, lines) for study, lines in reports.items() if lines]
        names = dict.fromkeys(name for row in said for name in row)
        if said:
            write_table(made / "reports.csv", list(names), said)
    return len(images)


def _copied(made: Path, row: tuple[Any, ...]) -> dict[str, Any]:
    image, study, patient, split, metadata, root, file = row
    source = Path(root) / file
    if not source.is_file() or sha256(source) != source.stem:
        raise CheckpointError(
            f"{source}: is missing or damaged; put the file of a backup in its place, or delete "
            "its image from the index"
        )
    ending = source.suffix  # .png over HTTP, .dcm from a PACS
    name = f"images/{image}" if image.endswith(ending) else f"images/{image}{ending}"
    target = made / name
    if target.exists() or any(parent.is_file() for parent in target.parents):
        name = f"images/{file}"  # two ids that cannot be files of one folder
        target = made / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return {
        **dict(zip(TEXT_COLUMNS, (name, study, patient, split), strict=True)),
        **{k: v for k, v in json.loads(metadata).items() if not is_own_column(k)},
    }


def _report(study: str, lines: list[tuple[str, str]]) -> dict[str, str]:
    row: dict[str, str] = {"study_id": study}
    for section, sentence in lines:
        column = section if section in SECTION_COLUMNS else "report"
        row[column] = f"{row[column]} {sentence}" if column in row else sentence
    return row
