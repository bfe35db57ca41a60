"""Sentences in single images: places, masks, sides, and whether there is anything to find.

Each task gives measures of a sentence in its image.  Each measure is compared with the same measure
on other patients' images (its control), because words alone move it: "left" pulls a peak to the
left whatever the image shows.  Measures with a truth (left or right, with a box or without) are
ranked: their figure is an AUC; others are means.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from cxrtext.evaluation.cohort import Cohort, score_pairs
from cxrtext.evaluation.grounding.boxes import Phrase, image_finder
from cxrtext.evaluation.predictions.columns import Images, floats, images_of, texts, words
from cxrtext.evaluation.rows import (
    ABSENCE,
    ALL,
    ELSEWHERE,
    GAIN,
    GROUNDING,
    MASKS,
    MEAN_OF_FINDINGS,
    MEAN_OF_SENTENCES,
    NO_FINDING,
    SIDES,
    Rows,
)
from cxrtext.images import Geometry
from cxrtext.metrics.intervals import Measured, area_of, mean_of, share
from cxrtext.metrics.maps import (
    COMMON_THRESHOLDS,
    PAPER_THRESHOLDS,
    Mask,
    box_mask,
    contrast_to_noise,
    dice_by_threshold,
    overlap_by_threshold,
    peaks_left,
    pixel_auroc,
    pointing_game,
)
from cxrtext.metrics.ranking import Floats
from cxrtext.models import ImageTextModel
from cxrtext.records import Absent
from cxrtext.text.sides import false_mirrors, other_side, side_of
from cxrtext.text.wording import mentions

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_SIDE = 640
"""Larger images are measured on maps with this longest side, with their boxes scaled alike: more
than 40 pixels a region, which changed the mean CNR and mIoU of 2048 x 2500 images by 0.2 % and took
a tenth of the time."""
OTHERS = 4
"""How many images of other patients each sentence with boxes is also measured in."""
SIGNED, CNR, MIOU, COMMON, POINTING = (
    "signed CNR", "CNR", "mIoU", "mIoU 0.1-0.5", "pointing game",
)  # fmt: skip
DICE, AUROC = "Dice", "pixel AUROC"
AUC, SIDE_AUC, HEAD_AUC = "AUC", "AUC of the side", "AUC by the head"
ABOVE, PEAK = "above its mirror", "peak on its side"
TASKS: Mapping[str, tuple[str, ...]] = {
    GROUNDING: (SIGNED, CNR, MIOU, COMMON, POINTING),
    MASKS: (DICE, AUROC),
    SIDES: (SIDE_AUC, HEAD_AUC, ABOVE, PEAK),
    ABSENCE: (AUC,),
}
SHARES = (POINTING, ABOVE, PEAK)
TRUTHS = {SIDES: ("left", "right"), ABSENCE: ("with a box", "without")}
"""Names for sentences whose truth is true, and false."""


class Sentence(NamedTuple):
    """A measure of a sentence in the image at a row; ``truth`` is None if it is not ranked."""

    row: int
    task: str
    finding: str
    text: str
    measure: str
    value: float
    control: float = float("nan")
    truth: bool | None = None


@dataclass(frozen=True, slots=True)
class Phrases:
    """Part "phrases": measures of sentences; their rows are places in ``images``.

    Undefined values and controls are NaN.
    """

    images: Images
    sentences: list[Sentence] = field(default_factory=list)

    def to_table(self) -> "pa.Table":
        import pyarrow as pa

        columns = dict(zip(Sentence._fields, zip(*self.sentences, strict=True), strict=True))
        places = np.array(columns.pop("row"), dtype=np.intp)
        values: dict[str, Any] = {
            name: np.array(columns.pop(name), dtype=np.float64) for name in ("value", "control")
        }
        values["truth"] = pa.array(columns.pop("truth"), pa.bool_())
        named = {"sentence" if name == "text" else name: words(c) for name, c in columns.items()}
        return pa.table({**self.images.to_columns(places), **named, **values})

    @classmethod
    def from_table(cls, table: "pa.Table") -> Self:
        images, places = Images.from_columns(table)
        tasks, measures = texts(table, "task"), texts(table, "measure")
        for task, measure in set(zip(tasks, measures, strict=True)):
            if measure not in TASKS.get(task, ()):
                raise ValueError(f"there is no measure '{measure}' of '{task}'")
        columns = (
            places.tolist(), tasks, texts(table, "finding"), texts(table, "sentence"), measures,
            floats(table, "value").tolist(), floats(table, "control").tolist(),
            table["truth"].to_pylist(),
        )  # fmt: skip
        return cls(images, [Sentence(*row) for row in zip(*columns, strict=True)])


def _copy(geometry: Geometry) -> Geometry:
    """The geometry of the copy that maps are measured on."""
    longest = max(geometry.height, geometry.width)
    if longest <= LONGEST_SIDE:
        return geometry
    height, width = (
        max(1, round(side * LONGEST_SIDE / longest)) for side in (geometry.height, geometry.width)
    )
    return Geometry(height, width, geometry.preprocessing)


@dataclass(frozen=True, slots=True)
class Maps:
    """Maps of sentences in the images of a cohort."""

    cohort: Cohort
    vectors: Mapping[str, Tensor]

    @classmethod
    def of(cls, model: ImageTextModel, cohort: Cohort, phrases: Sequence[Phrase]) -> Self:
        distinct = list(dict.fromkeys(phrase.text for phrase in phrases))
        vectors = model.embed_sentences(distinct).cpu()
        return cls(cohort, dict(zip(distinct, vectors, strict=True)))

    def heat(self, phrase: Phrase, row: int) -> NDArray[np.float32]:
        """The map of a sentence in the image at a row, laid over the phrase's own image.

        These are its region scores, [h, w] in [−1, 1], enlarged by `Geometry.map_to_original`.
        """
        with torch.inference_mode():
            grid = (self.cohort.grid(row) @ self.vectors[phrase.text]).numpy()  # [h, w, D] @ [D]
        return _copy(self.cohort.geometry(phrase.row)).map_to_original(grid.astype(np.float64))

    def inside(self, phrase: Phrase) -> tuple[Mask | None, Mask | None]:
        """The pixels of a phrase's boxes and masks; None if it has none, or if they vanish."""
        whole = self.cohort.geometry(phrase.row)
        copy = _copy(whole)
        across, down = copy.width / whole.width, copy.height / whole.height
        boxes = np.asarray(phrase.boxes, dtype=np.float64) * [across, down, across, down]
        drawn = np.zeros((copy.height, copy.width), dtype=np.bool_)
        for mask in phrase.masks:
            drawn |= mask.shown(copy.height, copy.width)
        try:
            return box_mask(boxes, drawn.shape), drawn if drawn.any() else None
        except ValueError:
            return None, drawn if drawn.any() else None


