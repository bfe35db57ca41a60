"""What the papers prove, as numerical experiments, and where a statement fails as printed."""

import math
from collections.abc import Sequence

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


def test_vectors_that_are_not_unit_break_the_floor() -> None:
    """The floor is a bound because regions and sentences are normalized, and for no other cause."""
    text = torch.tensor([[1.0, 0.0]])
    assert float(lse_nl(-1.5 * text[None], text, 10.0)) < -1.2


def exact(points: Tensor, classes: Tensor, eta: Tensor, negatives: float) -> tuple[Tensor, Tensor]:
    """Asymptotic losses L̄(f, Q) of all pairs of a class, and the anchor of each; γ = 1.

    The population holds each point as often as its class is probable, so that the mean over it is
    the expectation, and likewise over a class: g of the objective has no chance left in it.
    """
    scores = points @ points.T
    same = classes[:, None] == classes
    anchor, positive = same.nonzero(as_tuple=True)
    rows = torch.cat([scores[anchor, positive][:, None], scores[anchor]], dim=1)
    extra = scores[anchor].masked_fill(~same[anchor], -torch.inf)
    first = torch.zeros(len(anchor), dtype=torch.long)
    losses = objectives.debiased(rows, eta[classes[anchor]], 1.0, extra=extra, positive=first)
    # The objective's N is the population's size: e^loss − 1 is N g / pos.
    return torch.log1p(negatives / len(points) * losses.expm1()), anchor


def mean_over_pairs(losses: Tensor, anchor: Tensor) -> float:
    """E over x ~ D and x⁺ ~ D_c."""
    each = torch.zeros(int(anchor.max()) + 1, dtype=torch.float64)
    return float(each.scatter_reduce(0, anchor, losses, "mean", include_self=False).mean())


def mean_classifier(points: Tensor, classes: Tensor) -> float:
    """Cross entropy of the classifier whose rows are the classes' means."""
    means = torch.stack([points[classes == one].mean(0) for one in classes.unique()])
    return float(F.cross_entropy(points @ means.T, classes))


def drawn_classes(rho: Sequence[int], spread: float) -> tuple[Tensor, Tensor]:
    """Points on the circle around the directions of their classes, ``rho`` of each class."""
    classes = torch.arange(len(rho)).repeat_interleave(torch.tensor(rho))
    generator = torch.Generator().manual_seed(0)
    noise = spread * torch.randn(len(classes), generator=generator, dtype=torch.float64)
    angle = 2 * math.pi * classes / len(rho) + noise
    return torch.stack([angle.cos(), angle.sin()], dim=1), classes


def test_lemma_a_2_is_an_equality_for_equal_classes_of_one_point() -> None:
    """SSD Lemma A.2, eq. 18-25: every step is tight there; with fewer negatives the bound fails."""
    points, classes = drawn_classes((4, 4, 4), 0.0)
    bounded = mean_classifier(points, classes)
    found = [mean_over_pairs(*exact(points, classes, THIRD, count)) for count in (2.0, 1.9)]
    assert found[0] == pytest.approx(bounded, rel=1e-12)
    assert found[1] < bounded


@pytest.mark.parametrize("spread", [0.0, 0.4, 2.0])
def test_lemma_a_2_bounds_the_mean_classifier(spread: float) -> None:
    """SSD Lemma A.2: L_sup-μ ≤ L̄(f, N) for N ≥ (1 − ρ_min) / ρ_min, here 9."""
    points, classes = drawn_classes((6, 3, 1), spread)
    bound = mean_over_pairs(*exact(points, classes, RHO, 9.0))
    assert mean_classifier(points, classes) <= bound
