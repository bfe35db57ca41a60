"""A run of masked-language-model training, from its first or a saved step to its last."""

import math
import time
from dataclasses import dataclass, field

from transformers import BertForMaskedLM, BertTokenizer

from cxrtext.errors import WorkError
from cxrtext.language.masked_training import Recipe, Step, make_optimizer, train, validation_loss
from cxrtext.language.pretrain_state import PretrainState
from cxrtext.language.score import Pieces, Progress
from cxrtext.language.training_batches import SpecialIds

SAVE_SECONDS = 60.0
"""How often the state of a run is kept."""


@dataclass(slots=True)
class PretrainRun:
    """What a run works on, and what it has measured.

    Args:
        model: The network, on its device.
        tokenizer: Its tokenizer.
        recipe: How to train.
        training: Sentences to train on.
        validation: Sentences held out.
        validation_loss: After each epoch, in nats.
        first: The step that the run went on from.
    """

    model: BertForMaskedLM
    tokenizer: BertTokenizer
    recipe: Recipe
    training: list[Pieces]
    validation: list[Pieces]
    validation_loss: list[float] = field(default_factory=list)
    first: int = 0

    @property
    def special(self) -> SpecialIds:
        """Ids of the special tokens."""
        return SpecialIds(
            pad=self.tokenizer.pad_token_id,
            begin=self.tokenizer.cls_token_id,
            end=self.tokenizer.sep_token_id,
            mask=self.tokenizer.mask_token_id,
        )


def _measure(run: PretrainRun, step: Step) -> None:
    if not math.isfinite(step.loss):
        raise WorkError(f"the loss is not finite at step {step.number}; lower the learning rate")
    if step.ends_epoch:
        loss = validation_loss(run.model, run.validation, run.special, run.recipe)
        run.validation_loss.append(round(loss, 4))


def train_to_end(run: PretrainRun, state: PretrainState, progress: Progress | None) -> None:
    """Train, keeping the state every minute and when ``progress`` stops the run by raising.

    Args:
        run: The run; its model is trained in place.
        state: Where the state is kept, and gone on from where there is one.
        progress: Called with steps done and in all.

    Raises:
        WorkError: The loss is no finite number.
    """
    optimizer = make_optimizer(run.model, run.recipe)
    run.first = state.restore(run.model, optimizer)
    saved = time.monotonic()
    for step in train(run.model, optimizer, run.training, run.special, run.recipe, first=run.first):
        _measure(run, step)
        try:
            if progress is not None:
                progress(step.number, run.recipe.steps)
        except BaseException:
            state.save(run.model, optimizer, step.number)
            raise
        if time.monotonic() - saved > SAVE_SECONDS:
            state.save(run.model, optimizer, step.number)
            saved = time.monotonic()
