"""``cxrtext evaluate``: what a checkpoint is worth on a data folder.

Each step fills in its part of an :class:`Evaluation`, or says why it is left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation.classification.calibration import (
    FindingCalibration,
    KeptCalibration,
    prompts_digest,
)
from cxrtext.evaluation.classification.prompts import CHEX5_PROMPTS, Prompts
from cxrtext.evaluation.classification.subgroups import measure_slices
from cxrtext.evaluation.classification.zero_shot import (
    FindingResult,
    Labels,
    ZeroShot,
    measure_zero_shot,
    scorer,
)
from cxrtext.evaluation.cohort import Cohort, Embedder
from cxrtext.evaluation.data import DataFolder, read_data_folder
from cxrtext.evaluation.grounding.boxes import place_boxes
from cxrtext.evaluation.grounding.phrases import Grounded, measure_grounding
from cxrtext.evaluation.intervals.bootstrap import Interval, Resampled
from cxrtext.evaluation.probes.linear_probe import (
    Features,
    features_of,
    mean_features,
    measure_probes,
)
from cxrtext.evaluation.retrieval.boxes import measure_box_retrieval
from cxrtext.evaluation.retrieval.sentences import Retrieved, measure_retrieval
from cxrtext.evaluation.settings import Settings
from cxrtext.images.cache import DecodedCache
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.features.folder import FeatureFolder
from cxrtext.records import ImageRecord, Rejects

Others = Mapping[str, list[ImageRecord]]
"""Images of other splits that are needed, by split: to calibrate, and to fit probes."""


@dataclass(slots=True)
class Details:
    """What a report and a comparison need beside the figures; nothing of it is written as JSON.

    ``resampled`` has measures on shared resamples, by name.
    """

    model: ImageTextModel
    folder: DataFolder
    cohort: Cohort
    prompts: dict[str, Prompts]
    settings: Settings
    zero_shot: ZeroShot | None = None
    grounded: Grounded | None = None
    retrieved: Retrieved | None = None
    resampled: dict[str, Resampled] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was measured; a part is empty where the data lack what it needs (``left_out``).

    ``classification``: by finding; its intervals are of ``mean_auc`` and ``mean_accuracy``.
    ``grounding``: "mean", "mean of findings" and "by finding": CNR, mIoU, pointing game, with
    intervals.  ``box_retrieval``: "Recall", "MedR", and both directions between boxes and
    sentences.  ``retrieval``: by direction between images and sentences; intervals by direction
    and measure.  ``slices``: AUC by column of the manifest and finding, with the gap between
    groups.  ``probe``: linear probes by finding.
    """

    checkpoint: str
    fingerprint: str
    data: str
    split: str
    images: int
    patients: int
    settings: dict[str, Any] = field(default_factory=dict)
    classification: dict[str, FindingResult] = field(default_factory=dict)
    classification_intervals: dict[str, Interval] = field(default_factory=dict)
    grounding: dict[str, Any] = field(default_factory=dict)
    box_retrieval: dict[str, Any] = field(default_factory=dict)
    retrieval: dict[str, dict[str, float]] = field(default_factory=dict)
    retrieval_intervals: dict[str, dict[str, Interval]] = field(default_factory=dict)
    slices: dict[str, Any] = field(default_factory=dict)
    probe: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    details: Details | None = field(default=None, compare=False, repr=False)

    def _mean(self, name: str) -> float | None:
        """Mean over findings, or None where not every finding has a value."""
        values = [getattr(result, name) for result in self.classification.values()]
        return float(np.mean(values)) if values and None not in values else None

    @property
    def mean_auc(self) -> float | None:
        """Mean of the AUCs, or None where not every finding has one."""
        return self._mean("auc")

    @property
    def mean_accuracy(self) -> float | None:
        """Mean of the accuracies, or None where not every finding has one."""
        return self._mean("accuracy")

    def to_dict(self) -> dict[str, Any]:
        """Everything but the details, as it stands in ``metrics.json``."""
        values = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name != "details"
        }
        values["classification"] = {k: asdict(v) for k, v in self.classification.items()}
        return {**values, "mean_auc": self.mean_auc, "mean_accuracy": self.mean_accuracy}


