"""How well an encoder that is being pre-trained does on the validation split."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cxrtext.evaluation.metrics import area_under_curve
from cxrtext.images.simclr import draw_simclr
from cxrtext.models.regions import normalized
from cxrtext.objectives.views import view_accuracy
from cxrtext.text.finding_words import FindingWord
from cxrtext.training.image_pretraining.learning import (
    VIEWS,
    FindingJob,
    ImageSet,
    ViewJob,
    known_loss,
    view_loss,
)
from cxrtext.training.loop.optimization import seed_of

BATCH = 64
COUNTED = 5
"""Validation images that a finding must be present in, and absent from, to count in the mean."""


@dataclass(frozen=True, slots=True)
class FindingAuc:
    """How well one finding is detected on the validation split.

    ``auc`` is None where it is present in no image or in all; ``present`` and ``absent`` are
    images.
    """

    finding: FindingWord
    present: int
    absent: int
    auc: float | None

    @property
    def counts(self) -> bool:
        """Whether it is in the mean."""
        return min(self.present, self.absent) >= COUNTED

    def row(self) -> dict[str, Any]:
        """Its line of the table."""
        return {
            "finding": self.finding.name,
            "training_present": self.finding.affirmed,
            "training_denied": self.finding.denied,
            "validation_present": self.present,
            "validation_absent": self.absent,
            "auc": None if self.auc is None else round(self.auc, 4),
        }


@torch.no_grad()
def finding_aucs(
    job: FindingJob, images: ImageSet, findings: Sequence[FindingWord]
) -> tuple[dict[str, float], list[FindingAuc]]:
    """Loss and mean AUC of the center crops, and the AUC of each finding."""
    model = job.learner.model.eval()
    parts = []
    for start in range(0, len(images), BATCH):
        squares = images.squares(np.arange(start, min(start + BATCH, len(images))))
        crops = normalized(squares.to(job.learner.device), job.preprocessing)
        parts.append(model(crops).cpu())
    logits = torch.cat(parts)
    loss = float(known_loss(logits, torch.from_numpy(images.targets)))
    found = []
    for column, finding in enumerate(findings):
        known = images.targets[:, column] >= 0
        truth = images.targets[known, column] == 1
        auc = None
        if 0 < truth.sum() < len(truth):
            auc = area_under_curve(logits[:, column].numpy()[known], truth)
        found.append(FindingAuc(finding, int(truth.sum()), int((~truth).sum()), auc))
    counted = [one.auc for one in found if one.counts and one.auc is not None]
    mean = {"auc": math.fsum(counted) / len(counted)} if counted else {}
    return {"loss": loss, **mean}, found


@torch.no_grad()
def view_numbers(job: ViewJob, images: ImageSet) -> dict[str, float]:
    """Loss and accuracy of two views of each image, the same views every time."""
    job.learner.model.eval()
    numbers = []
    for number, start in enumerate(range(0, len(images) - 1, job.settings.batch)):
        rows = np.arange(start, min(start + job.settings.batch, len(images)))
        generator = torch.Generator().manual_seed(seed_of(job.settings.seed, 4, number))
        scores = job.scores(images.squares(rows), draw_simclr(2 * len(rows), VIEWS, generator))
        numbers.append((float(view_loss(scores)), float(view_accuracy(scores, 2)), len(rows)))
    if not numbers:
        return {}
    total = sum(count for *_, count in numbers)
    loss, accuracy = (sum(one[k] * one[2] for one in numbers) / total for k in (0, 1))
    return {"loss": loss, "accuracy": accuracy}
