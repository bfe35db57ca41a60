"""Matrix products for inference, packed and plain."""

import pytest
import torch
from torch.nn import functional as F

from cxrtext.language.scoring import linear
from cxrtext.language.scoring.linear import (
    POINTWISE,
    Activation,
    PackedLinear,
    PlainLinear,
    can_pack,
    make_linear,
)

DTYPES = [torch.float32, torch.bfloat16]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 0.05}
"""Results are about 1 in size, and bfloat16 keeps 8 bits."""

ACTIVATIONS: list[Activation] = ["none", "gelu", "gelu_tanh", "relu", "silu"]


def random_product(rows: int = 9) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Input [M, 48], weight [20, 48] and bias [20]; rows of results spread about 1."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(20, 48, generator=generator) / 7
    bias = torch.randn(20, generator=generator)
    return torch.randn(rows, 48, generator=generator), weight, bias


def packed(dtype: torch.dtype) -> PackedLinear:
    # By the processor and not by ``can_pack``, which says no if the products are wrong as well.
    if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("no bfloat16 on this processor")
    _, weight, bias = random_product()
    return PackedLinear(weight, bias, dtype)


def test_the_list_of_activations_is_whole() -> None:
    assert set(ACTIVATIONS) == set(POINTWISE)


def test_plain_by_the_formulas() -> None:
    x, weight, bias = random_product()
    linear_map = PlainLinear(weight, bias, torch.float32)
    y = x @ weight.T + bias
    cubic = 0.7978845608 * (y + 0.044715 * y**3)
    expected: dict[Activation, torch.Tensor] = {
        "none": y,
        "gelu": y * torch.special.ndtr(y),
        "gelu_tanh": 0.5 * y * (1 + torch.tanh(cubic)),
        "relu": y.clamp(min=0),
        "silu": y / (1 + torch.exp(-y)),
    }
    for activation, values in expected.items():
        torch.testing.assert_close(linear_map(x, activation), values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("rows", [1, 9, 1500])
def test_packed_equals_plain(rows: int, activation: Activation, dtype: torch.dtype) -> None:
    x, weight, bias = random_product(rows)
    found = packed(dtype)(x.to(dtype), activation)
    expected = PlainLinear(weight, bias, torch.float32)(x, activation)
    assert found.dtype == dtype
    assert (found.float() - expected).abs().max() < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["packed", "plain"])
def test_adding_leaves_the_residual_as_it_was(kind: str, dtype: torch.dtype) -> None:
    x, weight, bias = random_product()
    product = packed(dtype) if kind == "packed" else PlainLinear(weight, bias, dtype)
    residual = torch.randn(9, 20, generator=torch.Generator().manual_seed(1)).to(dtype)
    before = residual.clone()
    found = product.add_to(residual, x.to(dtype)).float()
    expected = F.linear(x, weight, bias) + before.float()
    assert (found - expected).abs().max() < TOLERANCE[dtype]
    assert torch.equal(residual, before)


def test_later_changes_of_a_packed_model_do_not_reach_it() -> None:
    x, weight, bias = random_product()
    product = packed(torch.float32)
    before = product(x)
    weight.zero_()
    bias.zero_()
    assert torch.equal(product(x), before)


def test_packing_is_refused_where_it_cannot_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    _, weight, bias = random_product()

    def gone(*arguments: object) -> None:
        raise AttributeError("no such operator")

    with monkeypatch.context() as patch:
        patch.setattr(PackedLinear, "__init__", gone)
        assert not can_pack(torch.float32)
        assert isinstance(make_linear(weight, bias, torch.float32), PlainLinear)
    with monkeypatch.context() as patch:
        patch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
        assert not can_pack(torch.float32)


def test_packing_is_refused_where_it_gives_wrong_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    packed(torch.float32)
    right = PackedLinear.__call__
    monkeypatch.setattr(linear.PackedLinear, "__call__", lambda *given: right(*given) + 1.0)
    assert not can_pack(torch.float32)
    assert not can_pack(torch.bfloat16)
