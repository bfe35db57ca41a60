"""The sections of a report: of each part what was measured, and its rows as a table.

A table has a row a group and a column a measure; what differs from part to part is in
:data:`SECTIONS`.  Tables are lists of cells, the first row the header.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cxrtext.evaluation.classification.finding import FITTED, MEASURES, SCORED
from cxrtext.evaluation.classification.multiclass import SCORES
from cxrtext.evaluation.classification.subgroups import MINIMUM, UNKNOWN
from cxrtext.evaluation.comparison import SMALLER_IS_BETTER
from cxrtext.evaluation.grounding.phrases import (
    ABOVE,
    AUC,
    AUROC,
    CNR,
    COMMON,
    DICE,
    HEAD_AUC,
    MIOU,
    OTHERS,
    PEAK,
    POINTING,
    SIDE_AUC,
    SIGNED,
)
from cxrtext.evaluation.report.figures import benefit_figures, classification_figures
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.rows import (
    ABSENCE,
    ALL_IMAGES,
    BOTH,
    BOX_RETRIEVAL,
    BY_CHANCE,
    CALIBRATION,
    CLASSES,
    ELSEWHERE,
    GAIN,
    GAP,
    GROUNDING,
    GROUPS,
    HEADS,
    MASKS,
    MEAN,
    MEAN_OF_SENTENCES,
    OF_FINDING,
    OPERATING,
    PROBES,
    RETRIEVAL,
    SIDES,
    ZERO_SHOT,
    Row,
    Rows,
)
from cxrtext.metrics.intervals import Area, Median, OnLogit, Share
from cxrtext.page import EMPTY, Block, Bullets, Section, Table, Text, with_interval

Cells = list[list[str]]
LIMIT = 99.99
"""Temperature from which on it is taken for the limit of its fit, 100."""
DEFINITIONS = {
    **{one.title or one.name: one.definition for one in MEASURES if one.definition},
    "PPV, NPV": "positive and negative predictive value: the shares of the images above and not "
    "above the threshold that are rightly there.",
    "LR+, LR−": "likelihood ratios, sensitivity / (1 − specificity) and (1 − sensitivity) / "
    "specificity: what a result multiplies the odds of the finding by.",
    "F1": "2 TP / (2 TP + FP + FN).",
    "Net benefit": "TP / n − FP / n · t / (1 − t), of acting from a probability t on.",
    "CNR": "contrast-to-noise ratio |mean inside − mean outside| / √(variance inside + variance "
    "outside) of the map of region–sentence scores, in original pixels.",
    "Signed CNR": "the same without the bars: below 0 where the map avoids the boxes. The papers' "
    "CNR has them, and counts a map that avoids the boxes as one that finds them.",
    "mIoU": "mean over thresholds −1, −0.95, …, 1 of the overlap of {map ≥ threshold} and the "
    "boxes; in the variant the thresholds are 0.1, 0.2, …, 0.5.",
    "Pointing game": "the share of sentences whose map peaks inside a box.",
    "Dice": "2 × overlap / (both areas), of {map ≥ threshold} and the masks of a sentence.",
    "Pixel AUROC": "the chance that a pixel inside the masks is higher than one outside.",
    "R@K": "the share of queries with a right answer among the first K; ties count against the "
    "model.",
    "MedR": "the median rank of the first right answer, by chance that of a random order; of both "
    "directions, the mean of their medians.",
    "MRR": "the mean of 1 / rank of the first right answer.",
    "Recall": "the mean of R@10, R@50 and R@100 over both directions between boxes and sentences.",
    "Gap": "the AUC of the best group less that of the worst; never below 0, and larger by "
    "chance the smaller the groups. Its interval is of all pairs of groups at once.",
    "Probe": "AUC of a logistic regression on the mean region of frozen features, its ridge chosen "
    "on validation images.",
    "Intervals": "in brackets, 95 %, by how far each patient, and not each image, moves a figure. "
    f"Of an AUC: {Area.METHOD} (Obuchowski), drawn toward Hanley and McNeil's variance where "
    f"patients are few. Of a share: {Share.METHOD} (design effect). Of AP: {OnLogit.METHOD}. Of a "
    f"median rank: {Median.METHOD}. Of means: Student's t.",
}


def cell(row: Row | None, digits: int = 3) -> str:
    """A figure with its interval: a dash where it could not be measured, nothing without a row."""
    if row is not None and row.measure == "T" and row.value is not None and row.value >= LIMIT:
        return f"≥ {LIMIT:.0f}"  # the fit has no end: the scores rank, but have no zero
    return "" if row is None else with_interval(row.value, row.ends, digits)


def told(one: Mapping[str, Any], digits: int) -> str:
    """``value``, ``low`` and ``high`` of a measure, as far as it has them."""
    low, high = one.get("low"), one.get("high")
    ends = None if low is None or high is None else (low, high)
    return with_interval(one.get("value"), ends, digits)


Columns = Mapping[str, int]
"""Measures as columns, and how many digits each has after the point."""
COUNTS = dict.fromkeys(("with", "without", "left out"), 0)
SHARES = dict.fromkeys(("sensitivity", "specificity", "PPV", "NPV", "LR+", "LR−", "F1"), 2)


def digits(number: int, *names: str) -> Columns:
    return dict.fromkeys(names, number)


def beside(*measures: str) -> Columns:
    """Measures, the same of other patients' images, and what each gains over these."""
    return digits(2, *(one + end for one in measures for end in ("", ELSEWHERE, GAIN)))


