"""Checking a data set: every table and every image."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cxrtext.datasets.admission.public import SAID, noted_layout
from cxrtext.datasets.checking.facts import CACHE_NAME, ImageFacts, as_set_says, open_cache
from cxrtext.datasets.checking.images import (
    note_duplicates,
    note_images,
    note_near_duplicates,
    read_images,
)
from cxrtext.datasets.checking.manifest import ListedImage, Listing, read_listing
from cxrtext.datasets.checking.pages import choose_pictures, draw_pictures
from cxrtext.datasets.checking.problems import Problems, printable
from cxrtext.datasets.checking.report import CheckReport, FactTable
from cxrtext.datasets.checking.reports import check_reports, sections_table
from cxrtext.datasets.checking.tables import check_boxes, check_labels, positives_table
from cxrtext.errors import DataError
from cxrtext.images.sandbox_worker import cores
from cxrtext.pausing import StageProgress, silent
from cxrtext.records import TableRows
from cxrtext.records.columns import SECTION_COLUMNS
from cxrtext.records.manifest import SPLITS
from cxrtext.records.report_sources import made_of_labels

_MAX_ROWS = 20
_TEXT = ("report", *SECTION_COLUMNS)


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
    # where to keep what was seen of images; by default ``.check-data.sqlite`` beside the manifest.
    cache: Path | None = None
    keep_cache: bool = True  # false reads every image anew and keeps nothing


@dataclass(frozen=True, slots=True)
class Sources:
    manifest: Path
    reports: Path | None  # where the reports are; None where there are none
    labels: Path | None
    boxes: Path | None


def _existing(folder: Path, *names: str) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def find_sources(
    data: Path, reports: Path | None, labels: Path | None, boxes: Path | None
) -> Sources:
    for named in (reports, labels, boxes):
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
    folder = manifest.parent
    reports = reports or _existing(folder, "reports.csv", "reports.parquet")
    if reports is None and set(_TEXT) & set(TableRows(manifest).columns):
        reports = manifest
    return Sources(
        manifest=manifest,
        reports=reports,
        labels=labels or _existing(folder, "labels.csv", "labels.parquet"),
        boxes=boxes or _existing(folder, "boxes.json", "boxes.csv", "boxes.parquet"),
    )


def check_data(
    data: Path, options: CheckOptions | None = None, progress: StageProgress = silent
) -> CheckReport:
    """Check a data set; faults of the data are in the report, and only of the manifest raised."""
    options = options or CheckOptions()
    sources = find_sources(data, options.reports, options.labels, options.boxes)
    workers = cores()
    problems, report = Problems(), CheckReport(str(data))
    listing = read_listing(sources.manifest, problems, allow_outside=options.allow_outside)
    if not listing.rows:
        raise DataError(f"{sources.manifest}: the table has no rows")
    images = listing.images
    path = (options.cache or sources.manifest.parent / CACHE_NAME) if options.keep_cache else None
    with open_cache(path, wanted=options.cache is not None) as cache:
        read_images(images, cache, workers, progress)
    layout = noted_layout(sources.manifest.parent)
    for image in images if layout in SAID else ():
        if image.facts is not None:
            image.facts = as_set_says(image.facts, Path(image.path), layout)
    suspicious = note_images(images, problems)
    groups = note_duplicates(images, problems)
    pairs = note_near_duplicates(groups, workers, problems)
    _summarize(listing, report)
    report.images = images
    studies: dict[str, int] = {}  # each study, and the first row of it
    for image in images:
        studies.setdefault(image.study, image.row)
    positives = _check_texts(sources, studies, problems, report, workers, progress)
    if sources.labels is not None and (checked := check_labels(sources.labels, studies, problems)):
        table, positives = checked
        report.tables.append(table)
    if positives:
        split_of = {image.study: image.split for image in images}
        report.tables.append(positives_table(positives, split_of, problems))
    if sources.boxes is not None and (found := check_boxes(sources.boxes, images, problems)):
        report.tables.append(found[0])
        report.summary |= found[1]
    report.problems = problems.found()
    if options.pictures:
        wanted = choose_pictures(images, suspicious, groups, pairs)
        report.galleries = draw_pictures(wanted, workers)
    return report


def _summarize(listing: Listing, report: CheckReport) -> None:
    images = listing.images
    readable = [image.read for image in images if image.read]
    missing = sum(image.facts is None for image in images)
    report.summary |= {
        "rows of the manifest": listing.rows,
        "images listed": len(images),
        "images read": len(readable),
        "images missing": missing,
        "images unreadable": len(images) - len(readable) - missing,
        "studies": len({image.study for image in images}),
        "patients": len({image.patient for image in images}),
    }
    filled = [
        (printable(name), str(listing.rows - listing.blanks[name]), str(listing.blanks[name]))
        for name in listing.columns
        if name not in _TEXT
    ]
    columns = FactTable("Columns of the manifest", ("column", "filled", "blank"), filled)
    report.tables += [*image_tables(images), columns]
    report.add_histograms(
        {
            "image width, pixels": [fact.width for fact in readable],
            "image height, pixels": [fact.height for fact in readable],
            "width / height": [fact.width / fact.height for fact in readable],
            "mean gray level, 0 to 255": [fact.mean for fact in readable],
            "images a study": list(Counter(image.study for image in images).values()),
        }
    )


def _check_texts(
    sources: Sources,
    studies: Mapping[str, int],
    problems: Problems,
    report: CheckReport,
    workers: int,
    progress: StageProgress,
) -> Mapping[str, set[str]]:
    if sources.reports is None:
        problems.add("no-reports", sources.manifest.name)
        return {}
    texts = check_reports(sources.reports, problems, workers, partial(progress, "reading reports"))
    if texts is None:
        return {}
    if problems.is_joined("reports", texts.studies, studies):
        for study, row in studies.items():
            if study not in texts.studies:
                problems.add("study-without-report", f"row {row} of the manifest")
    if made_of_labels(sources.reports):
        problems.add("reports-of-labels", sources.reports.name)
    report.summary |= {
        "reports": len(texts.studies),
        "reports with text": len(texts.words),
        "sentences": sum(texts.sentences),
    }
    report.tables.append(sections_table(texts))
    report.add_histograms({"words a report": texts.words, "sentences a report": texts.sentences})
    return texts.positives


def _counted(title: str, what: str, values: Counter[str]) -> FactTable:
    """Values by how often they occur; the rare ones of many are put together."""
    rows = [(printable(value), str(n)) for value, n in values.most_common(_MAX_ROWS)]
    if rest := values.total() - sum(n for _, n in values.most_common(_MAX_ROWS)):
        rows.append((f"{len(values) - _MAX_ROWS} others", str(rest)))
    return FactTable(title, (what, "images"), rows)


def image_tables(images: Sequence[ListedImage]) -> list[FactTable]:
    readable = [image.read for image in images if image.read]
    faults = Counter(i.facts.fault for i in images if i.facts and i.facts.fault)
    splits = []
    for split in SPLITS:
        members = [image for image in images if image.split == split]
        studies = {image.study for image in members}
        patients = {image.patient for image in members}
        splits.append((split, str(len(members)), str(len(studies)), str(len(patients))))
    described: tuple[tuple[str, str, Callable[[ImageFacts], str]], ...] = (
        ("Formats", "format", lambda fact: fact.format),
        ("Depth and color", "encoding", lambda fact: f"{fact.format}: {fact.encoding}"),
        ("Most frequent sizes", "width × height", lambda fact: f"{fact.width} × {fact.height}"),
    )
    return [
        FactTable("Splits", ("split", "images", "studies", "patients"), splits),
        _counted("Views", "view", Counter(image.any_view or "unknown" for image in images)),
        *([_counted("Why images cannot be read", "reason", faults)] if faults else []),
        *(_counted(title, what, Counter(map(of, readable))) for title, what, of in described),
    ]
