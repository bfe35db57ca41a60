"""Probes of frozen features, for each table of small images."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.experiments.runs import Measures
from cxrtext.experiments.small_sets import CLASSES, THINNED, ImageSet
from cxrtext.metrics.intervals import Measured, mean_of

RIDGE = 1e-4
"""λ in mean cross-entropy + λ / 2 · ‖W‖², and in mean squared error + λ · ‖W‖²."""
SOME_LABELS = (0.01, 0.1)


@dataclass(frozen=True, slots=True)
class Features:
    """Frozen features of a set, [n, D] and [m, D].

    The seed chooses labels and orders; a probe is trained by Adam for ``epochs``, or fitted by
    L-BFGS in at most ``steps``.
    """

    train: Tensor
    test: Tensor
    data: ImageSet
    seed: int = 0
    epochs: int = 100
    steps: int = 500

    def standardized(self) -> tuple[Tensor, Tensor]:
        """Both parts in float64, scaled so that training images have mean 0 and deviation 1."""
        train = self.train.double()
        center, spread = train.mean(dim=0), train.std(dim=0, correction=0)
        live = spread > 1e-7 * train.abs().amax(dim=0)  # not constant, up to rounding
        scale = torch.where(live, 1 / torch.where(live, spread, 1.0), 0.0)
        return (train - center) * scale, (self.test.double() - center) * scale

    def mean(self, values: NDArray[Any], some: NDArray[np.bool_] | None = None) -> Measured:
        """The mean over all or some test images."""
        numbers = np.asarray(values, dtype=np.float64)
        if some is not None:
            numbers = np.where(some, numbers, np.nan)
        mean = mean_of(numbers)
        if mean is None:
            raise ValueError("there are no test images")
        return replace(mean, rows=("" if some is None else some.tobytes().hex(), len(numbers)))


def _adam_ranks(f: Features, rows: NDArray[np.intp] | None = None) -> NDArray[np.int64]:
    """How many classes have a higher logit than an image's own, [m].

    Logistic regression on all or some training images, from W = 0 by Adam in batches of 128.

    Source: Wang et al. 2023 (sample-specific debiasing), section 3.1.
    """
    train, test = (part.float() for part in f.standardized())
    labels = torch.from_numpy(f.data.train.labels).to(train.device)
    if rows is not None:
        chosen = torch.from_numpy(rows).to(train.device)
        train, labels = train[chosen], labels[chosen]
    generator = torch.Generator().manual_seed(f.seed)
    weights = fit_adam(train, labels, f.epochs, generator)
    return _ranks((test @ weights[:-1] + weights[-1]).cpu().numpy(), f.data.test.labels)


@torch.no_grad()
def fit_adam(
    features: Tensor,
    labels: Tensor,
    epochs: int,
    generator: torch.Generator,
    lr: float = 1e-3,
    batch: int = 128,
) -> Tensor:
    """Weights, and the bias in the last row, [D + 1, K], for features [n, D] and labels [n]."""
    weights = features.new_zeros(features.shape[1] + 1, CLASSES)
    design = torch.cat([features, features.new_ones(len(features), 1)], dim=1)
    target = F.one_hot(labels, CLASSES).to(design.dtype)
    optimizer = torch.optim.Adam([weights], lr=lr)
    for _ in range(epochs):
        order = torch.randperm(len(design), generator=generator).to(design.device)
        for rows in order.split(batch):
            x = design[rows]
            # The gradient of the mean cross-entropy, written out: a graph would cost more.
            weights.grad = x.T @ (torch.softmax(x @ weights, dim=1) - target[rows]) / len(rows)
            optimizer.step()
    return weights


def _lbfgs_ranks(f: Features) -> NDArray[np.int64]:
    """The ranks of :func:`_adam_ranks`, fitted by L-BFGS.

    Source: Tsai et al. 2022 (CCL-K), appendix.
    """
    from sklearn.linear_model import LogisticRegression

    train, test = (part.cpu().numpy() for part in f.standardized())
    probe = LogisticRegression(C=1 / (RIDGE * len(train)), tol=1e-6, max_iter=f.steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the paper's fit also ends after these steps
        probe.fit(train, f.data.train.labels)
    return _ranks(probe.decision_function(test), f.data.test.labels)


def _ranks(logits: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    own = np.take_along_axis(logits, labels[:, None], axis=1)
    return np.asarray((logits > own).sum(axis=1))


def _classes(ranks_of: Callable[[Features], NDArray[np.int64]], f: Features) -> Measures:
    ranks = ranks_of(f)
    top1 = f.mean(100 * (ranks < 1))
    return {"accuracy": top1, "acc@1": top1, "acc@5": f.mean(100 * (ranks < 5))}


def _some(f: Features, part: float) -> NDArray[np.intp]:
    """Rows for a fraction of the labels, at least one of each class."""
    labels = f.data.train.labels
    generator = np.random.default_rng([f.seed, round(1000 * part)])
    rows = []
    for code in np.unique(labels):
        of_class = np.flatnonzero(labels == code)
        count = max(1, round(part * len(of_class)))
        rows.append(generator.permutation(of_class)[:count])
    return np.sort(np.concatenate(rows))


def _labels(f: Features) -> Measures:
    """Accuracy by the fraction of labels to train the probe with (SSD figure 2)."""
    right = 100 * (_adam_ranks(f) < 1)
    thinned = np.isin(f.data.test.labels, THINNED)
    measures = {"accuracy": f.mean(right), "accuracy, thinned classes": f.mean(right, thinned)}
    for part in SOME_LABELS:
        right = 100 * (_adam_ranks(f, _some(f, part)) < 1)
        measures[f"accuracy, {100 * part:g} % of labels"] = f.mean(right)
    return measures


def _digit_color(f: Features) -> Measures:
    """Accuracy for the digit, and the error of a ridge regression for the background's color."""
    from sklearn.linear_model import Ridge

    train, test = (part.cpu().numpy() for part in f.standardized())
    probe = Ridge(alpha=RIDGE * len(train)).fit(train, f.data.train.colors)
    error = ((probe.predict(test) - f.data.test.colors) ** 2).mean(axis=1)
    return _classes(_lbfgs_ranks, f) | {"color MSE": f.mean(error)}


PROBES: Mapping[str, Callable[[Features], Measures]] = {
    "classes": partial(_classes, _adam_ranks),
    "classes-lbfgs": partial(_classes, _lbfgs_ranks),
    "labels": _labels,
    "digit-color": _digit_color,
}
"""The probes by name, each from features to measures."""