def pivot(
    rows: Rows,
    part: str,
    columns: Columns,
    *,
    first: str = "finding",
    groups: Sequence[str] | None = None,
) -> Cells:
    """A row a group of a part, with a column a measure; ``first`` is the head of the groups."""
    found = [[first, *columns]]
    for group in rows.groups(part) if groups is None else groups:
        found.append([group, *(cell(rows.find(part, group, m), n) for m, n in columns.items())])
    return found


def digits_of(name: str) -> int:
    """Digits after the point that a measure is printed with."""
    if name in ("queries", "candidates"):
        return 0
    return 1 if name.removesuffix(BY_CHANCE).endswith(SMALLER_IS_BETTER) else 3


def ranked(rows: Rows, part: str) -> Cells:
    """A row a direction; of boxes strict and with equal sentences right."""
    directions = [one for one in rows.groups(part) if not one.startswith(BOTH)]
    names = dict.fromkeys(name for one in directions for name in rows.of(part, one))
    shown = {name: digits_of(name) for name in names}
    cells = pivot(rows, part, shown, first="direction", groups=directions)
    return [[text or EMPTY for text in line] for line in cells]


def points(rows: Rows, columns: Columns = SHARES) -> Cells:
    """A row a finding and way in which its threshold was chosen."""
    chosen = rows.below(OPERATING)
    tables = {how: pivot(rows, f"{OPERATING}, {how}", columns) for how in chosen}
    found = [["finding", "threshold by", *columns]]
    for lines in zip(*(table[1:] for table in tables.values()), strict=True):
        for how, (finding, *cells) in zip(chosen, lines, strict=True):
            found.append([finding, how, *cells])
    return found


def _band_order(name: str) -> tuple[bool, int, str]:
    """Age bands by age, other groups by name, the unknown last."""
    numbers = "".join(c if c.isdigit() else " " for c in name).split()
    first = int(numbers[0]) if numbers else 0
    return name == UNKNOWN, first - (1 if name.startswith("under ") else 0), name


def slices(rows: Rows, column: str) -> Cells:
    """A row a finding, with a column a group of the manifest's column, and the gap."""
    part = f"{GROUPS}, {column}"
    groups = sorted((name for name in rows.groups(part) if name != GAP), key=_band_order)
    found = [["finding", *groups, GAP]]
    for measure in rows.of(part, GAP):
        finding = measure.removeprefix(OF_FINDING)
        cells = []
        for name in groups:
            sides = ("with", "without")
            counts = {side: rows.count(part, name, f"{side} {finding}") for side in sides}
            few = [f"{count} {side}" for side, count in counts.items() if count < MINIMUM]
            few_text = f"too few ({', '.join(few)})"
            cells.append(few_text if few else cell(rows.find(part, name, measure), 2))
        found.append([finding, *cells, cell(rows.find(part, GAP, measure), 2)])
    return found


