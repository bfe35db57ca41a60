"""What a run of pre-training reports."""

from dataclasses import dataclass

from cxrtext.language.class_probability import Words
from cxrtext.language.pretraining.coverage import Coverage
from cxrtext.language.pretraining.fill_mask import FillMask


@dataclass(frozen=True, slots=True)
class PretrainSummary:
    """What a run of pre-training did; also in ``training.json``, but for ``fill_mask``.

    Args:
        kind: ``KIND``.
        fingerprint: SHA-256 of the result's configuration, weights and vocabulary.
        base: Fingerprint of the model that was fine-tuned, or None.
        reports: Number of reports.
        with_text: Reports with at least one sentence.
        training_sentences: Sentences trained on, repeated ones counted.
        validation_sentences: Sentences of the studies held out.
        tokens: Word pieces of the training sentences.
        vocabulary_size: Word pieces in the vocabulary.
        parameters: Numbers in the network.
        masking: "whole-word" or "piece".
        steps: Optimiser steps.
        epochs: Passes through the training sentences.
        kept_epoch: The epoch of the lowest held-out loss, from 1; its weights are the result.
        stopped_early: Whether patience ended the training.
        validation_loss: Mean cross-entropy of hidden word pieces of held-out sentences after each
            epoch, in nats.
        pseudo_perplexity: Pseudo-perplexity, a word piece, of a small sample of held-out sentences
            after each epoch.
        perplexity: Pseudo-perplexity of held-out sentences, a word piece, of the result.
        coverage: How the training sentences' words fall into pieces.
        held_out_coverage: The same of the sentences held out.
        fill_mask: What the result puts into the gaps of a few sentences of our own.
        resumed_from_step: Steps that a run that was stopped had done; 0 otherwise.
        seconds: Wall-clock time of this run.
    """

    kind: str
    fingerprint: str
    base: str | None
    reports: int
    with_text: int
    training_sentences: int
    validation_sentences: int
    tokens: int
    vocabulary_size: int
    parameters: int
    masking: str
    steps: int
    epochs: int
    kept_epoch: int
    stopped_early: bool
    validation_loss: list[float]
    pseudo_perplexity: list[float]
    perplexity: float
    coverage: Coverage
    held_out_coverage: Coverage
    fill_mask: list[FillMask]
    resumed_from_step: int
    seconds: float

    @property
    def warning(self) -> str | None:
        """A line that says that the corpus is foreign to the vocabulary, or None."""
        words = self.coverage.words
        return Words(words, round(words * self.coverage.unknown)).warning()
