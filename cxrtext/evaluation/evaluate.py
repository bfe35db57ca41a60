"""``cxrtext evaluate``: measure a checkpoint on a data folder.

The model is applied to the images, and its predictions are measured.  Each step adds its part, or
a line that says why it is missing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cxrtext.errors import DataError
from cxrtext.evaluation.classification.calibration import prompts_beside
from cxrtext.evaluation.classification.classified import Classified, label_codes
from cxrtext.evaluation.classification.heads import BetterHeads, heads_for
from cxrtext.evaluation.classification.linear_probe import (
    Features,
    features_of,
    fit_probes,
    mean_features,
)
from cxrtext.evaluation.classification.prompt_scores import scorer
from cxrtext.evaluation.classification.prompts import Prompts
from cxrtext.evaluation.cohort import Cohort, Embedder
from cxrtext.evaluation.data import DataFolder, read_data_folder
from cxrtext.evaluation.grounding.boxes import Phrase, image_finder, place_boxes
from cxrtext.evaluation.grounding.phrases import (
    Sentence,
    Sided,
    dice_threshold,
    ground_phrases,
    looked_for,
    phrases_of,
    score_absence,
    score_sides,
    sided_phrases,
)
from cxrtext.evaluation.measure import measure
from cxrtext.evaluation.predictions.columns import images_of
from cxrtext.evaluation.predictions.file import Part, Predictions
from cxrtext.evaluation.result import Details, Evaluation
from cxrtext.evaluation.retrieval.boxes import rank_boxes
from cxrtext.evaluation.retrieval.sentences import gather_wording, rank_sentences
from cxrtext.evaluation.settings import SLICE_COLUMNS, Settings
from cxrtext.images.cache import DecodedCache
from cxrtext.metrics.ranking import Floats
from cxrtext.models import load_model
from cxrtext.models.features.folder import FeatureFolder
from cxrtext.records import ImageRecord, Rejects

Others = Mapping[str, list[ImageRecord]]
"""Images of other splits by split, needed to calibrate and to fit probes."""


@dataclass(slots=True)
class Gathered:
    """The parts so far, and by part the lines about what is left out.

    ``validation``: the validation images with a mask, which choose the threshold of Dice.
    ``probes``: how the linear probe of each finding was fitted.
    """

    parts: dict[str, Part] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    validation: Cohort | None = None
    probes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def leave_out(self, part: str, line: str) -> None:
        self.left_out.setdefault(part, []).append(line)


def evaluate(
    checkpoint: Path,
    data: Path | DataFolder,
    *,
    split: str = "test",
    prompts: Mapping[str, Prompts] | None = None,
    device: str = "cpu",
    allow_outside: bool = False,
    cache: DecodedCache | None = None,
    features: FeatureFolder | None = None,
    rejects: Rejects | None = None,
    progress: Callable[[int, int], None] | None = None,
    settings: Settings | None = None,
    labels: Path | None = None,
) -> Evaluation:
    """Measure a checkpoint: zero-shot classification, grounding and retrieval.

    A measurement that needs a file missing from ``data`` is left out, with a line that says so.
    ``prompts`` are by finding, the checkpoint's own by default; ``features`` of the model's
    backbone replace the images (``cxrtext encode``); ``rejects`` takes images that cannot be read;
    ``progress`` is called with (done, total) images; ``labels`` replace those of the data.
    """
    settings = settings or Settings()
    model = load_model(checkpoint, device)
    prompts = prompts or prompts_beside(model)
    folder = data
    if not isinstance(folder, DataFolder):
        folder = read_data_folder(
            folder,
            allow_outside=allow_outside,
            findings=tuple(prompts),
            boxes=settings.boxes,
            labels=labels,
        )
    records = _usable(folder, split)
    others = _others(folder, split, settings)
    rejects = rejects or Rejects()
    total = len(records) + sum(len(some) for some in others.values())
    embedder = Embedder(model, cache, rejects, total, progress, features)
    cohort = embedder.cohort(records)
    if not cohort.records:
        reason = rejects.rows[-1][1]
        raise DataError(f"{folder.path}: no image of split '{split}' can be read: {reason}")
    details = Details(model, folder, cohort, dict(prompts), settings, rejects=rejects.rows)
    gathered = Gathered()
    _classify(gathered, details, embedder, others)
    if model.has_regions:
        _ground(gathered, details)
    else:
        gathered.leave_out(
            "phrases",
            f"grounding and sides: {model.spec.image_title} has one embedding for a whole image",
        )
    _retrieve(gathered, details)
    about = {
        "cxrtext": version("cxrtext"),
        "checkpoint": str(checkpoint),
        "fingerprint": model.fingerprint,
        "data": str(folder.path),
        "split": split,
        "images": len(cohort.records),
        "patients": len(set(cohort.patients)),
        "labeled": folder.labels is not None,
        "made": folder.made,
        "gamma_sq": float(model.gamma_sq.detach()),
        "prompts": {
            name: {"positive": list(texts.positive), "negative": list(texts.negative)}
            for name, texts in prompts.items()
        },
        "by_head": BetterHeads(model.heads, prompts).findings,
        "settings": settings.to_dict(),
        "left_out": gathered.left_out,
        "probes": gathered.probes,
    }
    return replace(measure(Predictions(about, gathered.parts)), details=details)


def _usable(folder: DataFolder, split: str) -> list[ImageRecord]:
    if split == "all":
        return folder.records
    records = [record for record in folder.records if record.split == split]
    if not records:
        counts = {r.split for r in folder.records}
        raise DataError(
            f"{folder.path}: no image of split '{split}' (found: {', '.join(sorted(counts))}); "
            "choose another with --split"
        )
    return records


def _others(folder: DataFolder, split: str, settings: Settings) -> Others:
    needed = ["val"] if settings.calibrate or settings.probe else []
    needed += ["train"] if settings.probe else []
    if split == "all" or split in needed:
        return {}
    others = {name: [r for r in folder.records if r.split == name] for name in needed}
    if folder.labels is None:
        validation = others.get("val", [])
        others = {"val": [validation[row] for row in sorted(_drawn_rows(folder, validation))]}
    return {name: records for name, records in others.items() if records}


def _drawn_rows(folder: DataFolder, records: Sequence[ImageRecord]) -> set[int]:
    """The rows of images with a mask."""
    named = {box.image for box in folder.boxes or () if box.segmentation is not None}
    find = image_finder([record.name for record in records]) if named else None
    return {row for row in map(find, named) if row is not None} if find else set()


def _classify(gathered: Gathered, details: Details, embedder: Embedder, others: Others) -> None:
    """Score the prompts in every image, also in validation images; fit probes if asked for."""
    settings, cohort = details.settings, details.cohort
    score = scorer(details.model, details.prompts)
    heads = details.model.heads
    parts, logits = [], []
    for regions in cohort.chunks(details.model):
        parts.append(score(regions))
        logits += [heads.logits(regions).double().cpu().numpy()] if heads else []
    records = list(cohort.records)
    means = []
    validation = others.get("val", [])
    drawn = _drawn_rows(details.folder, validation)
    kept: list[tuple[ImageRecord, tuple[int, int], Tensor]] = []
    for rows, sizes, regions in embedder.batches(validation):
        parts.append(score(regions.float()))
        logits += [heads.logits(regions).double().cpu().numpy()] if heads else []
        means.append(regions.mean(dim=1).double().cpu().numpy())
        records += [validation[row] for row in rows]
        kept += [
            (validation[row], sizes[place], regions[place].half().cpu())
            for place, row in enumerate(rows)
            if row in drawn
        ]
    if kept:
        own, extents, embedded = map(list, zip(*kept, strict=True))
        gathered.validation = Cohort(own, extents, torch.stack(embedded), cohort.preprocessing)
    findings, labels = tuple(details.prompts), details.folder.labels
    images = images_of(records, (*SLICE_COLUMNS, *settings.slices))
    measured = np.arange(len(records)) < len(cohort.records)

    def part(names: Sequence[str], positive: Floats, negative: Floats) -> Classified:
        codes = label_codes(labels or {}, images.studies, names)
        return Classified(tuple(names), images, positive, negative, codes, measured)

    gathered.parts["classification"] = part(findings, *np.concatenate(parts, axis=2))
    if heads and (own_heads := heads_for(heads, details.prompts)):
        answers = np.concatenate(logits, axis=1)[heads.rows(own_heads)]
        gathered.parts["heads"] = part(own_heads, answers, np.zeros_like(answers))
    if labels is None:
        gathered.leave_out(
            "classification",
            "classification: the data have no labels.csv with a column of these findings",
        )
        return
    if not settings.probe:
        return
    if "train" not in others or not means:
        gathered.leave_out(
            "probe", "probe: it needs training and validation images besides the images measured"
        )
        return
    probed, gathered.probes, lines = fit_probes(
        mean_features(embedder, others["train"]),
        Features(np.concatenate(means), images.studies[len(cohort.records) :]),
        features_of(cohort),
        labels,
        findings,
        images_of(cohort.records),
        settings,
    )
    if probed is not None:
        gathered.parts["probe"] = probed
    for line in lines:
        gathered.leave_out("probe", line)


def _ground(gathered: Gathered, details: Details) -> None:
    """Measure sentences in their images, and rank boxes and sentences."""
    model, cohort, folder = details.model, details.cohort, details.folder
    phrases = _placed(gathered, details)
    sentences: list[Sentence] = []
    if phrases:
        threshold = None
        if (seen := gathered.validation) is not None:
            own = place_boxes(folder.boxes or (), seen).phrases
            threshold = dice_threshold(model, seen, own)
        sentences = ground_phrases(model, cohort, phrases, threshold)
    if sided := _sided(details, phrases):
        sentences += score_sides(model, cohort, sided)
    asked, denying = looked_for(phrases, folder.absent, cohort)
    if denying:
        gathered.leave_out("phrases", f"phrases without a box: {denying} deny what they name")
    if not all(present for *_, present in asked):
        sentences += score_absence(model, cohort, asked)
    if sentences:
        gathered.parts["phrases"] = phrases_of(cohort, sentences)


def _placed(gathered: Gathered, details: Details) -> list[Phrase]:
    """Rank boxes and sentences, and return the sentences with boxes."""
    part, boxes = "phrases", details.folder.boxes
    if boxes is None:
        gathered.leave_out(part, "grounding: the data have no boxes.json")
        return []
    placed = place_boxes(boxes, details.cohort)
    placed.left_out.update({"boxes that are damaged": len(details.folder.bad_boxes)})
    for reason, count in sorted(placed.left_out.items()):
        if count:
            gathered.leave_out(part, f"grounding: {reason}: {count}")
    if not placed.boxes:
        gathered.leave_out(part, "grounding: the data have no boxes on these images")
        return []
    part = "box retrieval"
    ranks, outside = rank_boxes(details.model, details.cohort, placed.boxes)
    if ranks is None:
        gathered.leave_out(part, "box retrieval: every box lies outside the crop")
        return placed.phrases
    gathered.parts[part] = ranks
    if outside:
        gathered.leave_out(
            part, f"box retrieval: boxes outside the crop that the model sees: {outside}"
        )
    return placed.phrases


def _sided(details: Details, phrases: Sequence[Phrase]) -> list[Sided]:
    """Sentences about one side that are false mirrored: those with boxes, else those of reports."""
    of_study: dict[str, list[str]] = {}
    for sentence in details.folder.sentences or ():
        of_study.setdefault(sentence.study_id, []).append(sentence.sentence)
    studies = enumerate(details.cohort.studies)
    reports = {row: of_study[study] for row, study in studies if study in of_study}
    boxed: dict[int, list[tuple[str, str]]] = {}
    for phrase in phrases:
        boxed.setdefault(phrase.row, []).append((phrase.finding, phrase.text))
    named = {row: [("", text) for text in texts] for row, texts in reports.items()}
    return sided_phrases(boxed, reports) or sided_phrases(named, {})


def _retrieve(gathered: Gathered, details: Details) -> None:
    studies = set(details.cohort.studies)
    sentences = [s for s in details.folder.sentences or () if s.study_id in studies]
    if not sentences:
        gathered.leave_out("retrieval", "retrieval: the data have no reports of these studies")
        return
    wording = gather_wording(details.cohort, sentences)
    gathered.parts["retrieval"] = rank_sentences(details.model, details.cohort, wording)
