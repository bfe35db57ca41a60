"""The pseudo-log-likelihood of a sentence under a masked language model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from cxrtext.language.batches import SPECIAL, ranges
from cxrtext.models.masked_language_model import MaskedLanguageModel

Precision = Literal["float32", "bfloat16"]
"""Arithmetic of the network; float32 is exact, bfloat16 several times faster on a GPU."""


@dataclass(frozen=True, slots=True)
class MaskedCopies:
    """Every sentence of a group once for each of its word pieces, that piece masked.

    Args:
        input_ids: [R, L + 2] with special tokens; R copies, L the length or the window.
        position: [R], the masked column of ``input_ids``.
        target: [R], the word piece that stood there.
    """

    input_ids: Tensor
    position: Tensor
    target: Tensor


def masked_copies(ids: Tensor, window: int, special: tuple[int, int, int]) -> MaskedCopies:
    """Make the masked copies of sentences of one length.

    A sentence longer than the window is never cut off: each word piece is scored in the window
    that has it nearest to the middle, so every piece sees as much context as fits.

    Args:
        ids: Word pieces without special tokens, [S, n].
        window: Most word pieces that the network takes at once.
        special: Ids of [CLS], [SEP] and [MASK].

    Returns:
        S · n copies, the copies of one sentence together and in order.
    """
    begin, end, mask = special
    count, length = ids.shape
    width = min(length, window)
    place = torch.arange(length, device=ids.device)
    start = (place - width // 2).clamp(0, length - width)
    columns = start[:, None] + torch.arange(width, device=ids.device)  # [n, L]
    text = ids[:, columns].reshape(count * length, width)  # [S, n, L] -> [R, L]
    edge = text.new_ones(count * length, 1)
    input_ids = torch.cat([edge * begin, text, edge * end], dim=1)
    position = (place - start + 1).repeat(count)
    input_ids[torch.arange(count * length, device=ids.device), position] = mask
    return MaskedCopies(input_ids, position, ids.reshape(-1))


def _log_probabilities(language: MaskedLanguageModel, copies: MaskedCopies, rows: slice) -> Tensor:
    """Log-probability of each masked piece, [R]; only its own hidden state meets the vocabulary."""
    hidden = language.model.bert(input_ids=copies.input_ids[rows]).last_hidden_state
    index = torch.arange(len(hidden), device=hidden.device)
    logits = language.model.cls(hidden[index, copies.position[rows]])  # [R, V]
    log_p = torch.log_softmax(logits.float(), dim=-1)
    return log_p.gather(1, copies.target[rows, None])[:, 0]


@torch.inference_mode()
def group_log_likelihoods(
    language: MaskedLanguageModel,
    group: Sequence[Sequence[int]],
    batch_tokens: int,
    precision: Precision = "float32",
) -> list[float]:
    """Score sentences of one length.

    Args:
        language: The model.
        group: Word pieces of each sentence, without special tokens, all of one positive length.
        batch_tokens: Most tokens in one forward pass.
        precision: Arithmetic of the network.

    Returns:
        ``Σ_t log P(w_t | the rest)`` of each sentence, in nats, summed in float64.

    Source: Salazar et al. 2020, eq. 2.
    """
    device = language.model.device
    tokenizer = language.tokenizer
    special = (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id)
    ids = torch.tensor(group, dtype=torch.long, device=device)
    copies = masked_copies(ids, language.window, special)
    width = min(ids.shape[1], language.window) + SPECIAL
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
        parts = [
            _log_probabilities(language, copies, rows)
            for rows in ranges(len(copies.target), max(1, batch_tokens // width))
        ]
    by_piece = torch.cat(parts).double().reshape(ids.shape)
    values: list[float] = by_piece.sum(dim=1).clamp(max=0.0).tolist()
    return values
