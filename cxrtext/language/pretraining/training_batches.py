"""Batches of sentences for masked-language-model training, a function of the seed and the epoch."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cxrtext.language.scoring.score import Pieces
from cxrtext.language.scoring.scorer import SPECIAL


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """What the ids of a vocabulary mean.

    Args:
        pad: [PAD].
        begin: [CLS].
        end: [SEP].
        mask: [MASK].
        continues: Which ids continue a word, [V], or None to take every piece for a word.
    """

    pad: int
    begin: int
    end: int
    mask: int
    continues: Tensor | None = None


def epoch_batches(
    lengths: Sequence[int], batch_tokens: int, generator: torch.Generator
) -> list[list[int]]:
    """Divide an epoch into batches of like length, in random order.

    Args:
        lengths: Word pieces of each sentence.
        batch_tokens: Most tokens in a batch, special tokens and padding counted.
        generator: Orders sentences of like length, and the batches.

    Returns:
        Indices of each batch.  Their number is the same in every epoch.
    """
    shuffled = torch.randperm(len(lengths), generator=generator).tolist()
    order = sorted(shuffled, key=lengths.__getitem__)
    batches: list[list[int]] = []
    current: list[int] = []
    for index in order:
        # Sorted by length, so the newest sentence is the widest.
        if current and (len(current) + 1) * (lengths[index] + SPECIAL) > batch_tokens:
            batches.append(current)
            current = []
        current.append(index)
    if current:
        batches.append(current)
    places = torch.randperm(len(batches), generator=generator).tolist()
    return [batches[place] for place in places]


def collate(sentences: Sequence[Pieces], special: SpecialIds) -> tuple[Tensor, Tensor, Tensor]:
    """Pad sentences to one length, with special tokens.

    Returns:
        Ids [B, T], where there is a word piece of a sentence [B, T], and where a word starts
        [B, T]; a sentence that starts in the middle of a word, because it was cut, starts one.
    """
    width = max(map(len, sentences)) + SPECIAL
    ids = torch.full((len(sentences), width), special.pad, dtype=torch.long)
    eligible = torch.zeros(len(sentences), width, dtype=torch.bool)
    for row, sentence in enumerate(sentences):
        length = len(sentence)
        ids[row, 0], ids[row, length + 1] = special.begin, special.end
        ids[row, 1 : length + 1] = torch.tensor(sentence)
        eligible[row, 1 : length + 1] = True
    if special.continues is None:
        return ids, eligible, eligible
    starts = eligible & ~special.continues[ids]
    starts[:, 1] = True
    return ids, eligible, starts


def cut_to_window(sentences: Sequence[Pieces], window: int) -> list[Pieces]:
    """Cut sentences longer than the window into pieces of it; nothing is dropped."""
    return [
        sentence[start : start + window]
        for sentence in sentences
        for start in range(0, len(sentence), window)
    ]
