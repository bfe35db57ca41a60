"""t-SNE of a few hundred points."""

import numpy as np
from numpy.typing import NDArray

MOST = 600
"""Points of a picture in a report; more are drawn over each other."""
PERPLEXITY, STEPS = 30.0, 500


def embed_neighbors(points: NDArray[np.floating]) -> NDArray[np.float64]:
    """Place at least 3 points in the plane so that neighbors stay neighbors, [n, D] -> [n, 2].

    The same for the same points, since it starts at the principal components.  The perplexity is
    lowered where there are few points.

    Source: van der Maaten and Hinton 2008; Kobak and Berens 2019 (start).
    """
    from sklearn.manifold import TSNE

    if len(points) < 3:
        raise ValueError(f"{len(points)} points; 3 or more can be placed")
    if not np.ptp(points, axis=0).any():
        return np.zeros((len(points), 2))  # equal points have no principal component
    perplexity = min(PERPLEXITY, (len(points) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init="pca", max_iter=STEPS, random_state=0)
    placed: NDArray[np.float64] = tsne.fit_transform(points)
    return placed
