"""Drawings as SVG inside a page: an axis frame, and what is drawn in it.

Colours are the page's variables, so that a drawing follows its light and its dark look.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

Range = tuple[float, float]
Points = Sequence[tuple[float, float]]

MOST_POINTS = 400
"""Points of a line; more cannot be told apart, and make a page heavy."""

SERIES = 8
"""Colours of the palette."""


def tick(value: float) -> str:
    """A number as an axis shows it."""
    text = f"{value:,.0f}" if float(value).is_integer() else f"{value:.2g}"
    return text.replace("-", "−")


def thinned(points: Points) -> list[tuple[float, float]]:
    """At most :data:`MOST_POINTS` of the points, with both ends."""
    if len(points) <= MOST_POINTS:
        return list(points)
    step = (len(points) - 1) / (MOST_POINTS - 1)
    return [points[round(i * step)] for i in range(MOST_POINTS)]


@dataclass(slots=True)
class Plot:
    """A frame with axes, and what has been drawn in it.

    Args:
        title: Read out by screen readers, and shown above the frame.
        x_range: Values at the left and at the right.
        y_range: Values at the bottom and at the top.
        width: Of the drawing.
        height: Of the drawing.
        left: Margin for the labels of the y axis.
        bottom: Margin for the labels of the x axis.
        parts: What has been drawn.
    """

    title: str
    x_range: Range
    y_range: Range
    width: float = 340
    height: float = 300
    left: float = 44
    bottom: float = 40
    parts: list[str] = field(default_factory=list)

    top: float = 26
    right: float = 12

    def x(self, value: float) -> float:
        """The place of a value along the x axis."""
        low, high = self.x_range
        return self.left + (self.width - self.left - self.right) * (value - low) / (high - low)

    def y(self, value: float) -> float:
        """The place of a value along the y axis."""
        low, high = self.y_range
        room = self.height - self.top - self.bottom
        return self.height - self.bottom - room * (value - low) / (high - low)

    def axes(
        self, x_ticks: Iterable[float], y_ticks: Iterable[float], x_label: str, y_label: str
    ) -> None:
        """Draw grid lines, numbers and names."""
        floor, ceiling = self.height - self.bottom, self.top
        for value in x_ticks:
            place = self.x(value)
            self.parts.append(
                f'<line class="grid" x1="{place:.1f}" y1="{ceiling}" x2="{place:.1f}" '
                f'y2="{floor}"/><text x="{place:.1f}" y="{floor + 14}" '
                f'text-anchor="middle">{tick(value)}</text>'
            )
        for value in y_ticks:
            place = self.y(value)
            self.parts.append(
                f'<line class="grid" x1="{self.left}" y1="{place:.1f}" '
                f'x2="{self.width - self.right}" y2="{place:.1f}"/><text x="{self.left - 6}" '
                f'y="{place + 3.5:.1f}" text-anchor="end">{tick(value)}</text>'
            )
        middle = (self.left + self.width - self.right) / 2
        self.parts.append(
            f'<text class="name" x="{middle:.1f}" y="{self.height - 6}" text-anchor="middle">'
            f"{escape(x_label)}</text>"
        )
        if y_label:
            high = (floor + ceiling) / 2
            self.parts.append(
                f'<text class="name" transform="translate(12 {high:.1f}) rotate(-90)" '
                f'text-anchor="middle">{escape(y_label)}</text>'
            )

    def line(self, points: Points, series: int | None = None, *, step: bool = False) -> None:
        """Draw a line; without a series it is a thin reference line."""
        places = [(self.x(x), self.y(y)) for x, y in thinned(points)]
        path = f"M{places[0][0]:.1f} {places[0][1]:.1f}"
        for x, y in places[1:]:
            path += f"H{x:.1f}V{y:.1f}" if step else f"L{x:.1f} {y:.1f}"
        name = "reference" if series is None else f"line c{series % SERIES}"
        self.parts.append(f'<path class="{name}" d="{path}"/>')

    def dot(
        self,
        x: float,
        y: float,
        series: int,
        *,
        radius: float = 4,
        hollow: bool = False,
        tip: str = "",
    ) -> None:
        """Draw a dot."""
        title = f"<title>{escape(tip)}</title>" if tip else ""
        self.parts.append(
            f'<circle class="{"hollow" if hollow else "dot"} c{series % SERIES}" '
            f'cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="{radius:.1f}">{title}</circle>'
        )

    def bar(self, x: Range, height: float, series: int, tip: str) -> None:
        """Draw a bar from one value to another, up from 0."""
        first, last, top = self.x(x[0]), self.x(x[1]), self.y(height)
        self.parts.append(
            f'<rect class="fill c{series % SERIES}" x="{first:.1f}" y="{top:.1f}" '
            f'width="{max(last - first - 1, 0.5):.1f}" height="{self.y(0) - top:.1f}">'
            f"<title>{escape(tip)}</title></rect>"
        )

    def label(self, x: float, y: float, text: str, anchor: str = "start") -> None:
        """Write a text at a place in pixels."""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def svg(self) -> str:
        """The drawing."""
        return (
            f'<svg viewBox="0 0 {self.width:.0f} {self.height:.0f}" '
            f'style="max-width:{self.width:.0f}px" role="img" aria-label="{escape(self.title)}">'
            f'<text class="title" x="{self.left}" y="14">{escape(self.title)}</text>'
            f"{''.join(self.parts)}</svg>"
        )
