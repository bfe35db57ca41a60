"""What frozen image features hold when few labels are at hand."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrtext.evaluation.classification import area_under_curve
from cxrtext.evaluation.probe import RIDGES, linear_probe

SHOTS = (1, 5, 10, 100)


def few_label_rows(
    labels: ArrayLike, positives: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Draw as many positives and as many negatives, without replacement.

    Args:
        labels: [n], 1 or 0.
        positives: How many of each.
        generator: Source of randomness.

    Returns:
        [2 · positives], rows in rising order.

    Raises:
        ValueError: There are not so many of a class.
    """
    truth = np.asarray(labels)
    rows = []
    for label, name in ((1, "positives"), (0, "negatives")):
        places = np.flatnonzero(truth == label)
        if not 1 <= positives <= len(places):
            raise ValueError(f"{positives} {name} are wanted, of which there are {len(places)}")
        rows.append(generator.choice(places, size=positives, replace=False))
    return np.sort(np.concatenate(rows)).astype(np.int64)


def few_label_aucs(
    train: tuple[ArrayLike, ArrayLike],
    validation: tuple[ArrayLike, ArrayLike],
    test: tuple[ArrayLike, ArrayLike],
    *,
    shots: Sequence[int] = SHOTS,
    seeds: Sequence[int] = range(5),
    ridges: Sequence[float] = RIDGES,
) -> dict[int, list[float]]:
    """AUC on test images of probes fitted with a few labels.

    All training features standardise; the validation images serve only to choose the ridge.

    Args:
        train: Features [n, D] and labels [n] to draw from.
        validation: Features and labels that choose the ridge.
        test: Features and labels that are measured.
        shots: Numbers of positives, and of as many negatives.
        seeds: One draw each; the same seed draws the same rows for every model.
        ridges: Those to try.

    Returns:
        By number of positives, one AUC a seed; a number that the training images cannot fill is
        an empty list.

    Raises:
        ValueError: See :func:`~cxrtext.evaluation.probe.linear_probe`.
    """
    features, labels = np.asarray(train[0], dtype=np.float64), np.asarray(train[1])
    fewest = min(int((labels == 1).sum()), int((labels == 0).sum()))
    found: dict[int, list[float]] = {}
    for positives in shots:
        found[positives] = []
        for seed in seeds if positives <= fewest else ():
            rows = few_label_rows(labels, positives, np.random.default_rng([seed, positives]))
            some = features[rows], labels[rows]
            probe = linear_probe(*some, *validation, ridges, reference=features)
            found[positives].append(area_under_curve(probe.logits(test[0]), test[1]))
    return found
