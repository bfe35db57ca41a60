"""The job of the training loop that learns to detect findings in pooled regions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from cxrtext.device import adamw, autocast
from cxrtext.images import Preprocessing
from cxrtext.images.augment import Views, augment, draw_views
from cxrtext.metrics.ranking import area_under_curve
from cxrtext.models.image_weights import sample_images, set_norms
from cxrtext.models.regions import normalized, standardized
from cxrtext.objectives.findings import known_loss
from cxrtext.text.finding_words import FindingWord
from cxrtext.training.data.loader import Rows, batch_rows
from cxrtext.training.image_pretraining.networks import start_network
from cxrtext.training.image_pretraining.settings import ImagePretrainSettings
from cxrtext.training.loop.job import Learner, StepNumbers
from cxrtext.training.loop.optimization import Schedule, decay_groups, seed_of

BRIGHTNESS = CONTRAST = 0.1
"""Largest change of gray values in [0, 1], and largest relative change of the contrast."""
RARE = 0.002  # the first guess for a finding is its share of the training studies, at least this


@dataclass(frozen=True, slots=True)
class ImageSet:
    """Decoded images of one split and their targets."""

    # [slots, R, R], 8-bit gray, possibly with other images
    pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
    rows: Rows  # [n], the row of pixels for each image
    # [n, findings], int8: 1, 0, or -1 unknown
    targets: np.ndarray[tuple[int, ...], np.dtype[np.int8]]
    names: Sequence[str] = ()  # [n], from the manifest

    def __len__(self) -> int:
        return len(self.rows)

    def squares(self, chosen: Rows) -> Tensor:
        """8-bit squares of the chosen images, [b, 1, R, R]."""
        return torch.from_numpy(np.asarray(self.pixels[self.rows[chosen]])[:, None])


def pooled(grid: Tensor) -> Tensor:
    """Mean and maximum over regions, [B, C, h, w] -> [B, 2C].

    The maximum keeps what shows in only one region, such as a pleural line at an apex.
    """
    return torch.cat([grid.mean(dim=(2, 3)), grid.amax(dim=(2, 3))], dim=1)


def pooled_by_half(grid: Tensor) -> Tensor:
    """Both halves pooled separately and joined, [B, C, h, w] -> [B, 4C].

    With an odd number of columns, the middle one belongs to both halves.
    """
    width = (grid.shape[-1] + 1) // 2
    return torch.cat([pooled(grid[..., :width]), pooled(grid[..., -width:])], dim=1)


class Classifier(nn.Module):
    """A network and a linear map from its pooled regions to the logits of findings.

    If some findings have a side, the halves of the image are pooled separately.
    """

    def __init__(self, network: Any, findings: Sequence[FindingWord], precision: str) -> None:
        super().__init__()
        self.backbone, self.precision = network, precision
        self.by_half = any(finding.side for finding in findings)
        channels = network.config.hidden_sizes[-1]
        width = channels * (4 if self.by_half else 2)
        self.findings = nn.Linear(width, len(findings))

    def forward(self, images: Tensor) -> Tensor:
        """Logits of normalized images, [B, 1, H, W] -> float32 [B, findings]."""
        with autocast(images.device, self.precision):
            grid = self.backbone(images).last_hidden_state
            logits = self.findings(pooled_by_half(grid) if self.by_half else pooled(grid))
        return torch.as_tensor(logits).float()

    @torch.no_grad()
    def guess(self, targets: Tensor) -> None:
        """Start from the share of each finding among its known targets; [n, findings], int8."""
        known = (targets >= 0).sum(dim=0).clamp(min=1)
        share = ((targets == 1).sum(dim=0) / known).clamp(RARE, 1 - RARE)
        self.findings.bias.copy_(torch.logit(share))


@dataclass(frozen=True, slots=True)
class FindingJob:
    """A :class:`Classifier` that learns which findings its images' studies have."""

    learner: Learner
    schedule: Schedule
    images: ImageSet
    settings: ImagePretrainSettings
    preprocessing: Preprocessing

    def make(self, step: int) -> tuple[Tensor, Tensor, Views]:
        """Squares, targets and views for a step."""
        settings = self.settings
        rows = batch_rows(len(self.images), settings.batch, settings.seed, step)
        views = draw_views(
            len(rows),
            settings.resize,
            settings.crop,
            torch.Generator().manual_seed(seed_of(settings.seed, 3, step)),
            brightness=BRIGHTNESS,
            contrast=CONTRAST,
        )
        return self.images.squares(rows), torch.from_numpy(self.images.targets[rows]), views

    def gradients(self, step: int, made: tuple[Tensor, Tensor, Views]) -> StepNumbers:  # noqa: ARG002
        squares, targets, views = made
        learner = self.learner
        learner.model.train()
        targets = targets.to(learner.device)
        seen = augment(squares.to(learner.device), views, self.settings.crop)
        logits = learner.model(standardized(seen, self.preprocessing))
        loss = known_loss(logits, targets)
        learner.scaler.scale(loss).backward()
        right = ((logits.detach() > 0) == (targets == 1))[targets >= 0].float().mean()
        value, accuracy = torch.stack([loss.detach(), right.nan_to_num()]).tolist()
        return StepNumbers(value, accuracy, 0.0)


