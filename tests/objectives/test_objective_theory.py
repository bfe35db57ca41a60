"""What the papers prove, as numerical experiments, and where a statement fails as printed."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext import objectives
from cxrtext.models.similarity import lse, lse_nl, non_local_bags

RHO = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
"""Class probabilities of the population, far from uniform."""
THIRD = torch.full((3,), 1 / 3, dtype=torch.float64)


def population(per_class: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Points on the circle, their classes, and their probabilities; classes overlap."""
    generator = torch.Generator().manual_seed(seed)
    classes = torch.arange(3).repeat_interleave(per_class)
    noise = 0.5 * torch.randn(len(classes), generator=generator, dtype=torch.float64)
    angle = 2 * math.pi * classes / 3 + noise
    points = torch.stack([angle.cos(), angle.sin()], dim=1)
    return points, classes, RHO[classes] / per_class


def expectations(scores: Tensor, classes: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """E of e^s over the true negatives and over the anchor's class, exactly, [n]."""
    own = (classes[:, None] == classes) * weight
    other = (classes[:, None] != classes) * weight
    return (scores.exp() * other).sum(1) / other.sum(1), (scores.exp() * own).sum(1) / own.sum(1)


def draw_debiased(
    count: int, extras: int, eta: Tensor, anchors: int, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Debiased losses of drawn anchors, the asymptotic ones, and the classes; γ = 1."""
    points, classes, weight = population(200)
    generator = torch.Generator().manual_seed(seed)
    scores = points @ points.T
    chosen = torch.multinomial(weight, anchors, replacement=True, generator=generator)
    same = (classes[chosen][:, None] == classes).double()
    drawn_same = torch.multinomial(same, extras + 1, replacement=True, generator=generator)
    drawn = torch.multinomial(weight, anchors * count, replacement=True, generator=generator)
    rows = scores[chosen]
    positive, extra = rows.gather(1, drawn_same).split([1, extras], dim=1)
    matrix = torch.cat([positive, rows.gather(1, drawn.reshape(anchors, count))], dim=1)
    first = torch.zeros(anchors, dtype=torch.long)
    c = classes[chosen]
    losses = objectives.debiased(matrix, eta[c], 1.0, extra=extra, positive=first)
    negative, _ = expectations(scores, classes, weight)
    ideal = torch.log1p(count * negative[chosen] / positive.squeeze(1).exp())
    return losses, ideal, c


def test_the_estimate_of_true_negatives_is_consistent() -> None:
    """g tends to E e^s over true negatives as N and M grow, when η = ρ(c_x)."""
    errors = []
    for count in (20, 200, 2000):
        losses, ideal, _ = draw_debiased(count, count, RHO, 500)
        # (e^loss − 1) pos / N is g, so its ratio to the ideal one has no N in it
        errors.append(float((losses.expm1() / ideal.expm1() - 1).square().mean().sqrt()))
    # A hundred times as many samples: a tenth of the error, as of any mean.
    assert errors[2] < 0.2 * errors[0]
    assert errors[2] < 0.1


def test_a_wrong_class_probability_leaves_an_error_that_no_sample_mends() -> None:
    right, ideal, _ = draw_debiased(2000, 2000, RHO, 500)
    wrong, _, _ = draw_debiased(2000, 2000, THIRD, 500)
    assert float((wrong - ideal).abs().mean()) > 5 * float((right - ideal).abs().mean())


@pytest.mark.parametrize("count", [4, 64, 1024])
@pytest.mark.parametrize("extras", [1, 16])
@pytest.mark.parametrize("eta", [(0.6, 0.3, 0.1), (1 / 3, 1 / 3, 1 / 3), (0.0, 0.0, 0.0)])
def test_proposition_2_1_bounds_the_error(
    count: int, extras: int, eta: tuple[float, float, float]
) -> None:
    """Sample-specific debiasing, eq. 9-10, γ = 1."""
    given = torch.tensor(eta, dtype=torch.float64)
    losses, ideal, _ = draw_debiased(count, extras, given, 400)
    inverse = 1 / (1 - RHO)
    bound = 3 * math.e**2 * math.sqrt(math.pi / 2 / count) * float((RHO * inverse).sum())
    bound += 3 * math.e**2 * math.sqrt(math.pi / 2 / extras) * float((RHO * RHO * inverse).sum())
    bound += 3 * math.e**2 * float((RHO * (1 / (1 - given) - inverse).abs()).sum())
    assert abs(float((losses - ideal).mean())) <= bound


def positive_debiased_bound(count: int, tau: float, delta: float = 0.01) -> float:
    """Mitigating distributional biases, eq. 15."""
    first = (1 + (1 - tau) / tau + delta) * math.sqrt(math.pi / (2 * count))
    second = (1 + 1 / tau) * math.sqrt(math.pi / (2 * count + 2))
    return (first + second) * math.exp(1.5)


def test_theorem_2_1_fails_as_printed() -> None:
    """With u ~ p⁻, P_emp tends to E over p⁻, not over p: the two classes here are antipodal.

    Then s(x, v) = s(x, x) = 1 and s(x, u) = −1 without any chance, L tends to log(1 + N) and its
    limit to log(1 + N e^{−2}): they stay 2 apart while the bound goes to 0.
    """
    count, tau = 200_000, 0.5
    positive = torch.ones(1, 1, dtype=torch.float64)
    negative = -torch.ones(1, count, dtype=torch.float64)
    loss = float(objectives.positive_debiased(positive, negative, 1.0, tau, 1.0))
    limit = math.log1p(count * math.exp(-2))
    assert loss - limit == pytest.approx(2.0, abs=0.01)
    assert positive_debiased_bound(count, tau) < 0.1


def test_y_aware_with_a_delta_kernel_is_supervised_minus_log_b() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = 28 * torch.rand(20, 20, generator=generator, dtype=torch.float64) - 14
    labels = torch.randint(4, (20,), generator=generator)
    found = objectives.y_aware(scores, objectives.kernels.delta(labels))
    expected = objectives.supervised(scores, labels[:, None] == labels) - math.log(20)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("gamma_sq", [1.0, 14.0])
def test_without_correction_debiased_and_hard_negatives_are_info_nce(gamma_sq: float) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(12, 12, generator=generator, dtype=torch.float64)
    scores = gamma_sq * (2 * scores - 1)
    expected = objectives.info_nce(scores)
    torch.testing.assert_close(objectives.debiased(scores, 0.0, gamma_sq), expected)
    torch.testing.assert_close(objectives.hard_negative(scores, 0.0, 0.0, gamma_sq), expected)


def test_without_correction_the_floor_acts_where_the_mean_negative_is_below_it() -> None:
    scores = torch.full((4, 4), -2.0, dtype=torch.float64).fill_diagonal_(1.0)
    floored = objectives.debiased(scores, 0.0, 1.0)
    assert (floored > objectives.info_nce(scores)).all()
    torch.testing.assert_close(objectives.hard_negative(scores, 0.0, 0.0, 1.0), floored)


def test_lse_nl_is_minus_one_where_every_region_is_opposite_to_the_sentence() -> None:
    """So −γ² is attained and e^{−γ²} is the tight floor of the debiased loss under LSE+NL."""
    text = F.normalize(torch.arange(1.0, 5.0, dtype=torch.float64), dim=0)[None]
    regions = -text.expand(7, -1)[None]
    for lam in (0.1, 1.0, 10.0, 100.0):
        assert float(lse_nl(regions, text, lam)) == pytest.approx(-1.0, abs=1e-12)


@pytest.mark.parametrize("lam", [0.1, 1.0, 10.0, 100.0])
def test_lse_nl_is_never_below_minus_one_nor_at_it_elsewhere(lam: float) -> None:
    """Both terms keep [−1, 1]: a log-mean-exp lies above the least region, a bag is a unit vector.

    The sum is −1 for the one image whose every region is −t.  Non-local alone reaches −1 for
    others: regions around −t whose mean points there.
    """
    generator = torch.Generator().manual_seed(0)
    text = F.normalize(torch.randn(1, 8, generator=generator, dtype=torch.float64), dim=1)
    for spread in (1e-3, 0.1, 1.0, 10.0):
        noise = torch.randn(300, 9, 8, generator=generator, dtype=torch.float64)
        regions = F.normalize(spread * noise - text, dim=-1)
        scores = lse_nl(regions, text, lam)
        assert -1 < float(scores.min()) <= float(scores.max()) <= 1

    side = torch.zeros(8, dtype=torch.float64)
    side[0] = 1.0
    side = F.normalize(side - (side @ text[0]) * text[0], dim=0)
    pair = torch.stack([side, -side]) * math.sin(0.6) - math.cos(0.6) * text
    evenly = non_local_bags(pair[None], query=lambda r: torch.zeros_like(r))
    assert float(evenly[0, 0] @ text[0]) == pytest.approx(-1.0)
    assert float(lse(pair @ text[0], lam)) == pytest.approx(-math.cos(0.6))
