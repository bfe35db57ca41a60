"""Checking a data set: every table and every image."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cxrtext.datasets.admission.public import SAID, noted_layout
from cxrtext.datasets.checking.facts import as_set_says, open_cache
from cxrtext.datasets.checking.images import (
    ListedImage,
    note_duplicates,
    note_images,
    note_near_duplicates,
    read_images,
)
from cxrtext.datasets.checking.pages import draw_pictures
from cxrtext.datasets.checking.problems import KINDS, CheckReport, Problems
from cxrtext.datasets.checking.tables import (
    check_boxes,
    check_labels,
    check_reports,
    read_listing,
)
from cxrtext.errors import DataError
from cxrtext.images.sandbox_worker import cores
from cxrtext.pausing import StageProgress, silent
from cxrtext.records import TableRows
from cxrtext.records.columns import SECTION_COLUMNS


@dataclass(frozen=True, slots=True)
class CheckOptions:
    # a table or folder of reports; by default ``reports.csv`` beside the manifest, or the
    # manifest's own columns.
    reports: Path | None = None
    labels: Path | None = None  # a table of labels; by default ``labels.csv`` beside the manifest
    # a file of boxes; by default ``boxes.json``, ``.csv`` or ``.parquet`` beside the manifest.
    boxes: Path | None = None
    allow_outside: bool = False  # whether images may lie outside the manifest's folder
    pictures: bool = False  # whether to draw example pictures
    keep_cache: bool = True  # false reads every image anew and keeps nothing


def _existing(folder: Path, *names: str) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _manifest(data: Path, options: CheckOptions) -> Path:
    for named in (options.reports, options.labels, options.boxes):
        if named is not None and not named.exists():
            raise DataError(f"{named}: no such file")
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
    data: Path, options: CheckOptions | None = None, progress: StageProgress = silent
) -> CheckReport:
    """Check a data set; faults of the data are in the report, and only of the manifest raised."""
    options = options or CheckOptions()
    manifest = _manifest(data, options)
    folder, workers = manifest.parent, cores()
    problems, report = Problems(), CheckReport(str(data))
    images = read_listing(manifest, problems, allow_outside=options.allow_outside)
    with open_cache(folder if options.keep_cache else None) as cache:
        read_images(images, cache, workers, progress)
    layout = noted_layout(folder)
    for image in images if layout in SAID else ():
        if image.facts is not None:
            image.facts = as_set_says(image.facts, Path(image.path), layout)
    suspicious = note_images(images, problems)
    groups = note_duplicates(images, problems)
    pairs = note_near_duplicates(groups, workers, problems)
    studies: dict[str, int] = {}  # each study, and the first row of it
    for image in images:
        studies.setdefault(image.study, image.row)
    report.summary |= {
        "images listed": len(images),
        "images read": sum(image.read is not None for image in images),
        "studies": len(studies),
        "patients": len({image.patient for image in images}),
    }
    reports = options.reports or _existing(folder, "reports.csv", "reports.parquet")
    if reports is None and {"report", *SECTION_COLUMNS} & {*TableRows(manifest).columns}:
        reports = manifest
    if reports is None:
        problems.add("no-reports", manifest.name)
    else:
        told = partial(progress, "reading reports")
        report.summary["reports"] = check_reports(reports, studies, problems, told)
    if labels := options.labels or _existing(folder, "labels.csv", "labels.parquet"):
        check_labels(labels, studies, problems)
    boxes = options.boxes or _existing(folder, "boxes.json", "boxes.csv", "boxes.parquet")
    if boxes is not None:
        report.summary["boxes"] = check_boxes(boxes, images, problems)
    report.problems = problems.found()
    if options.pictures:
        shown: dict[str, list[ListedImage]] = {
            **{KINDS[code].title: some for code, some in suspicious.items()},
            "images with the same content": [one for g in groups if len(g) > 1 for one in g],
            "pairs of images that look almost the same": [one for pair in pairs for one in pair],
        }
        report.galleries = draw_pictures(shown, workers)
    return report