@dataclass(frozen=True, slots=True)
class Part:
    """A section: its ``part`` of the rows, a ``note`` to read it by, and its ``table``.

    Names in braces in the note are filled in (:func:`_facts`).  ``terminal``: the title under which
    the terminal shows the table; "" where it does not.  The ``last`` row may be strong.
    """

    title: str
    part: str
    note: str
    table: Callable[[Rows], Cells]
    terminal: str = ""
    last: bool = False
    more: Callable[[Evaluation], list[Block]] = lambda _: []


def _of(part: str, **columns: Any) -> Callable[[Rows], Cells]:
    return lambda rows: pivot(rows, part, **columns)


def _classification(result: Evaluation) -> list[Block]:
    rows = result.rows
    value = rows.value
    fitted = [
        one for one in rows.groups(ZERO_SHOT) if value(ZERO_SHOT, one, "threshold") is not None
    ]
    figures: list[Block] = [*classification_figures(result)]
    if not fitted:
        return figures
    note = (
        "Threshold and calibration, both chosen on validation images. Where ECE stays high with a "
        "temperature T and falls with Platt's scale and shift, the two prompts lean to one side: "
        "calibrate before a probability is read."
    )
    table = pivot(rows, ZERO_SHOT, {one.name: one.digits for one in FITTED}, groups=fitted)
    return [Text(note), Table(table), *figures]


def _operating(result: Evaluation) -> list[Block]:
    rows = result.rows
    counts = {"threshold": 2, **digits(0, "TP", "FP", "FN", "TN")}
    note = (
        "Calibration slope and intercept of the probability with Platt's scale and shift. A slope "
        "below 1: probabilities are too extreme. An intercept above 0: the finding is more "
        "frequent here than the validation images suggest."
    )
    table = pivot(rows, CALIBRATION, digits(2, "slope", "intercept"))
    return [
        Table(points(rows, counts), "Counts"),
        Text(note),
        Table(table, "Calibration"),
        *benefit_figures(rows),
    ]


def _slices(result: Evaluation) -> list[Block]:
    return [Table(slices(result.rows, one), f"By {one}") for one in result.rows.below(GROUPS)[1:]]


