"""A project's answers: tables and heatmaps for Python, a terminal and a notebook."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures

from cxrtext.errors import UnavailableError
from cxrtext.images import encode_png
from cxrtext.images.gray import Bytes
from cxrtext.images.overlay import shrunk
from cxrtext.service.answers import EmbeddedImage, FindingScore, Grid, Grounding

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

T = TypeVar("T")
Row = Mapping[str, Any]

SHOWN = 20  # rows of a table that a terminal or a notebook shows
SHOWN_SIDE = 512  # pixels of an image's longest side there


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


class Tabular:
    """An answer with rows; values missing from a row are null."""

    _rows: Sequence[Row]
    _columns: Sequence[str] = ()  # columns that exist even without rows
    _caption = ""

    def table(self) -> "pa.Table":
        import pyarrow as pa

        names = dict.fromkeys([*self._columns, *(name for row in self._rows for name in row)])
        return pa.table({name: [row.get(name) for row in self._rows] for name in names})

    def to_pandas(self) -> Any:
        """The rows as a pandas data frame (UnavailableError)."""
        try:
            import_module("pandas")
        except ImportError:
            raise UnavailableError(
                "to_pandas() needs pandas, which is not installed; install it, or use table()"
            ) from None
        return self.table().to_pandas()

    def _shown(self) -> tuple[list[list[str]], str]:
        """Cells, the header first, and the line below them."""
        table, more = self.table(), len(self._rows) - SHOWN
        rows = [list(map(_text, row.values())) for row in table.slice(0, SHOWN).to_pylist()]
        below = [self._caption, f"{more} more rows" if more > 0 else ""]
        return [table.column_names, *rows], ", ".join(filter(None, below))

    def __repr__(self) -> str:
        cells, below = self._shown()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        return "\n".join([*lines, below]).rstrip()

    def _repr_html_(self) -> str:
        cells, below = self._shown()
        rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in cells)
        body = "".join(f"<tr>{row}</tr>" for row in rows).replace("td>", "th>", 2 * len(cells[0]))
        return f"<table>{body}</table><small>{escape(below)}</small>"


class Findings(Tabular, dict[str, FindingScore]):
    """Findings of an image by name, in the order of the prompts."""

    def __init__(self, scores: Sequence[FindingScore]) -> None:
        super().__init__({score.finding: score for score in scores})
        self._rows = list(map(asdict, scores))


class Rows(Tabular, tuple[T, ...]):
    """Answers in order, each with its row."""

    def __new__(
        cls, items: Sequence[T], rows: Iterable[Row], columns: Sequence[str] = (), caption: str = ""
    ) -> Self:
        made = super().__new__(cls, items)
        made._rows, made._columns, made._caption = list(rows), columns, caption
        return made


class Embeddings(Tabular):
    """Vectors [n, D] of images, with their ids; as a table, one column for each number."""

    def __init__(self, ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self.ids, self.vectors = list(ids), vectors

    def __len__(self) -> int:
        return len(self.ids)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.vectors, dtype=dtype, copy=copy)

    @cached_property
    def _rows(self) -> Sequence[Row]:  # type: ignore[override]
        numbers = self.vectors.tolist()
        return [
            {"image": name, **{f"e{at}": value for at, value in enumerate(row)}}
            for name, row in zip(self.ids, numbers, strict=True)
        ]

    def __repr__(self) -> str:
        return f"Embeddings({len(self)} images, {self.vectors.shape[1]} numbers each)"

    _repr_html_ = __repr__


@dataclass(frozen=True, slots=True)
class OpenedImage:
    """An image that a project has embedded: later questions do not embed it again."""

    name: str
    embedded: EmbeddedImage
    read: Callable[[], Bytes]  # gives its pixels [H, W] in 8 bits, from the file if it is indexed

    def _repr_png_(self) -> bytes:
        return encode_png(Pictures.fromarray(shrunk(self.read(), SHOWN_SIDE)))


@dataclass(frozen=True, kw_only=True)
class Heatmap(Grounding):
    """Where an image supports a sentence."""

    image: OpenedImage
    sentence: str

    @cached_property
    def map(self) -> Grid:
        """[H, W] over the original's pixels; NaN outside the crop that the model saw."""
        return self.map_over()

    def overlay(self) -> Pictures.Image:
        """The map, the boxes and the peak over the image, at its size."""
        return self.drawn_on(self.image.read())

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the overlay with matplotlib, into new axes or ``ax``."""
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots()[1]
        ax.imshow(np.asarray(self.overlay()))
        ax.set_title(repr(self))
        ax.set_axis_off()
        return ax

    def __repr__(self) -> str:
        nothing = ", nothing stands out" if self.stands_out is False else ""
        return f"{self.read_as or self.sentence} {self.score:.3f}{nothing}"

    def _repr_html_(self) -> str:
        picture = encode_png(self.drawn_on(shrunk(self.image.read(), SHOWN_SIDE)))
        text, data = escape(repr(self)), b64encode(picture).decode("ascii")
        return f'<img src="data:image/png;base64,{data}" alt="{text}"><p>{text}</p>'
