"""What a project answers: tables and heatmaps, as Python, a terminal and a notebook take them."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np
from PIL import Image as Pictures

from cxrtext.errors import UnavailableError
from cxrtext.images import encode_png
from cxrtext.images.gray import Bytes
from cxrtext.images.overlay import shrunk
from cxrtext.index import FoundImages, ImageHit
from cxrtext.service.answers import EmbeddedImage, FindingScore, Grid, GroundedBox, Grounding
from cxrtext.service.tables import HIT_COLUMNS, hit_row
from cxrtext.service.verify.verify import SupportedSentence, Verification

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
    """What has rows; a value that a row lacks is null."""

    def __init__(self, rows: Iterable[Row], columns: Iterable[str] = (), caption: str = "") -> None:
        self._rows, self._caption = list(rows), caption
        names = (name for row in self._rows for name in row)
        self._columns = list(dict.fromkeys([*columns, *names]))

    def table(self) -> "pa.Table":
        """The rows as an Arrow table."""
        import pyarrow as pa

        return pa.table({name: [row.get(name) for row in self._rows] for name in self._columns})

    def to_pandas(self) -> Any:
        """The rows as a data frame of pandas (UnavailableError)."""
        try:
            import_module("pandas")
        except ImportError:
            raise UnavailableError(
                "to_pandas() needs pandas, which is not installed; install it, or use table()"
            ) from None
        return self.table().to_pandas()

    def _cells(self) -> list[list[str]]:
        rows = self._rows[:SHOWN]
        return [self._columns, *([_text(row.get(n)) for n in self._columns] for row in rows)]

    def _below(self) -> str:
        more = len(self._rows) - SHOWN
        return ", ".join(filter(None, [self._caption, f"{more} more rows" if more > 0 else ""]))

    def __repr__(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        return "\n".join(filter(None, [*lines, self._below()]))

    def _repr_html_(self) -> str:
        marks = ["th"] + ["td"] * len(self._rows)
        rows = (
            "".join(f"<{mark}>{escape(cell)}</{mark}>" for cell in row)
            for mark, row in zip(marks, self._cells(), strict=False)
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table>{body}</table><small>{escape(self._below())}</small>"


class Findings(Tabular, Mapping[str, FindingScore]):
    """Findings of an image by name, in the order of the prompts."""

    def __init__(self, found: Sequence[FindingScore]) -> None:
        super().__init__(map(asdict, found))
        self._found = {one.finding: one for one in found}

    def __getitem__(self, finding: str) -> FindingScore:
        return self._found[finding]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class Rows(Tabular, Sequence[T], Generic[T]):
    """Answers in order, each of them with its row."""

    def __init__(self, items: Sequence[T], rows: Iterable[Row], **options: Any) -> None:
        super().__init__(rows, **options)
        self._items = tuple(items)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...
    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        return self._items[at]

    def __len__(self) -> int:
        return len(self._items)


class Hits(Rows[ImageHit]):
    """Found images, the best first."""

    def __init__(self, found: FoundImages) -> None:
        said = f"{len(found.hits)} of {found.searched} images"
        said += "" if found.exact else f", of which {found.scored} candidates were scored"
        super().__init__(found.hits, map(hit_row, found.hits), columns=HIT_COLUMNS, caption=said)
        self.searched = found.searched
        """Images that the filter leaves."""
        self.exact = found.exact
        """Whether these are proven to be the best."""


class Verified(Rows[SupportedSentence]):
    """The sentences of a report, in its order."""

    def __init__(self, found: Verification) -> None:
        super().__init__(found.sentences, map(_sentence_row, found.sentences))
        self.reference = found.reference


def _sentence_row(one: SupportedSentence) -> Row:
    names = ("section", "sentence", "wording", "score", "support", "verdict")
    return {name: getattr(one, name) for name in names} | {"reason": one.judgment.reason}


@dataclass(frozen=True, slots=True)
class OpenedImage:
    """An image that a project has embedded: what is asked of it next does not embed it again."""

    name: str
    embedded: EmbeddedImage
    read: Callable[[], Bytes]

    @property
    def pixels(self) -> Bytes:
        """[H, W] in 8 bits, upright; of an indexed image its file is read."""
        return self.read()

    def _repr_png_(self) -> bytes:
        return encode_png(Pictures.fromarray(shrunk(self.pixels, SHOWN_SIDE)))


@dataclass(frozen=True)
class Heatmap:
    """Where an image supports a sentence."""

    image: OpenedImage
    sentence: str
    grounding: Grounding

    @property
    def score(self) -> float:
        """Score of the whole image, in [−1, 1]."""
        return self.grounding.score

    @property
    def peak(self) -> tuple[float, float]:
        """Center of the best region, x and y in original pixels."""
        return self.grounding.peak

    @property
    def boxes(self) -> list[GroundedBox]:
        return self.grounding.boxes

    @cached_property
    def map(self) -> Grid:
        """[H, W] over the original's pixels; NaN outside the crop that the model saw."""
        return self.grounding.map()

    def overlay(self) -> Pictures.Image:
        """The map, the boxes and the peak over the image, in its size."""
        return self.grounding.drawn_on(self.image.pixels)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the overlay with matplotlib, into axes of their own or those that are given."""
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots()[1]
        ax.imshow(np.asarray(self.overlay()))
        ax.set_title(self._caption())
        ax.set_axis_off()
        return ax

    def _caption(self) -> str:
        read = "" if self.grounding.read_as is None else f" (read as: {self.grounding.read_as})"
        nothing = ", nothing stands out" if self.grounding.stands_out is False else ""
        return f"{self.sentence}{read} {self.score:.3f}{nothing}"

    def __repr__(self) -> str:
        return f"Heatmap({self._caption()})"

    def _repr_png_(self) -> bytes:
        return encode_png(self.grounding.drawn_on(shrunk(self.image.pixels, SHOWN_SIDE)))

    def _repr_html_(self) -> str:
        picture = b64encode(self._repr_png_()).decode("ascii")
        return (
            f'<figure><img src="data:image/png;base64,{picture}" alt="overlay">'
            f"<figcaption>{escape(self._caption())}</figcaption></figure>"
        )
