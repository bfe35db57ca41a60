"""Training of an encoder on views of images in memory, as a job of the loop, and a whole run.

And LARS, the momentum with a rate of each layer's own.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from cxrtext.device import autocast, choose_device
from cxrtext.errors import WorkError
from cxrtext.experiments.simclr.encoders import (
    ProjectionHead,
    ViewEncoder,
    channel_statistics,
    save_encoder,
)
from cxrtext.experiments.simclr.losses import Known, ViewSet, ViewSettings, view_losses
from cxrtext.files import only_one
from cxrtext.images.simclr import SimclrDraws, draw_simclr, simclr
from cxrtext.objectives.contrastive import score_views, view_accuracy
from cxrtext.training.data.loader import batch_rows
from cxrtext.training.loop.job import Learner, StepNumbers
from cxrtext.training.loop.optimization import Schedule, decay_groups, seed_of
from cxrtext.training.loop.resume import check_same, load_newest_state
from cxrtext.training.loop.steps import Listener, StateKeeper, take_steps

TENSORS = ("images", "labels", "eta", "metadata")
"""Fields of a :class:`ViewSet`."""


class Lars(torch.optim.Optimizer):
    """Layer-wise adaptive rate scaling.

    With w the weights of a layer, g their gradient, β the weight decay and m the momentum,
    ``v ← m v + lr λ (g + β w)``, ``w ← w − v``, ``λ = trust ‖w‖ / (‖g‖ + β ‖w‖)``.  λ is 1 where
    ‖w‖ or ‖g‖ is 0.  Biases and norms (tensors of one dimension) have λ = 1 and β = 0.

    Source: You, Gitman and Ginsburg 2017 (LARS), algorithm 1; what is left out, Chen et al. 2020
        (SimCLR), section B.6.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
    ) -> None:
        usual = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust}
        super().__init__(params, usual)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            moved = [p for p in group["params"] if p.grad is not None]
            layers = [p for p in moved if p.ndim > 1]
            if layers:
                self._move(layers, _adapted(layers, group), group)
            plain = [p for p in moved if p.ndim <= 1]
            if plain:
                self._move(plain, [p.grad for p in plain], group)

    def _move(self, weights: list[Tensor], updates: list[Tensor], group: dict[str, Any]) -> None:
        """``v ← m v + lr u``, ``w ← w − v``."""
        for weight in weights:
            if "momentum" not in self.state[weight]:
                self.state[weight]["momentum"] = torch.zeros_like(weight)
        velocity = [self.state[weight]["momentum"] for weight in weights]
        torch._foreach_mul_(velocity, group["momentum"])
        torch._foreach_add_(velocity, updates, alpha=group["lr"])
        torch._foreach_sub_(weights, velocity)


