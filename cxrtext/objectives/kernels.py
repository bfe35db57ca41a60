"""Kernels of metadata or embeddings: each gives the Gram matrix [n, n] of n values.

``z`` is [n] or [n, d] and finite, and ``sigma``, above 0, is in units of z; anything else raises
``ValueError``.  Multiply the Gram matrices of several attributes: ``rbf(age, 5.0) * delta(sex)``,
or :func:`product`.  Distances and products use full precision, also under autocast.

Sources: CCL-K (Tsai et al. 2022), and conditional alignment and uniformity.
"""

import math

import torch
from torch import Tensor

from cxrtext.objectives.scores import first_row


def rbf(z: Tensor, sigma: float = 1.0) -> Tensor:
    """Gaussian kernel, ``exp(−‖z − z'‖² / 2σ²)``; its supremum is 1."""
    return gram("rbf", _checked(z), _above_zero(sigma))


def laplacian(z: Tensor, sigma: float = 1.0) -> Tensor:
    """Laplacian kernel, ``exp(−‖z − z'‖₁ / σ)``; its supremum is 1."""
    return gram("laplacian", _checked(z), _above_zero(sigma))


def linear(z: Tensor) -> Tensor:
    """Linear kernel, ``⟨z, z'⟩``; it has no supremum."""
    return gram("linear", _checked(z))


def cosine(z: Tensor) -> Tensor:
    """Cosine kernel, ``⟨z, z'⟩ / ‖z‖‖z'‖``; its supremum is 1, and it can be below 0.

    No row of z may be zeros.
    """
    z = _checked(z)
    zero = (z == 0).all(dim=1)
    if bool(zero.any()):
        raise ValueError(f"z is all zeros in row {first_row(zero)}, which has no direction")
    return gram("cosine", z)


def polynomial(z: Tensor, degree: int = 3) -> Tensor:
    """Polynomial kernel, ``(⟨z, z'⟩ + 1)³``; it has no supremum."""
    if degree < 1:
        raise ValueError(f"degree must be at least 1, got {degree}")
    return (gram("linear", _checked(z)) + 1) ** degree


def delta(z: Tensor) -> Tensor:
    """Kernel of categories, 1 if z = z' and else 0; its supremum is 1.

    Rows of z are equal if all d categories are.  For integers the matrix is float32.
    """
    values = _checked(z)
    compared = values if z.is_floating_point() else z.reshape(len(z), -1)
    return gram("delta", compared).to(values.dtype)


def gram(name: str, z: Tensor, sigma: float = 1.0) -> Tensor:
    """The kernel with this name, of vectors [n, d], unchecked."""
    match name:
        case "rbf":
            return torch.exp(-_distances(z, 2.0, sigma).square() / 2)
        case "laplacian":
            return torch.exp(-_distances(z, 1.0, sigma))
        case "linear" | "cosine" | "polynomial":
            z = z / z.norm(dim=1, keepdim=True) if name == "cosine" else z
            with torch.autocast(z.device.type, enabled=False):
                products = z @ z.T
            return (products + 1) ** 3 if name == "polynomial" else products
        case "delta":
            equal = (z[:, None] == z).all(dim=-1)
            return equal.to(z.dtype if z.is_floating_point() else torch.float32)
    raise ValueError(f"no kernel '{name}'")


def product(*grams: Tensor) -> Tensor:
    """Product of Gram matrices [n, n] of the same values; the suprema multiply too."""
    if not grams or any(gram.shape != grams[0].shape for gram in grams):
        raise ValueError(f"kernels must be alike, got shapes {[tuple(g.shape) for g in grams]}")
    return math.prod(grams[1:], start=grams[0])


def _distances(z: Tensor, p: float, sigma: float) -> Tensor:
    """Distances in units of σ, [n, n], exactly 0 on the diagonal."""
    z = z / sigma
    return torch.cdist(z, z, p=p, compute_mode="donot_use_mm_for_euclid_dist")


def _above_zero(sigma: float) -> float:
    if not 0 < sigma < math.inf:
        raise ValueError(f"sigma must be above 0 and finite, got {sigma}")
    return sigma


def _checked(z: Tensor) -> Tensor:
    """``z`` as [n, d], in floating point of at least 32 bits."""
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
