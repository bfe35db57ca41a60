"""A run of masked-language-model training, from its first or a saved step to its best epoch."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from transformers import BertForMaskedLM, BertTokenizer

from cxrtext.errors import WorkError
from cxrtext.language.pretraining.history import History
from cxrtext.language.pretraining.masked_training import (
    Recipe,
    Step,
    make_optimizer,
    train,
    validation_loss,
)
from cxrtext.language.pretraining.settings import WHOLE_WORD
from cxrtext.language.pretraining.state import PretrainState
from cxrtext.language.pretraining.training_batches import SpecialIds
from cxrtext.language.scoring.score import Pieces, Progress, score_sentences_detailed
from cxrtext.models.masked_language_model import MaskedLanguageModel
from cxrtext.text.tokenizer import continues_word

SAVE_SECONDS = 60.0
"""How often the state of a run is kept."""


@dataclass(slots=True)
class PretrainRun:
    """What a run works on, and what it has measured.

    Args:
        model: The network, on its device.
        tokenizer: Its tokenizer.
        recipe: How to train.
        masking: "whole-word" or "piece".
        patience: Epochs without a lower held-out loss after which the run stops; 0 is off.
        training: Sentences to train on.
        validation: Sentences held out.
        sample: Held-out sentences whose perplexity is measured after each epoch.
        history: What was measured.
        first: The step that the run went on from.
        done: Steps that are done.
    """

    model: BertForMaskedLM
    tokenizer: BertTokenizer
    recipe: Recipe
    masking: str
    patience: int
    training: list[Pieces]
    validation: list[Pieces]
    sample: list[str]
    history: History = field(default_factory=History)
    first: int = 0
    done: int = 0

    def special(self) -> SpecialIds:
        """Return what the ids of the vocabulary mean."""
        continues = torch.tensor(continues_word(self.tokenizer))
        return SpecialIds(
            pad=self.tokenizer.pad_token_id,
            begin=self.tokenizer.cls_token_id,
            end=self.tokenizer.sep_token_id,
            mask=self.tokenizer.mask_token_id,
            continues=continues if self.masking == WHOLE_WORD else None,
        )


def pseudo_perplexity(run: PretrainRun, sentences: Sequence[str]) -> float:
    """Return the pseudo-perplexity a word piece of the model as it is now.

    Source: Salazar et al. 2020, eq. 3.
    """
    run.model.eval()
    language = MaskedLanguageModel(run.model, run.tokenizer, "", "")
    scores = score_sentences_detailed(sentences, language)
    return float(math.exp(-scores.log_likelihood.sum() / scores.n_tokens.sum()))


def _check(number: int, loss: float) -> None:
    if not math.isfinite(loss):
        raise WorkError(f"the loss is not finite at step {number}; lower the learning rate")


def _measure(run: PretrainRun, special: SpecialIds, step: Step) -> None:
    _check(step.number, step.loss)
    run.done = step.number
    if step.ends_epoch:
        loss = validation_loss(run.model, run.validation, special, run.recipe)
        _check(step.number, loss)
        run.history.add(run.model, loss, pseudo_perplexity(run, run.sample))


def train_to_end(run: PretrainRun, state: PretrainState, progress: Progress | None) -> None:
    """Train, keeping the state every minute and when ``progress`` stops the run by raising.

    Args:
        run: The run; its model is trained in place and ends with the best epoch's weights.
        state: Where the state is kept, and gone on from where there is one.
        progress: Called with steps done and in all.

    Raises:
        WorkError: The loss is no finite number.
        CheckpointError: The state is damaged.
    """
    optimizer = make_optimizer(run.model, run.recipe)
    run.first = run.done = state.restore(run.model, optimizer, run.history)
    special = run.special()
    saved = time.monotonic()
    # A run may have been stopped just after its patience had ended.
    first = run.recipe.steps if run.history.exhausted(run.patience) else run.first
    for step in train(run.model, optimizer, run.training, special, run.recipe, first=first):
        _measure(run, special, step)
        try:
            if progress is not None:
                progress(step.number, run.recipe.steps)
        except BaseException:
            state.save(run.model, optimizer, step.number, run.history)
            raise
        if run.history.exhausted(run.patience):
            break
        if time.monotonic() - saved > SAVE_SECONDS:
            state.save(run.model, optimizer, step.number, run.history)
            saved = time.monotonic()
    run.model.load_state_dict(run.history.best)
    run.model.eval()
