"""The data-check report as one HTML page with small pictures, or as JSON."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cxrtext.datasets.checking.facts import SECONDS, thumbnail_work
from cxrtext.datasets.checking.images import SUSPICIOUS, Pair
from cxrtext.datasets.checking.manifest import ListedImage
from cxrtext.datasets.checking.problems import KINDS, Problem, Severity
from cxrtext.datasets.checking.report import CheckReport, Histogram, verdict
from cxrtext.errors import DataError
from cxrtext.files import write_json, write_text
from cxrtext.images.sandbox import ProcessLost, answers
from cxrtext.page import (
    COLORS,
    Block,
    Cell,
    Columns,
    Figure,
    Gallery,
    Picture,
    Section,
    Table,
    Text,
    Tile,
    draw_svg,
    html_page,
)
from cxrtext.records.manifest import SPLITS

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

ENDINGS = (".html", ".json")  # what a report can be written as
_LEFT_OUT = "Pictures were left out on request: the pixels of a patient's image are protected data."
_PROTECTED = (
    "These are pixels of the images that were checked, and protected data where those are: keep "
    "this page where the images may be kept, or leave the pictures out (`--no-pictures`)."
)
_CELLS: dict[Severity, Literal["", "error", "warning"]]
_CELLS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: ""}
_ROWS = "Rows of tables are counted from 1, the header left out."
SIDE = 160  # longest side of a picture, in pixels
EXAMPLES = 6  # pictures of each view and split, and of each suspicion
_MAX_GROUPS = 6

Wanted = tuple[str, list[ListedImage]]  # what images to be shown together have in common, and they


def check_ending(path: Path) -> None:
    if path.suffix.lower() not in ENDINGS:
        raise DataError(f"{path}: a data-check report ends in {' or '.join(ENDINGS)}")
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name a file")


def write_check(path: Path, report: CheckReport) -> None:
    check_ending(path)
    if path.suffix.lower() == ".html":
        write_text(path, check_page(report))
    else:
        write_json(path, report.to_dict())


def check_page(report: CheckReport) -> str:
    pictures: list[Block] = [Text(_LEFT_OUT)]
    if report.galleries is not None:
        pictures = [Text(_PROTECTED), *report.galleries]
    tables = [Table([table.columns, *table.rows], table.title) for table in report.tables]
    drawn = [(_draw(one), f"{one.title}: {_median(one)}") for one in report.histograms]
    return html_page(
        "Data check",
        [
            Section("Problems", [_problems(report.problems)]),
            Section("Pictures", pictures),
            Section("Distributions", [Figure(drawn)]),
            Section("Tables", [Columns(tables)]),
        ],
        title=f"Data check: {report.data}",
        head=[Text(report.data, "note"), Text(verdict(report), "lead")],
        tiles=[Tile(name, f"{count:,}") for name, count in report.summary.items()],
        footer=_ROWS,
    )


def _problems(problems: Sequence[Problem]) -> Text | Table:
    if not problems:
        return Text("None was found.")
    rows: list[tuple[str | Cell, ...]] = [("severity", "count", "problem", "what to do")]
    for problem in problems:
        kind = problem.kind
        more = [f"and {problem.unnamed:,} more"] if problem.examples and problem.unnamed else []
        rows.append(
            (
                Cell(kind.severity, kind=_CELLS[kind.severity]),
                f"{problem.count:,}",
                Cell(kind.title, [*problem.examples, *more]),
                kind.advice,
            )
        )
    return Table(rows, words=True)


def _draw(histogram: Histogram) -> bytes:
    def draw(drawing: "Drawing") -> None:
        axes = drawing.add_subplot()
        axes.stairs(histogram.counts, histogram.edges, fill=True, color=COLORS[0])
        axes.axvline(histogram.median, color=COLORS[1], linestyle="--")
        axes.set_title(histogram.title)
        axes.set_xlabel(_median(histogram))
        axes.set_xlim(histogram.edges[0], histogram.edges[-1])

    return draw_svg(330, 190, draw)


def _median(histogram: Histogram) -> str:
    value = histogram.median
    return f"median {f'{value:,.0f}' if float(value).is_integer() else f'{value:.3g}'}"


def _spread(images: Sequence[ListedImage]) -> list[ListedImage]:
    if len(images) <= EXAMPLES:
        return list(images)
    step = (len(images) - 1) / (EXAMPLES - 1)
    return [images[round(step * i)] for i in range(EXAMPLES)]


def choose_pictures(
    images: Sequence[ListedImage],
    suspicious: Mapping[str, Sequence[ListedImage]],
    groups: Sequence[Sequence[ListedImage]],
    pairs: Sequence[Pair],
) -> list[Wanted]:
    """Choose what is shown: suspicious, equal, almost equal images; some of each split and view."""
    seen = (code for code in SUSPICIOUS if suspicious.get(code))
    wanted = [(KINDS[code].title, list(suspicious[code][:EXAMPLES])) for code in seen]
    for title, together in (
        ("images with the same content", [group[:EXAMPLES] for group in groups if len(group) > 1]),
        ("pairs of images that look almost the same", pairs),
    ):
        if together:
            wanted.append((title, list(chain.from_iterable(together[: EXAMPLES // 2]))))
    kinds: dict[str, list[ListedImage]] = defaultdict(list)
    for image in images:
        if image.read:
            kinds[f"{image.split}, {image.any_view or 'view unknown'}"].append(image)
    largest = sorted(kinds, key=lambda name: -len(kinds[name]))[:_MAX_GROUPS]
    largest.sort(key=lambda name: (SPLITS.index(name.split(",")[0]), -len(kinds[name])))
    return wanted + [(name, _spread(kinds[name])) for name in largest]


def draw_pictures(wanted: Sequence[Wanted], workers: int) -> list[Gallery]:
    paths = dict.fromkeys(image.path for _, images in wanted for image in images)
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
        for title, images in wanted
    ]
