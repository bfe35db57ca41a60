"""Checking a data set: every table and every image."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from cxrtext.datasets.checking.box_problems import check_boxes
from cxrtext.datasets.checking.duplicates import (
    near_duplicates,
    note_duplicates,
    note_near_duplicates,
)
from cxrtext.datasets.checking.image_facts import ImageFacts
from cxrtext.datasets.checking.image_problems import note_images
from cxrtext.datasets.checking.label_table import check_labels
from cxrtext.datasets.checking.listing import ListedImage, Listing, read_listing
from cxrtext.datasets.checking.pictures import Wanted, choose_pictures, draw_pictures
from cxrtext.datasets.checking.problems import Kind, Problems, Severity
from cxrtext.datasets.checking.processes import cores
from cxrtext.datasets.checking.read_images import CheckOptions, Progress, read_images
from cxrtext.datasets.checking.report import CheckReport, histogram
from cxrtext.datasets.checking.report_texts import check_reports, join_reports, sections_table
from cxrtext.datasets.checking.sources import Sources, find_sources
from cxrtext.datasets.checking.summaries import image_tables, metadata_table
from cxrtext.errors import DataError

NO_REPORTS = Kind(
    "no-reports",
    Severity.WARNING,
    "data sets without reports",
    "add reports.csv beside the manifest: training needs reports",
)


def _silent(_stage: str, _done: int, _total: int) -> None:
    """Shows nothing."""


def check_data(
    data: Path, options: CheckOptions | None = None, progress: Progress = _silent
) -> CheckReport:
    """Check a data set.

    Args:
        data: A data folder, or a manifest.
        options: How.
        progress: Called as the work goes on.

    Returns:
        What was found.  Faults of the data are in it; they are not raised.

    Raises:
        DataError: There is no manifest, it cannot be read at all, or an option is wrong.
        WorkError: No process can be started.
    """
    options = options or CheckOptions()
    if options.workers is not None and options.workers < 1:
        raise DataError(f"workers is {options.workers}; it must be 1 or more")
    sources = find_sources(data, options.reports, options.labels, options.boxes)
    workers = options.workers or cores()
    problems, report = Problems(), CheckReport(str(data))
    listing = read_listing(sources.manifest, problems, allow_outside=options.allow_outside)
    if not listing.rows:
        raise DataError(f"{sources.manifest}: the table has no rows")
    images = listing.images
    facts = read_images(images, sources.manifest, options, workers, progress)
    suspicious = note_images(images, facts, problems)
    groups = note_duplicates(images, facts, problems)
    pairs = near_duplicates(images, facts, workers, options.seconds)
    note_near_duplicates(images, pairs, problems)
    _summarise(listing, facts, report)
    _check_texts(sources, images, problems, report, workers, progress)
    if sources.labels is not None:
        table = check_labels(sources.labels, _studies(images), problems)
        report.tables += [table] if table else []
    if sources.boxes is not None:
        found = check_boxes(sources.boxes, images, facts, problems)
        if found is not None:
            report.tables.append(found[0])
            report.summary |= found[1]
    report.problems = problems.found()
    if options.pictures:
        wanted: list[Wanted] = choose_pictures(images, facts, suspicious, groups, pairs)
        report.picture_groups = draw_pictures(wanted, images, workers, options.seconds)
    return report


def _studies(images: Sequence[ListedImage]) -> dict[str, int]:
    """Each study, and the first row of it."""
    rows: dict[str, int] = {}
    for image in images:
        rows.setdefault(image.study, image.row)
    return rows


def _summarise(listing: Listing, facts: Sequence[ImageFacts | None], report: CheckReport) -> None:
    images = listing.images
    readable = [fact for fact in facts if fact is not None and not fact.fault]
    report.summary |= {
        "rows of the manifest": listing.rows,
        "images listed": len(images),
        "images read": len(readable),
        "images missing": sum(fact is None for fact in facts),
        "images unreadable": sum(fact is not None and bool(fact.fault) for fact in facts),
        "studies": len({image.study for image in images}),
        "patients": len({image.patient for image in images}),
    }
    report.tables += image_tables(images, facts)
    report.tables.append(metadata_table(listing))
    for title, values in (
        ("image width, pixels", [fact.width for fact in readable]),
        ("image height, pixels", [fact.height for fact in readable]),
        ("width / height", [fact.width / fact.height for fact in readable]),
        ("mean grey level, 0 to 255", [fact.mean for fact in readable]),
        ("images a study", list(Counter(image.study for image in images).values())),
    ):
        drawn = histogram(title, values)
        report.histograms += [drawn] if drawn else []


def _check_texts(
    sources: Sources,
    images: Sequence[ListedImage],
    problems: Problems,
    report: CheckReport,
    workers: int,
    progress: Progress,
) -> None:
    if sources.reports is None:
        problems.add(NO_REPORTS, sources.manifest.name)
        return
    texts = check_reports(sources.reports, problems, workers, partial(progress, "reading reports"))
    if texts is None:
        return
    join_reports(_studies(images), texts, problems)
    report.summary |= {
        "reports": len(texts.studies),
        "reports with text": len(texts.words),
        "sentences": sum(texts.sentences),
    }
    report.tables.append(sections_table(texts))
    for title, values in (
        ("words a report", texts.words),
        ("sentences a report", texts.sentences),
    ):
        drawn = histogram(title, values)
        report.histograms += [drawn] if drawn else []
