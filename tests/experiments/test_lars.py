import numpy as np
import pytest
import torch
from torch import nn

from cxrtext.experiments.view_training import Lars


def plain_steps(
    weights: np.ndarray, gradients: list[np.ndarray], *, adapt: bool, decay: float
) -> np.ndarray:
    """Algorithm 1 of You et al., layer by layer; lr 0.5, momentum 0.9, trust 0.001."""
    w, v = weights.astype(np.float64), np.zeros_like(weights, dtype=np.float64)
    for g in gradients:
        rate, beta = 1.0, decay if adapt else 0.0
        if adapt and np.linalg.norm(w) > 0 and np.linalg.norm(g) > 0:
            rate = float(0.001 * np.linalg.norm(w) / (np.linalg.norm(g) + beta * np.linalg.norm(w)))
        v = 0.9 * v + 0.5 * rate * (g + beta * w)
        w = w - v
    return w


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_steps_against_the_plain_formula(decay: float) -> None:
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(s, generator=generator) for s in ((4, 3), (2, 3, 3, 3), (5,), (3, 2))]
    start[3].zero_()  # a layer of zeros has no size of its own
    weights = [nn.Parameter(w.clone()) for w in start]
    optimizer = Lars(weights, lr=0.5, weight_decay=decay)
    given = [[torch.randn(w.shape, generator=generator) for w in start] for _ in range(3)]
    for gradients in given:
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient.clone()
        optimizer.step()
    for i, (weight, first) in enumerate(zip(weights, start, strict=True)):
        seen = [gradients[i].numpy() for gradients in given]
        expected = plain_steps(first.numpy(), seen, adapt=first.ndim > 1, decay=decay)
        assert np.abs(weight.detach().numpy() - expected).max() < 1e-5
