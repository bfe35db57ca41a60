"""Studies, sentences, images, labels and boxes, and the files they are kept in."""

from cxrtext.records.boxes import Box, iter_boxes, read_boxes, write_boxes
from cxrtext.records.labels import CHEX5, read_labels
from cxrtext.records.manifest import read_manifest
from cxrtext.records.rejects import BadItem, Rejects
from cxrtext.records.reports import read_reports
from cxrtext.records.row_writer import RowWriter
from cxrtext.records.sentences import SentenceWriter, read_sentences, write_sentences
from cxrtext.records.sources import TextSource, open_source
from cxrtext.records.study import ImageRecord, Sentence, Study
from cxrtext.records.tables import Table, read_table, require_match, write_table

__all__ = [
    "CHEX5",
    "BadItem",
    "Box",
    "ImageRecord",
    "Rejects",
    "RowWriter",
    "Sentence",
    "SentenceWriter",
    "Study",
    "Table",
    "TextSource",
    "iter_boxes",
    "open_source",
    "read_boxes",
    "read_labels",
    "read_manifest",
    "read_reports",
    "read_sentences",
    "read_table",
    "require_match",
    "write_boxes",
    "write_sentences",
    "write_table",
]
