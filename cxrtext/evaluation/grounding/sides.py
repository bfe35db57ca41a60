"""Left and right: whether a sentence scores above its mirror, and its map peaks on its side.

Left is the patient's, which is at the right of the picture.  Of sentences that name one side,
affirm a finding and are false when mirrored, as far as words tell (:mod:`cxrtext.text.turning`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import ArrayLike

from cxrtext.evaluation.cohort import Cohort, score_pairs
from cxrtext.evaluation.intervals.estimates import area_of, share_of
from cxrtext.evaluation.intervals.methods import AREA, SHARE
from cxrtext.evaluation.metrics import Floats
from cxrtext.evaluation.predictions.columns import (
    Images,
    as_table,
    floats,
    images_of,
    texts,
    words,
)
from cxrtext.evaluation.rows import ALL, SIDES, Rows
from cxrtext.evaluation.settings import Settings
from cxrtext.models import ImageTextModel
from cxrtext.text.sides import other_side, side_of
from cxrtext.text.turning import false_of

if TYPE_CHECKING:
    import pyarrow as pa

BOXES, REPORTS = "phrases of boxes", "sentences of reports"


@dataclass(frozen=True, slots=True)
class SidedPhrase:
    """A sentence that names one side, of the image at a row; left, or right."""

    row: int
    finding: str
    text: str
    left: bool


def sided_phrases(
    said: Mapping[int, Sequence[tuple[str, str]]], reports: Mapping[int, Sequence[str]]
) -> list[SidedPhrase]:
    """The sentences whose mirror is false of their image.

    Args:
        said: By row of an image, findings and sentences.
        reports: By row, other sentences of its report, which may say that the mirror is true too.
    """
    found = []
    for row, entries in said.items():
        own = list(dict.fromkeys(text for _, text in entries))
        if not any(map(side_of, own)):
            continue
        forms = dict(zip(own, false_of([*own, *reports.get(row, ())], ["mirrored"]), strict=False))
        for finding, text in dict.fromkeys(entries):
            if other_side(text) in forms[text]:
                found.append(SidedPhrase(row, finding, text, side_of(text) == "left"))
    return found


def peak_on_side(grid: ArrayLike, left: bool) -> float:
    """The share of a map's highest regions that lie on the patient's side; of a grid [h, w].

    Regions of the middle column count half; so does a map that is the same everywhere.

    >>> peak_on_side([[0.1, 0.9]], left=True)
    1.0
    """
    values = np.asarray(grid, dtype=np.float64)
    if values.ndim != 2 or not values.size or np.isnan(values).any():
        raise ValueError(f"a grid is [h, w] of numbers, not {list(values.shape)}")
    columns = np.nonzero(values == values.max())[1]
    place = np.sign(columns - (values.shape[1] - 1) / 2)
    return float(np.where(place == 0, 0.5, (place > 0) == left).mean())


@dataclass(frozen=True, slots=True)
class SideScores:
    """Part "sides": n sentences with one side.

    ``own`` and ``mirrored`` [n] are the scores of the sentence and of its mirror, times γ²;
    ``peaks`` [n] what :func:`peak_on_side` says of the sentence's map; ``source`` says where the
    sentences are from.
    """

    images: Images
    phrases: list[SidedPhrase]
    own: Floats
    mirrored: Floats
    peaks: Floats
    source: str

    def to_table(self) -> "pa.Table":
        """A row a sentence."""
        places = np.array([phrase.row for phrase in self.phrases], dtype=np.intp)
        sides = ["left" if phrase.left else "right" for phrase in self.phrases]
        return as_table(
            {
                **self.images.to_columns(places),
                "finding": words([phrase.finding for phrase in self.phrases]),
                "sentence": words([phrase.text for phrase in self.phrases]),
                "side": words(sides),
                "score": self.own,
                "score_mirrored": self.mirrored,
                "peak_on_side": self.peaks,
                "source": words([self.source] * len(self.phrases)),
            }
        )

    @classmethod
    def from_table(cls, table: "pa.Table") -> Self:
        """Of such rows, in any order."""
        images, places = Images.from_columns(table)
        sides = texts(table, "side")
        if not set(sides) <= {"left", "right"}:
            raise ValueError("a side is not 'left' or 'right'")
        rows = zip(places, texts(table, "finding"), texts(table, "sentence"), sides, strict=True)
        phrases = [
            SidedPhrase(int(row), name, text, side == "left") for row, name, text, side in rows
        ]
        own, mirrored, peaks = (
            floats(table, name) for name in ("score", "score_mirrored", "peak_on_side")
        )
        return cls(images, phrases, own, mirrored, peaks, texts(table, "source")[0])


@torch.inference_mode()
def score_sides(
    model: ImageTextModel, cohort: Cohort, phrases: Sequence[SidedPhrase], source: str
) -> SideScores:
    """Score each sentence and its mirror in its image, and find the peak of its map."""
    rows, said = [phrase.row for phrase in phrases], [phrase.text for phrase in phrases]
    scores = score_pairs(model, cohort, rows * 2, [*said, *map(other_side, said)])
    distinct = list(dict.fromkeys(said))
    vectors = dict(zip(distinct, model.embed_sentences(distinct).cpu(), strict=True))
    peaks = [
        peak_on_side((cohort.grid(one.row) @ vectors[one.text]).numpy(), one.left)
        for one in phrases
    ]
    own, mirrored = scores.reshape(2, -1)
    return SideScores(
        images_of(cohort.records), list(phrases), own, mirrored, np.array(peaks), source
    )


def measure_sides(given: SideScores, _: Settings | None = None) -> Rows:
    """AUC of the side, and shares, of all sentences and by finding.

    The AUC is of the score of the form that says left less that of the form that says right, for
    the side that the sentence names.
    """
    rows = Rows()
    by: dict[str, list[int]] = {}
    for number, phrase in enumerate(given.phrases):
        by.setdefault(phrase.finding, []).append(number)
    for name in sorted(by):
        if name:
            _add(rows, name, given, by[name])
    _add(rows, ALL, given, list(range(len(given.phrases))))
    return rows


def _add(rows: Rows, group: str, given: SideScores, at: list[int]) -> None:
    phrases = [given.phrases[number] for number in at]
    patients = [given.images.patients[phrase.row] for phrase in phrases]
    left = np.array([phrase.left for phrase in phrases])
    ahead = given.own[at] - given.mirrored[at]
    area = area_of(np.where(left, ahead, -ahead), left, patients)
    above = share_of((np.sign(ahead) + 1) / 2, patients)
    rows.add(SIDES, group, "AUC of the side", area, len(at), AREA)
    rows.add(SIDES, group, "above its mirror", above, len(at), SHARE)
    peak = share_of(given.peaks[at], patients)
    rows.add(SIDES, group, "peak on its side", peak, len(at), SHARE)
    rows.add(SIDES, group, "left", int(left.sum()))
    rows.add(SIDES, group, "right", int((~left).sum()))
    rows.add(SIDES, group, "images", len({phrase.row for phrase in phrases}))
