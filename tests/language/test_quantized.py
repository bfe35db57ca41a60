"""Products in 8-bit integers."""

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import BertForMaskedLM

from cxrtext.language.scoring import quantized
from cxrtext.language.scoring.quantized import (
    ZERO,
    IntegerLinear,
    QuantizedProduct,
    Quantizer,
    Range,
    can_quantize,
)
from cxrtext.language.scoring.score import build_network
from tests.language.conftest import SPECIAL, network_scores, random_model

# That it says no for a good reason only: test_precision.py.
pytestmark = pytest.mark.skipif(
    not can_quantize(), reason="no exact integer products on this processor"
)


def integers(least: int, largest: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + largest)
    return torch.randint(least, largest + 1, shape, generator=generator).float()


Whole = tuple[torch.Tensor, torch.Tensor]


@pytest.fixture(scope="module")
def whole() -> Whole:
    """A weight and a bias of integers; 127 in every row makes the row's scale 1."""
    weight = integers(-127, 127, 20, 48)
    weight[:, 7] = 127
    return weight, integers(-100, 100, 20)


@pytest.mark.parametrize("zero", [0, 37, ZERO, 255])
def test_integers_are_multiplied_exactly(zero: int, whole: Whole) -> None:
    weight, bias = whole
    x = integers(0, 255, 9, 48)
    found = IntegerLinear(weight, bias, 0.5, zero)(x.to(torch.uint8), torch.float32)
    assert torch.equal(found, (x - zero) * 0.5 @ weight.T + bias)


@pytest.mark.parametrize("activation", ["none", "relu"])
def test_the_result_is_rounded_to_integers_of_the_new_scale(activation: Any, whole: Whole) -> None:
    weight, bias = whole
    x = integers(-127, 127, 9, 48)
    exact = x @ weight.T + bias
    scale, zero = 512.0, 40  # a power of two, so that nothing is rounded but the result
    found = IntegerLinear(weight, bias, 1.0, ZERO).to_integers(
        (x + ZERO).to(torch.uint8), activation, scale, zero
    )
    active = exact.relu() if activation == "relu" else exact
    expected = ((active / scale).round() + zero).clamp(0, 255)
    assert found.dtype == torch.uint8
    assert torch.equal(found.float(), expected)
    assert expected.unique().numel() > 50


def random_product() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, 96, generator=generator)
    weight = torch.randn(64, 96, generator=generator)
    return x, weight, torch.randn(64, generator=generator)


def smoothed(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    quantize = Quantizer(Range(x.amin(0), x.amax(0)), weight, torch.float32)
    product = IntegerLinear(weight, bias, quantize.scale, ZERO, quantize.smooth)
    return QuantizedProduct(quantize, product)(x)


def unsmoothed(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    scale = float(x.abs().max()) / 127
    whole = ((x / scale).round() + ZERO).to(torch.uint8)
    return IntegerLinear(weight, bias, scale, ZERO)(whole, torch.float32)


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Root mean square, as a share of the spread."""
    return float((found - expected).pow(2).mean().sqrt() / expected.std())


def test_smoothing_leaves_the_product_as_it_was() -> None:
    x, weight, bias = random_product()
    x[:, :40] *= torch.linspace(0.1, 10, 40)
    weight[:, 30:] *= torch.linspace(5, 0.2, 66)
    assert error(smoothed(x, weight, bias), x @ weight.T + bias) < 0.02


def test_one_large_channel_does_not_drown_the_others() -> None:
    x, weight, bias = random_product()
    x[:, 5] *= 100
    weight[:, 5] /= 100  # so that the result still lives on the other channels
    expected = x @ weight.T + bias
    assert error(smoothed(x, weight, bias), expected) < 0.03
    assert error(unsmoothed(x, weight, bias), expected) > 0.2


def test_what_exceeds_the_range_is_clamped_and_does_not_turn_over() -> None:
    x, weight, _ = random_product()
    quantize = Quantizer(Range(x.amin(0), x.amax(0)), weight, torch.float32)
    assert (quantize(x.abs() * 1000) == 255).float().mean() > 0.9
    assert (quantize(x.abs() * -1000) == 1).float().mean() > 0.9


def test_wrong_products_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = IntegerLinear.__call__

    def saturating(self: IntegerLinear, x: torch.Tensor, out: torch.dtype) -> torch.Tensor:
        # As without VNNI: unsigned integers lose what does not fit 16 bits.
        return right(self, x.clamp(max=127), out)

    monkeypatch.setattr(quantized.IntegerLinear, "__call__", saturating)
    assert not can_quantize()


def test_missing_operators_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Mock(side_effect=AttributeError("no such operator"))
    monkeypatch.setattr(quantized.IntegerLinear, "__init__", gone)
    assert not can_quantize()


@pytest.fixture(scope="module")
def larger() -> BertForMaskedLM:
    return random_model(num_hidden_layers=4, width=128, vocab_size=1000, spread=0.1)


SENTENCES = torch.randint(5, 1000, (100, 8), generator=torch.Generator().manual_seed(5))
"""Of one length, so that their order does not follow from it."""


def ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return values.argsort().argsort()


def test_a_network_in_integers_is_near_float32(larger: BertForMaskedLM) -> None:
    exact = network_scores(build_network(larger, SPECIAL, "float32"), SENTENCES)
    found = network_scores(build_network(larger, SPECIAL, "int8"), SENTENCES)
    assert exact.std() > 0.5
    assert np.corrcoef(ranks(found.sum(1)), ranks(exact.sum(1)))[0, 1] > 0.99
    assert 0 < np.abs(found - exact).mean() < 0.06
    assert abs((found - exact).mean()) < 0.02


def test_scores_in_integers_do_not_depend_on_the_company_or_on_chance(
    larger: BertForMaskedLM,
) -> None:
    together = network_scores(build_network(larger, SPECIAL, "int8"), SENTENCES)
    state = torch.random.get_rng_state()
    again = build_network(larger, SPECIAL, "int8")  # scales from random pieces, of a fixed seed
    assert torch.equal(torch.random.get_rng_state(), state)
    alone = np.concatenate([network_scores(again, row[None]) for row in SENTENCES[:20]])
    np.testing.assert_allclose(alone, together[:20], rtol=0, atol=1e-6)
