"""Word pieces to be guessed, for the masked-language-model loss of the BioViL baseline."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from transformers import BertTokenizer

from cxrtext.language.pretraining.masking import mask_words
from cxrtext.training.batch import Tokens

SHARE = 0.15
"""Of the word pieces of a sentence (Devlin et al. 2019; Boecking et al. 2022)."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What masking has to know of a tokenizer.

    Args:
        special: [V], which pieces are special tokens.
        continues: [V], which pieces go on with a word.
        mask: The id of [MASK].
    """

    special: Tensor
    continues: Tensor
    mask: int


def vocabulary_of(tokenizer: BertTokenizer, size: int) -> Vocabulary:
    """What masking has to know of a tokenizer, for a network of ``size`` word pieces."""
    special, continues = torch.zeros(2, size, dtype=torch.bool)
    special[tokenizer.all_special_ids] = True
    for piece, place in tokenizer.get_vocab().items():
        continues[place] = piece.startswith("##")
    return Vocabulary(special, continues, int(tokenizer.mask_token_id))


def hide(tokens: list[Tokens], vocabulary: Vocabulary, generator: torch.Generator) -> list[Tokens]:
    """Choose whole words at random and hide them.

    Args:
        tokens: Sentences, on the CPU.
        vocabulary: From :func:`vocabulary_of`.
        generator: Source of the choices.

    Returns:
        The sentences, with ``hidden`` and ``guessed``.
    """
    masked = []
    for group in tokens:
        eligible = ~vocabulary.special[group.input_ids] & group.attention_mask.bool()
        starts = eligible & ~vocabulary.continues[group.input_ids]
        starts |= eligible & (eligible.cumsum(dim=1) == 1)  # whatever a sentence begins with
        hidden, guessed = mask_words(
            group.input_ids,
            eligible,
            starts,
            mask_id=vocabulary.mask,
            vocabulary_size=len(vocabulary.special),
            share=SHARE,
            generator=generator,
        )
        masked.append(replace(group, hidden=hidden, guessed=guessed & eligible))
    return masked
