"""What every objective does first with a score matrix: check it, and find each row's positive.

Public functions check values, which waits for the device.  :func:`rows_of` and functions with names
ending in ``_terms`` do not: training calls them with correct input, and a wrong row gives NaN.
Half-precision scores from autocast are converted to float32 here, so that no later exponential or
logarithm is in half precision.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

_HALVES = (torch.float16, torch.bfloat16)


def full_precision(values: Tensor, name: str) -> Tensor:
    """``values`` in float32 if they are in half precision, otherwise unchanged."""
    if not values.is_floating_point():
        raise ValueError(f"{name} must be floating point, got {values.dtype}")
    return values.float() if values.dtype in _HALVES else values


def first_row(mask: Tensor) -> int:
    """The index of the first row with a True, for an error message."""
    return int(mask.reshape(len(mask), -1).any(dim=1).nonzero()[0])


def positive_columns(scores: Tensor, positive: Tensor | None) -> Tensor:
    """The column of each row's positive, [A]; by default the diagonal."""
    if scores.ndim != 2:
        raise ValueError(f"scores must be [anchors, candidates], got shape {tuple(scores.shape)}")
    anchors, candidates = scores.shape
    if positive is None:
        if anchors > candidates:
            raise ValueError(
                f"{anchors} anchors and {candidates} candidates have no diagonal of positives; "
                "pass positive=, the column of each row's positive"
            )
        return torch.arange(anchors, device=scores.device)
    if positive.shape != (anchors,):
        raise ValueError(f"positive must be [{anchors}], got shape {tuple(positive.shape)}")
    if positive.dtype != torch.long:
        raise ValueError(f"positive must hold int64 columns, got {positive.dtype}")
    outside = (positive < 0) | (positive >= candidates)
    if bool(outside.any()):
        row = first_row(outside)
        raise ValueError(
            f"positive[{row}] is {int(positive[row])}, but there are {candidates} candidates"
        )
    return positive


@dataclass(frozen=True, slots=True)
class Rows:
    """Scores relative to the positive."""

    positive: Tensor  # the positive's score, [A]
    # the other scores minus the positive's, [A, C]; −inf at the positive itself and without a
    # candidate.  Subtracting first keeps small losses accurate
    negatives: Tensor
    count: Tensor  # number of negatives in a row, [A], in the scores' type


def rows_of(scores: Tensor, column: Tensor) -> Rows:
    """Separate each row's positive, at ``column`` [A], from its negatives."""
    scores = full_precision(scores, "scores")
    column = column[:, None]
    chosen = scores.gather(1, column)
    negatives = scores.scatter(1, column, -torch.inf) - chosen
    count = (~torch.isneginf(negatives)).sum(dim=1).to(scores.dtype)
    return Rows(chosen.squeeze(1), negatives, count)


def split_rows(scores: Tensor, positive: Tensor | None) -> Rows:
    """:func:`rows_of` with :func:`candidate_columns`."""
    return rows_of(scores, candidate_columns(scores, positive))


def candidate_columns(scores: Tensor, positive: Tensor | None) -> Tensor:
    """:func:`positive_columns`; each positive must be a candidate."""
    column = positive_columns(scores, positive)
    missing = torch.isneginf(full_precision(scores, "scores").gather(1, column[:, None]))
    if bool(missing.any()):
        raise ValueError(f"the positive of row {first_row(missing)} is -inf, so no candidate")
    return column


def without(scores: Tensor, same: Tensor, column: Tensor) -> Tensor:
    """``scores`` with −inf where ``same`` marks a negative, [A, C]; the positives stay."""
    check_mask(scores, same)
    return scores.masked_fill(same.scatter(1, column[:, None], value=False), -torch.inf)


def check_mask(scores: Tensor, same: Tensor) -> None:
    """Refuse a mask that is not boolean or does not have the scores' shape."""
    if same.shape != scores.shape or same.dtype != torch.bool:
        raise ValueError(
            f"same must be boolean {tuple(scores.shape)}, got {same.dtype} {tuple(same.shape)}"
        )


def without_negatives(
    scores: Tensor, positive: Tensor | None = None, same: Tensor | None = None
) -> Tensor:
    """Which anchors have no negative, [A]: their loss is 0 and teaches nothing.

    A trainer may warn if the mean is not small.  ``same`` [A, C], boolean, marks negatives to
    remove, as for ``remove_negatives``; for ``fair``, mark where clusters differ.
    """
    scores = scores.detach()
    if same is not None:
        scores = without(scores, same, positive_columns(scores, positive))
    return split_rows(scores, positive).count == 0


def log_sum(values: Tensor) -> Tensor:
    """``log Σ exp`` over the last dimension; a row of −inf gives −inf with a zero gradient."""
    empty = torch.isneginf(values).all(dim=-1, keepdim=True)
    total = torch.logsumexp(values.masked_fill(empty, 0.0), dim=-1)
    return total.masked_fill(empty.squeeze(-1), -torch.inf)


def log_weights(logits: Tensor, present: Tensor) -> Tensor:
    """``log`` of weights ∝ ``e^logits`` with mean 1 over the present entries of a row.

    All are [A, C]; absent entries are not read, and get −inf.
    """
    logits = logits.masked_fill(~present, -torch.inf)
    total = log_sum(logits)
    total = total.masked_fill(torch.isneginf(total), 0.0)  # a row without any entry
    count = present.sum(dim=-1).to(logits.dtype)
    return logits + (count.log() - total)[..., None]


def surprisal(scores: Tensor) -> Tensor:
    """``−log softmax`` of each row, also accurate if small, [A, C]; 0 without a candidate.

    In float32, ``logsumexp − score`` rounds a loss below 1e-7 to 0.  Only a row's highest entry can
    be so small, so only that entry is computed without the difference.
    """
    absent = torch.isneginf(scores)
    top, column = scores.max(dim=-1, keepdim=True)
    relative = scores - top
    plain = torch.logsumexp(relative, dim=-1, keepdim=True) - relative
    others = log_sum(relative.scatter(-1, column, -torch.inf))[..., None]
    sure = torch.nn.functional.softplus(others)
    return torch.where(absent, 0.0, plain.scatter(-1, column, sure))