def evaluate(
    checkpoint: Path,
    data: Path,
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
) -> Evaluation:
    """Measure a checkpoint: zero-shot classification, grounding and retrieval.

    Args:
        checkpoint: A model's folder.
        data: A data folder; what needs a file that is not there is left out, and said.
        split: "train", "val", "test" or "all".
        prompts: Prompts by finding; CheX5's by default.
        allow_outside: Whether images may lie outside the folder.
        cache: Where decoded images are kept; without it they are decoded each time.
        features: Of the model's backbone, in place of images; see ``cxrtext encode``.
        rejects: Takes images that cannot be read.
        progress: Called with (done, total) images.

    Raises:
        DataError: The folder has no such split, or no image of it can be read.
        CheckpointError: The checkpoint is damaged.
    """
    how, asked = settings or Settings(), dict(prompts or CHEX5_PROMPTS)
    folder = read_data_folder(
        data, allow_outside=allow_outside, findings=tuple(asked), boxes=how.boxes
    )
    records = _usable(folder, split)
    others = _others(folder, split, how)
    model = load_model(checkpoint, device)
    rejects = rejects or Rejects()
    total = len(records) + sum(len(some) for some in others.values())
    embedder = Embedder(model, cache, rejects, total, progress, features)
    cohort = embedder.cohort(records)
    if not cohort.records:
        raise DataError(f"{data}: no image of split '{split}' can be read: {rejects.rows[-1][1]}")
    details = Details(model, folder, cohort, asked, how)
    result = Evaluation(
        checkpoint=str(checkpoint),
        fingerprint=model.fingerprint,
        data=str(data),
        split=split,
        images=len(cohort.records),
        patients=len(set(cohort.patients)),
        settings={**asdict(how), "boxes": str(how.boxes) if how.boxes else None},
        details=details,
    )
    _classify(result, details, folder, embedder, others)
    _ground(result, details, folder)
    _retrieve(result, details, folder)
    return result


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


def _classify(
    result: Evaluation, details: Details, folder: DataFolder, embedder: Embedder, others: Others
) -> None:
    """Measure zero-shot classification, by groups too, and probes where they are wanted."""
    labels = folder.labels
    if labels is None:
        result.left_out.append(
            "classification: the data have no labels.csv with a column of these findings"
        )
        return
    settings, cohort, findings = details.settings, details.cohort, list(details.prompts)
    score = scorer(details.model, details.prompts, settings)
    differences = np.concatenate([score(part) for part in cohort.chunks(details.model)], axis=1)
    validation, seen = None, None
    if "val" in others:
        parts, means, studies = [], [], []
        for rows, _, regions in embedder.batches(others["val"]):
            parts.append(score(regions.float()))
            means.append(regions.mean(dim=1).double().cpu().numpy())
            studies += [others["val"][row].study_id for row in rows]
        if parts:
            validation = (np.concatenate(parts, axis=1), studies)
            seen = Features(np.concatenate(means), studies)
    if settings.calibrate and validation is None:
        result.left_out.append(
            "thresholds and temperatures: they are chosen on validation images, of which there "
            "are none beside the images measured"
        )
    zero_shot = measure_zero_shot(
        differences, cohort.studies, cohort.patients, labels, findings, validation, settings
    )
    if validation is not None:
        result.left_out.extend(
            f"thresholds and temperatures: {name}: validation images lack a class"
            for name, one in zero_shot.scores.items()
            if one.fit is None and len(one.rows)
        )
    details.zero_shot = zero_shot
    details.resampled |= zero_shot.resampled
    result.classification.update(zero_shot.findings)
    result.classification_intervals.update(zero_shot.intervals)
    slices, lines = measure_slices(cohort, zero_shot.scores, settings)
    result.slices.update(slices)
    result.left_out.extend(lines)
    if settings.probe:
        _probe(result, details, labels, embedder, others, seen)


