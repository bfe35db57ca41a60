"""Every report as one HTML page that needs no other file and runs no script.

A page is a list of sections, a section a list of blocks.  Everything is escaped; pictures and
figures are in the page as data.  Texts between backquotes are set in a fixed-width face; in tables,
brackets after a figure ("0.81 [0.78, 0.84]") are set small.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

EMPTY = "–"
RESEARCH = "Research use only; not a medical device."
COLORS = (
    "#0072b2", "#d55e00", "#009e73", "#b0447f", "#a67c00", "#3a9bd4", "#5b5b5b", "#8c564b",
)  # fmt: skip
"""For the series of a figure; the color-blind can tell them apart."""

DENSE = 7
"""With at least this many columns, intervals are put below their figures."""

_STYLE: dict[Any, Any] = {
    "axes.edgecolor": "#d9dee3",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelcolor": "#56616c",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": "#1d2329",
    "axes.titlelocation": "left",
    "axes.titlesize": 9.4,
    "axes.titleweight": "bold",
    "axes.unicode_minus": True,
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "grid.color": "#d9dee3",
    "grid.linewidth": 0.75,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "savefig.transparent": True,
    "svg.fonttype": "path",
    "svg.hashsalt": "cxrtext",  # otherwise the names inside an SVG differ from run to run
    "text.parse_math": False,  # a dollar sign in a name is not mathematics
    "xtick.color": "#56616c",
    "xtick.major.size": 0,
    "ytick.color": "#56616c",
    "ytick.major.size": 0,
}


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; ``kind`` is "", "note" (small), "lead" (large) or "warn" (in a frame)."""

    text: str
    kind: Literal["", "note", "lead", "warn"] = ""


@dataclass(frozen=True, slots=True)
class Bullets:
    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class Cell:
    """A table's cell with small lines below its text; ``kind`` is "", "error" or "warning"."""

    text: str
    lines: Sequence[str] = ()
    kind: Literal["", "error", "warning"] = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the first row is the header, the first column names the rows.

    ``strong`` are the rows that stand out; the header is row 0.  ``words``: cells are prose.
    ``ends`` names the two numbers in brackets after a figure.
    """

    rows: Sequence[Sequence[str | Cell]]
    caption: str = ""
    strong: frozenset[int] = frozenset()
    words: bool = False
    ends: tuple[str, str] = ("low", "high")

    @property
    def kind(self) -> str:
        return "words" if self.words else "dense" if len(self.rows[0]) >= DENSE else ""


@dataclass(frozen=True, slots=True)
class Figure:
    """Drawings side by side, SVG or PNG, each with its alternative text."""

    drawings: Sequence[tuple[bytes, str]]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """Pictures side by side (PNG), with lines below.

    The first of several lines stands out.  ``title`` is shown when a pointer rests on it.
    """

    pngs: Sequence[bytes]
    caption: Sequence[str]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Gallery:
    """Pictures, as thumbnails if ``small``."""

    title: str
    note: str
    pictures: Sequence[Picture]
    small: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """Blocks side by side if there is room."""

    blocks: Sequence["Block"]


Block = Text | Bullets | Table | Figure | Gallery | Columns | Markup
"""``Markup`` is HTML that is escaped already."""


@dataclass(slots=True)
class Section:
    title: str
    blocks: list[Block] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        return "-".join("".join(c if c.isalnum() else " " for c in self.title.lower()).split())


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure in the page's head, with a small line below."""

    name: str
    value: str
    note: str = ""


def html_page(
    heading: str,
    sections: Sequence[Section],
    *,
    title: str = "",
    head: Sequence[Block] = (),
    tiles: Sequence[Tile] = (),
    links: bool = True,
    footer: str = RESEARCH,
) -> str:
    """A page with its headline, which is also the window's title by default.

    ``head`` are blocks between the headline and the tiles, ``tiles`` the figures to read first;
    ``links`` puts links to the sections into the head.
    """
    page = _environment().get_template("page.html.j2")
    return page.render(
        heading=heading, title=title or heading, head=head, tiles=tiles, sections=sections,
        links=links and len(sections) > 1, footer=footer,
    )  # fmt: skip