SECTIONS = (
    Part(
        "Zero-shot classification", ZERO_SHOT,
        "{how} Images with an unknown label are left out, those with an uncertain one {uncertain}.",
        _of(ZERO_SHOT, columns={**{one.name: one.digits for one in SCORED}, **COUNTS}),
        "zero-shot classification", last=True, more=_classification,
    ),
    Part(
        "Finding heads", HEADS,
        "Heads were trained on what the training reports say of each finding. Where a head ranks "
        "validation images better than its prompts, it answers: {better}. Any other sentence is "
        "asked as it stands.",
        _of(HEADS, columns={
            **{one.name: one.digits for one in SCORED if not one.sides}, **COUNTS
        }),
        "finding heads", last=True,
    ),
    Part(
        "Operating points", OPERATING,
        "Both thresholds were chosen on validation images and are measured here on others. PPV and "
        "NPV are those of these data, whose prevalence may be that of no hospital; likelihood "
        "ratios do not depend on it, and their intervals follow from those of both shares.",
        points, "operating points", more=_operating,
    ),
    Part(
        "Findings as classes", CLASSES,
        "Of the {classes} images that have exactly one of the findings, in the manner of CheXpert "
        "5x200: a finding that is unknown counts as absent; images with none, with several or with "
        "an uncertain one are left out ({apart_classes}). Accuracy: the finding whose score is "
        "highest. P@K: the share of the first K images for a finding's sentence that have it; a "
        "mean over findings. Compare data sets only where findings are equally frequent.",
        lambda rows: pivot(
            rows, CLASSES, digits(3, *rows.of(CLASSES, SCORES[0])), first="score", groups=SCORES
        ),
    ),
    Part(
        "Grounding", GROUNDING,
        "For every sentence with boxes, the scores of the image's regions are enlarged to original "
        "pixels; outside the crop that the model sees the map is not defined. Several "
        f"boxes of a sentence are one area. Other patients: the same boxes over the sentence's "
        f"maps of up to {OTHERS} other patients, which is what the words of the sentence bring by "
        "themselves; read a measure by its gain over these.",
        _of(GROUNDING, columns={
            **beside(SIGNED, MIOU, POINTING), **digits(2, CNR, COMMON), "sentences": 0
        }),
        "grounding", last=True,
    ),
    Part(
        "Masks", MASKS,
        "For every sentence with masks, of the map of region scores in original pixels; several "
        "masks of a sentence are one. The threshold of Dice is the best of validation images with "
        "masks. A map that says nothing has a pixel AUROC of 0.5.",
        _of(MASKS, columns={**beside(DICE, AUROC), "sentences": 0}), "masks", last=True,
    ),
    Part(
        "Phrases without a box", ABSENCE,
        "Sentences that were looked for in an image: the chance that one with a box there scores "
        "above one without, by the image-sentence score. Of the findings that have sentences of "
        "both kinds. The AUC of all compares sentences of different findings too, whose scores "
        "differ anyway.",
        lambda rows: pivot(
            rows, ABSENCE, {AUC: 3, **digits(0, "with a box", "without")},
            groups=[n for n in rows.groups(ABSENCE) if rows.value(ABSENCE, n, AUC) is not None],
        ),
        "phrases without a box", last=True,
    ),
    Part(
        "Left and right", SIDES,
        "Of sentences that name one side, affirm a finding and are false with left and right "
        "exchanged, as far as the words of the report tell. AUC of the side: of the score of the "
        "form that says left less that of the form that says right, less the mean of this over "
        "other patients' images, 0.5 where the image tells no side. Above its mirror: the share of "
        "sentences that score higher than with the sides exchanged. Peak on its side: the share "
        "whose highest region lies on that side of the picture's middle, the patient's left being "
        "at the right; regions in the middle count half. Other patients: the same of the sentence "
        "in the images of the other patients, one drawn for the AUC and all for the shares; a gain "
        "whose interval holds 0 is no evidence that the image was read.",
        _of(SIDES, columns={
            **digits(2, SIDE_AUC, SIDE_AUC + ELSEWHERE, HEAD_AUC), **beside(ABOVE, PEAK),
            **digits(0, "left", "right"),
        }),
        "left and right", last=True,
    ),
    Part(
        "Retrieval of boxes and sentences", BOX_RETRIEVAL,
        "{pairs} pairs of a box and its sentence. The feature of a box is the mean of its regions "
        "(RoIAlign). In the first two rows the one right answer is the pair's own, as in the "
        "paper; an equal sentence of another box counts against the model. In the variant any pair "
        "with an equal sentence is right.{apart}",
        lambda rows: ranked(rows, BOX_RETRIEVAL),
        "retrieval of boxes and sentences (ties count against the model)",
    ),
    Part(
        "Retrieval of sentences and images", RETRIEVAL,
        "Queries and candidates are the images of the split and the distinct sentences of their "
        "reports; every image whose report holds the sentence is a right answer; ties count "
        "against the model. A sentence is drawn with the patient of its first report.{apart}",
        lambda rows: ranked(rows, RETRIEVAL),
        "retrieval (ties count against the model; equal sentences are right)",
    ),
    Part(
        "Groups of patients", GROUPS,
        f"AUC of zero-shot classification within each group with at least {MINIMUM} images with "
        f"the finding and {MINIMUM} without. A gap is never below 0 and grows by chance with the "
        "number of groups: read it beside the intervals of the groups.",
        lambda rows: slices(rows, rows.below(GROUPS)[0]), more=_slices,
    ),
    Part(
        "Linear probes", PROBES,
        "Logistic regressions on the mean region of each image, the model frozen.",
        _of(PROBES, columns={"AUC": 3, "train": 0}),
    ),
)  # fmt: skip
"""In the order of the report."""