def _probe(
    result: Evaluation,
    details: Details,
    labels: Labels,
    embedder: Embedder,
    others: Others,
    validation: Features | None,
) -> None:
    if "train" not in others or validation is None:
        result.left_out.append(
            "probe: it wants training and validation images beside the images measured"
        )
        return
    found, lines = measure_probes(
        mean_features(embedder, others["train"]),
        validation,
        features_of(details.cohort),
        labels,
        list(details.prompts),
        details.cohort.patients,
        details.settings,
    )
    result.probe.update(found)
    result.left_out.extend(lines)


def _ground(result: Evaluation, details: Details, folder: DataFolder) -> None:
    """Measure grounding, and retrieval between boxes and sentences."""
    if folder.boxes is None:
        result.left_out.append("grounding: the data have no boxes.json")
        return
    placed = place_boxes(folder.boxes, details.cohort)
    placed.left_out.update({"boxes that are damaged": len(folder.bad_boxes)})
    for reason, count in sorted(placed.left_out.items()):
        if count:
            result.left_out.append(f"grounding: {reason}: {count}")
    phrases = placed.phrases
    if not phrases:
        result.left_out.append("grounding: the data have no boxes on these images")
        return
    details.grounded = measure_grounding(details.model, details.cohort, phrases, details.settings)
    details.resampled |= details.grounded.resampled
    result.grounding.update(details.grounded.summary)
    boxes = measure_box_retrieval(details.model, details.cohort, placed.boxes, details.settings)
    if boxes is None:
        result.left_out.append("box retrieval: every box lies outside the crop")
        return
    if boxes.outside:
        result.left_out.append(
            f"box retrieval: boxes outside the crop that the model sees: {boxes.outside}"
        )
    result.box_retrieval.update(boxes.summary)
    details.resampled |= boxes.resampled


def _retrieve(result: Evaluation, details: Details, folder: DataFolder) -> None:
    """Measure retrieval between images and sentences."""
    studies = set(details.cohort.studies)
    sentences = [s for s in folder.sentences or () if s.study_id in studies]
    if not sentences:
        result.left_out.append("retrieval: the data have no reports of these studies")
        return
    retrieved = measure_retrieval(details.model, details.cohort, sentences, details.settings)
    details.retrieved = retrieved
    details.resampled |= retrieved.resampled
    result.retrieval.update(retrieved.metrics)
    result.retrieval_intervals.update(retrieved.intervals)


def calibration_of(evaluation: Evaluation) -> tuple[KeptCalibration, list[str]]:
    """The calibration that an evaluation, just done, fitted on validation images.

    Returns:
        It, and a line about each finding that is left out.

    Raises:
        ConfigError: The evaluation averaged scores, which a service does not.
        DataError: No finding could be calibrated.
    """
    details = evaluation.details
    if details is None:
        raise ValueError("this evaluation was made without details")
    if details.settings.average != "embeddings":
        raise ConfigError("--calibrate wants --average embeddings, as 'cxrtext serve' has it")
    findings: dict[str, FindingCalibration] = {}
    left_out = []
    scores = details.zero_shot.scores if details.zero_shot else {}
    for name, prompts in details.prompts.items():
        fit = scores[name].fit if name in scores else None
        if fit is None:
            left_out.append(f"calibration: {name}: no validation images with and without it")
        elif not fit.platt.scale > 0:
            left_out.append(f"calibration: {name}: its scores rank validation images wrongly")
        else:
            result = evaluation.classification[name]
            ends = result.intervals.get("auc")
            findings[name] = FindingCalibration(
                scale=fit.platt.scale,
                shift=fit.platt.shift,
                prompts=prompts_digest(prompts),
                positives=fit.positives,
                negatives=fit.negatives,
                error_before=result.calibration_error_before,
                error_after=result.calibration_error_platt,
                auc=None if result.auc is None or ends is None else (result.auc, *ends),
            )
    if not findings:
        raise DataError(
            f"{evaluation.data}: no finding can be calibrated; that wants labels.csv, images of "
            "split 'val' with and without each finding, and another split to measure"
        )
    kept = KeptCalibration(
        fingerprint=evaluation.fingerprint,
        data=Path(evaluation.data).name,
        measured=(evaluation.split, evaluation.images),
        findings=findings,
    )
    return kept, left_out
