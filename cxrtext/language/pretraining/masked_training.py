"""The training loop of a masked language model.

Everything random in a step (order, masking, dropout) is a function of the seed and the step's
number, so a run that continues from a saved step goes on exactly as it would have.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import BertForMaskedLM

from cxrtext.language.pretraining.masking import mask_words
from cxrtext.language.pretraining.training_batches import SpecialIds, collate, epoch_batches
from cxrtext.language.scoring.score import Pieces


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to train.

    Args:
        steps: Steps in all.
        learning_rate: At the peak.
        warmup: Share of the steps over which the rate rises.
        batch_tokens: Most tokens in a batch.
        mask_share: Share of the word pieces to guess.
        weight_decay: On matrices; not on biases and norms.
        seed: Of everything random.
    """

    steps: int
    learning_rate: float
    warmup: float
    batch_tokens: int
    mask_share: float
    weight_decay: float
    seed: int


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did.

    Args:
        number: Steps done, from 1.
        loss: Mean cross-entropy of the guessed pieces, in nats.
        ends_epoch: Whether an epoch ended with it.
    """

    number: int
    loss: float
    ends_epoch: bool


def learning_rate(step: int, recipe: Recipe) -> float:
    """Return the rate of a step (from 0): linear warm-up, then a cosine to nothing."""
    warmup = max(1, round(recipe.warmup * recipe.steps))
    if step < warmup:
        return recipe.learning_rate * (step + 1) / warmup
    done = (step - warmup) / max(1, recipe.steps - warmup)
    return recipe.learning_rate * 0.5 * (1.0 + math.cos(math.pi * done))


def make_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    """Build AdamW with weight decay on matrices only."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": recipe.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.98), fused=True)


def _generator(*numbers: int) -> torch.Generator:
    """A generator of its own for each tuple of numbers."""
    seed = 0
    for number in numbers:
        seed = (seed * 1_000_003 + number + 1) % (2**63)
    return torch.Generator().manual_seed(seed)


@contextmanager
def _seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Dropout draws from the global generator: seed it inside, leave it as it was outside."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield


def batches_per_epoch(sentences: Sequence[Pieces], batch_tokens: int) -> int:
    """Return the number of steps of one epoch."""
    return len(epoch_batches([len(s) for s in sentences], batch_tokens, _generator(0)))


def masked_loss(
    model: BertForMaskedLM,
    sentences: Sequence[Pieces],
    special: SpecialIds,
    share: float,
    generator: torch.Generator,
) -> Tensor:
    """Mean cross-entropy of a batch's hidden word pieces, the only ones decoded, in nats."""
    device = model.device
    ids, eligible, starts = collate(sentences, special)
    hidden_ids, chosen = mask_words(
        ids,
        eligible,
        starts,
        mask_id=special.mask,
        vocabulary_size=int(model.config.vocab_size),
        share=share,
        generator=generator,
    )
    attention = (ids != special.pad).to(device)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        states = model.bert(input_ids=hidden_ids.to(device), attention_mask=attention)
        logits = model.cls(states.last_hidden_state[chosen.to(device)])
    return nn.functional.cross_entropy(logits.float(), ids[chosen].to(device))


def train(
    model: BertForMaskedLM,
    optimizer: torch.optim.Optimizer,
    sentences: Sequence[Pieces],
    special: SpecialIds,
    recipe: Recipe,
    first: int = 0,
) -> Iterator[Step]:
    """Train step by step.

    Args:
        model: The network, on its device.
        optimizer: Its optimiser.
        sentences: Word pieces, none empty and none longer than the window.
        special: Ids of the special tokens.
        recipe: How to train.
        first: Steps that are done already.

    Yields:
        One report a step, after the weights have changed.
    """
    lengths = [len(sentence) for sentence in sentences]
    length_of_epoch = batches_per_epoch(sentences, recipe.batch_tokens)
    batches: list[list[int]] = []
    model.train()
    for number in range(first, recipe.steps):
        epoch, place = divmod(number, length_of_epoch)
        if not batches or place == 0:
            batches = epoch_batches(lengths, recipe.batch_tokens, _generator(recipe.seed, 1, epoch))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(number, recipe)
        batch = [sentences[index] for index in batches[place]]
        with _seeded(model.device, _generator(recipe.seed, 4, number).initial_seed()):
            noise = _generator(recipe.seed, 2, number)
            loss = masked_loss(model, batch, special, recipe.mask_share, noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        ends_epoch = place + 1 == length_of_epoch or number + 1 == recipe.steps
        yield Step(number + 1, float(loss.detach()), ends_epoch)
        model.train()


@torch.inference_mode()
def validation_loss(
    model: BertForMaskedLM,
    sentences: Sequence[Pieces],
    special: SpecialIds,
    recipe: Recipe,
) -> float:
    """Mean cross-entropy on held-out sentences, in nats, under the same masks every time."""
    model.eval()
    order = epoch_batches([len(s) for s in sentences], recipe.batch_tokens, _generator(0))
    total, weight = 0.0, 0
    for number, indices in enumerate(order):
        batch = [sentences[index] for index in indices]
        loss = masked_loss(model, batch, special, recipe.mask_share, _generator(3, number))
        total += float(loss) * sum(map(len, batch))
        weight += sum(map(len, batch))
    return total / weight
