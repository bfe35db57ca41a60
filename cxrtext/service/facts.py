"""What is known of an archive as a whole."""

from dataclasses import dataclass
from typing import Protocol

from cxrtext.index import Archive
from cxrtext.index.search.archive import EXACT_BYTES


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """What an archive holds, and how it is searched."""

    images: int
    sentences: int
    columns: int
    exact: bool  # whether a search over all images is exact where no mode is asked for
    candidates: str | None  # kind of the structure that the fast search looks in
    recall_at_10: float | None  # share of the ten best that it finds
    exact_share: float | None  # share of the images that an exact search scores


class Coverage(Protocol):
    """How much of an archive an answer rests on, where its parts are asked one by one."""

    @property
    def missing(self) -> list[str]:
        """Names of the parts that gave nothing."""

    @property
    def sentence(self) -> str | None:
        """The same in words, where one is missing."""

    @property
    def header(self) -> str | None:
        """The same for a header of the answer; None where none was asked."""


def facts_of(archive: Archive) -> IndexFacts:
    """What is known of an archive whose indexes are here."""
    snapshots = archive.snapshots()
    tunings = [snapshot.candidates for snapshot in snapshots]
    recalls = [t["recall_at_10"] for t in tunings if t.get("recall_at_10") is not None]
    shares = [t["reranked"] for t in tunings if t.get("reranked") is not None]
    sketches = [one.arrays["sketch"] for one in snapshots if one.structure is not None]
    return IndexFacts(
        images=archive.images,
        sentences=archive.sentences,
        columns=len(archive.columns()),
        exact=all(sketch.nbytes <= EXACT_BYTES for sketch in sketches),
        candidates=next((t["kind"] for t in tunings if t.get("kind")), None),
        recall_at_10=min(recalls) if recalls else None,
        exact_share=round(max(shares), 6) if shares else None,
    )
