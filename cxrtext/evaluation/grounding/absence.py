"""Sentences that have no box: whether their scores tell them from those that have one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from cxrtext.evaluation.classification.operating import sensitivity_threshold
from cxrtext.evaluation.cohort import Cohort, score_pairs
from cxrtext.evaluation.grounding.boxes import Phrase, image_finder
from cxrtext.evaluation.intervals.estimates import area_of, share_of
from cxrtext.evaluation.intervals.methods import AREA, SHARE
from cxrtext.evaluation.metrics import Floats, Truth, youden_threshold
from cxrtext.evaluation.predictions.columns import (
    Images,
    Places,
    as_table,
    flags,
    floats,
    images_of,
    texts,
    words,
)
from cxrtext.evaluation.rows import ABSENCE, ALL, MEAN_OF_FINDINGS, NO_FINDING, Rows
from cxrtext.evaluation.settings import Settings
from cxrtext.models import ImageTextModel
from cxrtext.records import Absent
from cxrtext.text.wording import mentions

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class LookedFor:
    """A sentence that was looked for in the image at a row, and whether it has a box there."""

    row: int
    finding: str
    text: str
    present: bool


def looked_for(
    phrases: Sequence[Phrase], absent: Iterable[Absent], cohort: Cohort
) -> tuple[list[LookedFor], int]:
    """Sentences with a box, and without; and how many of these deny what they name, left out."""
    find = image_finder([record.name for record in cohort.records])
    found = [LookedFor(one.row, one.finding, one.text, True) for one in phrases]
    boxed = {(one.row, one.text) for one in phrases}
    denying = 0
    for one in absent:
        row, text = find(one.image), one.label_text.strip()
        if row is None or not text or (row, text) in boxed:
            continue
        affirmed, denied = mentions(text)
        if denied and not affirmed:  # "no effusion" is true where there is nothing to draw
            denying += 1
        else:
            found.append(LookedFor(row, one.finding, text, False))
    return list(dict.fromkeys(found)), denying


@dataclass(frozen=True, slots=True)
class AbsenceScores:
    """Part "absence": n sentences that were looked for, ``present`` [n] where they have a box.

    ``scores`` [n] are the images' scores, times γ²; ``rows`` [n] places in ``images``; ``measured``
    [n] whether a row counts, or is of a validation image, which chooses thresholds.
    """

    images: Images
    rows: list[int]
    findings: list[str]
    sentences: list[str]
    present: Truth
    measured: Truth
    scores: Floats

    def to_table(self) -> "pa.Table":
        return as_table(
            {
                **self.images.to_columns(np.array(self.rows, dtype=np.intp)),
                "finding": words(self.findings),
                "sentence": words(self.sentences),
                "present": self.present,
                "measured": self.measured,
                "score": self.scores,
            }
        )

    @classmethod
    def from_table(cls, table: "pa.Table") -> Self:
        images, places = Images.from_columns(table)
        scores = floats(table, "score")
        if not np.isfinite(scores).all():
            raise ValueError("a score is missing or not finite")
        present, measured = (flags(table, name) for name in ("present", "measured"))
        findings, sentences = texts(table, "finding"), texts(table, "sentence")
        return cls(images, places.tolist(), findings, sentences, present, measured, scores)


def score_absence(
    model: ImageTextModel, cohorts: Sequence[tuple[Cohort, Sequence[LookedFor]]]
) -> AbsenceScores:
    """Score sentences in their images: of the images measured, and second of validation images."""
    every: list[LookedFor] = []
    rows: list[int] = []
    scores: list[Floats] = []
    first = 0
    for cohort, some in cohorts:
        own = [one.row for one in some]
        scores.append(score_pairs(model, cohort, own, [one.text for one in some]))
        rows += [first + row for row in own]
        every += some
        first += len(cohort.records)
    return AbsenceScores(
        images_of([record for cohort, _ in cohorts for record in cohort.records]),
        rows,
        [one.finding for one in every],
        [one.text for one in every],
        np.array([one.present for one in every]),
        np.arange(len(every)) < len(cohorts[0][1]),
        np.concatenate(scores),
    )


def measure_absence(given: AbsenceScores, settings: Settings) -> Rows:
    """AUC of having a box, of all sentences and by finding, and false alarms at thresholds.

    Those of all sentences and the thresholds are of the findings that have sentences of both kinds,
    where any has: others would compare sentences that differ anyway.  Thresholds are chosen on
    validation sentences (Youden's, and that of a given sensitivity); without such of both kinds
    there are none.
    """
    rows = Rows()
    own, findings = np.flatnonzero(given.measured), np.array(given.findings)
    # In their own order: that of a set, and with it the last digit, is another in each process.
    names = sorted(set(findings[own].tolist()))
    for name in names:
        _add(rows, name or NO_FINDING, given, own[findings[own] == name])
    known = {name: rows.value(ABSENCE, name or NO_FINDING, "AUC") for name in names}
    both = {name: value for name, value in known.items() if value is not None}
    if both:
        rows.add(ABSENCE, MEAN_OF_FINDINGS, "AUC", float(np.mean(list(both.values()))))
    counted = np.array([not both or name in both for name in given.findings])
    _add(rows, ALL, given, own[counted[own]])
    _add_thresholds(rows, given, counted, settings)
    return rows


def _add(rows: Rows, group: str, given: AbsenceScores, at: Places) -> None:
    patients = [given.images.patients[given.rows[row]] for row in at.tolist()]
    present = given.present[at]
    rows.add(ABSENCE, group, "AUC", area_of(given.scores[at], present, patients), len(at), AREA)
    rows.add(ABSENCE, group, "with a box", int(present.sum()))
    rows.add(ABSENCE, group, "without", int((~present).sum()))


def _add_thresholds(rows: Rows, given: AbsenceScores, counted: Truth, settings: Settings) -> None:
    own, others = np.flatnonzero(counted & given.measured), counted & ~given.measured
    seen, said = given.scores[others], given.present[others]
    if not said.any() or said.all():
        return
    present = given.present[own]
    patients = np.array([given.images.patients[given.rows[row]] for row in own.tolist()])
    for chosen, threshold in (
        ("Youden", youden_threshold(seen, said)),
        (
            f"sensitivity {settings.sensitivity:g}",
            sensitivity_threshold(seen, said, settings.sensitivity),
        ),
    ):
        part, above = f"{ABSENCE}, thresholds", given.scores[own] > threshold
        rows.add(part, chosen, "threshold", threshold)
        for name, some in (("found", present), ("false alarms", ~present)):
            share = share_of(above[some], patients[some].tolist())
            rows.add(part, chosen, name, share, int(some.sum()), SHARE)
