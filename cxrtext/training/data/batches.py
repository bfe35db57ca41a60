"""One step's images and sentences, and how they belong together.

What a step must know without asking the device (lengths, which pieces are masked, who is whose
anchor) is worked out here, on the CPU, so that no step waits for the device before its backward
pass.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from cxrtext.language.pretraining.batches import mask_words
from cxrtext.text.tokenizer import TextTokenizer

GROUP = 64
"""Sentences that are padded to one length; padding them all to the longest costs several times
the arithmetic."""

MASKED_SHARE = 0.15  # of the word pieces of a sentence (Devlin et al. 2019; Boecking et al. 2022)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Some sentences of similar length."""

    input_ids: Tensor  # [n, T]
    attention_mask: Tensor  # [n, T], 1 on word pieces
    lengths: tuple[int, ...]  # word pieces of each sentence
    # [n, T], the pieces with some masked, for the masked-language-model loss
    masked_ids: Tensor | None = None
    masked_at: Tensor | None = None  # [m], where the masked pieces are in [n · T]
    states: Tensor | None = None  # [n, H], float16, what a locked text encoder made of them

    @property
    def attention(self) -> Tensor | None:
        """The mask [n, 1, T, T] that an encoder takes as it is, or None where nothing is padded.

        Given [n, T], it would ask the device whether there is padding.
        """
        n, T = self.input_ids.shape
        if min(self.lengths) == T:
            return None
        return self.attention_mask.bool()[:, None, None, :].expand(n, 1, T, T)

    def rows(self, part: slice) -> "Tokens":
        ids, T = self.input_ids[part], self.input_ids.shape[1]
        if self.masked_ids is None or self.masked_at is None:
            states = None if self.states is None else self.states[part]
            return Tokens(ids, self.attention_mask[part], self.lengths[part], states=states)
        at = self.masked_at[(self.masked_at >= part.start * T) & (self.masked_at < part.stop * T)]
        masks = self.masked_ids[part], at - part.start * T
        return Tokens(ids, self.attention_mask[part], self.lengths[part], *masks)


@dataclass(frozen=True, slots=True)
class Pairs:
    """S sentences and B images, S >= B; the first B sentences belong to images 0 to B − 1."""

    image_of: Tensor  # [S], the image (column of the scores) that each sentence belongs to
    eta: Tensor  # [S], class probability of each sentence
    known: Mapping[str, Any] = field(default_factory=dict)  # what the objective asked for
    # [B, F], int8, findings of the second task: 1, 0, or -1 unknown; their prompts, positive and
    # negative in turn, are the batch's last 2 F sentences
    findings: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """B images with S sentences of their studies.

    With several processes each has the pixels and the word pieces of its own share only; all
    know how the whole batch belongs together.
    """

    # [B, 1, R, R], 8-bit gray, before the crop; or [B, h, w, C], float16, what a locked image
    # encoder made of them; of this process's share
    images: Tensor
    # the distinct sentences, shortest first, U in all, of this process's share; in groups, by the
    # part of the step that they are embedded in
    parts: tuple[tuple[Tokens, ...], ...]
    # [S], the distinct sentence that each sentence is; [S + 2 F] with prompts of findings
    text_of: Tensor
    pairs: Pairs
    distinct: int

    @property
    def locked(self) -> bool:
        """Whether ``images`` are features of a locked encoder."""
        return self.images.dtype != torch.uint8

    @property
    def tokens(self) -> list[Tokens]:
        """The groups of all parts."""
        return [group for part in self.parts for group in part]

    def map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """The batch with a function applied to each tensor."""
        mapped: Batch = _mapped(self, change)
        return mapped

    def to(self, device: torch.device) -> "Batch":
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))


def _mapped(of: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """What holds tensors, with a function applied to each of them."""
    if isinstance(of, Tensor):
        return change(of)
    if isinstance(of, tuple):
        return tuple(_mapped(one, change) for one in of)
    if isinstance(of, dict):
        return {name: _mapped(one, change) for name, one in of.items()}
    if isinstance(of, Tokens | Pairs | Batch):
        return type(of)(*(_mapped(getattr(of, name), change) for name in of.__slots__))
    return of


def span(count: int, part: int, parts: int) -> slice:
    """One of the nearly equal parts that ``count`` things in a row are divided into.

    Where there are fewer things than parts, the parts past the last thing repeat the first ones:
    no part is empty, and the parts one after the other still begin with all things in order.
    """
    if count < parts:
        return slice(part % count, part % count + 1)
    return slice(part * count // parts, (part + 1) * count // parts)


def group_by_length(pieces: Sequence[Sequence[int]], pad_id: int) -> tuple[Tokens, ...]:
    """Pad sentences that are sorted by length, :data:`GROUP` at a time."""
    groups = []
    for start in range(0, len(pieces), GROUP):
        part = pieces[start : start + GROUP]
        ids = torch.full((len(part), len(part[-1])), pad_id)
        mask = torch.zeros_like(ids)
        for row, sentence in enumerate(part):
            ids[row, : len(sentence)] = torch.tensor(sentence)
            mask[row, : len(sentence)] = 1
        groups.append(Tokens(ids, mask, tuple(map(len, part))))
    return tuple(groups)


def take(tokens: Sequence[Tokens], rows: slice) -> tuple[Tokens, ...]:
    taken, first = [], 0
    for group in tokens:
        length = len(group.input_ids)
        part = slice(max(rows.start - first, 0), min(rows.stop - first, length))
        if part.start < part.stop:
            taken.append(group.rows(part))
        first += length
    return tuple(taken)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What masking has to know of a tokenizer."""

    special: Tensor  # [V], which pieces are special tokens
    continues: Tensor  # [V], which pieces continue a word
    mask: int  # the id of [MASK]


def vocabulary_of(tokenizer: TextTokenizer, size: int) -> Vocabulary:
    """What masking has to know of a tokenizer, for a network of ``size`` word pieces."""
    special, continues = torch.zeros(2, size, dtype=torch.bool)
    special[tokenizer.all_special_ids] = True
    for piece, place in tokenizer.get_vocab().items():
        continues[place] = piece.startswith("##")
    return Vocabulary(special, continues, int(tokenizer.mask_token_id))


def mask_tokens(
    tokens: Sequence[Tokens], vocabulary: Vocabulary, generator: torch.Generator
) -> tuple[Tokens, ...]:
    """Choose whole words at random and mask them, for the BioViL baseline; on the CPU."""
    masked = []
    for group in tokens:
        eligible = ~vocabulary.special[group.input_ids] & group.attention_mask.bool()
        starts = eligible & ~vocabulary.continues[group.input_ids]
        starts |= eligible & (eligible.cumsum(dim=1) == 1)  # whatever a sentence begins with
        masked_ids, labels = mask_words(
            group.input_ids,
            eligible,
            starts,
            mask_id=vocabulary.mask,
            vocabulary_size=len(vocabulary.special),
            share=MASKED_SHARE,
            generator=generator,
        )
        at = (labels & eligible).flatten().nonzero().flatten()
        masked.append(replace(group, masked_ids=masked_ids, masked_at=at))
    return tuple(masked)
