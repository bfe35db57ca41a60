"""Archive search: the catalogue, the vectors, building and searching."""

from cxrtext.index.build import IndexSummary, build_index
from cxrtext.index.catalogue import IndexedImage
from cxrtext.index.search import ImageHit, Index, SentenceHit, open_index

__all__ = [
    "ImageHit",
    "Index",
    "IndexSummary",
    "IndexedImage",
    "SentenceHit",
    "build_index",
    "open_index",
]
