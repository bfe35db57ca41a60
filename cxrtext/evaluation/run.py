"""``cxrtext evaluate``: what a checkpoint is worth on a data folder."""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cxrtext.errors import DataError
from cxrtext.evaluation.classification import (
    FindingResult,
    evaluate_finding,
    prompt_embeddings,
    score_differences,
)
from cxrtext.evaluation.data_folder import DataFolder, read_data_folder
from cxrtext.evaluation.prompts import CHEX5_PROMPTS, Prompts
from cxrtext.evaluation.retrieval import retrieval_metrics
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.embedding import embed_all
from cxrtext.records import ImageRecord, Rejects, Sentence

IMAGES_AT_ONCE = 256
"""Images scored at the same time; bounds memory."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was measured.

    Args:
        checkpoint: The model's folder.
        fingerprint: The model's fingerprint.
        data: The data folder.
        split: The split that was looked at.
        images: Images that were embedded.
        patients: Their patients.
        classification: Results by finding; empty where the data have no labels.
        retrieval: Metrics by direction; empty where the data have no reports.
        left_out: What could not be measured, and why.
    """

    checkpoint: str
    fingerprint: str
    data: str
    split: str
    images: int
    patients: int
    classification: dict[str, FindingResult] = field(default_factory=dict)
    retrieval: dict[str, dict[str, float]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    @property
    def mean_auc(self) -> float | None:
        """Mean of the AUCs, or None where not every finding has one."""
        areas = [result.auc for result in self.classification.values()]
        known = [area for area in areas if area is not None]
        return float(np.mean(known)) if known and len(known) == len(areas) else None

    @property
    def mean_accuracy(self) -> float | None:
        """Mean of the accuracies, or None where not every finding has one."""
        shares = [result.accuracy for result in self.classification.values()]
        known = [share for share in shares if share is not None]
        return float(np.mean(known)) if known and len(known) == len(shares) else None

    def to_dict(self) -> dict[str, Any]:
        """Everything, as it stands in ``metrics.json``."""
        return {**asdict(self), "mean_auc": self.mean_auc, "mean_accuracy": self.mean_accuracy}


def _chunks(regions: Tensor, model: ImageTextModel) -> list[Tensor]:
    return [part.to(model.device).float() for part in regions.split(IMAGES_AT_ONCE)]


@torch.inference_mode()
def _classify(
    model: ImageTextModel,
    regions: Tensor,
    studies: Sequence[str],
    labels: Mapping[str, Mapping[str, int | None]],
    prompts: Mapping[str, Prompts],
) -> dict[str, FindingResult]:
    vectors = prompt_embeddings(model, prompts)
    parts = [score_differences(model, part, vectors) for part in _chunks(regions, model)]
    differences = torch.cat(parts, dim=1).cpu().numpy()
    return {
        finding: evaluate_finding(row, [labels.get(study, {}).get(finding) for study in studies])
        for finding, row in zip(prompts, differences, strict=True)
    }


@torch.inference_mode()
def _retrieve(
    model: ImageTextModel, regions: Tensor, studies: Sequence[str], sentences: Sequence[Sentence]
) -> dict[str, dict[str, float]]:
    """Sentence → image and image → sentence; equal sentences are one, right for every study."""
    places = defaultdict(list)
    for place, study in enumerate(studies):
        places[study].append(place)
    texts = list(dict.fromkeys(s.sentence for s in sentences if s.study_id in places))
    row = {text: number for number, text in enumerate(texts)}
    relevant = np.zeros((len(texts), len(studies)), dtype=bool)
    for sentence in sentences:
        for place in places.get(sentence.study_id, ()):
            relevant[row[sentence.sentence], place] = True
    vectors = model.embed_sentences(texts)
    scores = torch.cat([model.scores(part, vectors) for part in _chunks(regions, model)], dim=1)
    values = scores.cpu().numpy()
    spoken = relevant.any(axis=0)
    return {
        "sentence to image": _direction(values, relevant),
        "image to sentence": _direction(values.T[spoken], relevant.T[spoken]),
    }


def _direction(scores: np.ndarray[Any, Any], relevant: np.ndarray[Any, Any]) -> dict[str, float]:
    cutoffs = [k for k in (1, 5, 10, 50, 100) if k < scores.shape[1]]
    metrics = retrieval_metrics(scores, relevant, cutoffs)
    return {**metrics, "queries": float(scores.shape[0]), "candidates": float(scores.shape[1])}


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


def evaluate(
    checkpoint: Path,
    data: Path,
    *,
    split: str = "test",
    prompts: Mapping[str, Prompts] | None = None,
    device: str = "cpu",
    allow_outside: bool = False,
    rejects: Rejects | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Measure a checkpoint: zero-shot classification and sentence retrieval.

    Args:
        checkpoint: A model's folder.
        data: A data folder; what needs a file that is not there is left out, and said.
        split: "train", "val", "test" or "all".
        prompts: Prompts by finding; CheX5's by default.
        device: Where to compute.
        allow_outside: Whether images may lie outside the folder.
        rejects: Takes images that cannot be read.
        progress: Called with (done, total) images.

    Returns:
        What was measured.

    Raises:
        DataError: The folder has no such split, or no image of it can be read.
        CheckpointError: The checkpoint is damaged.
    """
    folder = read_data_folder(data, allow_outside=allow_outside)
    records = _usable(folder, split)
    model = load_model(checkpoint, device)
    embedded = embed_all(
        model, [r.path for r in records], threads=os.cpu_count() or 1, progress=progress
    )
    rejects = rejects or Rejects()
    for row, reason in embedded.failed:
        rejects.add(records[row].name, reason)
    if not embedded.rows:
        raise DataError(f"{data}: no image of split '{split}' can be read: {rejects.rows[-1][1]}")
    used = [records[row] for row in embedded.rows]
    studies = [record.study_id for record in used]
    result = Evaluation(
        checkpoint=str(checkpoint),
        fingerprint=model.fingerprint,
        data=str(data),
        split=split,
        images=len(used),
        patients=len({record.patient_id for record in used}),
    )
    if folder.labels is None:
        result.left_out.append("classification: the data have no labels.csv")
    else:
        result.classification.update(
            _classify(model, embedded.regions, studies, folder.labels, prompts or CHEX5_PROMPTS)
        )
    told = set(studies)
    sentences = [s for s in folder.sentences or () if s.study_id in told]
    if not sentences:
        result.left_out.append("retrieval: the data have no reports of these studies")
    else:
        result.retrieval.update(_retrieve(model, embedded.regions, studies, sentences))
    return result
