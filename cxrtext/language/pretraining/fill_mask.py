"""What a masked language model puts into the gap of a few sentences of radiology.

The sentences are this project's own, and the answers single words of the vocabulary, so that a
report of them tells nothing that the vocabulary does not.
"""

from dataclasses import dataclass

import torch
from transformers import BertForMaskedLM, BertTokenizer

from cxrtext.language.pretraining.training_batches import SpecialIds, collate
from cxrtext.text.tokenizer import vocabulary_of

TEMPLATES = (
    "the lungs are [MASK] .",
    "no pleural [MASK] or pneumothorax .",
    "the heart size is [MASK] .",
    "there is a small left pleural [MASK] .",
    "no focal [MASK] is seen .",
    "right lower lobe [MASK] .",
    "mild pulmonary [MASK] .",
    "the cardiac silhouette is [MASK] .",
)
"""Sentences with one gap each."""

WORDS = 5
"""Words shown for each."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word, and its probability among all word pieces."""

    word: str
    probability: float


@dataclass(frozen=True, slots=True)
class FillMask:
    """A sentence with a gap, and the likeliest words in it, best first."""

    template: str
    words: list[Word]


def _is_word(piece: str) -> bool:
    return piece[0].isalnum()  # neither a continuation, a punctuation mark nor a special token


@torch.inference_mode()
def fill_masks(
    model: BertForMaskedLM, tokenizer: BertTokenizer, templates: tuple[str, ...] = TEMPLATES
) -> list[FillMask]:
    """Fill the gap of each template.

    Args:
        model: The network, in evaluation mode.
        tokenizer: Its tokenizer.
        templates: Sentences with one [MASK] each.

    Returns:
        The likeliest whole words of each; pieces that continue a word are left out, and so are
        templates longer than the network's window.
    """
    vocabulary = vocabulary_of(tokenizer)
    candidates = torch.tensor([i for i, piece in enumerate(vocabulary) if _is_word(piece)])
    special = SpecialIds(
        tokenizer.pad_token_id,
        tokenizer.cls_token_id,
        tokenizer.sep_token_id,
        tokenizer.mask_token_id,
    )
    window = int(model.config.max_position_embeddings) - 2
    filled: list[FillMask] = []
    for template in templates:
        pieces = tuple(tokenizer.encode(template, add_special_tokens=False))
        if len(pieces) > window:
            continue
        ids, _, _ = collate([pieces], special)
        place = pieces.index(special.mask) + 1
        states = model.bert(input_ids=ids.to(model.device)).last_hidden_state[:, place]
        shares = torch.softmax(model.cls(states)[0].float(), dim=-1).cpu()[candidates]
        best = shares.topk(min(WORDS, len(candidates)))
        words = [
            Word(vocabulary[int(candidates[index])], round(float(share), 4))
            for share, index in zip(best.values, best.indices, strict=True)
        ]
        filled.append(FillMask(template, words))
    return filled
