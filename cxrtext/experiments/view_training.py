"""Train an encoder on views of images in memory: a job for the training loop, and a whole run.

It also has LARS, momentum with a separate rate for each layer.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from cxrtext.device import autocast, choose_device
from cxrtext.experiments.augmentation import SimclrDraws, draw_simclr, simclr
from cxrtext.experiments.small_sets import Floats, ImageSet
from cxrtext.experiments.view_encoder import ProjectionHead, ViewEncoder, channel_statistics
from cxrtext.experiments.view_losses import Known, ViewSettings, floored, score_views, view_losses
from cxrtext.files import only_one
from cxrtext.training.data.loader import batch_rows
from cxrtext.training.loop.job import Learner, StepNumbers
from cxrtext.training.loop.optimization import Schedule, decay_groups, seed_of
from cxrtext.training.loop.resume import check_same, load_newest_state
from cxrtext.training.loop.steps import Listener, Run, take_steps


class Lars(torch.optim.Optimizer):
    """Layer-wise adaptive rate scaling.

    With w the weights of a layer, g their gradient, β the weight decay and m = 0.9 the momentum,
    ``v ← m v + lr λ (g + β w)``, ``w ← w − v``, ``λ = 0.001 ‖w‖ / (‖g‖ + β ‖w‖)``.  λ is 1 if ‖w‖
    or ‖g‖ is 0.  Biases and norms (tensors of one dimension) have λ = 1 and β = 0.

    Source: You, Gitman and Ginsburg 2017 (LARS), algorithm 1; what is left out, Chen et al. 2020
        (SimCLR), section B.6.
    """

    def __init__(self, params: Iterable[Any], lr: float, *, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in (p for p in group["params"] if p.grad is not None):
                update, decay = weight.grad, group["weight_decay"]
                if weight.ndim > 1:
                    size, slope = weight.norm(), update.norm()
                    rate = 0.001 * size / (slope + decay * size)
                    rate = torch.where((size > 0) & (slope > 0), rate, 1.0)
                    update = rate * (update + decay * weight)
                state = self.state[weight]
                velocity = state.setdefault("momentum", torch.zeros_like(weight))
                velocity.mul_(0.9).add_(update, alpha=group["lr"])
                weight.sub_(velocity)


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
    """An encoder that learns from views; the images and their metadata are on the device."""

    learner: Learner
    schedule: Schedule
    images: Tensor
    known: Known
    settings: ViewSettings

    def make(self, step: int) -> tuple[Tensor, SimclrDraws]:
        settings, seed = self.settings, self.settings.seed
        rows = torch.from_numpy(batch_rows(len(self.images), settings.batch, seed, step))
        generator = torch.Generator().manual_seed(seed_of(seed, 3, step))
        count = (settings.positives + 1) * len(rows)
        return rows, draw_simclr(count, settings.views, generator)

    def gradients(self, _step: int, made: tuple[Tensor, SimclrDraws]) -> StepNumbers:
        rows, draws = made
        settings, learner, known = self.settings, self.learner, self.known
        views = settings.positives + 1
        rows = rows.to(self.images.device)
        images = self.images[rows].repeat(views, 1, 1, 1)
        learner.model.train()
        embedded = learner.model(simclr(images, draws, settings.views))
        embedded = embedded.unflatten(0, (views, len(rows)))
        eta = None if known.eta is None else known.eta[rows]
        of_batch = Known(known.labels[rows], known.metadata[rows], known.categories, eta)
        losses = view_losses(settings, embedded, of_batch)
        loss = losses.mean()
        learner.scaler.scale(loss).backward()
        with torch.no_grad():
            scores, fellows = score_views(embedded, settings.gamma_sq)
            right = (scores.argmax(dim=1, keepdim=True) == fellows).any(dim=1).float().mean()
            shown = torch.stack([loss, right, floored(settings, losses, embedded)]).tolist()
        return StepNumbers(shown[0], shown[1], settings.gamma_sq, shown[2])


def _known(data: ImageSet, settings: ViewSettings, device: torch.device) -> Known:
    """What the objective needs about all training images, such as clusters of their metadata."""
    metadata = data.metadata
    if clusters := settings.objective.get("clusters"):
        metadata = _clusters(metadata, clusters, settings.seed)
    return Known(
        torch.from_numpy(data.train.labels).to(device),
        torch.from_numpy(metadata).to(device),
        data.categories,
        None if data.eta is None else torch.from_numpy(data.eta).to(device),
    )


def _clusters(values: Floats, clusters: int, seed: int) -> Floats:
    """The nearest cluster of each row of metadata, [n, 1], by k-means."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    z = values.astype(np.float64)
    # Several threads add up in any order, but a resumed run must find the same clusters.
    with threadpool_limits(1):
        fitted = KMeans(min(clusters, len(z)), n_init=1, random_state=seed).fit(z)
    return fitted.predict(z)[:, None].astype(np.float32)  # type: ignore[no-any-return]


def build_view_job(data: ImageSet, settings: ViewSettings, device: torch.device) -> ViewJob:
    """A new encoder and head with random weights, and everything to train them, on the device."""
    torch.manual_seed(settings.seed)
    pixels = data.train.pixels
    encoder = ViewEncoder(settings.encoder, pixels.shape[1], settings.width)
    head = ProjectionHead(encoder.features, settings.head, norm=settings.head_norm)
    mean, deviation = channel_statistics(pixels)
    encoder.mean.copy_(mean)
    encoder.deviation.copy_(deviation)
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
    known = _known(data, settings, device)
    return ViewJob(learner, schedule, torch.from_numpy(pixels).to(device), known, settings)


def train_views(
    data: ImageSet,
    settings: ViewSettings,
    out: Path,
    device: str = "auto",
    listener: Listener | None = None,
) -> ViewEncoder:
    """Train an encoder on views, or resume the run in the folder.

    Writes ``metrics.jsonl`` and ``state/`` into ``out``.  An interrupted run
    (``KeyboardInterrupt``) saves its state first; a finished run reads its last state.  Returns the
    encoder without its head, in evaluation mode.  A folder with a run of other settings or data
    raises a CheckpointError.
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
        # A probe measures the encoder after the end.
        run = Run(
            learner=job.learner,
            out=out,
            configuration=settings.deciding(),
            data=fingerprint,
            other="--out",
        )
        run.require_room_to_start()
        if job.learner.progress.step < settings.steps:
            take_steps(
                job,
                run,
                heard,
                images=len(data.train.labels),
                log_every=settings.log_every,
                save_every=settings.save_every,
            )
    encoder = job.learner.model.get_submodule("encoder")
    assert isinstance(encoder, ViewEncoder)  # noqa: S101 - build_view_job made it
    return encoder.eval()


def _fingerprint(data: ImageSet) -> str:
    digest = hashlib.sha256()
    for values in (data.train.pixels, data.train.labels, data.metadata, data.eta):
        if values is not None:
            digest.update(f"{values.shape}".encode())
            digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()
