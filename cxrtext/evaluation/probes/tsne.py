"""t-SNE of a few hundred points, exact.

Written out because scikit-learn is no dependency of the library: it is needed for this one picture
alone.  Distances of all pairs are computed, so the work grows with the square of the points, and
:data:`MOST` bounds it.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST = 600
"""Points beyond which the exact method takes too long for a report."""
PERPLEXITY = 30.0
EXAGGERATED = 150
STEPS = 500


def _squared_distances(points: Floats) -> Floats:
    """Squared distances of all pairs, [n, D] -> [n, n]."""
    norms = (points**2).sum(axis=1)
    squares: Floats = np.maximum(norms[:, None] + norms - 2 * points @ points.T, 0.0)
    return squares


def affinities(points: Floats, perplexity: float) -> Floats:
    """Symmetric affinities whose rows have a perplexity, [n, D] -> [n, n] with sum 1.

    The perplexity is how many neighbors count, in effect; below n.

    Source: van der Maaten and Hinton 2008, equations 1 and 2.
    """
    n = len(points)
    if n < 3 or not 1 <= perplexity < n:
        raise ValueError(f"{n} points cannot have a perplexity of {perplexity}")
    squares = _squared_distances(points)
    np.fill_diagonal(squares, np.inf)
    squares -= squares.min(axis=1, keepdims=True)  # so that no row underflows
    low, high = np.full(n, 0.0), np.full(n, np.inf)
    precision = np.full(n, 1.0)
    for _ in range(60):
        weights = np.exp(-squares * precision[:, None])
        total = weights.sum(axis=1)
        finite = np.where(np.isfinite(squares), squares, 0.0)
        entropy = np.log(total) + precision * (weights * finite).sum(axis=1) / total
        wide = entropy > np.log(perplexity)
        low, high = np.where(wide, precision, low), np.where(wide, high, precision)
        precision = np.where(np.isinf(high), precision * 2, (low + high) / 2)
    rows = weights / total[:, None]
    joint: Floats = (rows + rows.T) / (2 * n)
    return joint


def _principal(points: Floats) -> Floats:
    """The first two principal components, [n, D] -> [n, 2], signs fixed."""
    centered = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centered, full_matrices=False)
    axes = axes[:2] * np.sign(axes[:2, np.abs(axes[:2]).argmax(axis=1)].diagonal())[:, None]
    projected: Floats = centered @ axes.T
    return projected


def embed_neighbors(points: Floats) -> Floats:
    """Place 3 to :data:`MOST` points in the plane so that neighbors stay neighbors.

    [n, D] -> [n, 2]; the same for the same points, since it starts at the principal components.
    The perplexity, 30, is lowered where there are few points.

    Source: van der Maaten and Hinton 2008; Kobak and Berens 2019 (start, learning rate).
    """
    n = len(points)
    if not 3 <= n <= MOST:
        raise ValueError(f"{n} points; from 3 to {MOST} can be placed")
    joint = affinities(points, max(1.0, min(PERPLEXITY, (n - 1) / 3)))
    place = _principal(points)
    place *= 1e-4 / max(float(place[:, 0].std()), 1e-12)
    exaggerated = 12.0 * joint
    speed, gain = np.zeros_like(place), np.ones_like(place)
    rate = max(n / 12, 50.0)
    for step in range(STEPS):
        early = step < EXAGGERATED
        slope = _slope(place, exaggerated if early else joint)
        same = np.sign(slope) == np.sign(speed)
        gain = np.maximum(np.where(same, gain * 0.8, gain + 0.2), 0.01)
        speed = (0.5 if early else 0.8) * speed - rate * gain * slope
        place = place + speed
        place -= place.mean(axis=0)
    return place


def _slope(place: Floats, joint: Floats) -> Floats:
    """The gradient of the divergence (equation 5)."""
    across, down = place.T
    # Written out, as a product of two columns is slower in a library of many threads.
    near = np.subtract.outer(across, across) ** 2
    near += np.subtract.outer(down, down) ** 2
    near += 1
    np.divide(1, near, out=near)
    np.fill_diagonal(near, 0.0)
    pull = near / -near.sum()
    pull += joint
    pull *= near
    slope: Floats = 4 * (pull.sum(axis=1)[:, None] * place - pull @ place)
    return slope