def markdown(heading: str, sections: Sequence[Section], head: Sequence[Block] = ()) -> str:
    """The texts and tables of a page for a terminal; figures and pictures are left out."""
    parts = [f"# {heading}", *map(markdown_block, head)]
    for section in sections:
        parts += [f"## {section.title}", *map(markdown_block, section.blocks)]
    return "\n\n".join([*filter(None, parts), RESEARCH]) + "\n"


def markdown_block(block: Block) -> str:
    """A text, a list or a table as Markdown; "" for blocks without words."""
    if isinstance(block, Text):
        return f"**{block.text}**" if block.kind == "lead" else block.text
    if isinstance(block, Bullets):
        return "\n".join(f"- {item}" for item in block.items)
    if not isinstance(block, Table):
        return ""
    cells = [[cell if isinstance(cell, str) else cell.text for cell in row] for row in block.rows]
    lines = ["| " + " | ".join(map(markdown_cell, row)) + " |" for row in cells]
    lines.insert(1, "|" + "---|" * len(cells[0]))
    return "\n".join(([f"### {block.caption}\n"] if block.caption else []) + lines)


def markdown_cell(text: str) -> str:
    """Make a text safe for a cell of a Markdown table; the only HTML left is ``<br>``."""
    one_line = re.sub(r"\s*[\r\n]+\s*", " ", text).replace("|", "\\|")
    return re.sub(r"<(?!br>)(?=[a-zA-Z/!?])", "&lt;", one_line)


def _environment() -> Environment:
    folder = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"code": _code, "uri": _uri, "bracket": _bracket}
    environment.tests["block"] = lambda block, name: type(block).__name__ == name
    return environment


def _code(text: str) -> Markup:
    parts = text.split("`")
    return Markup().join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def _uri(picture: bytes) -> str:
    kind = "png" if picture.startswith(b"\x89PNG") else "svg+xml"
    return f"data:image/{kind};base64,{b64encode(picture).decode('ascii')}"


def _bracket(text: str) -> Markup:
    value, bracket, ends = text.partition(" [")
    if bracket and ends.endswith("]"):
        return Markup("{} <small>[{}</small>").format(value, ends)
    return escape(text)


def draw_svg(width: float, height: float, draw: Callable[["Drawing"], None]) -> bytes:
    """Let ``draw`` fill an empty figure of a size in pixels, in the style of the page.

    The drawing is the same every time, byte for byte, and matplotlib's own style stays as it is.
    """
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib.figure import Figure as Drawing

    with mpl.rc_context({**_STYLE, "axes.prop_cycle": cycler(color=COLORS)}):
        drawing = Drawing(figsize=(width / 96, height / 96), layout="constrained")
        draw(drawing)
        file = BytesIO()
        drawing.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


class Estimated(str):
    """A figure with its interval, "0.812 [0.780, 0.843]", that knows its three numbers."""

    numbers: tuple[str, str, str]

    def __new__(cls, value: str, low: str, high: str) -> Self:
        text = super().__new__(cls, f"{value} [{low}, {high}]")
        text.numbers = value, low, high
        return text


def number(value: float | None, digits: int = 3) -> str:
    """A number, or a dash; a number rounded to 0 has no sign."""
    if value is None:
        return EMPTY
    return f"{value:z.{digits}f}".replace("-", "−").replace("inf", "∞")


def without_zero(text: str) -> str:
    """The same figures without the zero before the point, as in papers.

    >>> without_zero("0.87 [0.81, 1.00] of 10.5")
    '.87 [.81, 1.00] of 10.5'
    """
    return re.sub(r"(?<![\d.])0(?=\.\d)", "", text)


def with_interval(value: float | None, ends: Sequence[float] | None, digits: int = 3) -> str:
    """A number with its interval, if any, as in "0.812 [0.780, 0.843]"."""
    if value is None or ends is None:
        return number(value, digits)
    return Estimated(number(value, digits), number(ends[0], digits), number(ends[1], digits))
