"""The part of the negatives that is left when false negatives are taken out of their sum."""

from dataclasses import dataclass

import torch
from torch import Tensor

from cxrtext.objectives.rows import Rows


@dataclass(frozen=True, slots=True)
class Corrected:
    """Corrected negatives of each anchor.

    Args:
        log_ratio: ``log( N g / pos )`` with the floor, [A]; the loss is its softplus.
        floored: Where the floor holds, [A], boolean.
    """

    log_ratio: Tensor
    floored: Tensor


def corrected_negatives(
    rows: Rows,
    marginal: Tensor,
    eta: Tensor | float,
    gamma_sq: Tensor | float,
    in_class: Tensor | None = None,
) -> Corrected:
    """``max( (neg − N η pos) / (1 − η), N e^{−γ²} ) / pos``, in log space.

    Args:
        rows: The scores.
        marginal: ``log( neg / pos )``, [A]; negatives may have been weighted.
        eta: η, [A] or one for all, in [0, 1).
        gamma_sq: γ² of the floor, which no gradient reaches.
        in_class: ``log`` of what stands for ``pos`` in the correction, over pos; [A]; None is 0.

    Returns:
        The corrected negatives and where the floor holds.

    Raises:
        ValueError: eta lies outside [0, 1), or eta or γ² is no number or has another shape.

    Source: Wang et al. 2023 (sample-specific debiasing), eq. 6-8.
    """
    eta = _per_row(eta, marginal, "eta")
    if not bool(((eta >= 0) & (eta < 1)).all()):
        raise ValueError("eta must lie in [0, 1) in every row")
    gamma = _per_row(gamma_sq, marginal, "gamma_sq").detach()
    log_count = rows.count.log()
    floor = log_count - gamma - rows.positive
    # log of (N η pos) / neg: the part of the negatives that the correction takes away
    taken = log_count + torch.log(eta) - marginal
    if in_class is not None:
        taken = taken + in_class
    possible = (taken < 0) & ~torch.isneginf(marginal)
    # log(1 − e^taken) without cancellation; the inner where keeps NaN out of the gradient
    rest = torch.log(-torch.expm1(torch.where(possible, taken, -1.0)))
    estimate = torch.where(possible, marginal + rest - torch.log1p(-eta), -torch.inf)
    # A NaN score stays NaN: a floor would hide that training diverged.
    unknown = torch.isnan(marginal)
    floored = (estimate <= floor) & ~unknown
    bounded = torch.where(floored, floor, torch.where(unknown, marginal, estimate))
    return Corrected(bounded, floored & (rows.count > 0))


def _per_row(value: Tensor | float, like: Tensor, name: str) -> Tensor:
    tensor = torch.as_tensor(value, dtype=like.dtype, device=like.device)
    if tensor.ndim > 1 or (tensor.ndim == 1 and tensor.shape != like.shape):
        raise ValueError(
            f"{name} must be a number or [{len(like)}], got shape {tuple(tensor.shape)}"
        )
    return tensor