def _places(heat: ArrayLike, boxed: Mask | None) -> dict[str, float]:
    """Measures of a map against boxes."""
    if boxed is None:
        return dict.fromkeys(TASKS[GROUNDING], float("nan"))
    signed = contrast_to_noise(heat, boxed, signed=True)
    overlap = overlap_by_threshold(heat, boxed)
    common = overlap[[PAPER_THRESHOLDS.index(cut) for cut in COMMON_THRESHOLDS]]
    values = (signed, abs(signed), overlap.mean(), common.mean(), pointing_game(heat, boxed))
    # Infinite if the map has one value inside and another outside: no noise to compare with.
    finite = (float(value) if np.isfinite(value) else float("nan") for value in values)
    return dict(zip(TASKS[GROUNDING], finite, strict=True))


def dice_threshold(model: ImageTextModel, cohort: Cohort, phrases: Sequence[Phrase]) -> int | None:
    """The index of the threshold with the best mean Dice; None without a mask."""
    masked = [phrase for phrase in phrases if phrase.masks]
    maps = Maps.of(model, cohort, masked)
    dice = [
        dice_by_threshold(maps.heat(phrase, phrase.row), drawn)
        for phrase in masked
        if (drawn := maps.inside(phrase)[1]) is not None
    ]
    return int(np.mean(dice, axis=0).argmax()) if dice else None


def ground_phrases(
    model: ImageTextModel,
    cohort: Cohort,
    phrases: Sequence[Phrase],
    threshold: int | None = None,
) -> list[Sentence]:
    """Measure places and masks of sentences in their images, and in :data:`OTHERS` others.

    The others are other patients' images.  ``threshold`` comes from :func:`dice_threshold`.
    """
    maps = Maps.of(model, cohort, phrases)
    rows = np.array(sorted({phrase.row for phrase in phrases}))
    patients = np.array([cohort.records[row].patient_id for row in rows])
    generator = np.random.default_rng(0)
    sentences: list[Sentence] = []
    for phrase in phrases:
        boxed, drawn = maps.inside(phrase)

        def measured(
            row: int,
            phrase: Phrase = phrase,
            boxed: Mask | None = boxed,
            drawn: Mask | None = drawn,
        ) -> dict[tuple[str, str], float]:
            heat = maps.heat(phrase, row)
            values = {(GROUNDING, name): value for name, value in _places(heat, boxed).items()}
            if drawn is not None:
                values[MASKS, AUROC] = pixel_auroc(heat, drawn)
                if threshold is not None:
                    values[MASKS, DICE] = float(dice_by_threshold(heat, drawn)[threshold])
            return values

        others = rows[patients != cohort.records[phrase.row].patient_id]
        elsewhere = [measured(row) for row in generator.permutation(others)[:OTHERS].tolist()]
        for (task, name), value in measured(phrase.row).items():
            control = [values[task, name] for values in elsewhere]
            mean = float(np.mean(control)) if control else float("nan")
            sentences.append(
                Sentence(phrase.row, task, phrase.finding, phrase.text, name, value, mean)
            )
    return sentences


