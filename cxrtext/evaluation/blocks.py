"""What a report is made of; Markdown and HTML are two ways to write the same blocks."""

from collections.abc import Sequence
from dataclasses import dataclass, field

EMPTY = "–"


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; ``code`` is what stands in a fixed-width face."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Args:
        rows: The first is the header.
        caption: What it shows.
        strong: Rows that stand out, the header being row 0.
    """

    rows: list[list[str]]
    caption: str = ""
    strong: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing; Markdown leaves it out.

    Args:
        svg: One drawing, or several beside each other.
        caption: What it shows.
        legend: Name of each series, in the order of the palette.
    """

    svg: Sequence[str]
    caption: str
    legend: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a patient's image.

    Args:
        pngs: One, or several beside each other.
        caption: Lines below it.
        mark: "right", "wrong" or "".
    """

    pngs: tuple[bytes, ...]
    caption: tuple[str, ...]
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Gallery:
    """Pictures of patients; Markdown leaves them out.

    Args:
        title: What they have in common.
        note: A line below the title.
        pictures: The pictures.
        small: Whether they are thumbnails.
    """

    title: str
    note: str
    pictures: list[Picture]
    small: bool = False


Block = Text | Table | Figure | Gallery


@dataclass(slots=True)
class Section:
    """A section.

    Args:
        title: Its heading.
        blocks: What stands in it.
    """

    title: str
    blocks: list[Block] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        """Its name in links."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.title.lower()).split())


def number(value: float | None, digits: int = 3) -> str:
    """A number, or a dash."""
    return EMPTY if value is None else f"{value:.{digits}f}".replace("-", "−")


def with_interval(value: float | None, ends: Sequence[float] | None, digits: int = 3) -> str:
    """A number as "0.812 [0.780, 0.843]", its interval where there is one."""
    if value is None or ends is None:
        return number(value, digits)
    return f"{number(value, digits)} [{number(ends[0], digits)}, {number(ends[1], digits)}]"
