"""Public functions of losses, against the papers' formulas as plain loops."""

import math

import pytest
import torch

from cxrtext import objectives


def scores(seed: int = 0, size: int = 5) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 4 * torch.randn(size, size, generator=generator, dtype=torch.float64)


def test_info_nce_is_the_cross_entropy_of_the_diagonal() -> None:
    A = scores()
    expected = [
        -math.log(math.exp(A[i, i]) / sum(math.exp(A[i, j]) for j in range(5))) for i in range(5)
    ]
    assert objectives.info_nce(A).tolist() == pytest.approx(expected)


def test_the_debiased_loss_is_that_of_a_loop() -> None:
    """Wang et al. 2023: negatives less the positives expected among them, at least N e^-γ²."""
    A, eta = scores(1), torch.tensor([0.0, 0.01, 0.05, 0.1, 0.3], dtype=torch.float64)
    gamma_sq = 8.0
    found = objectives.debiased(A, eta=eta, gamma_sq=gamma_sq)
    for i in range(5):
        negatives = [math.exp(A[i, j]) for j in range(5) if j != i]
        positive, e = math.exp(A[i, i]), float(eta[i])
        estimate = (sum(negatives) - len(negatives) * e * positive) / (1 - e)
        estimate = max(estimate, len(negatives) * math.exp(-gamma_sq))
        assert float(found[i]) == pytest.approx(-math.log(positive / (positive + estimate)))


def test_without_false_negatives_the_debiased_loss_is_info_nce() -> None:
    A = scores(2)
    found = objectives.debiased(A, eta=torch.zeros(5, dtype=torch.float64), gamma_sq=50.0)
    torch.testing.assert_close(found, objectives.info_nce(A))


def test_class_probability_is_a_times_p_to_the_k() -> None:
    found = objectives.class_probability(torch.tensor([-2.0, -20.0], dtype=torch.float64))
    assert found.tolist() == pytest.approx([0.2 * math.exp(0.35 * ll) for ll in (-2, -20)])


def test_losses_have_gradients_at_a_low_temperature() -> None:
    A = (20 * scores(3)).requires_grad_()
    eta = torch.full((5,), 0.1, dtype=torch.float64)
    objectives.debiased(A, eta=eta, gamma_sq=80.0).mean().backward()
    assert A.grad is not None
    assert bool(A.grad.isfinite().all())