class Sided(NamedTuple):
    """A sentence about one side, left or right, of the image at a row."""

    row: int
    finding: str
    text: str
    left: bool


def sided_phrases(
    said: Mapping[int, Sequence[tuple[str, str]]], reports: Mapping[int, Sequence[str]]
) -> list[Sided]:
    """The sentences in ``said``, findings and sentences by row, that are false when mirrored.

    They name one side, affirm a finding and, judging by their words, are false when mirrored.
    ``reports``: by row, other sentences of its report, which may say that the mirror is true too.
    """
    sided = []
    for row, entries in said.items():
        own = list(dict.fromkeys(text for _, text in entries))
        if not any(map(side_of, own)):
            continue
        forms = dict(zip(own, false_mirrors([*own, *reports.get(row, ())]), strict=False))
        for finding, text in dict.fromkeys(entries):
            if forms[text]:
                sided.append(Sided(row, finding, text, side_of(text) == "left"))
    return sided


@torch.inference_mode()
def score_sides(model: ImageTextModel, cohort: Cohort, phrases: Sequence[Sided]) -> list[Sentence]:
    """Score each sentence and its mirror, and find the peak of its map, in its image and others.

    The usual score of a sentence says nothing about one image.  So the AUC takes the score of the
    form that says left minus that of the form that says right, minus the mean of this difference
    over other patients' images; the control is the same for one of these images.
    """
    rows = list(dict.fromkeys(phrase.row for phrase in phrases))
    place = {row: at for at, row in enumerate(rows)}
    patients = np.array([cohort.records[row].patient_id for row in rows])
    pairs = list(dict.fromkeys((phrase.text, phrase.left) for phrase in phrases))
    forms, lefts = [text for text, _ in pairs], [left for _, left in pairs]
    vectors = model.embed_sentences([*forms, *map(other_side, forms)])
    # For every sentence in every image, [pairs, images].
    ahead, peaks = (np.empty((len(pairs), len(rows))) for _ in range(2))
    for at, row in enumerate(rows):
        regions = cohort.regions[row : row + 1].to(model.device).float()
        both = (model.gamma_sq * model.scores(regions, vectors)).double().cpu().numpy()[:, 0]
        ahead[:, at] = both[: len(pairs)] - both[len(pairs) :]
        share = peaks_left((cohort.grid(row) @ vectors[: len(pairs)].cpu().T).numpy())
        peaks[:, at] = np.where(lefts, share, 1 - share)
    above = (np.sign(ahead) + 1) / 2
    regions = cohort.regions[rows].to(model.device).float()
    left = None if model.heads is None else model.heads.left(regions)
    heads = None if left is None else left.double().cpu().numpy()
    of_pair = {pair: number for number, pair in enumerate(pairs)}
    generator = np.random.default_rng(0)
    sentences: list[Sentence] = []
    for phrase in phrases:
        pair, at = of_pair[phrase.text, phrase.left], place[phrase.row]
        others = np.flatnonzero(patients != patients[at])
        usual, drawn, above_elsewhere, peaks_elsewhere = 0.0, *[float("nan")] * 3
        if len(others):
            usual, drawn = ahead[pair, others].mean(), ahead[pair, generator.choice(others)]
            above_elsewhere = above[pair, others].mean()
            peaks_elsewhere = peaks[pair, others].mean()
        sign = 1 if phrase.left else -1
        measures: list[tuple[str, float, float, bool | None]] = [
            (SIDE_AUC, sign * (ahead[pair, at] - usual), sign * (drawn - usual), phrase.left),
            (ABOVE, above[pair, at], above_elsewhere, None),
            (PEAK, peaks[pair, at], peaks_elsewhere, None),
        ]
        if heads is not None:
            measures.insert(1, (HEAD_AUC, heads[at], float("nan"), phrase.left))
        sentences += [
            Sentence(phrase.row, SIDES, phrase.finding, phrase.text, name, float(value),
                     float(control), truth)
            for name, value, control, truth in measures
        ]  # fmt: skip
    return sentences


