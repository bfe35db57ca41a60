"""Which word pieces a masked language model has to guess."""

import torch
from torch import Tensor

MASKED, RANDOM = 0.8, 0.1
"""Of the pieces chosen: replaced by [MASK]; replaced by any piece; the rest are left."""


def mask_pieces(
    input_ids: Tensor,
    eligible: Tensor,
    *,
    mask_id: int,
    vocabulary_size: int,
    share: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Choose word pieces at random and hide them.

    Args:
        input_ids: Word pieces with special tokens and padding, [B, T], on the CPU.
        eligible: Where there is a word piece of the sentence, [B, T]; at least one a row.
        mask_id: The id of [MASK].
        vocabulary_size: Number of word pieces.
        share: How many to choose; at least one a row is chosen.
        generator: The source of randomness.

    Returns:
        The input with chosen pieces hidden, [B, T], and where they were chosen, [B, T].

    Source: Devlin et al. 2019, §3.1 (80 % masked, 10 % random, 10 % unchanged).
    """
    draw = torch.rand(input_ids.shape, generator=generator).masked_fill(~eligible, 2.0)
    chosen = draw < share
    chosen[torch.arange(len(draw)), draw.argmin(dim=1)] = True
    way = torch.rand(input_ids.shape, generator=generator)
    anything = torch.randint(vocabulary_size, input_ids.shape, generator=generator)
    hidden = input_ids.masked_fill(chosen & (way < MASKED), mask_id)
    at_random = chosen & (way >= MASKED) & (way < MASKED + RANDOM)
    return torch.where(at_random, anything, hidden), chosen
