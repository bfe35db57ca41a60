"""What a server asks the shards of an archive, and what they answer: of one version of cxrtext.

Questions are embedded once, by the server that was asked; shards get vectors.  Numbers travel with
all their digits, so that the order of the merged results is that of one archive.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, model_validator

PATH = "/v1/shard"
VERSION = 1

MOST_HITS = 500
MOST_ROWS = 500
KEY_PARTS = 2**40
"""An image's key in a shard is its number, and this times which of the shard's indexes has it."""

DTYPES = {"f2": np.float16, "f4": np.float32, "i8": np.int64, "u8": np.uint64}

Whole = Annotated[int, Field(ge=0)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Mode = Literal["auto", "exact", "fast"]


class Message(BaseModel):
    """A question to a shard or its answer; a field that is not known is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Vectors(Message):
    """An array: its shape, its type, and its bytes, little-endian, the last dimension together."""

    shape: Annotated[tuple[Whole, ...], Field(max_length=3)]
    kind: Literal["f2", "f4", "i8", "u8"]
    data: Base64Bytes

    @model_validator(mode="after")
    def _fits(self) -> "Vectors":
        if len(self.data) != math.prod(self.shape) * np.dtype(DTYPES[self.kind]).itemsize:
            raise ValueError("the bytes are not those of the shape")
        if self.kind in ("f2", "f4") and not np.isfinite(self.array()).all():
            raise ValueError("not every number is finite")
        return self

    @classmethod
    def of(cls, values: NDArray[Any], *, small: bool = False) -> "Vectors":
        """Pack an array; ``small`` takes float16 where that loses nothing."""
        kind = {"f": "f4", "i": "i8", "u": "u8"}[values.dtype.kind]
        array = np.ascontiguousarray(values, dtype=DTYPES[kind])
        if small and kind == "f4":
            half = array.astype(np.float16)
            if np.array_equal(half.astype(np.float32), array):
                kind, array = "f2", half
        # The field's own validation wants text in base64.
        return cls.model_construct(shape=array.shape, kind=kind, data=array.tobytes())

    def array(self) -> NDArray[Any]:
        """The array, float16 as float32; a copy that can be written."""
        found = np.frombuffer(self.data, dtype=DTYPES[self.kind]).reshape(self.shape)
        return found.astype(np.float32) if self.kind == "f2" else found.copy()


def digest_of(vectors: Sequence[Vectors]) -> str:
    """A digest of some arrays as they are sent."""
    total = hashlib.blake2b(digest_size=16)
    for one in vectors:
        total.update(f"{one.kind}{one.shape}".encode() + one.data)
    return total.hexdigest()


class Asked(Message):
    """What every question says: the protocol, and the model that embedded it."""

    version: Literal[1] = 1
    model: str


class Answered(Message):
    """What every answer says."""

    model: str


class QueryVectors(Message):
    """A query; see :class:`cxrtext.index.Query`."""

    texts: Vectors | None = None
    without: Vectors | None = None
    image: Vectors | None = None
    image_weight: Annotated[float, Field(ge=0, le=1)] = 0.5


class ImagesAsked(Asked):
    """Images that fit a query."""

    query: QueryVectors
    where: Annotated[str | None, Field(max_length=10_000)] = None
    exclude_patients: Annotated[list[str], Field(max_length=256)] = Field(default_factory=list)
    min_score: Finite | None = None


class SearchAsked(ImagesAsked):
    """Some of the ranked images, one after the other."""

    mode: Mode = "auto"
    skip: Annotated[int, Field(ge=0, le=2**31)] = 0
    take: Annotated[int, Field(ge=1, le=MOST_HITS)]
    means: bool = False  # whether their mean regions are wanted


class Row(Message):
    """An image of a shard."""

    key: Whole
    image_id: str
    study_id: str
    patient_id: str
    split: str
    width: int
    height: int
    metadata: dict[str, str]
    labels: dict[str, Finite] = Field(default_factory=dict)
    unlike: Finite | None = None


class SearchPart(Answered):
    """The ranked images, and whether there may be more."""

    scores: list[Finite]
    rows: list[Row]
    means: Vectors | None = None
    matching: Whole
    scored: Whole
    exact: bool
    more: bool

    @model_validator(mode="after")
    def _fits(self) -> "SearchPart":
        if len(self.scores) != len(self.rows):
            raise ValueError("not a score for each image")
        if self.means is not None and self.means.shape[:1] != (len(self.rows),):
            raise ValueError("not a mean region for each image")
        return self


class RankPart(Answered):
    """Every ranked image by score and key, best first."""

    generation: str
    matching: Whole
    scores: Vectors
    keys: Vectors
    columns: list[str]

    @model_validator(mode="after")
    def _fits(self) -> "RankPart":
        if self.scores.shape != self.keys.shape or len(self.keys.shape) != 1:
            raise ValueError("not a score for each image")
        return self


class RowsAsked(Asked):
    """Images by their keys, in the generation of the index that these are of."""

    generation: str
    keys: Annotated[list[Whole], Field(max_length=MOST_ROWS)]
    means: bool = False


class RowsPart(Answered):
    """Those images; none where the generation is another, or one was deleted."""

    rows: list[Row] | None
    means: Vectors | None = None


class ImageAsked(Asked):
    """An image by its id."""

    image_id: Annotated[str, Field(max_length=4096)]
    regions: bool = True


class ImagePart(Answered):
    """The image, if the shard holds it, and its regions [N, D]."""

    row: Row | None = None
    regions: Vectors | None = None


class ColumnPart(Message):
    """What is in a column of a shard."""

    name: str
    filled: Whole
    numbers: Whole
    ends: list[int | Finite]
    counts: dict[str, Whole]


class ColumnsPart(Answered):
    """The columns of a shard that filters can name."""

    columns: list[ColumnPart]


class LikenessAsked(Asked):
    """Whether an image with a mean region [D] is like any of the shard."""

    mean: Vectors


class LikenessPart(Answered):
    """Whether it is less like any than they are like each other."""

    unlike: bool


class CandidatesAsked(Asked):
    """The images of a shard that may stand for all of the archive."""

    which: Whole


class CandidatesPart(Answered):
    """Their order among all shards', and their keys; how many images and sentences there are."""

    order: Vectors
    keys: Vectors
    images: Whole
    sentences: Whole
    state: str  # a digest of the two


class RegionsAsked(Asked):
    """Regions of images by their keys."""

    keys: Annotated[list[Whole], Field(max_length=MOST_ROWS)]


class RegionsPart(Answered):
    """Regions [b, N, D] of them, in rising order of the keys; None where one was deleted."""

    regions: Vectors | None


class SentencesAsked(Asked):
    """Sentences like a text [D], or that fit an image with regions [N, D].

    What they score at large is computed by images of the whole archive: ``background`` is the
    digest of their regions, which are sent where a shard does not know them; None ranks by score.
    """

    text: Vectors | None = None
    image: Vectors | None = None
    k: Annotated[int, Field(ge=1, le=20_000)]
    where: Annotated[str | None, Field(max_length=10_000)] = None
    min_score: Finite | None = None
    which: Whole = 0
    background: str | None = None
    regions: list[Vectors] | None = None


class SentenceFound(Message):
    """A sentence of a shard."""

    sentence: str
    score: Finite
    studies: Whole
    lift: Finite | None = None


class SentencesPart(Answered):
    """The sentences; none where the background is not known."""

    hits: list[SentenceFound] | None
    sentences: Whole
    state: str  # as of the candidates
