"""One training step: encoders, scores, the loss and its gradients.

A step is computed in one piece, or in parts that keep all negatives.  Nothing is read from the
device before the backward pass.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from cxrtext.device import autocast
from cxrtext.errors import WorkError
from cxrtext.images.augment import Views, augment
from cxrtext.models import ImageTextModel
from cxrtext.models.regions import standardized
from cxrtext.models.text_encoder import TextEncoder
from cxrtext.objectives.findings import known_loss
from cxrtext.training.data.batches import Batch, Pairs, Tokens, span
from cxrtext.training.data.loader import Examples, Loader
from cxrtext.training.loop.distributed import Processes, gather_same, gather_shared, synchronize
from cxrtext.training.loop.job import Learner, StepNumbers
from cxrtext.training.loop.optimization import (
    TrainingArguments,
    lock_towers,
    seed_of,
    set_training,
)
from cxrtext.training.objectives.shared.objective import Direction, Terms

Loss = Callable[[Direction], Terms]
FINDINGS_WEIGHT = 0.3
"""Weight of the second task's loss."""


def scored(
    scores: Tensor, pairs: Pairs, gamma_sq: Tensor, texts: Tensor, draws: torch.Generator
) -> Direction:
    """Sentences as anchors and images as candidates: the input of a loss."""
    return Direction(scores, pairs.image_of, pairs.eta, gamma_sq, pairs.known, draws, texts)


class Towers(nn.Module):
    """The two encoders as one module, whose work is divided among processes and parts of a step.

    γ² and the query map are not in it, because they act on the whole batch.  ``head`` is the masked
    language model's, or None.
    """

    def __init__(self, model: ImageTextModel, head: nn.Module | None, precision: str) -> None:
        super().__init__()
        self.image_encoder = model.image_encoder
        self.text_encoder = model.text_encoder
        self.head = head
        self.precision = precision

    def forward(self, images: Tensor, tokens: Sequence[Tokens]) -> tuple[Tensor, Tensor, Tensor]:
        """Embed images, and u sentences in groups.

        Images are [b, 1, H, W], normalized, or float16 features [b, h, w, C] of the locked image
        encoder.  Returns regions [b, N, D] and texts [u, D], unit vectors in float32, and the
        summed cross-entropy of the masked word pieces, in nats (0 without a head).
        """
        with autocast(images.device, self.precision):
            if images.dtype == torch.float16:
                regions = self.image_encoder.project(images.float())
            else:
                regions = self.image_encoder(images)
            texts = [self._embed(group) for group in tokens]
            mlm = sum((self._masked_loss(g) for g in tokens), images.new_zeros(()))
        return regions.float().flatten(1, 2), torch.cat(texts).float(), mlm

    def _embed(self, group: Tokens) -> Tensor:
        """Unit vectors [n, D] of sentences, from their states if the encoder is locked."""
        encoder: TextEncoder = self.text_encoder
        if group.states is not None:
            return encoder.project(group.states.float())
        texts: Tensor = encoder(group.input_ids, group.attention)
        return texts

    def _masked_loss(self, group: Tokens) -> Tensor:
        if self.head is None or group.masked_ids is None or group.masked_at is None:
            return torch.zeros((), device=group.input_ids.device)
        states = self.text_encoder.backbone(
            input_ids=group.masked_ids, attention_mask=group.attention
        ).last_hidden_state
        logits = self.head(states.flatten(0, 1)[group.masked_at])  # [masked pieces, V]
        labels = group.input_ids.flatten()[group.masked_at]
        return F.cross_entropy(logits.float(), labels, reduction="sum")


@dataclass(slots=True, kw_only=True)
class PairLearner(Learner):
    """An image–text model that learns; made by :func:`build_learner`.

    ``head`` is the language model's; ``towers`` are the encoders, which average their gradients
    over processes.
    """

    model: ImageTextModel
    head: nn.Module | None
    plain_towers: Towers
    towers: nn.Module
    locked: tuple[str, ...] = ()

    def parts(self) -> dict[str, nn.Module]:
        return {"model": self.model, "head": self.head or nn.Module()}

    def lock(self, names: tuple[str, ...]) -> None:
        """Lock these encoders from now on, and train the others."""
        if self.locked != names:
            lock_towers(self.model, names)
            self.locked = names
            self.towers = _divided(self.plain_towers, self.processes)
        set_training(self.model, names)

    def average_the_rest(self) -> None:
        """Average the gradients of parameters outside the towers: γ² and the query map."""
        inside = {id(p) for p in self.plain_towers.parameters()}
        outside = [p for p in self.model.parameters() if p.requires_grad and id(p) not in inside]
        for parameter in outside:
            if parameter.grad is None:  # an objective need not use γ²
                parameter.grad = torch.zeros_like(parameter)
        self.processes.average([p.grad for p in outside if p.grad is not None])

    def bound(self) -> None:
        """Keep γ² at most at its cap."""
        self.model.bound()


