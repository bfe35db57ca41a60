"""The studies that a sentence is true of, its own and others, told in up to four ways.

``repeats``: the report has the same sentence, a lower bound.  ``reports``: the report makes it true
by the rules of ``remove-by-report``, and does not contradict what it implies.  ``labels``: the
study has the findings that it affirms and none that it denies; side, place and size are not looked
at, so it is an upper bound.  ``truth``: the drawing shows it, exactly.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cxrtext.errors import DataError
from cxrtext.language.eta.fit import Counts
from cxrtext.phantom.truth import read_truth
from cxrtext.records import ImageRecord, Sentence, read_labels, read_manifest
from cxrtext.records.rows import TableRows
from cxrtext.records.sentences import read_sentences
from cxrtext.text.assertions import learn_vocabulary
from cxrtext.text.entailment import statement_of
from cxrtext.text.labelling import FINDINGS, sentence_labels
from cxrtext.training.losses.loss_data import by_report, by_truth

Mask = NDArray[np.bool_]
Told = dict[str, tuple[Mask, Mask]]
"""By way, which studies a sentence is true of, [D, n], and of which sentences that is told, [D]."""
MOST_STUDIES = 4000
"""Training studies that are measured on; of more, so many are drawn at random."""
SENTENCES_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Anchors:
    """The distinct sentences [D] of training studies [n] that have an η."""

    sentences: list[Sentence]  # [D], each as it first occurs
    said: csr_array  # [D, n], how often each study says it
    records: list[ImageRecord]  # [n], the first image of each study

    @property
    def count(self) -> Counts:
        return np.asarray(self.said.sum(axis=1), dtype=np.int64)

    @property
    def reports(self) -> list[NDArray[np.int64]]:
        """The rows of the sentences of each study, [n]."""
        told = self.said.tocsc()
        return [rows.astype(np.int64) for rows in np.split(told.indices, told.indptr[1:-1])]


def read_anchors(manifest: Path, table: Path, most: int = MOST_STUDIES) -> Anchors:
    """Read the sentences of the split train; DataError where fewer than two studies have some."""
    records: dict[str, ImageRecord] = {}
    for record in read_manifest(manifest, allow_outside=True):
        if record.split == "train":
            records.setdefault(record.study_id, record)
    scored = [one for one in read_sentences(table) if one.eta is not None]
    studies = sorted({one.study_id for one in scored} & records.keys())
    if len(studies) < 2:
        raise DataError(
            f"{table}: {len(studies)} training studies of {manifest} have sentences with an eta, "
            "and at least 2 are needed; score the training reports with 'cxrtext score-text'"
        )
    if len(studies) > most:
        drawn = np.random.default_rng(0).choice(len(studies), most, replace=False)
        studies = [studies[place] for place in sorted(drawn.tolist())]
    column = {study: place for place, study in enumerate(studies)}
    scored = [one for one in scored if one.study_id in column]
    first = {one.sentence: one for one in reversed(scored)}
    row = {text: place for place, text in enumerate(first)}
    at = [row[one.sentence] for one in scored], [column[one.study_id] for one in scored]
    said = csr_array((np.ones(len(scored)), at), shape=(len(row), len(column)))
    return Anchors(list(first.values()), said, [records[study] for study in studies])


def tell_positives(anchors: Anchors, data: Path, labels: Path | None) -> Told:
    """Tell the positives of a data folder's sentences in every way that it allows."""
    every = np.ones(len(anchors.sentences), dtype=np.bool_)
    found = {
        "repeats": (anchors.said.toarray() > 0, every),
        "reports": (_by_reports(anchors), every),
    }
    if labels is not None:
        found["labels"] = _by_labels(anchors, labels)
    if (known := read_truth(data)) is not None:
        told = by_truth(known, anchors.sentences, anchors.records)
        true = told(range(len(every)), np.arange(len(anchors.records)))
        found["truth"] = (true, told.claims >= 0)
    return {way: (true, judged) for way, (true, judged) in found.items() if judged.any()}


def _by_reports(anchors: Anchors) -> Mask:
    texts = [one.sentence for one in anchors.sentences]
    rule = by_report({t: statement_of(t) for t in texts}, anchors.sentences, anchors.reports)
    rows, studies = range(len(texts)), np.arange(len(anchors.records))
    starts = range(0, len(rows), SENTENCES_AT_ONCE)
    true = np.concatenate([rule(rows[a : a + SENTENCES_AT_ONCE], studies) for a in starts])
    told = [[texts[row] for row in report] for report in anchors.reports]
    vocabulary = learn_vocabulary(told)
    asserted = [vocabulary.assertions(text) for text in texts]
    says = [vocabulary.says(report) for report in told]
    against = {
        one: np.array([study.contradicts((one,)) for study in says])
        for one in set().union(*asserted)
    }
    for row, some in enumerate(asserted):
        for one in some:
            true[row] &= ~against[one]
    return true


def _by_labels(anchors: Anchors, path: Path) -> tuple[Mask, Mask]:
    """By findings that have a column; a blank cell is a finding that is not there."""
    columns = tuple(name for name in FINDINGS if name in TableRows(path).columns)
    table = read_labels(path, columns) if columns else {}
    rows = [table.get(record.study_id, {}) for record in anchors.records]
    has: dict[tuple[str, int | None], Mask] = {
        (name, value): np.array([name in row and (row[name] or 0) == value for row in rows])
        for name in columns
        for value in (0, 1)
    }
    true = np.zeros(anchors.said.shape, dtype=np.bool_)
    judged = np.zeros(len(true), dtype=np.bool_)
    for place, one in enumerate(anchors.sentences):
        said = {(name, label.value) for name, label in sentence_labels(one.sentence).items()}
        if said and said <= has.keys():  # none is hedged
            true[place] = np.logical_and.reduce([has[asked] for asked in said])
            judged[place] = True
    return true, judged
