"""Left and right: whether a sentence scores above its mirror, and its map peaks on its side.

Left is the patient's, which is at the right of the picture.  Of sentences that name one side,
affirm a finding and are false when mirrored, as far as words tell
(:func:`cxrtext.text.sides.false_mirrors`).

What a sentence scores on any image is no evidence of the image: a familiar wording scores above
its mirror everywhere, and "left" pulls the peak to the left.  So each figure stands beside the same
of other patients' images with a known side, and the AUC compares within a sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import ArrayLike

from cxrtext.evaluation.cohort import Cohort
from cxrtext.evaluation.intervals.estimates import Estimate, area_of, means_of, share_of
from cxrtext.evaluation.intervals.methods import AREA, RESAMPLED, SHARE
from cxrtext.evaluation.metrics import Floats
from cxrtext.evaluation.predictions.columns import Images, as_table, floats, images_of, texts, words
from cxrtext.evaluation.rows import ALL, ELSEWHERE, GAIN, SIDES, Rows
from cxrtext.evaluation.settings import Settings
from cxrtext.models import ImageTextModel
from cxrtext.text.sides import false_mirrors, other_side, side_of

if TYPE_CHECKING:
    import pyarrow as pa

BOXES, REPORTS = "phrases of boxes", "sentences of reports"
OF_OTHERS = ("usual", "drawn", "above", "elsewhere")
"""What is kept of other patients' images."""
AUC, ABOVE, PEAK = "AUC of the side", "above its mirror", "peak on its side"
HEAD_AUC = "AUC by the head"


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
    """The sentences whose mirror is false of their image, of findings and sentences by row.

    ``reports``: by row, other sentences of its report, which may say that the mirror is true too.
    """
    found = []
    for row, entries in said.items():
        own = list(dict.fromkeys(text for _, text in entries))
        if not any(map(side_of, own)):
            continue
        forms = dict(zip(own, false_mirrors([*own, *reports.get(row, ())]), strict=False))
        for finding, text in dict.fromkeys(entries):
            if forms[text]:
                found.append(SidedPhrase(row, finding, text, side_of(text) == "left"))
    return found


def peaks_left(grids: ArrayLike) -> Floats:
    """The share of the highest regions of grids [h, w, ...] that lie on the patient's left.

    Regions of the middle column count half; so does a map that is the same everywhere.
    """
    values = np.asarray(grids)
    width = values.shape[1]
    weight = (np.sign(np.arange(width) - (width - 1) / 2) + 1) / 2
    highest = (values == values.max(axis=(0, 1))).sum(axis=0)  # [w, ...]
    share: Floats = np.tensordot(weight, highest, 1) / highest.sum(axis=0)
    return share


@dataclass(frozen=True, slots=True)
class SideScores:
    """Part "sides": n sentences with one side.

    ``own`` and ``mirrored`` [n] are the scores of the sentence and of its mirror, times γ²;
    ``peaks`` [n] the share of its map's highest regions that lie on its side.  Of the other
    patients' images ``usual`` [n] is the mean of own less mirrored, ``above`` [n] the share where
    the sentence is above its mirror, ``elsewhere`` [n] the mean of the peaks, and ``drawn`` [n] own
    less mirrored of one of them; all NaN without another patient.  ``head`` [n] is the logit of the
    image's side by a head, NaN without one that tells.  ``source`` says where the
    sentences are from.
    """

    images: Images
    phrases: list[SidedPhrase]
    source: str
    own: Floats
    mirrored: Floats
    peaks: Floats
    usual: Floats
    drawn: Floats
    above: Floats
    elsewhere: Floats
    head: Floats

    def to_table(self) -> "pa.Table":
        places = np.array([phrase.row for phrase in self.phrases], dtype=np.intp)
        return as_table(
            {
                **self.images.to_columns(places),
                "finding": words([phrase.finding for phrase in self.phrases]),
                "sentence": words([phrase.text for phrase in self.phrases]),
                "side": words(["left" if phrase.left else "right" for phrase in self.phrases]),
                "score": self.own,
                "score_mirrored": self.mirrored,
                "peak_on_side": self.peaks,
                **{name: getattr(self, name) for name in OF_OTHERS},
                "head": self.head,
                "source": words([self.source] * len(self.phrases)),
            }
        )

    @classmethod
    def from_table(cls, table: "pa.Table") -> Self:
        images, places = Images.from_columns(table)
        sides = texts(table, "side")
        if not set(sides) <= {"left", "right"}:
            raise ValueError("a side is not 'left' or 'right'")
        rows = zip(places, texts(table, "finding"), texts(table, "sentence"), sides, strict=True)
        phrases = [
            SidedPhrase(int(row), name, text, side == "left") for row, name, text, side in rows
        ]
        columns = [
            floats(table, name) for name in ("score", "score_mirrored", "peak_on_side", *OF_OTHERS)
        ]
        none = np.full(len(phrases), np.nan)
        head = floats(table, "head") if "head" in table.column_names else none
        return cls(images, phrases, texts(table, "source")[0], *[*columns, head])


