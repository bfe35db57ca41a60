"""The steps of an evaluation: each fills in its part, or says why it is left out."""

from collections.abc import Mapping

import numpy as np

from cxrtext.evaluation.cohort import Embedder
from cxrtext.evaluation.data_folder import DataFolder
from cxrtext.evaluation.result import Details, Evaluation
from cxrtext.evaluation.tasks.box_retrieval import measure_box_retrieval
from cxrtext.evaluation.tasks.grounding import measure_grounding
from cxrtext.evaluation.tasks.groups import measure_slices
from cxrtext.evaluation.tasks.phrases import place_boxes
from cxrtext.evaluation.tasks.probes import (
    Features,
    features_of,
    mean_features,
    measure_probes,
)
from cxrtext.evaluation.tasks.retrieval import measure_retrieval
from cxrtext.evaluation.tasks.zero_shot import measure_zero_shot, scorer
from cxrtext.records import ImageRecord

OUTSIDE = "boxes outside the crop that the model sees"

Others = Mapping[str, list[ImageRecord]]


def classify(
    result: Evaluation,
    folder: DataFolder,
    embedder: Embedder,
    others: Others,
) -> None:
    """Measure zero-shot classification, by groups too, and probes where they are wanted."""
    details, labels = _details(result), folder.labels
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
        _probe(result, labels, embedder, others, seen)


def _probe(
    result: Evaluation,
    labels: Mapping[str, Mapping[str, int | None]],
    embedder: Embedder,
    others: Others,
    validation: Features | None,
) -> None:
    details = _details(result)
    if "train" not in others or validation is None:
        result.left_out.append(
            "probe: it wants training and validation images beside the images measured"
        )
        return
    train = mean_features(embedder, others["train"])
    found, lines = measure_probes(
        train,
        validation,
        features_of(details.cohort),
        labels,
        list(details.prompts),
        details.cohort.patients,
        details.settings,
    )
    result.probe.update(found)
    result.left_out.extend(lines)


def ground(result: Evaluation, folder: DataFolder) -> None:
    """Measure grounding, and retrieval between boxes and sentences."""
    details = _details(result)
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
    grounded = measure_grounding(details.model, details.cohort, phrases, details.settings)
    details.grounded = grounded
    details.resampled |= grounded.resampled
    result.grounding.update(grounded.summary)
    boxes = measure_box_retrieval(details.model, details.cohort, placed.boxes, details.settings)
    if boxes is None:
        result.left_out.append("box retrieval: every box lies outside the crop")
        return
    if boxes.outside:
        result.left_out.append(f"box retrieval: {OUTSIDE}: {boxes.outside}")
    result.box_retrieval.update(boxes.summary)
    details.resampled |= boxes.resampled


def retrieve(result: Evaluation, folder: DataFolder) -> None:
    """Measure retrieval between images and sentences."""
    details = _details(result)
    told = set(details.cohort.studies)
    sentences = [s for s in folder.sentences or () if s.study_id in told]
    if not sentences:
        result.left_out.append("retrieval: the data have no reports of these studies")
        return
    retrieved = measure_retrieval(details.model, details.cohort, sentences, details.settings)
    details.retrieved = retrieved
    details.resampled |= retrieved.resampled
    result.retrieval.update(retrieved.metrics)
    result.retrieval_intervals.update(retrieved.intervals)


def _details(result: Evaluation) -> Details:
    if result.details is None:
        raise ValueError("this evaluation was made without details")
    return result.details
