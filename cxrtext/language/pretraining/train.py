"""The training loop of a masked language model, from the first or a saved step to the best epoch.

Everything random in a step (order, masking, dropout) depends only on the seed and the step's
number, so a resumed run goes on exactly like an uninterrupted one.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from cxrtext.device import autocast, choose_precision, forked_rng
from cxrtext.errors import WorkError
from cxrtext.language.pretraining.batches import (
    SpecialIds,
    collate,
    epoch_batches,
    mask_words,
    special_ids,
)
from cxrtext.language.pretraining.settings import PretrainSettings
from cxrtext.language.pretraining.state import History, PretrainState
from cxrtext.language.scoring.score import Pieces, score_sentences_detailed
from cxrtext.models.bert import MaskedBert
from cxrtext.models.masked_lm import MaskedLanguageModel
from cxrtext.pausing import Progress
from cxrtext.text.tokenizer import TextTokenizer


def learning_rate(step: int, steps: int, settings: PretrainSettings) -> float:
    """The learning rate of a step (from 0): linear warm-up, then a cosine down to 0."""
    warmup = max(1, round(settings.warmup * steps))
    if step < warmup:
        return settings.learning_rate * (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return settings.learning_rate * 0.5 * (1.0 + math.cos(math.pi * done))


def _generator(*numbers: int) -> torch.Generator:
    """A separate generator for each tuple of numbers."""
    seed = 0
    for number in numbers:
        seed = (seed * 1_000_003 + number + 1) % (2**63)
    return torch.Generator().manual_seed(seed)


def batches_per_epoch(sentences: Sequence[Pieces], batch_tokens: int) -> int:
    return len(epoch_batches([len(s) for s in sentences], batch_tokens, _generator(0)))


def precision_on(device: torch.device) -> str:
    """The precision for training: bfloat16 on a GPU that supports it."""
    return choose_precision("auto", device) if device.type == "cuda" else "float32"


def masked_loss(
    model: MaskedBert,
    sentences: Sequence[Pieces],
    special: SpecialIds,
    share: float,
    generator: torch.Generator,
) -> Tensor:
    """Mean cross-entropy of a batch's masked word pieces, in nats; only these are decoded."""
    device = model.device
    ids, eligible, starts = collate(sentences, special)
    masked_ids, chosen = mask_words(
        ids,
        eligible,
        starts,
        mask_id=special.mask,
        vocabulary_size=int(model.config.vocab_size),
        share=share,
        generator=generator,
    )
    attention = (ids != special.pad).to(device)
    with autocast(device, precision_on(device)):
        states = model.bert(input_ids=masked_ids.to(device), attention_mask=attention)
        logits = model.cls(states.last_hidden_state[chosen.to(device)])
    return nn.functional.cross_entropy(logits.float(), ids[chosen].to(device))


@torch.inference_mode()
def validation_loss(
    model: MaskedBert,
    sentences: Sequence[Pieces],
    special: SpecialIds,
    settings: PretrainSettings,
) -> float:
    """Mean cross-entropy on held-out sentences, in nats, with the same masks every time."""
    model.eval()
    order = epoch_batches([len(s) for s in sentences], settings.batch_tokens, _generator(0))
    total, weight = 0.0, 0
    for number, indices in enumerate(order):
        batch = [sentences[index] for index in indices]
        loss = masked_loss(model, batch, special, settings.mask_share, _generator(3, number))
        total += float(loss) * sum(map(len, batch))
        weight += sum(map(len, batch))
    return total / weight


SAVE_SECONDS = 60.0  # how often the state of a run is saved


@dataclass(slots=True)
class PretrainRun:
    """What a run works on, and its measurements."""

    model: MaskedBert  # on its device
    tokenizer: TextTokenizer
    settings: PretrainSettings
    steps: int
    training: list[Pieces]  # sentences to train on
    validation: list[Pieces]  # held-out sentences
    history: History = field(default_factory=History)
    first: int = 0  # the step that the run resumed from


def pseudo_perplexity(run: PretrainRun, sentences: Sequence[str]) -> float:
    """The current model's pseudo-perplexity per word piece.

    Source: Salazar et al. 2020, eq. 3.
    """
    run.model.eval()
    language = MaskedLanguageModel(run.model, run.tokenizer, "", "")
    scores = score_sentences_detailed(sentences, language)
    return float(math.exp(-scores.log_likelihood.sum() / scores.n_tokens.sum()))


def _take_step(
    run: PretrainRun,
    optimizer: torch.optim.Optimizer,
    special: SpecialIds,
    number: int,
    batch: Sequence[Pieces],
) -> float:
    """Take a step, counted from 0; return the loss before it."""
    model, settings = run.model.train(), run.settings
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(number, run.steps, settings)
    # Dropout draws from the global generator: it is seeded here and restored after.
    with forked_rng(model.device):
        torch.manual_seed(_generator(settings.seed, 4, number).initial_seed())
        noise = _generator(settings.seed, 2, number)
        loss = masked_loss(model, batch, special, settings.mask_share, noise)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return float(loss.detach())


def train_to_end(run: PretrainRun, state: PretrainState, progress: Progress | None) -> None:
    """Train, saving the state every minute and when ``progress`` stops the run by raising."""
    parameters, settings = list(run.model.parameters()), run.settings
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.98), fused=True)
    run.first = state.restore(run.model, optimizer, run.history)
    special = special_ids(run.tokenizer)
    lengths = [len(sentence) for sentence in run.training]
    length_of_epoch = batches_per_epoch(run.training, settings.batch_tokens)
    batches: list[list[int]] = []
    saved = time.monotonic()
    for number in range(run.first, run.steps):
        epoch, place = divmod(number, length_of_epoch)
        if not batches or place == 0:
            order = _generator(settings.seed, 1, epoch)
            batches = epoch_batches(lengths, settings.batch_tokens, order)
        batch = [run.training[index] for index in batches[place]]
        loss = _take_step(run, optimizer, special, number, batch)
        ends_epoch = place + 1 == length_of_epoch
        if ends_epoch and math.isfinite(loss):
            loss = validation_loss(run.model, run.validation, special, settings)
        if not math.isfinite(loss):
            raise WorkError(f"the loss is not finite at step {number + 1}; lower the learning rate")
        if ends_epoch:
            run.history.add(run.model, loss)
        try:
            if progress is not None:
                progress(number + 1, run.steps)
        except BaseException:
            state.save(run.model, optimizer, number + 1, run.history)
            raise
        if time.monotonic() - saved > SAVE_SECONDS:
            state.save(run.model, optimizer, number + 1, run.history)
            saved = time.monotonic()
    run.model.load_state_dict(run.history.best)
    run.model.eval()