@torch.inference_mode()
def score_sides(
    model: ImageTextModel, cohort: Cohort, phrases: Sequence[SidedPhrase], source: str
) -> SideScores:
    """Score each sentence and its mirror, and find the peak of its map, in its image and others."""
    rows = list(dict.fromkeys(phrase.row for phrase in phrases))
    place = {row: at for at, row in enumerate(rows)}
    patients = np.array([cohort.records[row].patient_id for row in rows])
    pairs = list(dict.fromkeys((phrase.text, phrase.left) for phrase in phrases))
    said, lefts = [text for text, _ in pairs], [left for _, left in pairs]
    vectors = model.embed_sentences([*said, *map(other_side, said)])
    # Of every sentence in every image, [pairs, images].
    scores, mirrored, peaks = (np.empty((len(pairs), len(rows))) for _ in range(3))
    for at, row in enumerate(rows):
        regions = cohort.regions[row : row + 1].to(model.device).float()
        both = (model.gamma_sq * model.scores(regions, vectors)).double().cpu().numpy()[:, 0]
        scores[:, at], mirrored[:, at] = both.reshape(2, -1)
        share = peaks_left((cohort.grid(row) @ vectors[: len(pairs)].cpu().T).numpy())
        peaks[:, at] = np.where(lefts, share, 1 - share)
    ahead = scores - mirrored
    above = (np.sign(ahead) + 1) / 2
    of_pair = {pair: number for number, pair in enumerate(pairs)}
    found = np.full((len(phrases), 3 + len(OF_OTHERS)), np.nan)
    generator = np.random.default_rng(0)
    for number, phrase in enumerate(phrases):
        pair, at = of_pair[phrase.text, phrase.left], place[phrase.row]
        found[number, :3] = scores[pair, at], mirrored[pair, at], peaks[pair, at]
        others = np.flatnonzero(patients != patients[at])
        if len(others):
            found[number, 3:] = (
                ahead[pair, others].mean(),
                ahead[pair, generator.choice(others)],
                above[pair, others].mean(),
                peaks[pair, others].mean(),
            )
    head = np.full(len(phrases), np.nan)
    own = cohort.regions[rows].to(model.device).float()
    if model.heads is not None and (left := model.heads.left(own)) is not None:
        head = left.double().cpu().numpy()[[place[phrase.row] for phrase in phrases]]
    return SideScores(images_of(cohort.records), list(phrases), source, *[*found.T, head])


def measure_sides(given: SideScores, settings: Settings) -> Rows:
    """AUC of the side, and shares, of all sentences and by finding, beside other patients' images.

    The AUC is of the score of the form that says left less that of the form that says right, less
    its mean over other patients' images, for the side that the sentence names.
    """
    rows = Rows()
    for name in sorted({phrase.finding for phrase in given.phrases} - {""}):
        own = [number for number, one in enumerate(given.phrases) if one.finding == name]
        _add(rows, name, given, own, settings)
    _add(rows, ALL, given, list(range(len(given.phrases))), settings)
    return rows


def _add(rows: Rows, group: str, given: SideScores, at: list[int], settings: Settings) -> None:
    phrases = [given.phrases[number] for number in at]
    patients = [given.images.patients[phrase.row] for phrase in phrases]
    left = np.array([phrase.left for phrase in phrases])
    ahead, usual = given.own[at] - given.mirrored[at], np.nan_to_num(given.usual[at])
    for name, some in ((AUC, ahead), (AUC + ELSEWHERE, given.drawn[at])):
        turned = np.where(left, some - usual, usual - some)
        found = Estimate() if np.isnan(turned).any() else area_of(turned, left, patients)
        rows.add(SIDES, group, name, found, len(at), AREA)
    head = given.head[at]
    found = Estimate() if np.isnan(head).any() else area_of(head, left, patients)
    rows.add(SIDES, group, HEAD_AUC, found, len(at), AREA)
    for number, (name, own, others) in enumerate(
        (
            (ABOVE, (np.sign(ahead) + 1) / 2, given.above[at]),
            (PEAK, given.peaks[at], given.elsewhere[at]),
        )
    ):
        rows.add(SIDES, group, name, share_of(own, patients), len(at), SHARE)
        seed = (settings.seed, 6, number)
        mean, gain = means_of(
            np.stack([others, own - others], axis=1), patients, settings.resamples, seed
        )
        rows.add(SIDES, group, name + ELSEWHERE, mean.value, len(at))
        rows.add(SIDES, group, name + GAIN, gain, len(at), RESAMPLED)
    rows.add(SIDES, group, "left", int(left.sum()))
    rows.add(SIDES, group, "right", int((~left).sum()))
    rows.add(SIDES, group, "images", len({phrase.row for phrase in phrases}))
