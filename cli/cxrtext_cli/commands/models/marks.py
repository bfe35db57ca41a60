"""``cxrtext marks``."""

from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxrtext.errors import DataError
from cxrtext_cli.given import EMPTY_FOLDER
from cxrtext_cli.options import PlaceFolder, open_place, say

if TYPE_CHECKING:
    from cxrtext.project import Place
    from cxrtext.records.marks import Mark


def _marks_of(place: "Place") -> "list[Mark]":
    from cxrtext.records.marks import marks_beside, read_marks

    path = marks_beside(place.require_index())
    found = list(read_marks(path))
    if not found:
        raise DataError(f"{path}: nothing was marked yet; mark films on the page of a server")
    return found


def marks(
    place: PlaceFolder,
    out: Annotated[Path, typer.Option(help="New folder for the tables."), EMPTY_FOLDER],
) -> None:
    """Write readers' marks as tables of labels and boxes, and as DICOM structured reports.

    A report is made of each reader's marks on a DICOM image, where cxrtext[pacs] is installed.
    """
    from cxrtext.project import find_place
    from cxrtext.records.tables import write_table
    from cxrtext.service.marking import box_rows, label_rows

    found = find_place(place)
    kept = _marks_of(found)
    with closing(open_place(found, "cpu")) as service:
        files = {one.image: _file_of(service, one.image) for one in kept}
        findings = list(service.prompts)
    labels, boxes = label_rows(kept, findings), box_rows(kept)
    out.mkdir(parents=True, exist_ok=True)
    write_table(out / "labels.csv", ["study_id", *findings], labels)
    write_table(out / "boxes.csv", ["image", "label_text", *"xywh"], boxes)
    reports, without = _write_reports(out / "reports", kept, files)
    counts = {"labels": len(labels), "boxes": len(boxes), "reports": reports}
    said = ", ".join(f"{count} {name}" for name, count in counts.items())
    typer.echo(f"{out}: {said}")
    if without:
        say(f"{without} images are no DICOM radiographs, and have no report")


def _file_of(service: Any, image: str) -> Path | None:
    from cxrtext.errors import NotFoundError

    try:
        return Path(service.find_image(image).path)
    except NotFoundError:  # deleted since
        return None


def _write_reports(out: Path, kept: "list[Mark]", files: dict[str, Path | None]) -> tuple[int, int]:
    """How many reports were written, and of how many images there is none."""
    from cxrtext.errors import ImageError
    from cxrtext.pacs.results.image import read_source
    from cxrtext.pacs.results.marked import build_marked

    groups: dict[tuple[str, str, str], list[Mark]] = defaultdict(list)
    for one in kept:
        groups[one.image, one.who, one.model].append(one)
    without, written = set[str](), 0
    for (image, *_), some in groups.items():
        path = files[image]
        try:
            source = read_source(path) if path else None
        except ImageError:
            source = None
        if source is None:
            without.add(image)
            continue
        built = build_marked(source, some)
        out.mkdir(exist_ok=True)
        built.save_as(out / f"{built.SOPInstanceUID}.dcm", enforce_file_format=True)
        written += 1
    return written, len(without)
