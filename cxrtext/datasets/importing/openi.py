"""Open-i (Indiana University): reports, projections and images as Kaggle lays them out."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cxrtext.datasets.importing.found import NO_FILE, Aside, Entry, FoundImage, Reading
from cxrtext.datasets.importing.options import ImportOptions, bad_ids, columns_kept
from cxrtext.datasets.importing.table_rows import count_rows, find_table, read_rows
from cxrtext.datasets.importing.views import LATERAL, OTHER, read_view
from cxrtext.datasets.importing.walk import inside, pictures_by_name
from cxrtext.errors import DataError
from cxrtext.records import BadItem, Study
from cxrtext.records.text_source import SECTION_COLUMNS, distinct_studies


def _images(root: Path, out: Path, table: Path) -> Iterator[Entry]:
    places = pictures_by_name(root, out)
    for row in read_rows(table, ["uid", "filename", "projection"]):
        if isinstance(row, BadItem):
            yield row
            continue
        item, cells = row
        view = read_view(cells["projection"])
        if view in (LATERAL, OTHER):
            yield Aside(item, view)
            continue
        name = places.get(cells["filename"], "")
        path = inside(root, name)
        if path is None or not path.is_file():
            yield Aside(item, NO_FILE)
            continue
        # The set names no patients: each has one study.
        yield bad_ids(item, cells["uid"], "") or FoundImage(
            path, name, cells["uid"], cells["uid"], view=view, box_key=cells["filename"]
        )


def read_indiana_reports(path: Path) -> Iterator[Study | BadItem]:
    """Give the reports of ``indiana_reports.csv``, which calls the study ``uid``."""

    def studies() -> Iterator[tuple[str, Study] | BadItem]:
        for number, row in enumerate(read_rows(path, ["uid"]), 1):
            if isinstance(row, BadItem):
                yield row
                continue
            item, cells = row
            if not cells["uid"]:
                yield BadItem(item, "empty uid; give every report one")
                continue
            sections = {name: cells[name] for name in SECTION_COLUMNS if name in cells}
            yield item, Study(cells["uid"], sections=sections, row=number)

    return distinct_studies(studies(), "row")


def open_openi(root: Path, options: ImportOptions, out: Path) -> Reading | None:
    """Open the Indiana set; None where the folder does not hold its projections.

    Raises:
        DataError: The reports are missing, or a table cannot be read.
        ConfigError: Metadata is wanted; the set has none.
    """
    table = find_table(root, "indiana_projections")
    if table is None:
        return None
    reports = find_table(root, "indiana_reports")
    if reports is None and options.reports is None:
        raise DataError(
            f"{root}: indiana_reports.csv is missing; put it beside indiana_projections.csv, or "
            "name another table of reports with --reports"
        )
    columns_kept(options.keep, {}, "openi")
    return Reading(
        layout="openi",
        count=partial(count_rows, table),
        images=partial(_images, root, out, table),
        reports=read_indiana_reports(reports) if reports and options.reports is None else None,
    )
