"""What frozen features hold: linear maps of classes and numbers, and the probes of each table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.evaluation.probes.linear_probe import fit_probe
from cxrtext.experiments.data.images import ImageSet, SplitImages
from cxrtext.experiments.data.sets import THINNED
from cxrtext.experiments.stages import Measures
from cxrtext.metrics.intervals import Measured, area, average, mean_of
from cxrtext.metrics.ranking import patient_codes

Solver = Literal["adam", "lbfgs"]
RIDGE = 1e-2
"""Of the probes of yes-or-no findings; the same for every row."""
RIDGE_OF_NUMBERS = 1e-4
"""Of regressions: mean squared error + ridge · ‖W‖² over standardized features."""
SOME_LABELS = (0.01, 0.1)


@dataclass(frozen=True, slots=True)
class LinearMap:
    """A linear map of features, weights [D, K] and bias [K]."""

    weights: Tensor
    bias: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """Outputs of rows of features, [n, D] -> [n, K], on the map's device and in its type."""
        return features.to(self.weights) @ self.weights + self.bias


def fit_classes(
    features: Tensor,
    labels: Tensor,
    classes: int | None = None,
    *,
    solver: Solver = "lbfgs",
    reference: Tensor | None = None,
    ridge: float = 1e-4,
    steps: int = 500,
    lr: float = 1e-3,
    epochs: int = 100,
    batch: int = 128,
    seed: int = 0,
) -> LinearMap:
    """Fit a multinomial logistic regression of frozen features.

    Of features [n, D] and labels [n], int64, from 0.  Features are brought to the mean 0 and the
    deviation 1 of ``reference`` (such as all training features where few have labels) first; the
    map returned takes them as they are.

    "lbfgs" minimizes mean cross-entropy + ridge / 2 · ‖W‖² over all rows, in float64, the bias not
    penalized, in at most ``steps`` iterations; "adam" takes steps of batches in float32, from
    W = 0, ``epochs`` passes each in an order of its own.

    Source: Wang et al. 2023 (sample-specific debiasing), section 3.1, for Adam; Tsai et al. 2022
        (CCL-K), appendix, for L-BFGS.
    """
    classes = int(labels.max()) + 1 if classes is None else classes
    dtype = torch.float64 if solver == "lbfgs" else torch.float32
    center, scale = _standard(features if reference is None else reference, dtype)
    design = (features.to(dtype) - center) * scale
    labels = labels.to(design.device)
    if solver == "lbfgs":
        weights, bias = _by_lbfgs(design, labels, classes, ridge, steps)
    else:
        generator = torch.Generator().manual_seed(seed)
        weights, bias = _by_adam(design, labels, classes, lr, epochs, batch, generator)
    weights = weights * scale[:, None]
    return LinearMap(weights, bias - center @ weights)


