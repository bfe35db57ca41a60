"""Jobs of the loop that train a network to detect findings in pooled regions, or to match views."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from cxrtext.evaluation.metrics import area_under_curve
from cxrtext.images import Preprocessing
from cxrtext.images.augment import Views, augment, center_crop, draw_views
from cxrtext.images.simclr import SimclrDraws, SimclrSpec, draw_simclr, simclr
from cxrtext.models.regions import normalized, standardized
from cxrtext.objectives import info_nce
from cxrtext.objectives.contrastive import positives_of_views, score_views, view_accuracy
from cxrtext.text.finding_words import FindingWord
from cxrtext.training.data.loader import Rows, batch_rows
from cxrtext.training.image_pretraining.networks import (
    ProjectionHead,
    build_network,
    channels_of,
    grid_of,
)
from cxrtext.training.image_pretraining.settings import VITS, ImagePretrainSettings
from cxrtext.training.loop.device import autocast
from cxrtext.training.loop.job import Learner, StepNumbers
from cxrtext.training.loop.optimization import Schedule, decay_groups, seed_of

VIEWS = SimclrSpec(scale=(0.3, 1.0), flip=0.0, gray=0.0, saturation=0.0, hue=0.0)
"""Of radiographs: no mirror images, for the heart is on the left, and windows that show a lung."""
PROJECTED = (128, 64)  # sizes of the head that views are compared behind
RARE = 0.002  # a finding's first guess is its share of the training studies, at least this


@dataclass(frozen=True, slots=True)
class ImageSet:
    """Decoded images of one split and their targets."""

    # [slots, R, R], 8-bit gray; other images may lie between
    pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
    rows: Rows  # [n], the row of pixels of each image
    # [n, findings], int8: 1, 0, or -1 unknown; no columns for views
    targets: np.ndarray[tuple[int, ...], np.dtype[np.int8]]
    names: Sequence[str] = ()  # [n], as the manifest has them

    def __len__(self) -> int:
        return len(self.rows)

    def squares(self, chosen: Rows) -> Tensor:
        """8-bit squares of some images, [b, 1, R, R]."""
        return torch.from_numpy(np.asarray(self.pixels[self.rows[chosen]])[:, None])


def pooled(grid: Tensor) -> Tensor:
    """Mean and maximum over regions, [B, C, h, w] -> [B, 2C].

    The maximum keeps what shows in one region only, such as a pleural line at an apex.
    """
    return torch.cat([grid.mean(dim=(2, 3)), grid.amax(dim=(2, 3))], dim=1)


def pooled_by_half(grid: Tensor) -> Tensor:
    """Both halves pooled one beside the other, [B, C, h, w] -> [B, 4C].

    Where the number of columns is odd, the middle one belongs to both.
    """
    width = (grid.shape[-1] + 1) // 2
    return torch.cat([pooled(grid[..., :width]), pooled(grid[..., -width:])], dim=1)


class Classifier(nn.Module):
    """A network and a linear map of its pooled regions to the logits of findings.

    Where some findings are of a side, the halves of the image are pooled apart.
    """

    def __init__(self, network: nn.Module, findings: Sequence[FindingWord], precision: str) -> None:
        super().__init__()
        self.backbone, self.precision = network, precision
        self.by_half = any(finding.side for finding in findings)
        width = channels_of(self.backbone) * (4 if self.by_half else 2)
        self.findings = nn.Linear(width, len(findings))

    def forward(self, images: Tensor) -> Tensor:
        """Logits of normalized images, [B, 1, H, W] -> float32 [B, findings]."""
        with autocast(images.device, self.precision):
            grid = grid_of(self.backbone, images)
            logits = self.findings(pooled_by_half(grid) if self.by_half else pooled(grid))
        return torch.as_tensor(logits).float()

    @torch.no_grad()
    def guess(self, targets: Tensor) -> None:
        """Begin from how often each finding is present where it is known; [n, findings], int8."""
        known = (targets >= 0).sum(dim=0).clamp(min=1)
        share = ((targets == 1).sum(dim=0) / known).clamp(RARE, 1 - RARE)
        self.findings.bias.copy_(torch.logit(share))


class ViewEncoder(nn.Module):
    """A network and the head that views of an image are compared behind."""

    def __init__(self, network: nn.Module, precision: str) -> None:
        super().__init__()
        self.backbone, self.precision = network, precision
        self.head = ProjectionHead(2 * channels_of(self.backbone), PROJECTED, norm=True)

    def forward(self, images: Tensor) -> Tensor:
        """Unit vectors of normalized images, [B, 1, H, W] -> float32 [B, D]."""
        with autocast(images.device, self.precision):
            projected = self.head(pooled(grid_of(self.backbone, images)))
        return F.normalize(projected.float(), dim=-1)


def known_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean binary cross-entropy of the known targets, in nats; 0 where none is known.

    Logits and int8 targets [B, findings].
    """
    losses = F.binary_cross_entropy_with_logits(
        logits, targets.clamp(min=0).float(), reduction="none"
    )
    known = (targets >= 0).float()
    return (losses * known).sum() / known.sum().clamp(min=1)


