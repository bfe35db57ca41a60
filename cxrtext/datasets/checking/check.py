"""Checking a data set: every table and every image."""

from functools import partial
from pathlib import Path

from cxrtext.datasets.admission.public import SAID, noted_layout
from cxrtext.datasets.checking.facts import as_set_says, open_cache
from cxrtext.datasets.checking.images import (
    ListedImage,
    note_duplicates,
    note_images,
    read_images,
)
from cxrtext.datasets.checking.pages import draw_pictures
from cxrtext.datasets.checking.problems import KINDS, CheckReport, Problems
from cxrtext.datasets.checking.tables import check_boxes, check_labels, check_reports, read_listing
from cxrtext.errors import DataError
from cxrtext.images.sandbox_worker import cores
from cxrtext.pausing import StageProgress, silent
from cxrtext.records import TableRows
from cxrtext.records.columns import SECTION_COLUMNS


def _existing(folder: Path, *names: str) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _manifest(data: Path) -> Path:
    if not data.exists():
        raise DataError(f"{data}: no such file or folder")
    manifest = _existing(data, "manifest.csv", "manifest.parquet") if data.is_dir() else data
    if manifest is None:
        raise DataError(
            f"{data}: holds no manifest.csv; give a data folder or a manifest, or make one "
            "with cxrtext import"
        )
    return manifest


def check_data(
    data: Path,
    progress: StageProgress = silent,
    *,
    allow_outside: bool = False,
    pictures: bool = False,
) -> CheckReport:
    """Check a data set.  Faults of the data go into the report; a bad manifest raises DataError.

    Args:
        data: A data folder or a manifest, with reports, labels and boxes beside it; reports may
            also be in the manifest's own columns.
        allow_outside: Whether images may lie outside the manifest's folder.
        pictures: Whether to draw example pictures.
    """
    manifest = _manifest(data)
    folder, workers = manifest.parent, cores()
    problems, report = Problems(), CheckReport(str(data))
    images = read_listing(manifest, problems, allow_outside=allow_outside)
    with open_cache(folder) as cache:
        read_images(images, cache, workers, progress)
    layout = noted_layout(folder)
    for image in images if layout in SAID else ():
        if image.facts is not None:
            image.facts = as_set_says(image.facts, Path(image.path), layout)
    suspicious = note_images(images, problems)
    groups = note_duplicates(images, problems)
    studies: dict[str, int] = {}  # the first row of each study
    for image in images:
        studies.setdefault(image.study, image.row)
    report.summary |= {
        "images listed": len(images),
        "images read": sum(image.read is not None for image in images),
        "studies": len(studies),
        "patients": len({image.patient for image in images}),
    }
    reports = _existing(folder, "reports.csv", "reports.parquet")
    if reports is None and {"report", *SECTION_COLUMNS} & {*TableRows(manifest).columns}:
        reports = manifest
    if reports is None:
        problems.add("no-reports", manifest.name)
    else:
        update = partial(progress, "reading reports")
        report.summary["reports"] = check_reports(reports, studies, problems, update)
    if labels := _existing(folder, "labels.csv", "labels.parquet"):
        check_labels(labels, studies, problems)
    boxes = _existing(folder, "boxes.json", "boxes.csv", "boxes.parquet")
    if boxes is not None:
        report.summary["boxes"] = check_boxes(boxes, images, problems)
    report.problems = problems.found()
    if pictures:
        shown: dict[str, list[ListedImage]] = {
            **{KINDS[code].title: some for code, some in suspicious.items()},
            "images with the same content": [one for g in groups if len(g) > 1 for one in g],
        }
        report.galleries = draw_pictures(shown, workers)
    return report