def build_learner(
    model: ImageTextModel,
    head: nn.Module | None,
    optimizer: torch.optim.Optimizer,
    *,
    precision: str,
    processes: Processes,
    locked: tuple[str, ...] = (),
) -> PairLearner:
    """A learner on the model's device; ``locked`` names the locked encoders.

    Parameters without a gradient stay so.
    """
    plain = Towers(model, head, precision)
    if processes.world > 1:
        synchronize(plain)
    return PairLearner(
        model=model,
        head=head,
        plain_towers=plain,
        towers=_divided(plain, processes),
        locked=locked,
        optimizer=optimizer,
        scaler=GradScaler(model.device.type, enabled=precision == "float16"),
        processes=processes,
    )


def _divided(plain: Towers, processes: Processes) -> nn.Module:
    """The towers; with several processes, they average gradients of what is trained now."""
    if processes.world == 1:
        return plain
    device = next(plain.parameters()).device
    towers = DistributedDataParallel(plain, device_ids=[device] if device.type == "cuda" else None)
    towers.broadcast_buffers = False  # synchronized norms keep buffers equal
    return towers


@dataclass(frozen=True, slots=True)
class PairJob:
    """Image–text training as a job of the loop; made by :func:`pair_job`."""

    learner: PairLearner
    loader: Loader
    loss: Loss
    schedule: TrainingArguments

    def make(self, step: int) -> tuple[Batch, Views]:
        return self.loader.make(step)

    def gradients(self, step: int, made: tuple[Batch, Views]) -> StepNumbers:
        model, arguments = self.learner.model, self.schedule
        batch, views = made
        self.learner.lock(arguments.locked(step))
        batch = batch.to(model.device)
        images = batch.images
        if not batch.locked:
            images = augment(images, views, self.loader.crop)
            images = standardized(images, model.spec.preprocessing)
        terms, measures = backward(self.learner, self.loss, batch, images, arguments, step)
        numbers = StepNumbers(*measures.tolist())
        if numbers.without_negatives == len(terms.losses):
            raise WorkError(terms.advice)
        return numbers


def pair_job(
    learner: PairLearner, examples: Examples, loss: Loss, arguments: TrainingArguments
) -> PairJob:
    processes = learner.processes
    loader = Loader(learner.model, examples, arguments, (processes.rank, processes.world))
    return PairJob(learner, loader, loss, arguments)


def backward(
    learner: PairLearner,
    objective: Loss,
    batch: Batch,
    images: Tensor,
    arguments: TrainingArguments,
    step: int,
) -> tuple[Terms, Tensor]:
    """Compute a step's gradients, left in the parameters times the loss's scale.

    Gradients must be empty before; batch and augmented images are this process's share.  Dropout
    and the objective draw from seeds that depend on ``step``.  Returns the losses and the values of
    :class:`StepNumbers` [6], on the device.
    """
    count, rank, world = len(batch.parts), learner.processes.rank, learner.processes.world
    draws = torch.Generator().manual_seed(seed_of(arguments.seed, 7, step))
    seeds = [seed_of(arguments.seed, 1, step, rank, k) for k in range(count)]
    # If there are fewer sentences than parts, the last parts repeat the first sentences.
    share = span(batch.distinct, rank, world)
    own = share.stop - share.start
    groups = [group for part in batch.parts[:own] for group in part]
    masked = sum(len(g.masked_at) for g in groups if g.masked_at is not None)
    weight = arguments.mlm_weight / max(1, masked)
    parts = [(images[span(len(images), k, count)], batch.parts[k]) for k in range(count)]

    def evaluate(regions: Tensor, texts: Tensor) -> tuple[Terms, Tensor, list[Tensor]]:
        model, processes = learner.model, learner.processes
        scores, gamma_sq, said = score_batch(model, regions, texts, batch, processes)
        own, prompts = scores.tensor_split([len(batch.pairs.image_of)])
        terms = objective(scored(own, batch.pairs, gamma_sq, said[: len(own)], draws))
        measures = [accuracy(own, batch.pairs.image_of), gamma_sq, *terms.measures()]
        loss = terms.losses.mean()
        if batch.pairs.findings is not None:
            differences = (prompts[::2] - prompts[1::2]).T  # γ² (s₊ − s₋), [B, F]
            second = known_loss(differences, batch.pairs.findings)
            loss = loss + FINDINGS_WEIGHT * second
        # Gradients are averaged over processes, and each process has only a part of them.
        return terms, loss * world, measures

    if count == 1:
        torch.manual_seed(seeds[0])
        regions, texts, mlm = learner.towers(*parts[0])
        terms, loss, measures = evaluate(regions, texts)
        learner.scaler.scale(loss + weight * mlm).backward()
        mlm = mlm.detach()
    else:
        cached = _features(learner, parts, seeds)
        regions, texts = (torch.cat(each).requires_grad_() for each in zip(*cached, strict=True))
        terms, loss, measures = evaluate(regions, texts[:own])
        learner.scaler.scale(loss).backward()
        mlm = _second_pass(learner, parts, seeds, (regions, texts), weight)
    mlm = mlm / max(1, masked)
    whole = loss / world + arguments.mlm_weight * mlm
    return terms, torch.stack([value.detach().float() for value in (whole, *measures, mlm)])


