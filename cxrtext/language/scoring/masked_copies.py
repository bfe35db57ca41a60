"""Which word pieces are masked to score a sentence."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """Ids of the special tokens that a masked sentence needs."""

    begin: int
    end: int
    mask: int


@dataclass(frozen=True, slots=True)
class MaskedCopies:
    """Copies of some texts of one length, each with word pieces masked and one asked for."""

    base: Tensor  # word pieces with special tokens, nothing masked, [S, T]
    owner: Tensor  # which text a copy is of, [R]
    masked: Tensor  # where a copy has [MASK], [R, T]
    position: Tensor  # the column asked for, [R]
    target: Tensor  # the word piece that stood there, [R]


def _framed(text: Tensor, special: SpecialIds) -> Tensor:
    edge = text.new_ones(len(text), 1)
    return torch.cat([edge * special.begin, text, edge * special.end], dim=1)


def _word_ends(continues: Tensor) -> Tensor:
    """For each piece, the column after its word's last piece; ``continues`` is [S, n]."""
    count, length = continues.shape
    column = torch.arange(length, device=continues.device).expand(count, length)
    starts = torch.where(continues, length, column)
    # The next start to the right of each piece: a running minimum from the right.
    after = torch.cat([starts[:, 1:], starts.new_full((count, 1), length)], dim=1)
    ends: Tensor = after.flip(1).cummin(1).values.flip(1)
    return ends


def masked_copies(
    ids: Tensor, rows: range, window: int, special: SpecialIds, continues: Tensor | None = None
) -> MaskedCopies:
    """Make some of the masked copies of sentences of one length.

    A sentence longer than the window is never cut off: each word piece is scored in the window
    that has it nearest to the middle, so every piece sees as much context as fits.

    Args:
        ids: Word pieces without special tokens, [S, n].
        rows: Which of the S · n copies; copy ``s · n + t`` asks for piece t of sentence s.
        window: Most word pieces that the network takes at once.
        continues: Where a piece continues the word before it, [S, n]; masks the rest of its word
            with each piece.  None masks that piece alone.
    """
    length = ids.shape[1]
    width = min(length, window)
    row = torch.arange(rows.start, rows.stop, device=ids.device)
    sentence, place = row // length, row % length
    start = (place - width // 2).clamp(0, length - width)
    if length <= window:
        first = rows.start // length
        base = ids[first : (rows.stop - 1) // length + 1]
        owner = sentence - first
    else:
        columns = start[:, None] + torch.arange(width, device=ids.device)
        base = ids[sentence[:, None], columns]
        owner = torch.arange(len(row), device=ids.device)
    column = torch.arange(width + 2, device=ids.device) - 1 + start[:, None]  # in the sentence
    if continues is None:
        masked = column == place[:, None]
    else:
        end = _word_ends(continues)[sentence, place]
        inside = (column >= start[:, None]) & (column < start[:, None] + width)
        masked = (column >= place[:, None]) & (column < end[:, None]) & inside
    return MaskedCopies(
        _framed(base, special), owner, masked, place - start + 1, ids[sentence, place]
    )
