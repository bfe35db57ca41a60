"""The sections of a report: what each part measured, what that means, its tables and figures."""

from collections.abc import Callable, Mapping

from cxrtext.evaluation.classification.finding import MEASURES
from cxrtext.evaluation.classification.multiclass import SCORES
from cxrtext.evaluation.grounding.masks import VALIDATION
from cxrtext.evaluation.grounding.phrases import OTHERS
from cxrtext.evaluation.grounding.sides import SideScores
from cxrtext.evaluation.intervals.methods import AREA, LOGIT, RESAMPLED, SHARE
from cxrtext.evaluation.report import tables
from cxrtext.evaluation.report.figures import (
    benefit_figures,
    classification_figures,
    grounding_figures,
    mask_figures,
)
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.rows import (
    ABSENCE,
    ALL,
    ALL_IMAGES,
    BOTH,
    BOX_RETRIEVAL,
    CALIBRATION,
    CLASSES,
    GROUNDING,
    GROUPS,
    HEADS,
    MASKS,
    OPERATING,
    PROBES,
    RETRIEVAL,
    SIDES,
    ZERO_SHOT,
)
from cxrtext.page import Block, Bullets, Section, Table, Text, number

UNCERTAIN = {
    "ignore": "too",
    "positive": "counted as present",
    "negative": "counted as absent",
}
DEFINITIONS = {
    **{one.title or one.name: one.definition for one in MEASURES if one.definition},
    "PPV, NPV": "positive and negative predictive value: the shares of the images above and not "
    "above the threshold that are rightly there.",
    "LR+, LR−": "likelihood ratios, sensitivity / (1 − specificity) and (1 − sensitivity) / "
    "specificity: what a result multiplies the odds of the finding by.",
    "F1, MCC": "2 TP / (2 TP + FP + FN), and Matthews' correlation of call and label.",
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
    "Intervals": "in brackets, 95 %, with patients and not images as what was drawn. Of an AUC: "
    f"{AREA} (Obuchowski), drawn toward Hanley and McNeil's variance where patients are few. Of a "
    f"share: {SHARE} (design effect). Of AP: {LOGIT}. Of all others: {RESAMPLED}.",
}


def sections_of(result: Evaluation) -> list[Section]:
    found = [Section("Benchmark", _benchmark(result))] if result.recipe else []
    measured = {row.part.partition(", ")[0] for row in result.rows}
    for title, (part, make) in SECTIONS.items():
        if part in measured:
            found.append(Section(title, make(result)))
    return found


def _benchmark(result: Evaluation) -> list[Block]:
    """What was measured by which recipe, and what that rests on."""
    note = result.recipe
    listed, primary = note["list"], note["primary"]
    value = "not measured" if primary["value"] is None else str(tables.told(primary, 3))
    official = listed["official"]
    if official is None:
        compared = "none of the official lists"
    elif official["sha256"]:
        compared = f"{official['title']}, equal by digest ({official['source']})"
    else:
        compared = f"{official['title']}, by count alone ({official['source']})"
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
    if note["facts"]:
        blocks += [Text("What the recipe rests on:"), Bullets(note["facts"])]
    if note["not_had"]:
        blocks += [Text("What could not be verified:"), Bullets(note["not_had"])]
    return blocks


def _last_strong(rows: list[list[str]]) -> Table:
    return Table(rows, strong=frozenset({len(rows) - 1}))


def _classification(result: Evaluation) -> list[Block]:
    settings, rows = result.settings, result.rows
    uncertain = UNCERTAIN.get(str(settings.get("uncertain")), "")
    prompts = result.predictions.about.get("prompts") if result.predictions else True
    asked = prompts or any(
        rows.value(ZERO_SHOT, name, "AUC, positive prompt") for name in result.findings
    )
    how = (
        "The label is the prompt with the higher image-sentence score; AUC and AP are those of the "
        f"score difference. Several prompts of a side are averaged as {settings.get('average')}."
        if asked
        else "The model has one score of a finding and no prompts; above 0 means present."
    )
    blocks: list[Block] = [
        Text(
            f"{how} Images with an unknown label are left out, those with an uncertain one "
            f"{uncertain}."
        ),
        _last_strong(tables.pivot(rows, ZERO_SHOT)),
    ]
    fitted = tables.threshold_rows(rows)
    if len(fitted) > 1:
        note = (
            "Threshold and calibration, both chosen on validation images. Where ECE stays high "
            "with a temperature T and falls with Platt's scale and shift, the two prompts lean to "
            "one side: calibrate before a probability is read."
        )
        blocks += [Text(note), Table(fitted)]
    return [*blocks, *classification_figures(result)]


