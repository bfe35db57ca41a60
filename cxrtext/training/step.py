"""One step's gradients, at once or in micro-batches that keep every negative."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from cxrtext.training.batch import Batch, Tokens, span, take
from cxrtext.training.contrast import Objective, accuracy, score_batch
from cxrtext.training.objective_pairs import Result
from cxrtext.training.pair_learner import PairLearner
from cxrtext.training.recipe import Recipe, seed_of


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step's forward pass gave.

    Args:
        result: Losses of the anchors.
        scores: [S, B].
        gamma_sq: γ².
        guesses: Mean cross-entropy of this process's guessed word pieces.
    """

    result: Result
    scores: Tensor
    gamma_sq: Tensor
    guesses: Tensor

    def numbers(self, batch: Batch, recipe: Recipe) -> list[float]:
        """Whole loss, accuracy, γ² and cross-entropy, in one transfer from the device."""
        loss = self.result.losses.detach().mean()
        whole = loss + recipe.mlm_weight * self.guesses
        shown = [whole, accuracy(self.scores, batch.image_of), self.gamma_sq, self.guesses]
        values: list[float] = torch.stack([value.detach().float() for value in shown]).tolist()
        return values


def backward(
    learner: PairLearner,
    objective: Objective,
    batch: Batch,
    images: Tensor,
    recipe: Recipe,
    step: int,
) -> Outcome:
    """Compute the gradients of a step; they are left in the parameters, times the loss's scale.

    Args:
        learner: What learns; its gradients are expected to be empty.
        objective: The loss.
        batch: The batch; this process's share of tokens.
        images: This process's images, augmented.
        recipe: How to train.
        step: The step; dropout and the objective draw from seeds that follow from it.
    """
    parts = micro_batches(images, batch.tokens, recipe.accumulate)
    draws = torch.Generator().manual_seed(seed_of(recipe.seed, 7, step))
    seeds = [seed_of(recipe.seed, 1, step, learner.processes.rank, k) for k in range(len(parts))]
    guessed = sum(int(g.guessed.sum()) for g in batch.tokens if g.guessed is not None)
    weight = recipe.mlm_weight / max(1, guessed)

    def judge(regions: Tensor, texts: Tensor) -> tuple[Outcome, Tensor]:
        scored = score_batch(learner.model, regions, texts, batch, learner.processes)
        result = objective(scored.scores, batch.pairs, scored.gamma_sq, scored.texts, draws)
        outcome = Outcome(result, scored.scores, scored.gamma_sq, scored.gamma_sq.new_zeros(()))
        # Gradients are averaged over processes, each of which has a part of this loss's.
        return outcome, result.losses.mean() * learner.processes.world

    if len(parts) == 1:
        torch.manual_seed(seeds[0])
        regions, texts, guesses = learner.towers(images, batch.tokens)
        outcome, loss = judge(regions, texts)
        learner.scaler.scale(loss + weight * guesses).backward()
        return replace(outcome, guesses=guesses.detach() / max(1, guessed))

    cached = _features(learner, parts, seeds)
    regions, texts = (torch.cat(each).requires_grad_() for each in zip(*cached, strict=True))
    own = sum(len(group.input_ids) for group in batch.tokens)
    outcome, loss = judge(regions, texts[:own])
    learner.scaler.scale(loss).backward()
    guesses = _second_pass(learner, parts, seeds, (regions, texts), weight)
    return replace(outcome, guesses=guesses / max(1, guessed))


def micro_batches(
    images: Tensor, tokens: list[Tokens], count: int
) -> list[tuple[Tensor, list[Tokens]]]:
    """Divide images, and by themselves the sentences, into parts that are computed in turn."""
    if count == 1:
        return [(images, tokens)]
    own = sum(len(group.input_ids) for group in tokens)
    return [
        (images[span(len(images), k, count)], take(tokens, span(own, k, count)))
        for k in range(count)
    ]


@torch.no_grad()
def _features(
    learner: PairLearner, parts: list[tuple[Tensor, list[Tokens]]], seeds: list[int]
) -> list[tuple[Tensor, Tensor]]:
    """Embeddings of every part, without a graph."""
    features = []
    with looking_only(learner.model):
        for (images, tokens), seed in zip(parts, seeds, strict=True):
            torch.manual_seed(seed)
            plain = [replace(group, hidden=None, guessed=None) for group in tokens]
            features.append(learner.plain_towers(images, plain)[:2])
    return features


def _second_pass(
    learner: PairLearner,
    parts: list[tuple[Tensor, list[Tokens]]],
    seeds: list[int],
    cached: tuple[Tensor, Tensor],
    weight: float,
) -> Tensor:
    """Carry the gradients of cached embeddings on into the encoders, part by part.

    Source: Gao et al. 2021 (GradCache), §3.
    """
    total = cached[0].new_zeros(())
    first = [0, 0]
    for k, ((images, tokens), seed) in enumerate(zip(parts, seeds, strict=True)):
        torch.manual_seed(seed)  # the dropout of the first pass
        with _held_back(learner.towers, k + 1 < len(parts)):
            *features, guesses = learner.towers(images, tokens)
            loss = learner.scaler.scale(weight * guesses)
            for place, (embedded, whole) in enumerate(zip(features, cached, strict=True)):
                assert whole.grad is not None  # noqa: S101 - the loss reads all of them
                start = first[place]
                loss = loss + (embedded * whole.grad[start : start + len(embedded)]).sum()
                first[place] += len(embedded)
            loss.backward()
        total = total + guesses.detach()
    return total


def _held_back(towers: nn.Module, hold: bool) -> AbstractContextManager[None]:
    """Gradients are averaged over processes once a step, in its last part."""
    if hold and isinstance(towers, DistributedDataParallel):
        return towers.no_sync()
    return nullcontext()


@contextmanager
def looking_only(module: nn.Module) -> Iterator[None]:
    """Batch norms use a batch's statistics inside the block, and do not learn them."""
    norms = [(m, m.momentum) for m in module.modules() if isinstance(m, _BatchNorm)]
    for norm, _ in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in norms:
            norm.momentum = momentum
