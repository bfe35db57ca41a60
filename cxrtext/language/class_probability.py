"""The class probability η of a sentence, and which sentences have none.

A word outside the vocabulary is a single piece, [UNK], so a sentence of such words is short and may
score like a common one.  Unknown words are therefore counted, and a sentence with too many has no
η.  Words are counted, not pieces, because a known word may have many pieces.  Punctuation marks
are not words.  Text in another language with the same letters is not noticed: its words split into
known pieces and get a low likelihood, as they should.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cxrtext.objectives.debiasing import MIN_ETA
from cxrtext.text.tokenizer import TextTokenizer, continues_word, vocabulary_of

MOSTLY_UNKNOWN = 0.5  # a sentence with at least this share of unknown words has no η

FOREIGN = 0.01
"""A corpus with a larger share of unknown words is foreign to a model.  The share is 0 in 3,095
Open-i reports for a vocabulary made from the other half, 0.6 % in case notes from many hospitals,
full of units and arrows, and most words in another script."""

WITHOUT_ETA = "half of its words or more are not in the language model's vocabulary"
"""Why a sentence has no η."""


@dataclass(frozen=True, slots=True)
class Words:
    words: int
    unknown: int

    @property
    def mostly_unknown(self) -> bool:
        """Whether too few words are known for an η."""
        return self.unknown > 0 and self.unknown >= MOSTLY_UNKNOWN * self.words

    def warning(self) -> str | None:
        """A warning that a corpus with these words is foreign to the model, or None."""
        share = self.unknown / max(1, self.words)
        if share <= FOREIGN:
            return None
        return (
            f"{share:.1%} of the words are not in the language model's vocabulary, which is more "
            f"than {FOREIGN:.0%}: the text is foreign to it, and likelihoods say little; take a "
            "model of such reports, or train one with 'cxrtext pretrain-text'"
        )


class WordCounter:
    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._unknown: int = tokenizer.unk_token_id
        starts = zip(vocabulary_of(tokenizer), continues_word(tokenizer), strict=True)
        self._begins = [
            not continues and any(character.isalnum() for character in piece)
            for piece, continues in starts
        ]

    def count(self, pieces: Sequence[int]) -> Words:
        """The words of a sentence; each [UNK] is one."""
        return Words(
            sum(self._begins[piece] for piece in pieces),
            sum(piece == self._unknown for piece in pieces),
        )


def class_probability(log_likelihood: float, a: float, k: float) -> float:
    """``η = a · p^k`` for a log-likelihood in nats, at most 0; at least ``MIN_ETA``, at most a.

    Source: Wang et al. 2023 (sample-specific debiasing), §2.3.
    """
    return min(a, max(MIN_ETA, math.exp(max(math.log(a) + k * log_likelihood, -200.0))))


def eta_of(log_likelihood: float, words: Words, a: float, k: float) -> float | None:
    """η of a sentence; None if its words are mostly unknown (:data:`WITHOUT_ETA`)."""
    return None if words.mostly_unknown else class_probability(log_likelihood, a, k)