def _heads(result: Evaluation) -> list[Block]:
    about = result.predictions.about if result.predictions else {}
    better = ", ".join(about.get("by_head", ())) or "none"
    note = (
        "Heads were trained on what the training reports say of each finding. Where a head ranks "
        f"validation images better than its prompts, it answers: {better}. Any other sentence is "
        "asked as it stands."
    )
    return [Text(note), _last_strong(tables.pivot(result.rows, HEADS))]


def _grounding(result: Evaluation) -> list[Block]:
    sigma = result.settings.get("sigma")
    smooth = f", smoothed by a Gaussian of {sigma} regions" if sigma else ""
    note = (
        "For every sentence with boxes, the scores of the image's regions are enlarged to "
        f"original pixels{smooth}; outside the crop that the model sees the map is not defined. "
        "Several boxes of a sentence are one area. Other patients: the same boxes over the "
        f"sentence's maps of up to {OTHERS} other patients, which is what the words of the "
        "sentence bring by themselves; read a measure by its gain over these."
    )
    table = _last_strong(tables.pivot(result.rows, GROUNDING))
    return [Text(note), table, *grounding_figures(result)]


def _apart(result: Evaluation, what: str) -> str:
    left_out = result.settings.get("exclude_same_patient")
    return f" Other {what} of the query's patient are left out." if left_out else ""


def _box(result: Evaluation) -> list[Block]:
    note = (
        f"{result.rows.count(BOX_RETRIEVAL, BOTH, 'pairs')} pairs of a box and its sentence. The "
        "feature of a box is the mean of its regions (RoIAlign). In the first two rows the one "
        "right answer is the pair's own, as in the paper; an equal sentence of another box counts "
        "against the model. In the variant any pair with an equal sentence is right."
        + _apart(result, "pairs")
    )
    return [Text(note), Table(tables.box_retrieval_rows(result.rows))]


def _retrieval(result: Evaluation) -> list[Block]:
    note = (
        "Queries and candidates are the images of the split and the distinct sentences of their "
        "reports; every image whose report holds the sentence is a right answer; ties count "
        "against the model. A sentence is drawn with the patient of its first report."
        + _apart(result, "candidates")
    )
    return [Text(note), Table(tables.retrieval_rows(result.rows))]


def _slices(result: Evaluation) -> list[Block]:
    note = (
        "AUC of zero-shot classification within each group with at least 10 images with the "
        "finding and 10 without. A gap is never below 0 and grows by chance with the number of "
        "groups: read it beside the intervals of the groups."
    )
    names = {name: "age band" if name == "age" else name for name in result.rows.below(GROUPS)}
    found = (
        Table(tables.slice_rows(result.rows, key), f"By {name}") for key, name in names.items()
    )
    return [Text(note), *found]


def _probe(result: Evaluation) -> list[Block]:
    note = (
        "Logistic regressions on the mean region of each image, the model frozen. Few labels: "
        "mean, least and greatest AUC of five draws of so many images with the finding and as "
        "many without."
    )
    return [Text(note), Table(tables.probe_rows(result.rows))]


def _operating(result: Evaluation) -> list[Block]:
    rows = result.rows
    blocks: list[Block] = [
        Text(
            "Both thresholds were chosen on validation images and are measured here on others. "
            "PPV and NPV are those of these data, whose prevalence may be that of no hospital; "
            "likelihood ratios do not depend on it. Brackets: Wilson's 95 % intervals, clustered "
            "by patient, of shares; of likelihood ratios what follows from them; of F1 and MCC "
            "percentiles."
        ),
        Table(tables.point_rows(rows), "Shares and likelihood ratios"),
        Table(tables.point_rows(rows, tables.COUNTS), "Counts"),
    ]
    if result.settings.get("prevalence"):
        predictive = tables.point_rows(rows, tables.PREVALENCES)
        blocks.append(
            Table(predictive, "Predictive values of these data and of another prevalence")
        )
    blocks += [
        Text(
            "Calibration slope and intercept of the probability with Platt's scale and shift. "
            "A slope below 1: probabilities are too extreme. An intercept above 0: the finding is "
            "more frequent here than the validation images suggest."
        ),
        Table(tables.pivot(rows, CALIBRATION), "Calibration"),
    ]
    return [*blocks, *benefit_figures(rows)]