@torch.no_grad()
def _features(
    learner: PairLearner, parts: Sequence[tuple[Tensor, Sequence[Tokens]]], seeds: list[int]
) -> list[tuple[Tensor, Tensor]]:
    """Embeddings of each part, without a graph."""
    features = []
    with frozen_statistics(learner.model):
        for (images, tokens), seed in zip(parts, seeds, strict=True):
            torch.manual_seed(seed)
            plain = [replace(group, masked_ids=None) for group in tokens]
            features.append(learner.plain_towers(images, plain)[:2])
    return features


def _second_pass(
    learner: PairLearner,
    parts: Sequence[tuple[Tensor, Sequence[Tokens]]],
    seeds: list[int],
    cached: tuple[Tensor, Tensor],
    weight: float,
) -> Tensor:
    """Pass the gradients of cached embeddings on into the encoders, part by part.

    Source: Gao et al. 2021 (GradCache), §3.
    """
    total = cached[0].new_zeros(())
    first = [0, 0]
    for k, ((images, tokens), seed) in enumerate(zip(parts, seeds, strict=True)):
        torch.manual_seed(seed)  # the dropout of the first pass
        with _without_sync(learner.towers, k + 1 < len(parts)):
            *features, mlm = learner.towers(images, tokens)
            loss = learner.scaler.scale(weight * mlm)
            for place, (embedded, whole) in enumerate(zip(features, cached, strict=True)):
                assert whole.grad is not None  # noqa: S101 - the loss reads all of them
                start = first[place]
                loss = loss + (embedded * whole.grad[start : start + len(embedded)]).sum()
                first[place] += len(embedded)
            loss.backward()
        total = total + mlm.detach()
    return total


def _without_sync(towers: nn.Module, hold: bool) -> AbstractContextManager[None]:
    """Average gradients over processes only once per step, in its last part."""
    if hold and isinstance(towers, DistributedDataParallel):
        return towers.no_sync()
    return nullcontext()


@contextmanager
def frozen_statistics(module: nn.Module) -> Iterator[None]:
    """Inside the block, batch norms use batch statistics but do not learn them."""
    norms = [(m, m.momentum) for m in module.modules() if isinstance(m, _BatchNorm)]
    for norm, _ in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in norms:
            norm.momentum = momentum


def score_batch(
    model: ImageTextModel, regions: Tensor, texts: Tensor, batch: Batch, processes: Processes
) -> tuple[Tensor, Tensor, Tensor]:
    """Score all sentences of a batch against all of its images.

    With several processes, each scores all sentences against its own images, which is most of the
    work.  Then the columns are put together, so that every process has the whole matrix and can
    compute any objective exactly.  Sentences are exchanged and not regions, because they are N
    times smaller.

    Regions [b, N, D] belong to this process's images, texts [u, D] to its distinct sentences.
    Returns scores [S + 2 F, B] scaled by γ², γ², and the sentences' unit vectors [S + 2 F, D],
    without gradient.
    """
    gamma_sq, rank, world = model.gamma_sq, processes.rank, processes.world
    if world == 1:
        texts_said = _rows(texts, batch.text_of)
        return gamma_sq * model.scores(regions, texts_said), gamma_sq, texts_said.detach()
    shares = [span(batch.distinct, r, world) for r in range(world)]
    sizes = [share.stop - share.start for share in shares]
    everyone = _rows(gather_shared(texts, sizes, rank), batch.text_of)
    columns = gamma_sq * model.scores(regions, everyone)  # [S, b]
    scores = gather_same(columns.T.contiguous(), [len(regions)] * world, rank).T
    # Every process has γ² in its loss, so each contributes its part of the gradient.
    constant = gamma_sq.detach()
    return scores, constant + (gamma_sq - constant) / world, everyone.detach()


def _rows(texts: Tensor, text_of: Tensor) -> Tensor:
    # An embedding look-up, not an index: several threads sum an index's gradient in any order, so
    # that runs with two threads would not be repeatable.
    return F.embedding(text_of, texts)


def accuracy(scores: Tensor, image_of: Tensor) -> Tensor:
    """Share of sentences that score highest with their own image."""
    return (scores.detach().argmax(dim=1) == image_of).float().mean()
