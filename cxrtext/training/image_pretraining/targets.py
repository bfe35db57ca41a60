"""Targets for an image encoder: words that a study's report affirms, or the study's labels."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cxrtext.errors import DataError
from cxrtext.evaluation.data import reports_of, sentences_beside
from cxrtext.records import ImageRecord, read_labels, require_match
from cxrtext.records.labels import finding_columns
from cxrtext.text.finding_words import (
    FindingWord,
    corpus_words,
    find_words,
    read_words,
    word_targets,
)
from cxrtext.training.image_pretraining.settings import Method

FEWEST = 5  # least training studies with a finding, and least without it

Row = np.ndarray[tuple[int], np.dtype[np.int8]]


@dataclass(frozen=True, slots=True)
class Targets:
    method: Method
    findings: Sequence[FindingWord]  # one per column; for labels only the name
    # [findings] for each study with a report or labels: 1, 0, or -1 unknown
    of_study: dict[str, Row]
    reports: int  # number of training studies with a report or labels
    source: Path | None  # the table they come from


def targets_of_words(
    manifest: Path, records: Sequence[ImageRecord], words: Path | None = None
) -> Targets:
    """The finding words in the reports of the training studies, also by side.

    Reports are those beside the manifest or in its columns; ``words`` is a file that replaces the
    words found.
    """
    source = reports_of(manifest)
    by_study: dict[str, list[str]] = defaultdict(list)
    for sentence in sentences_beside(manifest, None) or []:
        by_study[sentence.study_id].append(sentence.sentence)
    studies = {record.study_id: record.split for record in records}
    known = [study for study in studies if study in by_study]
    words_of = dict(zip(known, corpus_words(by_study[study] for study in known), strict=True))
    if not (training := [words_of[study] for study in known if studies[study] == "train"]):
        raise DataError(
            f"{source or manifest}: no study of the split 'train' has a report; check study_id and "
            "split, or give a table with --labels"
        )
    findings = read_words(words, training) if words else find_words(training, sides=True)
    if not findings:
        raise DataError(
            f"{source}: no word of a finding is affirmed often enough in {len(training)} training "
            "reports; name the words in a file (--words), or give a table of labels (--labels)"
        )
    rows = dict(zip(words_of, word_targets(findings, list(words_of.values())), strict=True))
    return Targets("words", findings, rows, len(training), source)


def targets_of_labels(path: Path, manifest: Path, records: Sequence[ImageRecord]) -> Targets:
    """The findings of a label table; blank and uncertain labels are unknown.

    Findings are CheXpert's columns, or, without any of them, all columns except ids.  Findings that
    are present in, or absent from, fewer than :data:`FEWEST` training studies are left out.
    """
    names = finding_columns(path)
    labels = read_labels(path, names)
    studies = {record.study_id: record.split for record in records}
    require_match(path, "labels", set(labels), set(studies), "study_id", manifest)
    known = [study for study in studies if study in labels]
    table = np.asarray(
        [
            [label if (label := labels[study][name]) in (0, 1) else -1 for name in names]
            for study in known
        ],
        dtype=np.int8,
    ).reshape(len(known), len(names))
    training = table[[studies[study] == "train" for study in known]]
    present, absent = (training == 1).sum(axis=0), (training == 0).sum(axis=0)
    kept = np.flatnonzero((present >= FEWEST) & (absent >= FEWEST))
    if not len(kept):
        raise DataError(
            f"{path}: no finding is present in {FEWEST} training studies and absent from {FEWEST}; "
            "give a larger table"
        )
    return Targets(
        "labels",
        [FindingWord((names[i],), "", int(present[i]), int(absent[i])) for i in kept],
        dict(zip(known, np.ascontiguousarray(table[:, kept]), strict=True)),
        len(training),
        path,
    )
