"""The flow of images as a drawing: a column of steps, what leaves them beside it, tasks below."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

from cxrtext.evaluation.documents.flow import Flow, Step
from cxrtext.page import draw_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

WIDTH, MARGIN, GAP = 860, 12, 26
LINE, PADDING, LETTER = 15.5, 9, 6.3
"""Height of a line, space inside a box, and mean width of a letter, in pixels."""
COLUMN = 405
"""Width of the column of steps."""
ASIDE = 470
"""Where the boxes at its right begin."""
MOST_LINES = 16
"""Lines of a box below the steps; more are counted."""
TALL = 12
"""Lines of labels beyond which their box is as wide as the drawing."""
INK, EDGE, SOFT = "#1d2329", "#56616c", "#f4f6f8"


@dataclass(frozen=True, slots=True)
class Frame:
    """A box: its left and upper edge, its width, its title and its lines; the title stands out."""

    x: float
    y: float
    width: float
    title: str
    lines: Sequence[str]

    @property
    def heads(self) -> list[str]:
        """The lines of its title."""
        return wrap(self.title, int((self.width - 2 * PADDING) / (LETTER * 1.08)))

    @property
    def height(self) -> float:
        """Its height in pixels."""
        return 2 * PADDING + LINE * (len(self.heads) + len(self.lines)) - 3

    def draw(self, axes: "Axes", color: str) -> None:
        """Draw it; y goes down."""
        from matplotlib.patches import FancyBboxPatch

        rounded = "round,pad=0,rounding_size=4"
        place = (self.x, self.y), self.width, self.height
        axes.add_patch(
            FancyBboxPatch(*place, boxstyle=rounded, facecolor=color, edgecolor=EDGE, linewidth=0.8)
        )
        for number, line in enumerate((*self.heads, *self.lines)):
            weight = "bold" if number < len(self.heads) else "normal"
            place_of = self.x + PADDING, self.y + PADDING + LINE * number
            axes.text(*place_of, line, va="top", ha="left", color=INK, weight=weight)


def _wrapped(lines: Sequence[str], width: float) -> list[str]:
    letters = int((width - 2 * PADDING) / LETTER)
    return [part for line in lines for part in wrap(line, letters, subsequent_indent="   ")]


def _frame(x: float, y: float, width: float, title: str, lines: Sequence[str]) -> Frame:
    return Frame(x, y, width, title, _wrapped(lines, width))


def _steps(flow: Flow) -> tuple[list[Frame], list[Frame | None], float]:
    """The boxes of the steps, what leaves each, and where the last ends."""
    y = float(MARGIN)
    steps: list[Frame] = []
    asides: list[Frame | None] = []
    for step in flow.steps:
        frame = _frame(MARGIN, y, COLUMN, step.title, [step.text])
        steps.append(frame)
        aside = _aside(step, frame.y + frame.height + GAP / 2)
        asides.append(aside)
        y = frame.y + frame.height + GAP + (aside.height if aside else 0)
    return steps, asides, y - GAP


def _aside(step: Step, y: float) -> Frame | None:
    if not step.left_out:
        return None
    total = sum(part.images for part in step.left_out.values())
    lines = [f"{why}: {some.text(step.noun)}" for why, some in step.left_out.items()]
    width = WIDTH - ASIDE - MARGIN
    return _frame(ASIDE, y, width, f"Left out: {total:,}", lines)


Texts = tuple[str, list[str]]
"""The title of a box below the steps, and its lines."""


def _labels(flow: Flow) -> list[Texts]:
    lines = []
    for finding, numbers in flow.labels.items():
        parts = [f"{n:,} {name}" for name, n in numbers.items() if n or name == "with"]
        lines.append(f"{finding}: {', '.join(parts)}")
    return [("Labels of the images measured", lines)] if lines else []


def _below(flow: Flow, y: float) -> list[Frame]:
    """Boxes of labels and tasks beside each other; those of many findings have their own row."""
    labels = _labels(flow)
    tasks = [(task.title, [f"{what}: {n:,}" for what, n in task.lines]) for task in flow.tasks]
    if any(len(_wrapped(lines, WIDTH / 3 - GAP)) > TALL for _, lines in labels):
        first = _row(labels, y, 1)
        return [*first, *_row(tasks, first[0].y + first[0].height + GAP, 3)]
    return _row([*labels, *tasks], y, 3)


def _row(boxes: Sequence[Texts], y: float, most: int) -> list[Frame]:
    """Boxes of equal width, so many beside each other at most."""
    across = min(max(len(boxes), 1), most)
    width = (WIDTH - 2 * MARGIN - GAP * (across - 1)) / across
    frames: list[Frame] = []
    top = y
    for number, (title, texts) in enumerate(boxes):
        if number and number % across == 0:
            top = max(frame.y + frame.height for frame in frames) + GAP
        lines = texts[:MOST_LINES]
        if len(texts) > MOST_LINES:
            lines = [*lines, f"… and {len(texts) - MOST_LINES} more, in flow.md"]
        left = MARGIN + (width + GAP) * (number % across)
        frames.append(_frame(left, top, width, title, lines))
    return frames


def flow_svg(flow: Flow) -> bytes:
    """The drawing, as SVG."""
    steps, asides, end = _steps(flow)
    below = _below(flow, end + 2 * GAP)
    height = max([end, *(frame.y + frame.height for frame in below)]) + MARGIN

    def draw(drawing: "Drawing") -> None:
        drawing.set_layout_engine("none")  # everything has its place
        axes = drawing.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, WIDTH), ylim=(height, 0))
        axes.set_axis_off()
        middle = MARGIN + COLUMN / 2
        for number, (step, aside) in enumerate(zip(steps, asides, strict=True)):
            step.draw(axes, SOFT if number < len(steps) - 1 else "#e3eef6")
            if number + 1 < len(steps):
                _arrow(axes, (middle, step.y + step.height), (middle, steps[number + 1].y))
            if aside:
                aside.draw(axes, "white")
                across = aside.y + aside.height / 2
                _arrow(axes, (middle, across), (aside.x, across))
        first_row = [frame for frame in below if frame.y == below[0].y]
        if first_row:
            level = end + GAP
            several = len(first_row) > 1
            ends = [frame.x + frame.width / 2 if several else middle for frame in first_row]
            axes.plot([middle, middle], [end, level], color=EDGE, linewidth=0.9)
            axes.plot(
                [min(*ends, middle), max(*ends, middle)], [level] * 2, color=EDGE, linewidth=0.9
            )
            for x, frame in zip(ends, first_row, strict=True):
                _arrow(axes, (x, level), (x, frame.y))
        for frame in below:
            frame.draw(axes, "white")

    return draw_svg(WIDTH, height, draw)


def _arrow(axes: "Axes", start: tuple[float, float], end: tuple[float, float]) -> None:
    style = {"arrowstyle": "-|>", "color": EDGE, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=end, xytext=start, arrowprops=style)
