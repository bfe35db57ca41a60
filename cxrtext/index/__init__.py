"""Archive search: the catalogue, the vectors, building, changing and searching."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.index.build import build_index
    from cxrtext.index.catalogue import IndexedImage
    from cxrtext.index.cohort import Cohort
    from cxrtext.index.hits import Found, ImageHit, SentenceHit
    from cxrtext.index.labels import LabelledImage, keep_labels, label_archive
    from cxrtext.index.maintain import delete, move_root, rewrite
    from cxrtext.index.opening import open_index
    from cxrtext.index.query import Query
    from cxrtext.index.search import Index
    from cxrtext.index.shards import Shards, open_shards
    from cxrtext.index.summary import IndexSummary

__all__ = [
    "Cohort",
    "Found",
    "ImageHit",
    "Index",
    "IndexSummary",
    "IndexedImage",
    "LabelledImage",
    "Query",
    "SentenceHit",
    "Shards",
    "build_index",
    "delete",
    "keep_labels",
    "label_archive",
    "move_root",
    "open_index",
    "open_shards",
    "rewrite",
]

import_on_use(__name__)
