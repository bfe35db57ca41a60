"""Open-i (Indiana University): reports, projections and images as Kaggle lays them out."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cxrtext.datasets.importing.folder import existing, files_by_name
from cxrtext.datasets.importing.reading import (
    Columns,
    Entry,
    FoundImage,
    Reading,
    check_ids,
    count_rows,
    find_table,
    frontal_view,
    map_rows,
    read_rows,
)
from cxrtext.errors import DataError
from cxrtext.records import LeftOut, Study
from cxrtext.records.text_source import SECTION_COLUMNS, distinct_studies


def read_indiana_reports(path: Path) -> Iterator[Study | LeftOut]:
    """Give the reports of ``indiana_reports.csv``, which calls the study ``uid``."""

    def studies() -> Iterator[tuple[str, Study] | LeftOut]:
        for number, row in enumerate(read_rows(path, ["uid"]), 1):
            if isinstance(row, LeftOut):
                yield row
            elif not row[1]["uid"]:
                yield LeftOut(row[0], "empty uid; give every report one")
            else:
                item, cells = row
                sections = {name: cells[name] for name in SECTION_COLUMNS if name in cells}
                yield item, Study(cells["uid"], sections=sections, row=number)

    return distinct_studies(studies(), "row")


def open_openi(root: Path, out: Path) -> Reading | None:
    """Open the Indiana set; None where the folder does not hold its projections."""
    table = find_table(root, "indiana_projections")
    if table is None:
        return None

    def images(_: Columns) -> Iterator[Entry]:
        places = files_by_name(root, out)

        def make(item: str, row: dict[str, str]) -> FoundImage:
            study, file = row["uid"], row["filename"]
            view = frontal_view(item, row["projection"])
            name, path = existing(root, item, places.get(file, ""))
            check_ids(item, study, "")
            # The set names no patients: each has one study.
            return FoundImage(path, name, study, study, view=view, box_key=file)

        yield from map_rows(table, ["uid", "filename", "projection"], make)

    def reports() -> Iterator[Study | LeftOut]:
        path = find_table(root, "indiana_reports")
        if path is None:
            raise DataError(
                f"{root}: indiana_reports.csv is missing; put it beside indiana_projections.csv, "
                "or name another table of reports with --reports"
            )
        return read_indiana_reports(path)

    return Reading(count=partial(count_rows, table), images=images, reports=reports)