def build_job(
    images: ImageSet,
    findings: Sequence[FindingWord],
    settings: ImagePretrainSettings,
    device: torch.device,
) -> FindingJob:
    """A new network and everything for training it."""
    torch.manual_seed(settings.seed)
    network, preprocessing = start_network(settings)
    model = Classifier(network, findings, settings.precision)
    model.guess(torch.from_numpy(images.targets))
    model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    if settings.weights is not None:
        set_norms(network, sample_images(images.pixels, images.rows, preprocessing, device))
    lr, warmup, weight_decay = settings.pace()
    groups = decay_groups(list(model.parameters()), weight_decay)
    learner = Learner(
        model=model,
        optimizer=adamw(groups, device, lr=lr),
        scaler=GradScaler(device.type, enabled=settings.precision == "float16"),
    )
    schedule = Schedule(
        steps=settings.steps(len(images)),
        batch=settings.batch,
        lr=lr,
        warmup=warmup,
        clip=1.0,
        seed=settings.seed,
        precision=settings.precision,
    )
    return FindingJob(learner, schedule, images, settings, preprocessing)


BATCH = 64
COUNTED = 5
"""Least validation images with a finding, and least without it, for it to count in the mean."""


@dataclass(frozen=True, slots=True)
class FindingAuc:
    """How well a finding is detected on the validation split.

    ``present`` and ``absent`` count images; ``auc`` is None if either is 0.
    """

    finding: FindingWord
    present: int
    absent: int
    auc: float | None

    @property
    def counts(self) -> bool:
        return min(self.present, self.absent) >= COUNTED

    def row(self) -> dict[str, Any]:
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
    """Loss and mean AUC on center crops, and the AUC of each finding."""
    model = job.learner.model.eval()
    parts = []
    for start in range(0, len(images), BATCH):
        squares = images.squares(np.arange(start, min(start + BATCH, len(images))))
        parts.append(model(normalized(squares.to(job.learner.device), job.preprocessing)).cpu())
    logits = torch.cat(parts)
    aucs = []
    for column, finding in enumerate(findings):
        known = images.targets[:, column] >= 0
        truth = images.targets[known, column] == 1
        auc = None
        if 0 < truth.sum() < len(truth):
            auc = area_under_curve(logits[:, column].numpy()[known], truth)
        aucs.append(FindingAuc(finding, int(truth.sum()), int((~truth).sum()), auc))
    counted = [one.auc for one in aucs if one.counts and one.auc is not None]
    mean = {"auc": math.fsum(counted) / len(counted)} if counted else {}
    return {"loss": float(known_loss(logits, torch.from_numpy(images.targets))), **mean}, aucs
