"""Studies, sentences, images, labels and boxes, and their files."""

from cxrtext.records.boxes import Absent, Box, iter_boxes, write_boxes
from cxrtext.records.columns import SECTION_COLUMNS
from cxrtext.records.labels import CHEX5, read_labels
from cxrtext.records.manifest import checked_manifest, read_manifest, stream_manifest
from cxrtext.records.report_sources import open_reports, open_source, read_reports
from cxrtext.records.rows import TableRows
from cxrtext.records.sentences import SentenceWriter, read_sentences
from cxrtext.records.study import ImageRecord, LeftOut, Sentence, Study
from cxrtext.records.tables import Rejects, RowWriter, Table, read_table, require_match, write_table
from cxrtext.records.text_source import TextSource

__all__ = [
    "CHEX5",
    "SECTION_COLUMNS",
    "Absent",
    "Box",
    "ImageRecord",
    "LeftOut",
    "Rejects",
    "RowWriter",
    "Sentence",
    "SentenceWriter",
    "Study",
    "Table",
    "TableRows",
    "TextSource",
    "checked_manifest",
    "iter_boxes",
    "open_reports",
    "open_source",
    "read_labels",
    "read_manifest",
    "read_reports",
    "read_sentences",
    "read_table",
    "require_match",
    "stream_manifest",
    "write_boxes",
    "write_table",
]