def _classes(result: Evaluation) -> list[Block]:
    rows = result.rows
    images, left_out = (rows.count(CLASSES, ALL_IMAGES, name) for name in ("images", "left out"))
    findings = len(rows.groups(f"{CLASSES}, {SCORES[0]}"))
    note = (
        f"Of the {images} images that have exactly one of the findings, in the manner of "
        "CheXpert 5x200: a finding that is unknown counts as absent; images with none, with "
        f"several or with an uncertain one are left out ({left_out}). Accuracy: the "
        f"finding whose score is highest, of {findings}. P@K: the share of the first K images "
        "for a finding's sentence that have it, which a finding in fewer images cannot bring to "
        "1; a mean over findings, without an interval. Compare data sets only where findings are "
        "equally frequent."
    )
    return [Text(note), *tables.class_tables(rows)]


def _masks(result: Evaluation) -> list[Block]:
    rows = result.rows
    threshold, seen = rows.value(MASKS, ALL, "threshold"), rows.count(MASKS, ALL, VALIDATION)
    chosen = (
        f"The threshold of Dice, {number(threshold, 2)}, was chosen on {seen} sentences of "
        "validation images."
        if threshold is not None
        else "There are no masks on validation images, so that no threshold of Dice was chosen."
    )
    note = (
        "For every sentence with masks, of the map of region scores in original pixels; several "
        f"masks of a sentence are one. {chosen} Best Dice is at the threshold that is best for the "
        "row itself: it flatters. A map that says nothing has a pixel AUROC of 0.5."
    )
    return [Text(note), _last_strong(tables.pivot(rows, MASKS)), *mask_figures(rows)]


def _absence(result: Evaluation) -> list[Block]:
    note = (
        "Sentences that were looked for in an image: the chance that one with a box there scores "
        "above one without, by the image-sentence score. Of the findings that have sentences of "
        "both kinds. The AUC of all compares sentences of different findings too, whose scores "
        "differ anyway."
    )
    rows = result.rows
    blocks: list[Block] = [Text(note), _last_strong(tables.absence_rows(rows))]
    part = f"{ABSENCE}, thresholds"
    if part in rows:
        shares = tables.pivot(rows, part, tables.FOUND, first="threshold by")
        caption = "Shares of sentences above thresholds that validation sentences chose"
        blocks.append(Table(shares, caption))
    return blocks


def _sides(result: Evaluation) -> list[Block]:
    note = (
        f"Of {_source(result)} that name one side, affirm a finding and are false with left "
        "and right exchanged, as far as the words of the report tell. AUC of the side: of the "
        "score of the form that says left less that of the form that says right, less the mean "
        "of this over other patients' images, 0.5 where the image tells no side. Above its "
        "mirror: the share of sentences that score higher than with the sides exchanged. Peak on "
        "its side: the share whose highest region lies on "
        "that side of the picture's middle, the patient's left being at the right; regions in the "
        "middle count half. Other patients: the same of the sentence in the images of the other "
        "patients, one drawn for the AUC and all for the shares; a gain whose interval holds 0 "
        "is no evidence that the image was read."
    )
    return [Text(note), _last_strong(tables.pivot(result.rows, SIDES))]


def _source(result: Evaluation) -> str:
    part = result.predictions.parts["sides"] if result.predictions else None
    return part.source if isinstance(part, SideScores) else "sentences"


IN_GROUNDING, IN_RETRIEVAL = "Grounding", "Retrieval of sentences and images"
SECTIONS: Mapping[str, tuple[str, Callable[[Evaluation], list[Block]]]] = {
    "Zero-shot classification": (ZERO_SHOT, _classification),
    "Finding heads": (HEADS, _heads),
    "Operating points": (OPERATING, _operating),
    "Findings as classes": (CLASSES, _classes),
    IN_GROUNDING: (GROUNDING, _grounding),
    "Masks": (MASKS, _masks),
    "Phrases without a box": (ABSENCE, _absence),
    "Left and right": (SIDES, _sides),
    "Retrieval of boxes and sentences": (BOX_RETRIEVAL, _box),
    IN_RETRIEVAL: (RETRIEVAL, _retrieval),
    "Groups of patients": (GROUPS, _slices),
    "Linear probes": (PROBES, _probe),
}
"""By title the part, without whose rows there is no such section, and its blocks."""
