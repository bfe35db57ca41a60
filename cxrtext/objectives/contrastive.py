"""InfoNCE and the debiased contrastive loss, one loss an anchor.

Everything is computed in log space and relative to the positive, so that the losses stay finite and
accurate for |score| up to 200 in float32.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.objectives.correction import Corrected, corrected_negatives
from cxrtext.objectives.rows import Rows, full_precision, log_sum, split_rows


def info_nce(scores: Tensor, positive: Tensor | None = None) -> Tensor:
    """InfoNCE, ``−log( pos / (pos + neg) )``.

    Args:
        scores: [A, C], anchors in rows, scaled by γ².
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], one loss an anchor, in nats; 0 for a row without negatives
        (:func:`~cxrtext.objectives.without_negatives` tells which).

    Raises:
        ValueError: The shapes do not fit, or a positive is −inf.

    Source: Wang et al. 2023 (sample-specific debiasing), eq. 3.
    """
    return F.softplus(log_sum(split_rows(scores, positive).negatives))


def debiased(
    scores: Tensor,
    eta: Tensor | float,
    gamma_sq: Tensor | float,
    extra: Tensor | None = None,
    positive: Tensor | None = None,
) -> Tensor:
    """Debiased contrastive loss with one class probability an anchor: DCL-η, DCL-η_LM.

    ``−log( pos / (pos + N g) )``, ``N g = max( (neg − N η pos) / (1 − η), N e^{−γ²} )``.  The floor
    assumes that no score is below −γ²; no gradient flows through its γ².

    Args:
        scores: [A, C], anchors in rows, scaled by γ².
        eta: Class probability of each anchor [A], or one for all; in [0, 1).
        gamma_sq: γ², the largest possible score.
        extra: [A, M], scaled scores of extra positives; ``pos`` inside g is then their mean.  −inf
            is none, but a row must have one.
        positive: [A], the column of each row's positive; by default the diagonal.

    Returns:
        [A], one loss an anchor, in nats.

    Raises:
        ValueError: The shapes do not fit, a positive is −inf, or eta lies outside [0, 1).

    Source: Wang et al. 2023 (sample-specific debiasing), eq. 6-8 and figure 5.
    """
    return F.softplus(_corrected(split_rows(scores, positive), eta, gamma_sq, extra).log_ratio)


def debiased_floored(
    scores: Tensor,
    eta: Tensor | float,
    gamma_sq: Tensor | float,
    extra: Tensor | None = None,
    positive: Tensor | None = None,
) -> Tensor:
    """Tell for which anchors the floor of :func:`debiased` holds; its arguments.

    Returns:
        [A], boolean; its mean is worth logging, since a floored anchor learns from no negative.
        An anchor without negatives is not counted as floored.
    """
    rows = split_rows(scores.detach(), positive)
    extra = None if extra is None else extra.detach()
    return _corrected(rows, eta, gamma_sq, extra).floored


def _corrected(
    rows: Rows, eta: Tensor | float, gamma_sq: Tensor | float, extra: Tensor | None
) -> Corrected:
    in_class = _mean_positive(rows.positive, extra)
    return corrected_negatives(rows, log_sum(rows.negatives), eta, gamma_sq, in_class)


def _mean_positive(chosen: Tensor, extra: Tensor | None) -> Tensor | None:
    """``log`` of the mean of ``e^score`` over the extra positives, minus the positive's score."""
    if extra is None:
        return None
    if extra.ndim != 2 or extra.shape[0] != chosen.shape[0] or extra.shape[1] == 0:
        raise ValueError(f"extra must be [{chosen.shape[0]}, M], got shape {tuple(extra.shape)}")
    relative = full_precision(extra, "extra").to(chosen.dtype) - chosen[:, None]
    count = (~torch.isneginf(relative)).sum(dim=1)
    if bool((count == 0).any()):
        raise ValueError("extra has a row of -inf alone; give each anchor a positive")
    return torch.logsumexp(relative, dim=1) - count.to(relative.dtype).log()