def _standard(features: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Mean, and one over the deviation: 0 for what is the same everywhere, up to rounding."""
    every = features.double()
    center, spread = every.mean(dim=0), every.std(dim=0, correction=0)
    live = spread > 1e-7 * every.abs().amax(dim=0)
    return center.to(dtype), torch.where(live, 1 / torch.where(live, spread, 1.0), 0.0).to(dtype)


@torch.enable_grad()
def _by_lbfgs(
    design: Tensor, labels: Tensor, classes: int, ridge: float, steps: int
) -> tuple[Tensor, Tensor]:
    weights = design.new_zeros(design.shape[1], classes, requires_grad=True)
    bias = design.new_zeros(classes, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weights, bias],
        max_iter=steps,
        history_size=20,
        tolerance_grad=1e-7,
        tolerance_change=1e-12,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(torch.addmm(bias, design, weights), labels)
        loss = loss + ridge / 2 * weights.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return weights.detach(), bias.detach()


@torch.no_grad()
def _by_adam(
    design: Tensor,
    labels: Tensor,
    classes: int,
    lr: float,
    epochs: int,
    batch: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    weights = design.new_zeros(design.shape[1] + 1, classes)
    design = torch.cat([design, design.new_ones(len(design), 1)], dim=1)
    wanted = F.one_hot(labels, classes).to(design.dtype)
    optimizer = torch.optim.Adam([weights], lr=lr)
    batch = min(batch, len(design))
    for _ in range(epochs):
        for rows in torch.randperm(len(design), generator=generator).to(design.device).split(batch):
            x = design[rows]
            # The gradient of the mean cross-entropy, written out: a graph costs more than it.
            weights.grad = x.T @ (torch.softmax(x @ weights, dim=1) - wanted[rows]) / len(rows)
            optimizer.step()
    return weights[:-1], weights[-1]


@dataclass(frozen=True, slots=True)
class Features:
    """Frozen features of a set, [n, D] and [m, D].

    The seed chooses labels and orders; a probe is trained by Adam for so many epochs, or fitted by
    L-BFGS in so many steps.
    """

    train: Tensor
    test: Tensor
    held: ImageSet
    seed: int
    epochs: int
    steps: int

    def share(self, right: NDArray[Any], factor: float = 1.0) -> Measured:
        return _mean(right, factor, self.held.test)


def _mean(values: NDArray[Any], factor: float, part: SplitImages) -> Measured:
    """The mean of a value of each test image, by unit."""
    units = part.units.tolist()
    found = mean_of(np.asarray(values, dtype=np.float64) * factor, units)
    assert found is not None  # noqa: S101 - a set has test images
    return replace(found, rows=tuple(units))


def _tensor(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))


def _fit(
    f: Features, solver: Solver, target: str, rows: NDArray[np.intp] | None = None
) -> LinearMap:
    labels = f.held.train.targets[target].astype(np.int64)
    classes = int(max(labels.max(), f.held.test.targets[target].max())) + 1
    features = f.train
    if rows is not None:
        features, labels = features[_tensor(rows).to(features.device)], labels[rows]
    return fit_classes(
        features,
        _tensor(labels).to(features.device),
        classes,
        solver=solver,
        reference=f.train,
        steps=f.steps,
        epochs=f.epochs,
        seed=f.seed,
    )


def _ranks(f: Features, probe: LinearMap, target: str) -> tuple[NDArray[np.int64], Any]:
    """How many classes have a higher logit than an image's own, [m], and the classes, [m]."""
    truth = f.held.test.targets[target].astype(np.int64)
    logits = probe(f.test)
    own = logits.gather(1, _tensor(truth).to(logits.device)[:, None])
    return (logits > own).sum(dim=1).cpu().numpy(), truth


def _class_probe(solver: Solver) -> Callable[[Features], Measures]:
    def probe(f: Features) -> Measures:
        ranks, _ = _ranks(f, _fit(f, solver, "class"), "class")
        top1 = f.share(ranks < 1, 100)
        return {"accuracy": top1, "acc@1": top1, "acc@5": f.share(ranks < 5, 100)}

    return probe


def _some(f: Features, part: float) -> NDArray[np.intp]:
    """Rows of a fraction of the labels: at least one of each class."""
    labels = f.held.train.targets["class"]
    generator = np.random.default_rng([f.seed, round(1000 * part)])
    rows = []
    for one in np.unique(labels):
        own = np.flatnonzero(labels == one)
        rows.append(generator.permutation(own)[: max(1, round(part * len(own)))])
    return np.sort(np.concatenate(rows))


def _labels(f: Features) -> Measures:
    """Accuracy by the fraction of labels that the probe is trained with (SSD figure 2)."""
    ranks, truth = _ranks(f, _fit(f, "adam", "class"), "class")
    found = {"accuracy": f.share(ranks < 1, 100)}
    thinned = np.isin(truth, [f.held.names.index(name) for name in THINNED])
    part = SplitImages(f.held.test.images, f.held.test.units[thinned], {})
    found["accuracy, thinned classes"] = _mean(ranks[thinned] < 1, 100, part)
    for some in SOME_LABELS:
        ranks, _ = _ranks(f, _fit(f, "adam", "class", _some(f, some)), "class")
        found[f"accuracy, {100 * some:g} % of labels"] = f.share(ranks < 1, 100)
    return found


def _digit_color(f: Features) -> Measures:
    """Accuracy of the digit, and the error of a ridge regression of its background's color."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    found = _class_probe("lbfgs")(f)
    colors = {part: getattr(f.held, part).targets["color"] for part in ("train", "test")}
    design, seen = (x.double().cpu().numpy() for x in (f.train, f.test))
    probe = make_pipeline(StandardScaler(), Ridge(alpha=RIDGE_OF_NUMBERS * len(design)))
    guess = probe.fit(design, colors["train"]).predict(seen)
    found["color MSE"] = f.share(((guess - colors["test"]) ** 2).mean(axis=1))
    return found


def _findings(f: Features) -> Measures:
    train, test = (part.targets["findings"] for part in (f.held.train, f.held.test))
    design, seen = (x.double().cpu().numpy() for x in (f.train, f.test))
    codes = patient_codes(f.held.test.units.tolist(), len(test))
    areas = []
    for column in range(test.shape[1]):
        if min(len(np.unique(train[:, column])), len(np.unique(test[:, column]))) < 2:
            continue
        scores = fit_probe(design, train[:, column], RIDGE).logits(seen)
        areas.append(area(scores, test[:, column], codes, int(codes.max()) + 1))
    if not areas:
        return {}
    return {"AUC": replace(average(areas), rows=tuple(f.held.test.units.tolist()))}


def _findings_site(f: Features) -> Measures:
    ranks, _ = _ranks(f, _fit(f, "lbfgs", "site"), "site")
    return _findings(f) | {"site accuracy": f.share(ranks < 1, 100)}


def _kinds(f: Features) -> Measures:
    ranks, _ = _ranks(f, _fit(f, "lbfgs", "kind"), "kind")
    return {"accuracy": f.share(ranks < 1, 100)} | _findings(f)


PROBES: Mapping[str, Callable[[Features], Measures]] = {
    "classes": _class_probe("adam"),
    "classes-lbfgs": _class_probe("lbfgs"),
    "labels": _labels,
    "digit-color": _digit_color,
    "findings": _findings,
    "findings-site": _findings_site,
    "kinds": _kinds,
}
"""By the name that a group gives: from features to measures."""
