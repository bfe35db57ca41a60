"""Training on views of images as a job of the loop."""

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from cxrtext.errors import WorkError
from cxrtext.images.simclr import SimclrDraws, draw_simclr, simclr
from cxrtext.models.small_encoders import ProjectionHead
from cxrtext.training.data import batch_rows
from cxrtext.training.lars import Lars
from cxrtext.training.learner import Learner
from cxrtext.training.loop import StepNumbers
from cxrtext.training.metadata import Kernel, kernels_for
from cxrtext.training.recipe import seed_of
from cxrtext.training.schedule import Pace
from cxrtext.training.towers import autocast
from cxrtext.training.views.encoder import ViewEncoder, channel_statistics
from cxrtext.training.views.losses import (
    Known,
    score_views,
    view_accuracy,
    view_losses,
)
from cxrtext.training.views.settings import ViewSet, ViewSettings

OPTIMIZERS: dict[str, Any] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "lars": Lars}


class ViewModel(nn.Module):
    """An encoder and its projection head.

    Args:
        encoder: The encoder.
        head: Its head.
        precision: "float32", "bfloat16" or "float16".
    """

    def __init__(self, encoder: ViewEncoder, head: ProjectionHead, precision: str) -> None:
        super().__init__()
        self.encoder, self.head, self.precision = encoder, head, precision

    def forward(self, images: Tensor) -> Tensor:
        """Embed images in [0, 1], [n, C, H, W] -> [n, D], unit vectors in float32."""
        with autocast(images.device, self.precision):
            projected = self.head(self.encoder(images))
        return F.normalize(projected.float(), dim=-1)


@dataclass(frozen=True, slots=True)
class ViewJob:
    """An encoder that learns from views; made by :func:`build_view_job`.

    Args:
        learner: What learns.
        pace: How long and how fast.
        data: The images and what is known of them, on the device.
        settings: How to train.
        parts: Kernels of metadata or embeddings.
        gamma_sq: γ².
    """

    learner: Learner
    pace: Pace
    data: ViewSet
    settings: ViewSettings
    parts: list[Kernel]
    gamma_sq: Tensor

    def make(self, step: int) -> tuple[Tensor, SimclrDraws]:
        """The rows of a step, and how each of their views is to be seen, view after view."""
        settings, seed = self.settings, self.settings.seed
        rows = torch.from_numpy(batch_rows(len(self.data), settings.batch, seed, step))
        generator = torch.Generator().manual_seed(seed_of(seed, 3, step))
        count = (settings.positives + 1) * len(rows)
        draws = draw_simclr(count, settings.augmentation, generator)
        if self.gamma_sq.device.type == "cuda":
            return rows.pin_memory(), draws.pin_memory()
        return rows, draws

    def gradients(self, step: int, made: tuple[Tensor, SimclrDraws]) -> StepNumbers:
        """Compute a step's gradients."""
        rows, draws = made
        model, scaler, views = self.learner.model, self.learner.scaler, self.settings.positives + 1
        rows = rows.to(self.gamma_sq.device, non_blocking=True)
        images = self.data.images[rows].repeat(views, 1, 1, 1)
        model.train()
        embedded = model(simclr(images, draws, self.settings.augmentation))
        embedded = embedded.unflatten(0, (views, len(rows)))
        scores = score_views(embedded, self.gamma_sq)
        known = Known(*(_rows_of(self.data, name, rows) for name in Known.__slots__))
        terms = view_losses(self.settings, self.parts, scores, embedded, known, self.gamma_sq)
        loss = terms.losses.mean()
        scaler.scale(loss).backward()
        zero = loss.new_zeros(())
        shown = [
            loss.detach(),
            view_accuracy(scores, views),
            zero if terms.floored is None else terms.floored.float().mean(),
            zero if terms.without_negatives is None else terms.without_negatives.float().sum(),
        ]
        value, accuracy, floored, alone = torch.stack(shown).tolist()
        if alone == len(terms.losses):
            raise WorkError(
                f"{self.settings.objective.name} leaves no anchor of step {step + 1} a negative; "
                "raise batch, or give fewer clusters or classes"
            )
        return StepNumbers(value, accuracy, self.settings.gamma_sq, floored, alone)


def _rows_of(data: ViewSet, name: str, rows: Tensor) -> Tensor | None:
    values: Tensor | None = getattr(data, name)
    return None if values is None else values[rows]


def build_view_job(data: ViewSet, settings: ViewSettings, device: torch.device) -> ViewJob:
    """A new encoder and head with random weights, and all that trains them.

    Args:
        data: Images and what is known of them; moved to the device whole.
        settings: How to train, checked.
        device: Where.

    Raises:
        ConfigError: A kernel does not fit what a column of metadata holds.
    """
    parts = kernels_for(settings.objective, data.kinds)
    torch.manual_seed(settings.seed)
    encoder = ViewEncoder(settings.encoder, data.images.shape[1], settings.width)
    head = ProjectionHead(encoder.features, settings.head, norm=settings.head_norm)
    for buffer, value in zip(
        (encoder.mean, encoder.deviation), channel_statistics(data.images), strict=True
    ):
        buffer.copy_(value)
    model = ViewModel(encoder, head, settings.precision)
    model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    pace = Pace(
        steps=settings.steps,
        batch=settings.batch,
        lr=settings.lr,
        warmup=settings.warmup,
        schedule=settings.schedule,
        clip=float("inf"),
        seed=settings.seed,
        precision=settings.precision,
    )
    learner = Learner(
        model=model,
        optimizer=_optimizer(model, settings),
        scaler=GradScaler(device.type, enabled=settings.precision == "float16"),
    )
    gamma_sq = torch.tensor(settings.gamma_sq, device=device)
    return ViewJob(learner, pace, _moved(data, device), settings, parts, gamma_sq)


def _moved(data: ViewSet, device: torch.device) -> ViewSet:
    there = {
        name: value.to(device)
        for name in ("images", "labels", "eta", "metadata")
        if (value := getattr(data, name)) is not None
    }
    return replace(data, **there)


def _optimizer(model: nn.Module, settings: ViewSettings) -> torch.optim.Optimizer:
    """Matrices and kernels decay, biases and norms do not."""
    parameters = list(model.parameters())
    groups = [
        {"params": chosen, "weight_decay": decay, "scale": 1.0}
        for decay, chosen in (
            (settings.weight_decay, [p for p in parameters if p.ndim > 1]),
            (0.0, [p for p in parameters if p.ndim <= 1]),
        )
    ]
    optimizer: torch.optim.Optimizer = OPTIMIZERS[settings.optimizer](groups, lr=settings.lr)
    return optimizer
