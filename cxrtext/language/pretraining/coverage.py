"""How well a vocabulary of word pieces covers a corpus."""

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import BertTokenizer

from cxrtext.language.scoring.score import Pieces
from cxrtext.text.tokenizer import continues_word


@dataclass(frozen=True, slots=True)
class Coverage:
    """How the words of some sentences fall into pieces; a punctuation mark counts as a word.

    Args:
        words: Number of words, repeated ones counted.
        pieces_per_word: Mean number of pieces a word.
        whole: Share of the words that are one piece and not [UNK].
        unknown: Share of the words that are [UNK].
    """

    words: int
    pieces_per_word: float
    whole: float
    unknown: float


def measure_coverage(tokenizer: BertTokenizer, sentences: Sequence[Pieces]) -> Coverage:
    """Count words and their pieces; all 0 where there is no word."""
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
