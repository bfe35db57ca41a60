"""What a run of pre-training did and measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import BertTokenizer

from cxrtext.language.class_probability import Words
from cxrtext.language.scoring.score import Pieces
from cxrtext.text.tokenizer import continues_word


@dataclass(frozen=True, slots=True)
class Coverage:
    """How the words of some sentences fall into pieces; a punctuation mark counts as a word."""

    words: int  # number of words, repeated ones counted
    pieces_per_word: float  # mean number of pieces a word
    whole: float  # share of the words that are one piece and not [UNK]
    unknown: float  # share of the words that are [UNK]


def measure_coverage(tokenizer: BertTokenizer, sentences: Sequence[Pieces]) -> Coverage:
    continues = continues_word(tokenizer)
    words = pieces = split = unknown = 0
    for sentence in sentences:
        pieces += len(sentence)
        inside = False
        for place, piece in enumerate(sentence):
            if place and continues[piece]:
                split += not inside
                inside = True
            else:
                words += 1
                unknown += piece == tokenizer.unk_token_id
                inside = False
    if not words:
        return Coverage(0, 0.0, 0.0, 0.0)
    return Coverage(
        words,
        round(pieces / words, 4),
        round((words - split - unknown) / words, 4),
        round(unknown / words, 6),
    )


@dataclass(frozen=True, slots=True)
class PretrainSummary:
    """What a run of pre-training did; also the content of ``training.json``."""

    kind: str  # ``KIND``
    fingerprint: str  # SHA-256 of the result's configuration, weights and vocabulary
    base: str | None  # fingerprint of the model that was fine-tuned, or None
    reports: int  # number of reports
    with_text: int  # reports with at least one sentence
    training_sentences: int  # sentences trained on, repeated ones counted
    validation_sentences: int  # sentences of the studies held out
    tokens: int  # word pieces of the training sentences
    vocabulary_size: int  # word pieces in the vocabulary
    parameters: int  # numbers in the network
    steps: int  # optimizer steps
    epochs: int  # passes through the training sentences
    kept_epoch: int  # the epoch of the lowest held-out loss, from 1; its weights are the result
    stopped_early: bool  # whether patience ended the training
    # Mean cross-entropy of masked word pieces of held-out sentences after each epoch, in
    # nats.
    validation_loss: list[float]
    # pseudo-perplexity, a word piece, of a small sample of held-out sentences after each
    # epoch.
    pseudo_perplexity: list[float]
    perplexity: float  # pseudo-perplexity of held-out sentences, a word piece, of the result
    coverage: Coverage  # how the training sentences' words fall into pieces
    held_out_coverage: Coverage  # the same of the sentences held out
    resumed_from_step: int  # steps that a run that was stopped had done; 0 otherwise
    seconds: float  # wall-clock time of this run

    @property
    def warning(self) -> str | None:
        """A line that says that the corpus is foreign to the vocabulary, or None."""
        words = self.coverage.words
        return Words(words, round(words * self.coverage.unknown)).warning()
