"""A step's images and sentences, and how they belong together.

Everything that a step must know without asking the device (lengths, masked pieces, which sentence
belongs to which image) is computed here on the CPU, so that no step waits for the device before its
backward pass.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from cxrtext.language.pretraining.batches import SpecialIds, mask_words

GROUP = 64
"""Sentences padded to one length together; padding all to the longest would cost several times the
arithmetic."""

MASKED_SHARE = 0.15  # of a sentence's word pieces (Devlin et al. 2019; Boecking et al. 2022)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Sentences of similar length."""

    input_ids: Tensor  # [n, T]
    attention_mask: Tensor  # [n, T], 1 on word pieces
    lengths: tuple[int, ...]  # word pieces of each sentence
    # [n, T], the pieces with some masked, for the masked-language-model loss
    masked_ids: Tensor | None = None
    masked_at: Tensor | None = None  # [m], places of the masked pieces in [n · T]
    states: Tensor | None = None  # [n, H], float16, their states from a locked text encoder

    @property
    def attention(self) -> Tensor | None:
        """The mask [n, 1, T, T] in the encoder's own form, or None without padding.

        Given [n, T], the encoder would ask the device whether there is padding.
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
    # [B, F], int8, findings of the second task: 1, 0, or -1 unknown; their prompts, alternately
    # positive and negative, are the batch's last 2 F sentences
    findings: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """B images with S sentences of their studies.

    With several processes, each has only the pixels and word pieces of its own share, but all know
    how the whole batch belongs together.
    """

    # of this process's share: [B, 1, R, R], 8-bit gray, before the crop; or [B, h, w, C], float16,
    # features from a locked image encoder
    images: Tensor
    # the distinct sentences of this process's share (U in the whole batch), shortest first, in
    # groups, by the part of the step that embeds them
    parts: tuple[tuple[Tokens, ...], ...]
    # [S], the number of each sentence among the distinct ones; [S + 2 F] with prompts of findings
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
    """Anything that holds tensors, with a function applied to each tensor."""
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
    """One of the nearly equal parts of ``count`` things in a row.

    With fewer things than parts, the last parts repeat the first things: no part is empty, and the
    parts together still begin with all things in order.
    """
    if count < parts:
        return slice(part % count, part % count + 1)
    return slice(part * count // parts, (part + 1) * count // parts)


def group_by_length(pieces: Sequence[Sequence[int]], pad_id: int) -> tuple[Tokens, ...]:
    """Pad sentences, sorted by length, in groups of :data:`GROUP`."""
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


def mask_tokens(
    tokens: Sequence[Tokens], special: SpecialIds, generator: torch.Generator
) -> tuple[Tokens, ...]:
    """Mask random whole words on the CPU, for the BioViL baseline."""
    masked = []
    for group in tokens:
        ids = group.input_ids
        eligible = group.attention_mask.bool() & ~torch.isin(ids, special.all)
        starts = eligible & (~special.continues[ids] | (eligible.cumsum(dim=1) == 1))
        masked_ids, chosen = mask_words(
            ids,
            eligible,
            starts,
            mask_id=special.mask,
            vocabulary_size=len(special.continues),
            share=MASKED_SHARE,
            generator=generator,
        )
        at = chosen.flatten().nonzero().flatten()
        masked.append(replace(group, masked_ids=masked_ids, masked_at=at))
    return tuple(masked)