def looked_for(
    phrases: Sequence[Phrase], absent: Iterable[Absent], cohort: Cohort
) -> tuple[list[tuple[int, str, str, bool]], int]:
    """Sentences with a box (row, finding, text, True) and without (False).

    Also returns the number of sentences without a box that deny their finding: these are left out.
    """
    find = image_finder([record.name for record in cohort.records])
    asked = [(phrase.row, phrase.finding, phrase.text, True) for phrase in phrases]
    boxed = {(phrase.row, phrase.text) for phrase in phrases}
    denying = 0
    for phrase in absent:
        row, text = find(phrase.image), phrase.label_text.strip()
        if row is None or not text or (row, text) in boxed:
            continue
        affirmed, denied = mentions(text)
        if denied and not affirmed:  # "no effusion" is true if there is nothing to draw
            denying += 1
        else:
            asked.append((row, phrase.finding, text, False))
    return list(dict.fromkeys(asked)), denying


def score_absence(
    model: ImageTextModel, cohort: Cohort, asked: Sequence[tuple[int, str, str, bool]]
) -> list[Sentence]:
    """Score sentences with and without a box in their images."""
    rows, texts = [row for row, *_ in asked], [text for _, _, text, _ in asked]
    scores = score_pairs(model, cohort, rows, texts)
    return [
        Sentence(row, ABSENCE, finding, text, AUC, score, truth=present)
        for (row, finding, text, present), score in zip(asked, scores.tolist(), strict=True)
    ]


def phrases_of(cohort: Cohort, sentences: list[Sentence]) -> Phrases:
    return Phrases(images_of(cohort.records), sentences)


def measure_phrases(given: Phrases) -> Rows:
    """Each measure by finding, the mean over findings, and over all sentences, with its control.

    For absence, only findings with sentences of both kinds count, if there are any: the others
    would compare sentences that differ anyway.
    """
    rows = Rows()
    for task, measures in TASKS.items():
        own = [sentence for sentence in given.sentences if sentence.task == task]
        if not own:
            continue
        names = sorted({sentence.finding for sentence in own})
        whole = MEAN_OF_SENTENCES if task == GROUNDING else ALL
        several = names if names != [""] or task in (GROUNDING, ABSENCE) else []
        for name in several:
            some = [sentence for sentence in own if sentence.finding == name]
            _add(rows, task, name or NO_FINDING, some, given.images)
        for measure in measures if several else ():
            each = [rows.value(task, name or NO_FINDING, measure) for name in several]
            known = [value for value in each if value is not None]
            if known:
                rows.add(task, MEAN_OF_FINDINGS, measure, float(np.mean(known)))
        if task == ABSENCE:
            both = [n for n in names if rows.value(task, n or NO_FINDING, AUC) is not None]
            own = [sentence for sentence in own if not both or sentence.finding in both]
        _add(rows, task, whole, own, given.images)
    return rows


def _add(rows: Rows, task: str, group: str, own: Sequence[Sentence], images: Images) -> None:
    """Add the measures of some sentences of a task."""
    for measure in TASKS[task]:
        some = [sentence for sentence in own if sentence.measure == measure]
        if not some:
            continue
        values = np.array([sentence.value for sentence in some])
        controls = np.array([sentence.control for sentence in some])
        patients = np.array([images.patients[sentence.row] for sentence in some], dtype=object)
        truth = np.array([sentence.truth is True for sentence in some])
        ranked = some[0].truth is not None
        figure = _figure(measure, values, patients.tolist(), truth if ranked else None)
        rows.add(task, group, measure, figure, int((~np.isnan(values)).sum()))
        if measure in (CNR, MIOU, POINTING) and group == MEAN_OF_SENTENCES:
            same = [(images.names[sentence.row], sentence.finding) for sentence in some]
            rows.compare_by(measure, figure, tuple(same))
        both = ~np.isnan(values) & ~np.isnan(controls)
        if both.any():
            control: Measured | float | None = float(controls[both].mean())
            if ranked:
                control = area_of(controls, truth, patients.tolist())
            rows.add(task, group, measure + ELSEWHERE, control, int(both.sum()))
            if not ranked:
                gain = mean_of((values - controls)[both], patients[both].tolist())
                rows.add(task, group, measure + GAIN, gain, int(both.sum()))
    counted = min((sentence.measure for sentence in own), key=TASKS[task].index, default="")
    first = [sentence for sentence in own if sentence.measure == counted]
    for name, side in zip(TRUTHS.get(task, ()), (True, False), strict=False):
        rows.add(task, group, name, sum(sentence.truth is side for sentence in first))
    rows.add(task, group, "sentences", len(first))
    rows.add(task, group, "images", len({sentence.row for sentence in first}))


def _figure(
    measure: str, values: Floats, patients: list[str], truth: NDArray[np.bool_] | None
) -> Measured | None:
    if truth is not None:
        return area_of(values, truth, patients)
    if measure not in SHARES or np.isnan(values).all():
        return mean_of(values, patients)
    known = ~np.isnan(values)
    return share(values[known], [patients[at] for at in np.flatnonzero(known)])
