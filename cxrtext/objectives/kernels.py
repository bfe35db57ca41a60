"""Kernels of metadata or embeddings: each makes the Gram matrix [n, n] of n values.

Gram matrices of several attributes multiply: ``rbf(age, 5.0) * delta(sex)``, or :func:`product`.
Distances and products are taken in full precision, also under autocast.
"""

import math

import torch
from torch import Tensor

from cxrtext.objectives.rows import first_row


def rbf(z: Tensor, sigma: float = 1.0) -> Tensor:
    """Gaussian kernel, ``exp(−‖z − z'‖² / 2σ²)``; its supremum is 1.

    Args:
        z: [n] or [n, d].
        sigma: σ, above 0, in the unit of z.

    Returns:
        [n, n], a Gram matrix.

    Raises:
        ValueError: σ is not above 0, or z has another shape or a value that is not finite.

    Source: METHOD section 4.
    """
    return torch.exp(-_distances(z, 2.0, sigma).square() / 2)


def laplacian(z: Tensor, sigma: float = 1.0) -> Tensor:
    """Laplacian kernel, ``exp(−‖z − z'‖₁ / σ)``; its supremum is 1.

    Args:
        z: [n] or [n, d].
        sigma: σ, above 0, in the unit of z.

    Returns:
        [n, n], a Gram matrix.

    Raises:
        ValueError: σ is not above 0, or z has another shape or a value that is not finite.

    Source: METHOD section 4.
    """
    return torch.exp(-_distances(z, 1.0, sigma))


def linear(z: Tensor) -> Tensor:
    """Linear kernel, ``⟨z, z'⟩``; it has no supremum.

    Args:
        z: [n] or [n, d].

    Returns:
        [n, n], a Gram matrix.

    Raises:
        ValueError: z has another shape, or a value that is not finite.

    Source: METHOD section 4.
    """
    z = _vectors(z)
    with torch.autocast(z.device.type, enabled=False):
        return z @ z.T


def cosine(z: Tensor) -> Tensor:
    """Cosine kernel, ``⟨z, z'⟩ / ‖z‖‖z'‖``; its supremum is 1, and it can be below 0.

    Args:
        z: [n] or [n, d], no row of zeros.

    Returns:
        [n, n], a Gram matrix.

    Raises:
        ValueError: z has another shape, a value that is not finite, or a row of zeros.

    Source: METHOD section 4.
    """
    z = _vectors(z)
    zero = (z == 0).all(dim=1)
    if bool(zero.any()):
        raise ValueError(f"z is all zeros in row {first_row(zero)}, which has no direction")
    return linear(z / z.norm(dim=1, keepdim=True))


def polynomial(z: Tensor, degree: int = 3) -> Tensor:
    """Polynomial kernel, ``(⟨z, z'⟩ + 1)³``; it has no supremum.

    Args:
        z: [n] or [n, d].
        degree: The exponent, at least 1.

    Returns:
        [n, n], a Gram matrix.

    Raises:
        ValueError: The degree is below 1, or z has another shape or a value that is not finite.

    Source: METHOD section 4.
    """
    if degree < 1:
        raise ValueError(f"degree must be at least 1, got {degree}")
    return (linear(z) + 1) ** degree


def delta(z: Tensor) -> Tensor:
    """Kernel of categories, 1 where z = z' and 0 elsewhere; its supremum is 1.

    Args:
        z: [n] or [n, d], categories; rows are equal where all d are.

    Returns:
        [n, n], a Gram matrix; float32 for categories that are integers.

    Raises:
        ValueError: z has another shape, or a value that is not finite.

    Source: METHOD section 4.
    """
    integers = z.reshape(len(z), -1) if z.ndim == 1 else z
    values = _vectors(z)
    compared = values if z.is_floating_point() else integers
    return (compared[:, None] == compared).all(dim=-1).to(values.dtype)


def product(*grams: Tensor) -> Tensor:
    """Product of Gram matrices of the same n values, again a Gram matrix.

    Args:
        grams: Each [n, n].

    Returns:
        [n, n]; its supremum is the product of theirs.

    Raises:
        ValueError: There is none, or the shapes differ.
    """
    if not grams or any(gram.shape != grams[0].shape for gram in grams):
        raise ValueError(f"kernels must be alike, got shapes {[tuple(g.shape) for g in grams]}")
    return math.prod(grams[1:], start=grams[0])


def _distances(z: Tensor, p: float, sigma: float) -> Tensor:
    """Distances in units of σ, [n, n], exactly 0 on the diagonal."""
    if not 0 < sigma < math.inf:
        raise ValueError(f"sigma must be above 0 and finite, got {sigma}")
    z = _vectors(z) / sigma
    return torch.cdist(z, z, p=p, compute_mode="donot_use_mm_for_euclid_dist")


def _vectors(z: Tensor) -> Tensor:
    """``z`` as [n, d], floating point of at least 32 bits."""
    if z.ndim not in (1, 2):
        raise ValueError(f"z must be [n] or [n, d], got shape {tuple(z.shape)}")
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    z = z[:, None] if z.ndim == 1 else z
    bad = ~torch.isfinite(z)
    if bool(bad.any()):
        raise ValueError(
            f"z is not finite in row {first_row(bad)}; leave out rows with missing values, or fill"
            " them"
        )
    return z
