"""What frozen features hold of several classes, or of a few numbers: linear maps.

:mod:`cxrtext.evaluation.probe` is the one of a finding that is there or not, with the ridge chosen
on validation images.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Solver = Literal["adam", "lbfgs"]


@dataclass(frozen=True, slots=True)
class LinearMap:
    """A linear map of features.

    Args:
        weights: [D, K].
        bias: [K].
    """

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

    Features are brought to mean 0 and deviation 1 first; the map returned takes them as they are.

    Args:
        features: [n, D], finite; where they lie is where it is fitted.
        labels: [n], int64, from 0.
        classes: K; by default one more than the largest label.
        solver: "lbfgs" minimises mean cross-entropy + ridge / 2 · ‖W‖² over all rows, in float64;
            "adam" takes steps of batches in float32, from W = 0.
        reference: [m, D], the features whose mean and deviation standardise, such as all training
            features where few of them have labels; by default ``features``.
        ridge: L-BFGS: at least 0; the bias is not penalised.
        steps: L-BFGS: most iterations.
        lr: Adam's learning rate.
        epochs: Adam: passes over the rows, each in an order of its own.
        batch: Adam: rows a step, at most n.
        seed: Adam: of the orders.

    Raises:
        ValueError: The shapes do not fit, features are not finite, or an option is out of range.

    Source: Wang et al. 2023 (sample-specific debiasing), section 3.1, for Adam; Tsai et al. 2022
        (CCL-K), appendix, for L-BFGS.
    """
    classes = _checked(features, labels, classes)
    dtype = torch.float64 if solver == "lbfgs" else torch.float32
    centre, scale = _standard(features if reference is None else reference, dtype)
    design = (features.to(dtype) - centre) * scale
    labels = labels.to(design.device)
    if solver == "lbfgs":
        if not 0 <= ridge < math.inf:
            raise ValueError(f"ridge must be at least 0 and finite, not {ridge}")
        weights, bias = _by_lbfgs(design, labels, classes, ridge, steps)
    elif solver == "adam":
        generator = torch.Generator().manual_seed(seed)
        weights, bias = _by_adam(design, labels, classes, lr, epochs, batch, generator)
    else:
        raise ValueError(f"no solver '{solver}'; there are adam and lbfgs")
    weights = weights * scale[:, None]
    return LinearMap(weights, bias - centre @ weights)


def _checked(features: Tensor, labels: Tensor, classes: int | None) -> int:
    if features.ndim != 2 or labels.shape != features.shape[:1] or not features.numel():
        raise ValueError(
            f"features must be [n, D] and labels [n], got {tuple(features.shape)} and "
            f"{tuple(labels.shape)}"
        )
    if not bool(torch.isfinite(features).all()):
        raise ValueError("features must be finite")
    classes = int(labels.max()) + 1 if classes is None else classes
    if labels.dtype != torch.int64 or int(labels.min()) < 0 or int(labels.max()) >= classes:
        raise ValueError(f"labels must be int64, from 0 and below {classes}")
    return classes


def _standard(features: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Mean, and one over the deviation: 0 for what is the same everywhere, up to rounding."""
    every = features.double()
    centre, spread = every.mean(dim=0), every.std(dim=0, correction=0)
    live = spread > 1e-7 * every.abs().amax(dim=0)
    scale = torch.where(live, 1 / torch.where(live, spread, 1.0), 0.0)
    return centre.to(dtype), scale.to(dtype)


@torch.enable_grad()
def _by_lbfgs(
    design: Tensor, labels: Tensor, classes: int, ridge: float, steps: int
) -> tuple[Tensor, Tensor]:
    weights = design.new_zeros(design.shape[1], classes, requires_grad=True)
    bias = design.new_zeros(classes, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [weights, bias],
        max_iter=steps,
        history_size=20,
        tolerance_grad=1e-7,
        tolerance_change=1e-12,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = F.cross_entropy(torch.addmm(bias, design, weights), labels)
        loss = loss + ridge / 2 * weights.square().sum()
        loss.backward()
        return loss

    optimiser.step(closure)
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
    optimiser = torch.optim.Adam([weights], lr=lr)
    batch = min(batch, len(design))
    for _ in range(epochs):
        order = torch.randperm(len(design), generator=generator).to(design.device)
        for rows in order.split(batch):
            x = design[rows]
            # The gradient of the mean cross-entropy, written out: a graph costs more than it.
            weights.grad = x.T @ (torch.softmax(x @ weights, dim=1) - wanted[rows]) / len(rows)
            optimiser.step()
    return weights[:-1], weights[-1]


def fit_numbers(features: Tensor, targets: Tensor, *, ridge: float = 1e-4) -> LinearMap:
    """Fit a ridge regression of a few numbers, in closed form and float64.

    It minimises mean squared error + ridge · ‖W‖² over standardised features; the map returned
    takes them as they are.  The bias is not penalised.

    Args:
        features: [n, D], finite.
        targets: [n, K], finite.
        ridge: At least 0; above 0 where features depend on each other.

    Raises:
        ValueError: The shapes do not fit, a value is not finite, or the ridge is out of range.
    """
    if features.ndim != 2 or targets.ndim != 2 or len(features) != len(targets) or not len(targets):
        raise ValueError(
            f"features must be [n, D] and targets [n, K], got {tuple(features.shape)} and "
            f"{tuple(targets.shape)}"
        )
    if not (bool(torch.isfinite(features).all()) and bool(torch.isfinite(targets).all())):
        raise ValueError("features and targets must be finite")
    if not 0 <= ridge < math.inf:
        raise ValueError(f"ridge must be at least 0 and finite, not {ridge}")
    centre, scale = _standard(features, torch.float64)
    design = (features.double() - centre) * scale
    wanted = targets.double().to(design.device)
    bias = wanted.mean(dim=0)
    # A feature that is the same everywhere has a column of zeros, and so a weight of 0.
    gram = design.T @ design / len(design)
    gram.diagonal().add_(ridge).add_((scale == 0).double())
    weights = torch.linalg.solve(gram, design.T @ (wanted - bias) / len(design))
    weights = weights * scale[:, None]
    return LinearMap(weights, bias - centre @ weights)
