"""What a run of pre-training reports."""

from dataclasses import dataclass

KIND = "masked-language-model"
"""What ``training.json`` says the folder holds."""


@dataclass(frozen=True, slots=True)
class PretrainSummary:
    """What a run of pre-training did; also in ``training.json``.

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
        steps: Optimiser steps.
        epochs: Passes through the training sentences.
        validation_loss: Mean cross-entropy of hidden word pieces of held-out sentences after each
            epoch of this run, in nats.
        perplexity: Pseudo-perplexity of held-out sentences, a word piece.
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
    steps: int
    epochs: int
    validation_loss: list[float]
    perplexity: float
    resumed_from_step: int
    seconds: float
