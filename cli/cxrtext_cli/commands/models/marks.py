"""``cxrtext marks``."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext.errors import DataError
from cxrtext_cli.given import EMPTY_FOLDER
from cxrtext_cli.options import PlaceFolder, open_place

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
    """Write readers' marks as tables of labels and boxes."""
    from cxrtext.project import find_place
    from cxrtext.records.tables import write_table
    from cxrtext.service.marking import box_rows, label_rows

    found = find_place(place)
    kept = _marks_of(found)
    with closing(open_place(found, "cpu")) as service:
        findings = list(service.prompts)
    labels, boxes = label_rows(kept, findings), box_rows(kept)
    out.mkdir(parents=True, exist_ok=True)
    write_table(out / "labels.csv", ["study_id", *findings], labels)
    write_table(out / "boxes.csv", ["image", "label_text", *"xywh"], boxes)
    typer.echo(f"{out}: {len(labels)} labels, {len(boxes)} boxes")
