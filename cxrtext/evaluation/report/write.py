"""Writing an evaluation as ``report.html`` and ``metrics.json``, a comparison likewise."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from cxrtext.evaluation.classification.finding import MEASURES
from cxrtext.evaluation.documents.cards import IMAGES
from cxrtext.evaluation.documents.flow import flow_blocks
from cxrtext.evaluation.documents.material import Material
from cxrtext.evaluation.documents.table_one import NOTE
from cxrtext.evaluation.documents.write import write_documents
from cxrtext.evaluation.intervals.methods import AREA, LOGIT, RESAMPLED, SHARE
from cxrtext.evaluation.predictions.file import NAME, write_predictions
from cxrtext.evaluation.report import tables
from cxrtext.evaluation.report.benchmark import benchmark_blocks
from cxrtext.evaluation.report.export import TABLES, export_tables, to_csv, to_latex
from cxrtext.evaluation.report.figures import (
    classification_figures,
    grounding_figures,
    prompt_matrix,
    sentence_map,
)
from cxrtext.evaluation.report.grounded import absence_blocks, mask_blocks, side_blocks
from cxrtext.evaluation.report.operating import class_blocks, operating_blocks
from cxrtext.evaluation.report.pictures import grounding_galleries, retrieval_galleries
from cxrtext.evaluation.result import Details, Evaluation
from cxrtext.evaluation.retrieval.sentences import DIRECTIONS, SentenceRanks
from cxrtext.files import write_json, write_text
from cxrtext.page import (
    EMPTY,
    RESEARCH,
    Block,
    Bullets,
    Gallery,
    Section,
    Table,
    Text,
    Tile,
    html_page,
)

PROTECTED = (
    "This page holds pixels of patients' images and sentences of their reports: keep it where you "
    "keep them. `--no-pictures` leaves both out."
)
UNCERTAIN = {
    "ignore": "too",
    "positive": "counted as present",
    "negative": "counted as absent",
}
TILES = {
    "AUC": "zero-shot AUC",
    "ACC": "zero-shot ACC",
    "CNR": "grounding CNR",
    "mIoU": "grounding mIoU",
    "Recall": "box retrieval Recall",
    "MedR": "box retrieval MedR",
}
DEFINITIONS = {
    **{one.column: one.definition for one in MEASURES if one.column},
    "Sensitivity, specificity": "the shares of images with and without the finding on the right "
    "side of a threshold that validation images chose (the largest sum of both, Youden).",
    "ECE": "expected calibration error: the gap between mean probability and share of positives, "
    "averaged over 15 equal bins by their images. The probability is the logistic of the score "
    "difference (before), of the difference over a temperature (T), or scaled and shifted (Platt).",
    "Brier": "the mean squared difference of probability and label, at temperature T.",
    "PPV, NPV": "positive and negative predictive value: the shares of the images above and not "
    "above the threshold that are rightly there.",
    "LR+, LR−": "likelihood ratios, sensitivity / (1 − specificity) and (1 − sensitivity) / "
    "specificity: what a result multiplies the odds of the finding by.",
    "F1, MCC": "2 TP / (2 TP + FP + FN), and Matthews' correlation of call and label.",
    "Net benefit": "TP / n − FP / n · t / (1 − t), of acting from a probability t on.",
    "CNR": "contrast-to-noise ratio |mean inside − mean outside| / √(variance inside + variance "
    "outside) of the map of region–sentence scores, in original pixels.",
    "Signed CNR": "the same without the bars: below 0 where the map avoids the boxes.",
    "mIoU": "mean over thresholds −1, −0.95, …, 1 of the overlap of {map ≥ threshold} and the "
    "boxes; in the variant the thresholds are 0.1, 0.2, …, 0.5.",
    "Pointing game": "the share of sentences whose map peaks inside a box.",
    "Dice": "2 × overlap / (both areas), of {map ≥ threshold} and the masks of a sentence.",
    "Pixel AUROC": "the chance that a pixel inside the masks is higher than one outside.",
    "R@K": "the share of queries with a right answer among the first K; ties count against the "
    "model.",
    "MedR": "the median rank of the first right answer; of both directions, the mean of their "
    "medians.",
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
"""By name."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What a report shows.

    So many best and worst grounded sentences, and sentences with what they retrieve; or no pixels
    of patients and no sentences of reports at all.  ``command`` is the command line that asked for
    it, and ``answers`` are the author's to the questions of the documents, by name.  ``data`` is
    the data folder that the documents describe, where figures are computed from predictions.
    """

    examples: int = 4
    pictures: bool = True
    command: tuple[str, ...] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    data: Path | None = None


def summary_line(result: Evaluation) -> str:
    """What was measured on what."""
    known = f", fingerprint `{result.fingerprint[:16]}`" if result.fingerprint else ""
    return (
        f"{result.images} images of {result.patients} patients, split '{result.split}' of "
        f"`{result.data}`; model `{result.checkpoint}`{known}. Brackets: 95 % intervals."
    )


def _classification(result: Evaluation) -> list[Block]:
    settings = result.settings
    uncertain = UNCERTAIN.get(str(settings.get("uncertain")), "")
    prompts = result.predictions.about.get("prompts") if result.predictions else True
    asked = prompts or any(one.auc_positive for one in result.classification.values())
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
        _last_strong(tables.classification_rows(result)),
    ]
    rows = tables.threshold_rows(result)
    if len(rows) > 1:
        note = (
            "Threshold and calibration, both chosen on validation images. Where ECE stays high "
            "with a temperature T and falls with Platt's scale and shift, the two prompts lean to "
            "one side: calibrate before a probability is read."
        )
        blocks += [Text(note), Table(rows)]
    return [*blocks, *classification_figures(result), tables.table3(result)]


def _grounding(result: Evaluation) -> list[Block]:
    sigma = result.settings.get("sigma")
    smooth = f", smoothed by a Gaussian of {sigma} regions" if sigma else ""
    note = (
        "For every sentence with boxes, the scores of the image's regions are enlarged to "
        f"original pixels{smooth}; outside the crop that the model sees the map is not defined. "
        "Several boxes of a sentence are one area."
    )
    table = _last_strong(tables.grounding_rows(result))
    return [Text(note), table, *grounding_figures(result), tables.table4(result)]


def _apart(result: Evaluation, what: str) -> str:
    left_out = result.settings.get("exclude_same_patient")
    return f" Other {what} of the query's patient are left out." if left_out else ""


def _box(result: Evaluation) -> list[Block]:
    note = (
        f"{result.box_retrieval['pairs']} pairs of a box and its sentence. The feature of a box is "
        "the mean of its regions (RoIAlign). In the first two rows the one right answer is the "
        "pair's own, as in the paper; an equal sentence of another box counts against the model. "
        "In the variant any pair with an equal sentence is right." + _apart(result, "pairs")
    )
    return [Text(note), Table(tables.box_retrieval_rows(result)), tables.table5(result)]


def _retrieval(result: Evaluation) -> list[Block]:
    note = (
        "Queries and candidates are the images of the split and the distinct sentences of their "
        "reports; every image whose report holds the sentence is a right answer; ties count "
        "against the model. A sentence is drawn with the patient of its first report."
        + _apart(result, "candidates")
    )
    return [Text(note), Table(tables.retrieval_rows(result))]


def _slices(result: Evaluation) -> list[Block]:
    note = (
        "AUC of zero-shot classification within each group with at least 10 images with the "
        "finding and 10 without. A gap is never below 0 and grows by chance with the number of "
        "groups: read it beside the intervals of the groups."
    )
    names = {column: "age band" if column == "age" else column for column in result.slices}
    rows = (Table(tables.slice_rows(result, key), f"By {name}") for key, name in names.items())
    return [Text(note), *rows]


def _probe(result: Evaluation) -> list[Block]:
    note = (
        "Logistic regressions on the mean region of each image, the model frozen. Few labels: "
        "mean, least and greatest AUC of five draws of so many images with the finding and as "
        "many without."
    )
    return [Text(note), Table(tables.probe_rows(result))]


RETRIEVAL = "Retrieval of sentences and images"
SECTIONS: Mapping[str, tuple[str, Callable[[Evaluation], list[Block]]]] = {
    "Benchmark": ("recipe", benchmark_blocks),
    "Zero-shot classification": ("classification", _classification),
    "Operating points": ("operating", operating_blocks),
    "Findings as classes": ("multiclass", class_blocks),
    "Grounding": ("grounding", _grounding),
    "Masks": ("masks", mask_blocks),
    "Phrases without a box": ("absence", absence_blocks),
    "Left and right": ("sides", side_blocks),
    "Retrieval of boxes and sentences": ("box_retrieval", _box),
    RETRIEVAL: ("retrieval", _retrieval),
    "Groups of patients": ("slices", _slices),
    "Linear probes": ("probe", _probe),
}
"""By title the field of an evaluation, without which there is no such section, and its blocks."""


def _last_strong(rows: list[list[str]]) -> Table:
    return Table(rows, strong=frozenset({len(rows) - 1}))


def _pictures(
    result: Evaluation, details: Details, options: ReportOptions
) -> dict[str, list[Gallery]]:
    """Galleries by the title of their section."""
    most = options.examples if options.pictures else 0
    found: dict[str, list[Gallery]] = {}
    if not most:
        return found
    if result.measured.grounded is not None:
        found["Grounding"] = grounding_galleries(details, result.measured.grounded, most)
    ranked = result.predictions and result.predictions.parts.get("retrieval")
    if isinstance(ranked, SentenceRanks) and details.wording is not None:
        ranks = ranked.queries[DIRECTIONS[0]].ranks
        found[RETRIEVAL] = retrieval_galleries(details, details.wording, ranks, most)
    return found


def _wording(result: Evaluation, details: Details) -> list[Block]:
    """Drawings of the embeddings of sentences and prompts."""
    found: list[Block] = []
    if details.wording is not None:
        drawn = sentence_map(details.model, details.wording, details.settings.seed)
        found += [drawn] if drawn else []
    if result.measured.zero_shot is not None:
        found.append(prompt_matrix(details.model, details.prompts))
    return found


def _images(material: Material) -> list[Section]:
    """Who was measured, and who was not and why."""
    if material.table_one is None or material.flow is None:
        return []
    note = f"{NOTE} Both for a paper: `documents/`."
    shown = [material.table_one.page_table(), *flow_blocks(material.flow)]
    return [Section(IMAGES, [Text(note), *shown])]


def _sections(result: Evaluation, options: ReportOptions, material: Material) -> list[Section]:
    beside = Section("Beside the paper", [Text(tables.BESIDE), tables.table1(result)])
    found = [] if result.recipe else [beside]  # whose images are others than a benchmark's
    found += [
        Section(title, make(result))
        for title, (part, make) in SECTIONS.items()
        if getattr(result, part)
    ]
    if result.details is not None:
        pictures = _pictures(result, result.details, options)
        for section in found:
            section.blocks += pictures.get(section.title, [])
    found += _images(material)
    if result.details is not None:
        wording = _wording(result, result.details)
        found += [Section("Sentences and prompts", wording)] if wording else []
    rows = [["measure", "definition"], *([name, text] for name, text in DEFINITIONS.items())]
    found.append(Section("Definitions", [Table(rows, words=True)]))
    if result.left_out:
        found.append(Section("Left out", [Bullets(result.left_out)]))
    return found


def write_report(
    folder: Path, result: Evaluation, options: ReportOptions | None = None
) -> list[Path]:
    """Write metrics, predictions, the page, its tables and documents; returns what was written.

    Without pictures the predictions have numbers in place of sentences.
    """
    options = options or ReportOptions()
    material = Material(result, options.command, options.answers, options.data)
    files = [folder / "metrics.json", folder / "report.html"]
    write_json(files[0], result.to_dict())
    if result.predictions is not None and result.details is not None:
        files.append(folder / NAME)
        result.predictions.about.update(material.kept())
        write_predictions(files[-1], result.predictions, sentences=options.pictures)
    sections = _sections(result, options, material)
    warnings = [Text(line, "warn") for line in result.warnings]
    head = [Text(summary_line(result)), *_primary(result), *warnings]
    if any(isinstance(block, Gallery) for one in sections for block in one.blocks):
        head.append(Text(PROTECTED, "warn"))
    tiles = [
        Tile(TILES[name], *text.split(" ", 1))
        for name, text in tables.headline(result).items()
        if text != EMPTY
    ]
    page = html_page(
        "Evaluation", sections, title=f"Evaluation: {result.data}", head=head, tiles=tiles,
        footer=f"{RESEARCH} cxrtext {version('cxrtext')}.",
    )  # fmt: skip
    write_text(files[1], page)
    export_tables(folder / TABLES, sections)
    documents = write_documents(folder, material, sections, _table_one(material))
    return [*files, folder / TABLES, documents]


def _primary(result: Evaluation) -> list[Text]:
    """The primary measure, where it was measured."""
    return [Text(tables.primary_line(result), "lead")] if result.primary else []


def _table_one(material: Material) -> dict[str, str]:
    """Table 1 as CSV and LaTeX, by name."""
    if material.table_one is None:
        return {}
    latex = to_latex(material.table_one.page_table(), "table-1")
    return {"table-1.csv": to_csv(material.table_one.data_table()), "table-1.tex": latex}
