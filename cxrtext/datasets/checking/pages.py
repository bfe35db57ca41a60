"""The data-check report as one HTML page with small pictures, or as JSON."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from cxrtext.datasets.checking.facts import SECONDS, thumbnail_work
from cxrtext.datasets.checking.images import ListedImage
from cxrtext.datasets.checking.problems import CheckReport, Problem, Severity, verdict
from cxrtext.errors import DataError
from cxrtext.files import write_json, write_text
from cxrtext.images.sandbox import ProcessLost, answers
from cxrtext.page import Block, Cell, Gallery, Picture, Section, Table, Text, Tile, html_page

ENDINGS = (".html", ".json")  # of a report's file
_LEFT_OUT = "Pictures were left out on request: the pixels of a patient's image are protected data."
_PROTECTED = (
    "These pictures show the checked images and are protected data if those are: keep this page "
    "where the images may be kept, or leave the pictures out (`--no-pictures`)."
)
_CELLS: dict[Severity, Literal["", "error", "warning"]]
_CELLS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: ""}
SIDE = 160  # longest side of a picture, in pixels
EXAMPLES = 6  # pictures of each kind of problem


def check_ending(path: Path) -> None:
    if path.suffix.lower() not in ENDINGS:
        raise DataError(f"{path}: a data-check report ends in {' or '.join(ENDINGS)}")
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name a file")


def write_check(path: Path, report: CheckReport) -> None:
    check_ending(path)
    if path.suffix.lower() == ".html":
        write_text(path, _page(report))
    else:
        write_json(path, report.to_dict())


def _page(report: CheckReport) -> str:
    pictures: list[Block] = [Text(_LEFT_OUT)]
    if report.galleries is not None:
        pictures = [Text(_PROTECTED), *report.galleries]
    return html_page(
        "Data check",
        [
            Section("Problems", [_problems(report.problems)]),
            Section("Suspicious images", pictures),
        ],
        title=f"Data check: {report.data}",
        head=[Text(report.data, "note"), Text(verdict(report), "lead")],
        tiles=[Tile(name, f"{count:,}") for name, count in report.summary.items()],
        footer="Rows of tables are counted from 1, the header left out.",
    )


def _problems(problems: Sequence[Problem]) -> Text | Table:
    if not problems:
        return Text("None was found.")
    rows: list[tuple[str | Cell, ...]] = [("severity", "count", "problem", "what to do")]
    for problem in problems:
        kind = problem.kind
        more = [f"and {problem.unnamed:,} more"] if problem.examples and problem.unnamed else []
        severity = Cell(kind.severity, kind=_CELLS[kind.severity])
        title = Cell(kind.title, [*problem.examples, *more])
        rows.append((severity, f"{problem.count:,}", title, kind.advice))
    return Table(rows, words=True)


def draw_pictures(wanted: Mapping[str, Sequence[ListedImage]], workers: int) -> list[Gallery]:
    """Small pictures of the first images of each kind."""
    first = {title: images[:EXAMPLES] for title, images in wanted.items() if images}
    paths = dict.fromkeys(image.path for images in first.values() for image in images)
    drawn: dict[str, bytes] = {}
    tasks = ((path, SIDE) for path in paths)
    for (path, _), answer in answers(thumbnail_work, tasks, workers, seconds=SECONDS):
        if not isinstance(answer, ProcessLost) and answer[1]:
            drawn[path] = bytes(answer[1])

    def picture(image: ListedImage) -> Picture:
        words = [Path(image.name).name, f"row {image.row}, {image.split}"]
        return Picture([drawn[image.path]], words, title=image.name)

    return [
        Gallery(title, "", [picture(one) for one in images if one.path in drawn], small=True)
        for title, images in first.items()
    ]
