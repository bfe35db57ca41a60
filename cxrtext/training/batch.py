"""One step's images and sentences, and how they belong together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cxrtext.training.objective_pairs import Pairs

GROUP = 64
"""Sentences that are padded to one length; padding them all to the longest costs several times
the arithmetic."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Some sentences of similar length.

    Args:
        input_ids: [n, T].
        attention_mask: [n, T], 1 on word pieces.
        hidden: [n, T], the pieces with some hidden, for the masked-language-model loss.
        guessed: [n, T], which pieces are to be guessed.
    """

    input_ids: Tensor
    attention_mask: Tensor
    hidden: Tensor | None = None
    guessed: Tensor | None = None

    def map(self, change: Callable[[Tensor], Tensor]) -> "Tokens":
        """The sentences with a function applied to each tensor."""
        return Tokens(**_mapped(self, self.__slots__, change))


@dataclass(frozen=True, slots=True)
class Batch:
    """B images with S sentences of their studies.

    With several processes each has the pixels and the word pieces of its own share only; all
    know how the whole batch belongs together.

    Args:
        images: [B, 1, R, R], 8-bit grey, before the crop; of this process's share.
        tokens: The distinct sentences, shortest first, in groups, U in all; this process's share.
        text_of: [S], the distinct sentence that each sentence is.
        image_of: [S], the image that each sentence belongs to; the first B are 0 to B − 1.
        eta: [S], class probability of each sentence.
        labels: [B, F], findings of each image's study, where the objective wants them.
        vectors: [S, d], unit vectors of the sentences, where it compares texts.
        metadata: [B, M], of each image, where it is conditional.
        distinct: U.
    """

    images: Tensor
    tokens: list[Tokens]
    text_of: Tensor
    image_of: Tensor
    eta: Tensor
    labels: Tensor | None = None
    vectors: Tensor | None = None
    metadata: Tensor | None = None
    distinct: int = 0

    @property
    def pairs(self) -> Pairs:
        """What an objective reads of the batch beside its scores."""
        return Pairs(self.image_of, self.eta, self.labels, self.vectors, self.metadata)

    def map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """The batch with a function applied to each tensor."""
        names = [name for name in self.__slots__ if name != "tokens"]
        tokens = [group.map(change) for group in self.tokens]
        return replace(self, tokens=tokens, **_mapped(self, names, change))

    def to(self, device: torch.device) -> "Batch":
        """The batch on another device."""
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))


def _mapped(of: object, names: Sequence[str], change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    values = {name: getattr(of, name) for name in names}
    return {
        name: change(value) if isinstance(value, Tensor) else value
        for name, value in values.items()
    }


def span(count: int, part: int, parts: int) -> slice:
    """One of the nearly equal parts that ``count`` things in a row are divided into.

    Where there are fewer things than parts, the parts past the last thing repeat the first ones:
    no part is empty, and the parts one after the other still begin with all things in order.
    """
    if count < parts:
        return slice(part % count, part % count + 1)
    return slice(part * count // parts, (part + 1) * count // parts)


def group_by_length(pieces: Sequence[Sequence[int]], pad_id: int) -> list[Tokens]:
    """Pad sentences that are sorted by length, :data:`GROUP` at a time."""
    groups = []
    for start in range(0, len(pieces), GROUP):
        part = pieces[start : start + GROUP]
        ids = torch.full((len(part), len(part[-1])), pad_id)
        mask = torch.zeros_like(ids)
        for row, sentence in enumerate(part):
            ids[row, : len(sentence)] = torch.tensor(sentence)
            mask[row, : len(sentence)] = 1
        groups.append(Tokens(ids, mask))
    return groups


def take(tokens: Sequence[Tokens], rows: slice) -> list[Tokens]:
    """Some consecutive sentences of groups."""
    taken, first = [], 0
    for group in tokens:
        length = len(group.input_ids)
        part = slice(max(rows.start - first, 0), min(rows.stop - first, length))
        if part.start < part.stop:
            taken.append(group.map(lambda tensor, part=part: tensor[part]))  # type: ignore[misc]
        first += length
    return taken