def _adapted(layers: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
    """``λ (g + β w)`` of each layer, without waiting for the device."""
    gradients = [p.grad for p in layers if p.grad is not None]
    decay = group["weight_decay"]
    sizes = torch.stack(torch._foreach_norm(layers))
    slopes = torch.stack(torch._foreach_norm(gradients))
    known = (sizes > 0) & (slopes > 0)
    rates = torch.where(known, group["trust"] * sizes / (slopes + decay * sizes), 1.0)
    updates = torch._foreach_add(gradients, layers, alpha=decay)
    return list(torch._foreach_mul(updates, list(rates.unbind())))


OPTIMIZERS: dict[str, Any] = {"adam": torch.optim.Adam, "lars": Lars}


class ViewModel(nn.Module):
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
    """An encoder that learns from views; the data lie on the device."""

    learner: Learner
    schedule: Schedule
    data: ViewSet
    settings: ViewSettings
    gamma_sq: Tensor

    def make(self, step: int) -> tuple[Tensor, SimclrDraws]:
        settings, seed = self.settings, self.settings.seed
        rows = torch.from_numpy(batch_rows(len(self.data), settings.batch, seed, step))
        generator = torch.Generator().manual_seed(seed_of(seed, 3, step))
        draws = draw_simclr((settings.positives + 1) * len(rows), settings.augmentation, generator)
        if self.gamma_sq.device.type == "cuda":
            return rows.pin_memory(), draws.pin_memory()
        return rows, draws

    def gradients(self, step: int, made: tuple[Tensor, SimclrDraws]) -> StepNumbers:
        rows, draws = made
        model, scaler, views = self.learner.model, self.learner.scaler, self.settings.positives + 1
        rows = rows.to(self.gamma_sq.device, non_blocking=True)
        images = self.data.images[rows].repeat(views, 1, 1, 1)
        model.train()
        embedded = model(simclr(images, draws, self.settings.augmentation))
        embedded = embedded.unflatten(0, (views, len(rows)))
        scores = score_views(embedded, self.gamma_sq)
        given = (getattr(self.data, name) for name in Known.__slots__)
        known = Known(*(None if values is None else values[rows] for values in given))
        terms = view_losses(self.settings, self.data.kinds, scores, embedded, known, self.gamma_sq)
        loss = terms.losses.mean()
        scaler.scale(loss).backward()
        shown = [loss.detach(), view_accuracy(scores, views), *terms.measures()]
        value, accuracy, floored, alone = torch.stack(shown).tolist()
        if alone == len(terms.losses):
            raise WorkError(
                f"{self.settings.objective.name} leaves no anchor of step {step + 1} a negative; "
                "raise batch, or give fewer clusters or classes"
            )
        return StepNumbers(value, accuracy, self.settings.gamma_sq, floored, alone)


def build_view_job(data: ViewSet, settings: ViewSettings, device: torch.device) -> ViewJob:
    """A new encoder and head with random weights, and all that trains them, on the device."""
    torch.manual_seed(settings.seed)
    encoder = ViewEncoder(settings.encoder, data.images.shape[1], settings.width)
    head = ProjectionHead(encoder.features, settings.head, norm=settings.head_norm)
    for buffer, value in zip(
        (encoder.mean, encoder.deviation), channel_statistics(data.images), strict=True
    ):
        buffer.copy_(value)
    model = ViewModel(encoder, head, settings.precision)
    model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    schedule = Schedule(
        steps=settings.steps,
        batch=settings.batch,
        lr=settings.lr,
        warmup=0,
        decay=settings.schedule,
        clip=float("inf"),
        seed=settings.seed,
        precision=settings.precision,
    )
    groups = decay_groups(list(model.parameters()), settings.weight_decay)
    learner = Learner(
        model=model,
        optimizer=OPTIMIZERS[settings.optimizer](groups, lr=settings.lr),
        scaler=GradScaler(device.type, enabled=settings.precision == "float16"),
    )
    gamma_sq = torch.tensor(settings.gamma_sq, device=device)
    there = {
        name: value.to(device) for name in TENSORS if (value := getattr(data, name)) is not None
    }
    return ViewJob(learner, schedule, replace(data, **there), settings, gamma_sq)


def train_views(
    data: ViewSet,
    settings: ViewSettings,
    out: Path,
    *,
    device: str = "auto",
    listener: Listener | None = None,
) -> ViewEncoder:
    """Train an encoder on views, or resume the run in the folder.

    Writes into ``out``: ``metrics.jsonl``, ``state/`` and, at the end, ``encoder.safetensors``.
    A run that is interrupted (``KeyboardInterrupt``) saves its state first.  Gives the encoder
    without its head, in evaluation mode.  A folder with a run of other settings or data is a
    CheckpointError.
    """
    heard = listener or Listener()
    place = choose_device(device, training=True)
    with only_one(out / "run"):
        fingerprint = _fingerprint(data)
        saved = load_newest_state(out / "state", heard.say)
        if saved:
            what = "the images, or what is known of them"
            check_same(
                saved, settings.deciding(), fingerprint, out / "state", read=what, option="--out"
            )
        job = build_view_job(data, settings, place)
        if saved:
            job.learner.load(saved["learner"])
        # What was learned is measured by a probe, after the end.
        callbacks = StateKeeper(
            learner=job.learner, out=out, configuration=settings.deciding(), data=fingerprint
        )
        callbacks.require_room_to_start()
        if job.learner.progress.step < settings.steps:
            take_steps(
                job,
                callbacks,
                out,
                heard,
                images=len(data),
                log_every=settings.log_every,
                save_every=settings.save_every,
            )
        model = job.learner.model
        assert isinstance(model, ViewModel)  # noqa: S101 - build_view_job made it
        save_encoder(model.encoder, out)
    return model.encoder.eval()


def _fingerprint(data: ViewSet) -> str:
    digest = hashlib.sha256(repr(data.kinds).encode())
    for name in TENSORS:
        value = getattr(data, name)
        digest.update(f"{name} {None if value is None else tuple(value.shape)}".encode())
        if value is not None:
            digest.update(value.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()
