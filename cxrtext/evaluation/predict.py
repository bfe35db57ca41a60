"""From a checkpoint and a data folder to predictions: the part of an evaluation with a model.

Each step adds its part, or a line that says why there is none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np

from cxrtext.errors import DataError
from cxrtext.evaluation.classification.classified import Classified, label_codes
from cxrtext.evaluation.classification.prompts import Prompts
from cxrtext.evaluation.classification.zero_shot import scorer
from cxrtext.evaluation.cohort import Embedder
from cxrtext.evaluation.data import DataFolder, read_data_folder
from cxrtext.evaluation.grounding.boxes import place_boxes
from cxrtext.evaluation.grounding.phrases import ground_phrases
from cxrtext.evaluation.predictions.columns import images_of
from cxrtext.evaluation.predictions.file import Part, Predictions
from cxrtext.evaluation.probes.linear_probe import Features, features_of, fit_probes, mean_features
from cxrtext.evaluation.result import Details
from cxrtext.evaluation.retrieval.boxes import rank_boxes
from cxrtext.evaluation.retrieval.sentences import gather_wording, rank_sentences
from cxrtext.evaluation.settings import SLICE_COLUMNS, Settings
from cxrtext.images.cache import DecodedCache
from cxrtext.models import load_model
from cxrtext.models.features.folder import FeatureFolder
from cxrtext.records import ImageRecord, Rejects

Others = Mapping[str, list[ImageRecord]]
"""Images of other splits that are needed, by split: to calibrate, and to fit probes."""


@dataclass(slots=True)
class Gathered:
    """The parts so far, and by part the lines about what is left out of it."""

    parts: dict[str, Part] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=dict)

    def leave_out(self, part: str, line: str) -> None:
        """Say that something of a part is left out."""
        self.left_out.setdefault(part, []).append(line)


def predict(
    checkpoint: Path,
    data: Path,
    *,
    split: str,
    prompts: Mapping[str, Prompts],
    settings: Settings,
    device: str = "cpu",
    allow_outside: bool = False,
    cache: DecodedCache | None = None,
    features: FeatureFolder | None = None,
    rejects: Rejects | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Predictions, Details]:
    """Apply a model to the images of a split; see :func:`~cxrtext.evaluation.evaluate`."""
    folder = read_data_folder(
        data, allow_outside=allow_outside, findings=tuple(prompts), boxes=settings.boxes
    )
    records = _usable(folder, split)
    others = _others(folder, split, settings)
    model = load_model(checkpoint, device)
    rejects = rejects or Rejects()
    total = len(records) + sum(len(some) for some in others.values())
    embedder = Embedder(model, cache, rejects, total, progress, features)
    cohort = embedder.cohort(records)
    if not cohort.records:
        raise DataError(f"{data}: no image of split '{split}' can be read: {rejects.rows[-1][1]}")
    details = Details(model, folder, cohort, dict(prompts), settings, rejects=rejects.rows)
    gathered = Gathered()
    _classify(gathered, details, embedder, others)
    _ground(gathered, details)
    _retrieve(gathered, details)
    about = {
        "cxrtext": version("cxrtext"),
        "checkpoint": str(checkpoint),
        "fingerprint": model.fingerprint,
        "data": str(data),
        "split": split,
        "images": len(cohort.records),
        "patients": len(set(cohort.patients)),
        "labeled": folder.labels is not None,
        "gamma_sq": float(model.gamma_sq.detach()),
        "prompts": {
            name: {"positive": list(one.positive), "negative": list(one.negative)}
            for name, one in prompts.items()
        },
        "settings": settings.to_dict(),
        "left_out": gathered.left_out,
    }
    return Predictions(about, gathered.parts), details


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
    wanted = ["val"] if settings.calibrate or settings.probe else []
    wanted += ["train"] if settings.probe else []
    if folder.labels is None or split == "all" or split in wanted:
        return {}
    found = {name: [r for r in folder.records if r.split == name] for name in wanted}
    return {name: some for name, some in found.items() if some}


def _classify(gathered: Gathered, details: Details, embedder: Embedder, others: Others) -> None:
    """Score the prompts in every image, those of validation images too; fit probes if wanted."""
    settings, cohort = details.settings, details.cohort
    score = scorer(details.model, details.prompts, settings)
    parts = [score(part) for part in cohort.chunks(details.model)]
    records = list(cohort.records)
    means = []
    for rows, _, regions in embedder.batches(others.get("val", ())):
        parts.append(score(regions.float()))
        means.append(regions.mean(dim=1).double().cpu().numpy())
        records += [others["val"][row] for row in rows]
    findings, labels = tuple(details.prompts), details.folder.labels
    images = images_of(records, (*SLICE_COLUMNS, *settings.slices))
    positive, negative = np.concatenate(parts, axis=2)
    gathered.parts["classification"] = Classified(
        findings,
        images,
        positive,
        negative,
        label_codes(labels or {}, images.studies, findings),
        np.arange(len(records)) < len(cohort.records),
    )
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
            "probe", "probe: it wants training and validation images beside the images measured"
        )
        return
    probed, lines = fit_probes(
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
    """Map every sentence that has boxes, and rank boxes and sentences."""
    part = "grounding"
    if details.folder.boxes is None:
        gathered.leave_out(part, "grounding: the data have no boxes.json")
        return
    placed = place_boxes(details.folder.boxes, details.cohort)
    placed.left_out.update({"boxes that are damaged": len(details.folder.bad_boxes)})
    for reason, count in sorted(placed.left_out.items()):
        if count:
            gathered.leave_out(part, f"grounding: {reason}: {count}")
    phrases = placed.phrases
    if not phrases:
        gathered.leave_out(part, "grounding: the data have no boxes on these images")
        return
    model, cohort, settings = details.model, details.cohort, details.settings
    gathered.parts[part] = ground_phrases(model, cohort, phrases, settings)
    part = "box retrieval"
    ranks, outside = rank_boxes(model, cohort, placed.boxes, settings)
    if ranks is None:
        gathered.leave_out(part, "box retrieval: every box lies outside the crop")
        return
    gathered.parts[part] = ranks
    if outside:
        gathered.leave_out(
            part, f"box retrieval: boxes outside the crop that the model sees: {outside}"
        )


def _retrieve(gathered: Gathered, details: Details) -> None:
    """Rank images and the sentences of their reports."""
    studies = set(details.cohort.studies)
    sentences = [s for s in details.folder.sentences or () if s.study_id in studies]
    if not sentences:
        gathered.leave_out("retrieval", "retrieval: the data have no reports of these studies")
        return
    details.wording = gather_wording(details.cohort, sentences)
    gathered.parts["retrieval"] = rank_sentences(
        details.model, details.cohort, details.wording, details.settings
    )
