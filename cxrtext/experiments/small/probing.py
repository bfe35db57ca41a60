"""What frozen features tell: the probes of each kind of group, on every resample."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.datasets.small.subsets import THINNED
from cxrtext.evaluation import area_under_curve
from cxrtext.evaluation.bootstrap import Resampled, draw
from cxrtext.evaluation.linear_probe import fit_probe
from cxrtext.evaluation.metrics import weighted_mean
from cxrtext.experiments.measures import Measures
from cxrtext.experiments.simclr.class_probe import LinearMap, fit_classes, fit_numbers
from cxrtext.experiments.small.small_set import Part, SmallSet

RIDGE = 1e-2
"""Of the probes of yes-or-no findings; the same for every row."""

SOME_LABELS = (0.01, 0.1)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Features:
    """Frozen features of a set.

    Args:
        train: [n, D].
        test: [m, D].
        held: The set.
        counts: [R, m], the resamples of the test images.
        seed: Of the run; it chooses labels and orders, not resamples.
        epochs: Of a probe trained by Adam.
        steps: Of one fitted by L-BFGS.
    """

    train: Tensor
    test: Tensor
    held: SmallSet
    counts: NDArray[np.uint16]
    seed: int
    epochs: int
    steps: int

    def share(self, right: NDArray[Any], factor: float = 1.0) -> Resampled:
        """The mean of a value a test image, on every resample."""
        return _mean(right, factor, self.counts, self.held.test)


def resamples_of(part: Part, resamples: int) -> NDArray[np.uint16]:
    """Resamples of test images by unit, the same for every row and seed, [R, m]."""
    return draw(part.units.tolist(), resamples, (0, 0))


def _mean(values: NDArray[Any], factor: float, counts: NDArray[np.uint16], part: Part) -> Resampled:
    numbers = np.asarray(values, dtype=np.float64) * factor
    resampled = weighted_mean(numbers, counts) if len(counts) else np.zeros(0)
    return Resampled(float(numbers.mean()), resampled, tuple(part.units.tolist()))


def _tensor(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))


def _fit(f: Features, solver: str, target: str, rows: NDArray[np.intp] | None = None) -> LinearMap:
    labels = f.held.train.targets[target].astype(np.int64)
    classes = int(max(labels.max(), f.held.test.targets[target].max())) + 1
    features = f.train
    if rows is not None:
        features, labels = features[_tensor(rows).to(features.device)], labels[rows]
    return fit_classes(
        features,
        _tensor(labels).to(features.device),
        classes,
        solver="adam" if solver == "adam" else "lbfgs",
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
    ranks: NDArray[np.int64] = (logits > own).sum(dim=1).cpu().numpy()
    return ranks, truth


def _class_probe(solver: str) -> Callable[[Features], Measures]:
    """Accuracy among the first one and five classes, under the names of both papers."""

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
    part = Part(f.held.test.images, f.held.test.units[thinned], {})
    found["accuracy, thinned classes"] = _mean(ranks[thinned] < 1, 100, f.counts[:, thinned], part)
    for some in SOME_LABELS:
        ranks, _ = _ranks(f, _fit(f, "adam", "class", _some(f, some)), "class")
        found[f"accuracy, {100 * some:g} % of labels"] = f.share(ranks < 1, 100)
    return found


def _digit_color(f: Features) -> Measures:
    found = _class_probe("lbfgs")(f)
    colors = {part: getattr(f.held, part).targets["color"] for part in ("train", "test")}
    probe = fit_numbers(f.train, _tensor(colors["train"]).to(f.train.device))
    told = probe(f.test).cpu().numpy()
    found["color MSE"] = f.share(((told - colors["test"]) ** 2).mean(axis=1))
    return found


def _findings(f: Features) -> Measures:
    """Mean AUC of the findings that both parts have with and without."""
    train, test = (part.targets["findings"] for part in (f.held.train, f.held.test))
    design, seen = (x.double().cpu().numpy() for x in (f.train, f.test))
    ones = np.ones((1, len(test)), dtype=np.uint16)
    areas: list[Floats] = []
    for column in range(test.shape[1]):
        if min(len(np.unique(train[:, column])), len(np.unique(test[:, column]))) < 2:
            continue
        scores = fit_probe(design, train[:, column], RIDGE).logits(seen)
        areas.append(area_under_curve(scores, test[:, column], np.concatenate([ones, f.counts])))
    if not areas:
        return {}
    mean = np.mean(areas, axis=0)
    units = tuple(f.held.test.units.tolist())
    return {"AUC": Resampled(float(mean[0]), mean[1:], units)}


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
