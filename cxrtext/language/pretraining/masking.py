"""Which words or word pieces are masked."""

import torch
from torch import Tensor

MASKED, RANDOM = 0.8, 0.1
"""Of the words chosen: replaced by [MASK]; replaced by any pieces; the rest are left."""

ROUNDING = 1e-3  # a share that comes out so little above a whole number of pieces means that number


def choose_words(
    word: Tensor, eligible: Tensor, *, share: float, generator: torch.Generator
) -> Tensor:
    """Choose whole words in random order until a share of the word pieces is reached.

    The word that reaches the share is the last one taken, even where it goes beyond: a long word
    has its chance in a short sentence, and a short sentence always has something masked.

    Args:
        word: The number of the word that each place belongs to, from 0 in each row, [B, T].
        eligible: Where there is a word piece of the sentence, [B, T]; at least one a row.
        share: Least share of a row's word pieces to choose; at least one word a row is chosen.

    Returns:
        Which words are chosen, by their number, [B, T].

    Source: Cui et al. 2021, §3.1 (whole-word masking).  Its code passes over a word that goes
        beyond the share, which would never mask a long word of a short sentence.
    """
    rows, width = eligible.shape
    pieces = torch.zeros(rows, width).scatter_add_(1, word, eligible.float())
    draw = torch.rand(rows, width, generator=generator).masked_fill(pieces == 0, 2.0)
    order = draw.argsort(dim=1)  # places without a word come last
    size = pieces.gather(1, order)
    before = size.cumsum(dim=1) - size
    wanted = share * pieces.sum(dim=1, keepdim=True)
    taken = (before < wanted - ROUNDING) & (size > 0)
    taken[:, 0] = True
    return torch.zeros_like(taken).scatter_(1, order, taken)


def mask_words(
    input_ids: Tensor,
    eligible: Tensor,
    starts: Tensor,
    *,
    mask_id: int,
    vocabulary_size: int,
    share: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Choose words at random and mask all their pieces.

    Args:
        input_ids: Word pieces with special tokens and padding, [B, T], on the CPU.
        eligible: Where there is a word piece of the sentence, [B, T]; at least one a row.
        starts: Where a word starts, [B, T]; the first eligible place of each row is one.  With
            ``starts = eligible`` every word piece is chosen for itself.
        share: Least share of the word pieces to choose; at least one word a row is chosen.

    Returns:
        The input with chosen pieces masked, [B, T], and where they were chosen, [B, T].

    Source: Devlin et al. 2019, §3.1 (80 % masked, 10 % random, 10 % unchanged), decided once a
        word as in its authors' later whole-word release.
    """
    word = (starts.cumsum(dim=1) - 1).clamp(min=0)  # [B, T]
    words = choose_words(word, eligible, share=share, generator=generator)
    chosen = words.gather(1, word) & eligible
    way = torch.rand(input_ids.shape, generator=generator).gather(1, word)
    anything = torch.randint(vocabulary_size, input_ids.shape, generator=generator)
    masked = input_ids.masked_fill(chosen & (way < MASKED), mask_id)
    at_random = chosen & (way >= MASKED) & (way < MASKED + RANDOM)
    return torch.where(at_random, anything, masked), chosen
