"""Archive search: the catalogue, the vectors, building, changing and searching."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.index.build import build_index, make_index
    from cxrtext.index.labels import LabeledImage, keep_labels, label_archive
    from cxrtext.index.maintain import delete, rewrite
    from cxrtext.index.new_model import reembed
    from cxrtext.index.search.archive import Archive, open_index
    from cxrtext.index.search.columns import Column
    from cxrtext.index.search.hits import Cohort, FoundImages, ImageHit, SentenceHit
    from cxrtext.index.search.index import Index
    from cxrtext.index.search.query import Query
    from cxrtext.index.store.catalogue import IndexedImage
    from cxrtext.index.store.writer import IndexSummary

__all__ = [
    "Archive",
    "Cohort",
    "Column",
    "FoundImages",
    "ImageHit",
    "Index",
    "IndexSummary",
    "IndexedImage",
    "LabeledImage",
    "Query",
    "SentenceHit",
    "build_index",
    "delete",
    "keep_labels",
    "label_archive",
    "make_index",
    "open_index",
    "reembed",
    "rewrite",
]

import_on_use(__name__)
