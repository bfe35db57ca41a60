import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cxrtext.objectives import kernels
from tests.objectives.objective_cases import draw_scores

Kernel = Callable[[Tensor], Tensor]
ALL: list[Kernel] = [
    kernels.rbf,
    kernels.laplacian,
    kernels.linear,
    kernels.cosine,
    kernels.polynomial,
    kernels.delta,
]


def loop(kernel: Kernel, a: list[float], b: list[float]) -> float:
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    if kernel is kernels.rbf:
        return math.exp(-(math.dist(a, b) ** 2) / 2)
    if kernel is kernels.laplacian:
        return math.exp(-sum(abs(x - y) for x, y in zip(a, b, strict=True)))
    if kernel is kernels.linear:
        return dot
    if kernel is kernels.cosine:
        return dot / math.hypot(*a) / math.hypot(*b)
    if kernel is kernels.polynomial:
        return (dot + 1) ** 3
    return float(a == b)


@pytest.mark.parametrize("kernel", ALL)
@pytest.mark.parametrize("columns", [1, 4])
def test_kernels_equal_the_loops(kernel: Kernel, columns: int) -> None:
    z = draw_scores(8, 1.0)[:, :columns]
    z[5] = z[2]
    rows = z.tolist()
    expected = torch.tensor([[loop(kernel, a, b) for b in rows] for a in rows]).double()
    torch.testing.assert_close(kernel(z), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kernel", ALL)
def test_gram_matrices_are_symmetric_and_positive_semidefinite(kernel: Kernel) -> None:
    gram = kernel(draw_scores(12, 2.0)[:, :3])
    torch.testing.assert_close(gram, gram.T)
    assert float(torch.linalg.eigvalsh(gram).min()) > -1e-9


@pytest.mark.parametrize("kernel", ALL)
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_autocast_does_not_coarsen_kernels(kernel: Kernel, half: torch.dtype) -> None:
    z = draw_scores(8, 1.0)[:, :4].float()
    outside = kernel(z)
    with torch.autocast("cpu", half):
        inside = kernel(z)
        of_half = kernel(z.to(half))
    assert inside.dtype == of_half.dtype == torch.float32
    assert torch.equal(inside, outside)
    torch.testing.assert_close(of_half, kernel(z.to(half).float()))


def test_a_vector_is_one_attribute() -> None:
    age = torch.tensor([20, 35, 36])
    assert torch.equal(kernels.rbf(age, 5.0), kernels.rbf(age[:, None].float(), 5.0))
    assert float(kernels.rbf(age, 5.0)[0, 1]) == pytest.approx(math.exp(-(15**2) / 50))
    assert float(kernels.laplacian(age, 5.0)[0, 1]) == pytest.approx(math.exp(-3))


def test_equal_values_have_likeness_1_exactly() -> None:
    z = torch.full((4,), 63.3)
    assert torch.equal(kernels.rbf(z), torch.ones(4, 4))
    assert torch.equal(kernels.laplacian(z), torch.ones(4, 4))


def test_delta_of_large_identifiers_flags_and_several_columns() -> None:
    large = torch.tensor([2**40, 2**40 + 1, 2**40])
    assert torch.equal(kernels.delta(large)[0], torch.tensor([1.0, 0.0, 1.0]))
    assert torch.equal(
        kernels.delta(torch.tensor([True, False, True]))[0, 1:].bool(), large[1:] == large[0]
    )
    both = torch.tensor([[1, 2], [1, 3], [1, 2]])
    assert kernels.delta(both)[0].tolist() == [1.0, 0.0, 1.0]


def test_products() -> None:
    age, sex = torch.tensor([20.0, 35.0, 36.0]), torch.tensor([0, 1, 1])
    gram = kernels.product(kernels.rbf(age, 5.0), kernels.delta(sex))
    assert torch.equal(gram, kernels.rbf(age, 5.0) * kernels.delta(sex))
    assert gram[0].tolist() == [1.0, 0.0, 0.0]
    assert torch.equal(kernels.product(gram), gram)


def test_gradients_of_kernels() -> None:
    z = draw_scores(5, 1.0)[:, :3].requires_grad_()
    for kernel in (kernels.rbf, kernels.linear, kernels.cosine, kernels.polynomial):
        assert torch.autograd.gradcheck(kernel, (z,))


Z = torch.zeros(3)
MISSING = torch.tensor([1.0, math.nan, 2.0])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: kernels.rbf(Z, 0.0), "sigma"),
        (lambda: kernels.laplacian(Z, -1.0), "sigma"),
        (lambda: kernels.rbf(torch.zeros(2, 2, 2)), "z must be"),
        (lambda: kernels.cosine(Z), "zeros in row 0"),
        (lambda: kernels.polynomial(Z, 0), "degree"),
        (lambda: kernels.product(), "alike"),
        (lambda: kernels.product(torch.eye(2), torch.eye(3)), "alike"),
        *((lambda kernel=kernel: kernel(MISSING), "not finite in row 1") for kernel in ALL),
    ],
)
def test_wrong_arguments_of_kernels(call: object, says: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=says):
        call()
