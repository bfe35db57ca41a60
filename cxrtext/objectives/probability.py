"""From the likelihood of a sentence to the probability of its latent class."""

import math

import torch
from torch import Tensor

DEFAULT_A = 0.2
"""Default largest class probability, that of a sentence of likelihood 1."""

DEFAULT_K = 0.35
"""Default exponent on the likelihood."""


def class_probability(log_p: Tensor, a: float = DEFAULT_A, k: float = DEFAULT_K) -> Tensor:
    """Estimate class probabilities, ``η = a · p^k``, in log space.

    Args:
        log_p: Log-likelihoods of sentences, in nats, at most 0; any shape, floating point.
        a: Scale, in (0, 1).
        k: Exponent, at least 0.

    Returns:
        ``η`` in (0, a], the shape and type of ``log_p``; where it would underflow, the smallest
        normal number of the type.

    Raises:
        ValueError: ``a`` or ``k`` lies outside its range, or a log-likelihood is above 0 or NaN.

    Source: Wang et al. 2023 (sample-specific debiasing), section 2.3; METHOD section 2.
    """
    if not 0.0 < a < 1.0:
        raise ValueError(f"a must lie in (0, 1), got {a}")
    if not 0.0 <= k < math.inf:
        raise ValueError(f"k must be at least 0 and finite, got {k}")
    if not bool((log_p <= 0).all()):
        raise ValueError("log-likelihoods must be numbers of at most 0")
    eta = torch.exp(math.log(a) + k * log_p)
    return eta.clamp(min=torch.finfo(log_p.dtype).tiny, max=a)
