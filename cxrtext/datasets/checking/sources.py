"""Which files make up a data set."""

from dataclasses import dataclass
from pathlib import Path

from cxrtext.datasets.checking.rows import Rows
from cxrtext.errors import DataError
from cxrtext.records.text_source import SECTION_COLUMNS


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of a data set.

    Args:
        manifest: The manifest.
        reports: Where the reports are; None where there are none.
        labels: Labels, or None.
        boxes: Boxes, or None.
    """

    manifest: Path
    reports: Path | None
    labels: Path | None
    boxes: Path | None


def _existing(folder: Path, *names: str) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def find_sources(
    data: Path, reports: Path | None, labels: Path | None, boxes: Path | None
) -> Sources:
    """Find the files of a data set, as training and evaluation do.

    Args:
        data: A data folder, or a manifest.
        reports: Where the reports are, if not beside the manifest or in it.
        labels: Where the labels are, if not beside the manifest.
        boxes: Where the boxes are, if not beside the manifest.

    Raises:
        DataError: There is no manifest, or a file that was named is not there.
    """
    for named in (reports, labels, boxes):
        if named is not None and not named.exists():
            raise DataError(f"{named}: no such file")
    if data.is_dir():
        manifest = _existing(data, "manifest.csv", "manifest.parquet")
        if manifest is None:
            raise DataError(
                f"{data}: holds no manifest.csv; give a data folder or a manifest, or make one "
                "with cxrtext import"
            )
    elif data.exists():
        manifest = data
    else:
        raise DataError(f"{data}: no such file or folder")
    folder = manifest.parent
    reports = reports or _existing(folder, "reports.csv", "reports.parquet")
    if reports is None and {"report", *SECTION_COLUMNS} & set(Rows(manifest).columns):
        reports = manifest
    return Sources(
        manifest=manifest,
        reports=reports,
        labels=labels or _existing(folder, "labels.csv", "labels.parquet"),
        boxes=boxes or _existing(folder, "boxes.json", "boxes.csv"),
    )
