"""What every objective does first to a score matrix: check it, and find each row's positive.

Public functions check values, which waits for the device; :func:`rows_of` and the functions whose
names end in ``_terms`` do not: training calls them with what it knows to be right, and a row that
is wrong comes out as NaN.  Half-precision scores, as autocast gives them, are converted to float32
here, so that no later exponential or logarithm is taken in half precision.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

_HALVES = (torch.float16, torch.bfloat16)


def full_precision(values: Tensor, name: str) -> Tensor:
    """``values`` in float32 if they came in half precision; otherwise as they are."""
    if not values.is_floating_point():
        raise ValueError(f"{name} must be floating point, got {values.dtype}")
    return values.float() if values.dtype in _HALVES else values


def first_row(mask: Tensor) -> int:
    """The index of the first row that holds a True, for an error message."""
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
    """Scores seen from the positive."""

    positive: Tensor  # the positive's score, [A]
    # the other scores minus the positive's, [A, C]; −inf at the positive itself and where there is
    # no candidate.  Subtracting first keeps small losses accurate
    negatives: Tensor
    count: Tensor  # how many negatives a row has, [A], of the type of the scores


def rows_of(scores: Tensor, column: Tensor) -> Rows:
    """Separate each row's positive, at ``column`` [A], from its negatives."""
    scores = full_precision(scores, "scores")
    column = column[:, None]
    chosen = scores.gather(1, column)
    negatives = scores.scatter(1, column, -torch.inf) - chosen
    count = (~torch.isneginf(negatives)).sum(dim=1).to(scores.dtype)
    return Rows(chosen.squeeze(1), negatives, count)


def split_rows(scores: Tensor, positive: Tensor | None) -> Rows:
    """:func:`rows_of` of :func:`candidate_columns`."""
    return rows_of(scores, candidate_columns(scores, positive))


def candidate_columns(scores: Tensor, positive: Tensor | None) -> Tensor:
    """:func:`positive_columns`, of positives that are candidates."""
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
    """Refuse a mask that is not boolean or not of the shape of the scores."""
    if same.shape != scores.shape or same.dtype != torch.bool:
        raise ValueError(
            f"same must be boolean {tuple(scores.shape)}, got {same.dtype} {tuple(same.shape)}"
        )


def without_negatives(
    scores: Tensor, positive: Tensor | None = None, same: Tensor | None = None
) -> Tensor:
    """Tell which anchors have no negative, [A]: their loss is 0 and teaches nothing.

    A trainer may warn where the mean is not small.  ``same`` [A, C], boolean, are the negatives to
    be removed, as ``remove_negatives`` takes them; for ``fair``, where clusters differ.
    """
    scores = scores.detach()
    if same is not None:
        scores = without(scores, same, positive_columns(scores, positive))
    return split_rows(scores, positive).count == 0


def log_sum(values: Tensor) -> Tensor:
    """``log Σ exp`` over the last dimension; −inf with a zero gradient for a row of −inf."""
    empty = torch.isneginf(values).all(dim=-1, keepdim=True)
    total = torch.logsumexp(values.masked_fill(empty, 0.0), dim=-1)
    return total.masked_fill(empty.squeeze(-1), -torch.inf)


def log_weights(logits: Tensor, present: Tensor) -> Tensor:
    """``log`` of weights ∝ ``e^logits`` whose mean over the present entries of a row is 1.

    All are [A, C]; what stands at absent entries is not read, and their weight is −inf.
    """
    logits = logits.masked_fill(~present, -torch.inf)
    total = log_sum(logits)
    total = total.masked_fill(torch.isneginf(total), 0.0)  # a row without any entry
    count = present.sum(dim=-1).to(logits.dtype)
    return logits + (count.log() - total)[..., None]


def surprisal(scores: Tensor) -> Tensor:
    """``−log softmax`` of each row, accurate where it is small, [A, C]; 0 where no candidate.

    ``logsumexp − score`` rounds a loss below 1e-7 to 0 in float32.  Only a row's highest entry can
    be that sure, so that entry alone is computed without the difference.
    """
    absent = torch.isneginf(scores)
    top, column = scores.max(dim=-1, keepdim=True)
    relative = scores - top
    plain = torch.logsumexp(relative, dim=-1, keepdim=True) - relative
    others = log_sum(relative.scatter(-1, column, -torch.inf))[..., None]
    sure = torch.nn.functional.softplus(others)
    return torch.where(absent, 0.0, plain.scatter(-1, column, sure))
