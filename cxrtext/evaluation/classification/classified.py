"""What a model said about each image and finding: both prompts' scores, with the labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from cxrtext.evaluation.predictions.columns import Images, Pivot, codes, flags, floats, words
from cxrtext.metrics.ranking import UNKNOWN_LABEL, Floats, Truth, Uncertain, settled

if TYPE_CHECKING:
    import pyarrow as pa

Codes = NDArray[np.int8]
Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Classified:
    """Part "classification": F findings of B images.

    ``positive`` and ``negative``, [F, B], are the scores of the prompts for and against the
    finding, times γ²; their difference is the score of the finding.  ``labels`` [F, B] are 1, 0,
    −1 (uncertain) or −2 (unknown).  ``measured`` [B]: whether an image belongs to the split
    measured; the others are validation images, which choose thresholds and calibration.
    """

    findings: tuple[str, ...]
    images: Images
    positive: Floats
    negative: Floats
    labels: Codes
    measured: Truth

    @property
    def scores(self) -> Floats:
        """Scores of the positive prompt minus those of the negative one, [F, B]."""
        return self.positive - self.negative

    @property
    def labeled(self) -> bool:
        return bool((self.labels != UNKNOWN_LABEL).any())

    def rows(
        self, finding: int, uncertain: Uncertain, *, measured: bool = True
    ) -> tuple[Places, Truth]:
        """Places and labels of the images with a known label.

        They are among the images measured, or among the validation images.
        """
        known, truth = settled(self.labels[finding], uncertain)
        places = np.flatnonzero(known & (self.measured == measured))
        return places, truth[places]

    def ordered_as(self, other: "Classified") -> "Classified":
        """Sort images and findings in the order of another part, those that both have first.

        Comparisons pair the influences of patients on two models by the order of their images.
        """
        names = {name: place for place, name in enumerate(other.images.names)}
        places = sorted(
            range(len(self.images)), key=lambda at: names.get(self.images.names[at], len(names))
        )
        shared = [name for name in other.findings if name in self.findings]
        findings = tuple(dict.fromkeys([*shared, *self.findings]))
        grid = np.ix_([self.findings.index(name) for name in findings], places)
        return Classified(
            findings,
            self.images.take(places),
            self.positive[grid],
            self.negative[grid],
            self.labels[grid],
            self.measured[places],
        )

    def to_table(self) -> "pa.Table":
        """A row for each finding and image: the image's columns, ``finding``, scores, ``label``."""
        import pyarrow as pa

        F, B = self.labels.shape
        places = np.tile(np.arange(B), F)
        labels = self.labels.ravel()
        columns: dict[str, Any] = self.images.to_columns(places)
        columns["finding"] = words(self.findings, np.repeat(np.arange(F), B))
        columns["measured"] = np.tile(self.measured, F)
        columns["score_positive"] = self.positive.ravel()
        columns["score_negative"] = self.negative.ravel()
        columns["score"] = self.scores.ravel()
        columns["label"] = pa.array(labels, mask=labels == UNKNOWN_LABEL)
        return pa.table(columns)

    @classmethod
    def from_table(cls, table: "pa.Table") -> Self:
        """Read rows in any order, one for every image and finding.

        Without ``score_positive`` and ``score_negative``, ``score`` replaces the former: a model
        without prompts has one score.
        """
        pivot = Pivot.of(table)
        one = "score" in table.column_names and "score_positive" not in table.column_names
        positive = pivot.placed(floats(table, "score" if one else "score_positive"))
        negative = np.zeros_like(positive) if one else pivot.placed(floats(table, "score_negative"))
        if not (np.isfinite(positive).all() and np.isfinite(negative).all()):
            raise ValueError("a score is missing or not finite")
        measured = pivot.placed(flags(table, "measured"))
        if (measured != measured[0]).any():
            raise ValueError("an image is measured for some findings only")
        labels = pivot.placed(codes(table))
        return cls(pivot.findings, pivot.images, positive, negative, labels, measured[0])


def label_codes(
    labels: Mapping[str, Mapping[str, int | None]], studies: Sequence[str], findings: Sequence[str]
) -> Codes:
    """The labels of images from their studies, [F, B], −2 if unknown."""
    codes = np.full((len(findings), len(studies)), UNKNOWN_LABEL, dtype=np.int8)
    for place, study in enumerate(studies):
        for row, finding in enumerate(findings):
            label = labels.get(study, {}).get(finding)
            if label is not None:
                codes[row, place] = label
    return codes