def _facts(result: Evaluation) -> dict[str, object]:
    """What notes of sections say of this evaluation."""
    settings, rows = result.settings, result.rows
    about = result.predictions.about if result.predictions else {}
    asked = about.get("prompts", True) or any(
        rows.value(ZERO_SHOT, name, "AUC, positive prompt") for name in result.findings
    )
    average = settings.get("average")
    return {
        "how": "The label is the prompt with the higher image-sentence score; AUC and AP are those "
        f"of the score difference. Several prompts of a side are averaged as {average}."
        if asked
        else "The model has one score of a finding and no prompts; above 0 means present.",
        "uncertain": {"positive": "counted as present", "negative": "counted as absent"}.get(
            str(settings.get("uncertain")), "too"
        ),
        "better": ", ".join(about.get("by_head", ())) or "none",
        "classes": rows.count(CLASSES, ALL_IMAGES, "images"),
        "apart_classes": rows.count(CLASSES, ALL_IMAGES, "left out"),
        "pairs": rows.count(BOX_RETRIEVAL, BOTH, "pairs"),
        "apart": " Others of the query's patient are left out."
        if settings.get("exclude_same_patient")
        else "",
    }


def sections_of(result: Evaluation) -> list[Section]:
    found = [Section("Benchmark", _benchmark(result))] if result.recipe else []
    measured = {row.part.partition(", ")[0] for row in result.rows}
    facts = _facts(result)
    for one in SECTIONS:
        if one.part in measured:
            cells = one.table(result.rows)
            strong = frozenset({len(cells) - 1}) if one.last else frozenset[int]()
            table = Table(cells, strong=strong)
            note = Text(one.note.format(**facts))
            found.append(Section(one.title, [note, table, *one.more(result)]))
    return found


def shown(rows: Rows) -> dict[str, Cells]:
    """By title the tables that the terminal shows; those with a row."""
    tables = {one.terminal: one.table(rows) for one in SECTIONS if one.terminal}
    return {title: cells for title, cells in tables.items() if len(cells) > 1}


def _benchmark(result: Evaluation) -> list[Block]:
    """What was measured by which recipe, and what that rests on."""
    note = result.recipe
    listed, primary = note["list"], note["primary"]
    value = "not measured" if primary["value"] is None else str(told(primary, 3))
    official = listed["official"]
    if official is None:
        compared = "none of the official lists"
    else:
        how = "equal by digest" if official["sha256"] else "by count alone"
        compared = f"{official['title']}, {how} ({official['source']})"
    form = note["preprocessing"] or {}
    prepared = ", ".join(f"{name} {form[name]}" for name in ("fit", "resize", "crop") if form)
    rows = [
        ["", ""],
        ["recipe", f"{note['recipe']}, version {note['version']}: {note['title']}"],
        ["digest of the recipe", note["recipe_sha256"]],
        [f"primary measure: {primary['measure']}", value],
        ["images measured", f"{note['images']:,} of {listed['measured']:,}"],
        [f"list ({listed['file']})", f"{listed['images']:,} images, SHA-256 {listed['sha256']}"],
        ["compared with", compared],
        ["prompts", note["prompts_source"] or "the phrases of the boxes"],
        ["preprocessing", f"the checkpoint's own: {prepared}"],
    ]
    blocks: list[Block] = [Table(rows, words=True)]
    for title, name in (("rests on", "facts"), ("could not verify", "not_had")):
        if note[name]:
            blocks += [Text(f"What the recipe {title}:"), Bullets(note[name])]
    return blocks


def primary_line(result: Evaluation) -> str:
    name = result.primary["measure"]
    return f"Primary measure: {name} {told(result.primary, digits_of(name))}"


HEADLINE = {
    "AUC": ("zero-shot AUC", ZERO_SHOT, MEAN, 2),
    "ACC": ("zero-shot ACC", ZERO_SHOT, MEAN, 2),
    CNR: ("grounding CNR", GROUNDING, MEAN_OF_SENTENCES, 2),
    MIOU: ("grounding mIoU", GROUNDING, MEAN_OF_SENTENCES, 2),
    "Recall": ("box retrieval Recall", BOX_RETRIEVAL, BOTH, 2),
    "MedR": ("box retrieval MedR", BOX_RETRIEVAL, BOTH, 0),
}
"""Six figures of all three tasks: what they are called, where they stand, and their digits."""


def headline(rows: Rows) -> dict[str, str]:
    """The six figures by what they are called, a dash for one that was not measured."""
    return {
        title: cell(rows.find(part, group, name), places) or EMPTY
        for name, (title, part, group, places) in HEADLINE.items()
    }
