"""The loss for findings that are present, absent or unknown."""

import torch.nn.functional as F
from torch import Tensor


def known_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean binary cross-entropy of the known targets, in nats; 0 if none is known.

    Logits and int8 targets (1, 0, or -1 unknown) are [B, findings].
    """
    losses = F.binary_cross_entropy_with_logits(
        logits, targets.clamp(min=0).float(), reduction="none"
    )
    known = (targets >= 0).float()
    return (losses * known).sum() / known.sum().clamp(min=1)