@dataclass(frozen=True, slots=True)
class ImageJob:
    """A network that learns from the images of a split."""

    learner: Learner
    schedule: Schedule
    images: ImageSet
    settings: ImagePretrainSettings
    preprocessing: Preprocessing

    def drawn(self, step: int) -> tuple[Rows, torch.Generator]:
        """The images of a step, and the source of how they are to be seen."""
        settings = self.settings
        rows = batch_rows(len(self.images), settings.batch, settings.seed, step)
        return rows, torch.Generator().manual_seed(seed_of(settings.seed, 3, step))


class FindingJob(ImageJob):
    """A :class:`Classifier` that learns which findings its images' studies have."""

    def make(self, step: int) -> tuple[Tensor, Tensor, Views]:
        """Squares, targets and how the images of a step are to be seen."""
        settings = self.settings
        rows, generator = self.drawn(step)
        views = draw_views(
            len(rows),
            settings.resize,
            settings.crop,
            generator,
            brightness=settings.brightness,
            contrast=settings.contrast,
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


class ViewJob(ImageJob):
    """A :class:`ViewEncoder` that learns which two views are of one image."""

    def make(self, step: int) -> tuple[Tensor, SimclrDraws]:
        """Squares of a step, and how their views are to be seen, first views first."""
        rows, generator = self.drawn(step)
        return self.images.squares(rows), draw_simclr(2 * len(rows), VIEWS, generator)

    def gradients(self, step: int, made: tuple[Tensor, SimclrDraws]) -> StepNumbers:  # noqa: ARG002
        learner = self.learner
        learner.model.train()
        scores = self.scores(*made)
        loss = view_loss(scores)
        learner.scaler.scale(loss).backward()
        value, accuracy = torch.stack([loss.detach(), view_accuracy(scores, 2)]).tolist()
        return StepNumbers(value, accuracy, self.settings.gamma_sq)

    def scores(self, squares: Tensor, draws: SimclrDraws) -> Tensor:
        """Scores of both views of all images against each other, [2B, 2B]."""
        seen = simclr(squares.to(self.learner.device).repeat(2, 1, 1, 1), draws, VIEWS)
        if self.settings.image in VITS:  # whose places are those of the crop
            seen = center_crop(seen, self.settings.crop)
        embedded = self.learner.model(standardized(seen, self.preprocessing))
        gamma_sq = torch.tensor(self.settings.gamma_sq, device=embedded.device)
        return score_views(embedded.unflatten(0, (2, len(squares))), gamma_sq)


def view_loss(scores: Tensor) -> Tensor:
    """SimCLR's loss of two views, [2B, 2B], in nats."""
    return info_nce(scores, positives_of_views(len(scores), 2, scores.device)[:, 0]).mean()


def build_job(
    images: ImageSet,
    findings: Sequence[FindingWord],
    settings: ImagePretrainSettings,
    device: torch.device,
) -> FindingJob | ViewJob:
    """A new network, and all that trains it; on views without findings."""
    torch.manual_seed(settings.seed)
    preprocessing = Preprocessing(resize=settings.resize, crop=settings.crop)
    network = build_network(settings.image, settings.crop, settings.weights)
    if not findings:
        model: nn.Module = ViewEncoder(network, settings.precision)
        kind: type[FindingJob] | type[ViewJob] = ViewJob
    else:
        model, kind = Classifier(network, findings, settings.precision), FindingJob
        model.guess(torch.from_numpy(images.targets))
    recipe = settings.recipe()
    model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    groups = decay_groups(list(model.parameters()), recipe.weight_decay)
    learner = Learner(
        model=model,
        optimizer=torch.optim.AdamW(groups, lr=recipe.lr),
        scaler=GradScaler(device.type, enabled=settings.precision == "float16"),
    )
    schedule = Schedule(
        steps=settings.steps(len(images)),
        batch=settings.batch,
        lr=recipe.lr,
        warmup=recipe.warmup,
        clip=1.0,
        seed=settings.seed,
        precision=settings.precision,
    )
    return kind(learner, schedule, images, settings, preprocessing)


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
    """Loss and mean AUC of the center crops, and the AUC of each finding."""
    model = job.learner.model.eval()
    parts = []
    for start in range(0, len(images), BATCH):
        squares = images.squares(np.arange(start, min(start + BATCH, len(images))))
        parts.append(model(normalized(squares.to(job.learner.device), job.preprocessing)).cpu())
    logits = torch.cat(parts)
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
    return {"loss": float(known_loss(logits, torch.from_numpy(images.targets))), **mean}, found


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
