"""Layers whose products run in 8-bit integers.

Weights are symmetric, one scale a row.  Activations have one scale a tensor, fixed beforehand, so
that a sentence's score does not depend on what it shared a batch with.  Channels that are much
larger than the others are shrunk on the activations' side and grown in the weights, which leaves
the product as it was (Xiao et al. 2023, SmoothQuant, eq. 3-4).
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import BertForMaskedLM
from transformers.models.bert.modeling_bert import BertLayer

from cxrtext.errors import ConfigError
from cxrtext.language.scoring.linear import POINTWISE, Activation, can_pack
from cxrtext.language.scoring.network import (
    ACTIVATIONS,
    Layer,
    MaskedNetwork,
    Norm,
    SpecialIds,
    attention_weights,
    layers_of,
    make_network,
    masked_copies,
)

LEVELS = 127  # largest number of a signed 8-bit integer that is used

ZERO = 128
"""The unsigned integer that stands for an activation of 0.  Signed ones would do without, but are
fast on processors with AMX alone: on others oneDNN was measured a thousand times slower."""

SMOOTHING = 0.5
"""How much of the difficulty goes from the activations to the weights (SmoothQuant's alpha)."""


@dataclass(slots=True)
class Range:
    """Least and largest value of each channel of a product's input, [K], over the calibration."""

    min: Tensor
    max: Tensor

    def widen(self, x: Tensor) -> None:
        """Take [M, K] into account."""
        self.min = torch.minimum(self.min, x.amin(0))
        self.max = torch.maximum(self.max, x.amax(0))

    @property
    def magnitude(self) -> Tensor:
        """Largest absolute value of each channel, [K]."""
        return torch.maximum(self.min.abs(), self.max.abs()).clamp(min=1e-6)


@dataclass(slots=True)
class Ranges:
    """The ranges of every product's input, by layer and name; an observer of a network."""

    found: dict[tuple[int, str], Range] = field(default_factory=dict)

    def __call__(self, layer: int, name: str, x: Tensor) -> None:
        """Take an input, [M, K], into account."""
        x = x.float()
        if (layer, name) in self.found:
            self.found[layer, name].widen(x)
        else:
            self.found[layer, name] = Range(x.amin(0), x.amax(0))


class IntegerLinear:
    """A product of 8-bit integers, accumulated in 32 bits; ``weight`` is [N, K], ``bias`` [N].

    ``zero`` is the integer that stands for 0, ``smooth`` [K] what the input's channels were divided
    by.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor, scale: float, zero: int, smooth: Tensor | None = None
    ) -> None:
        grown = weight.detach().float() if smooth is None else weight.detach().float() * smooth
        self.scales = (grown.abs().amax(1) / LEVELS).clamp(min=1e-12)  # [N]
        integers = (grown / self.scales[:, None]).round_().clamp_(-LEVELS, LEVELS)
        self.weight = torch.ops.onednn.qlinear_prepack(integers.to(torch.int8), None)
        self.zeros = torch.zeros(len(bias), dtype=torch.int64)
        self.bias = bias.detach().float()
        self.scale, self.zero = scale, zero

    def _operands(self, x: Tensor) -> tuple[Any, ...]:
        return x, self.scale, self.zero, self.weight, self.scales, self.zeros

    def __call__(self, x: Tensor, out: torch.dtype) -> Tensor:
        """Map integers [M, K] to [M, N]."""
        y: Tensor = torch.ops.onednn.qlinear_pointwise(
            *self._operands(x), self.bias, 1.0, 0, out, "none", [], ""
        )
        return y

    def to_integers(self, x: Tensor, activation: Activation, scale: float, zero: int) -> Tensor:
        """Map integers [M, K] to activated unsigned integers [M, N] of another scale."""
        name, algorithm = POINTWISE[activation]
        y: Tensor = torch.ops.onednn.qlinear_pointwise(
            *self._operands(x), self.bias, scale, zero, torch.uint8, name, [], algorithm
        )
        return y

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Map integers [M, K] to [M, N] and add [M, N]."""
        add: Any = (residual.dtype, 1.0, 0, "add", 1.0, "none", [], "")
        y: Tensor = torch.ops.onednn.qlinear_pointwise.binary(
            *self._operands(x), residual, self.bias, 1.0, 0, *add
        )
        return y


class Quantizer:
    """Turns activations into 8-bit integers, channel by channel shrunk; ``weight`` is [N, K]."""

    def __init__(self, found: Range, weight: Tensor, dtype: torch.dtype) -> None:
        size = weight.detach().float().abs().amax(0).clamp(min=1e-6)  # [K]
        smooth = found.magnitude**SMOOTHING / size ** (1 - SMOOTHING)
        self.smooth = smooth / smooth.mean()
        self.scale = float((found.magnitude / self.smooth).amax()) / LEVELS
        self.factor = (1.0 / (self.smooth * self.scale)).to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """Map [M, K] to unsigned integers [M, K], ``ZERO`` for 0."""
        whole = x.mul(self.factor).round_().clamp_(-LEVELS, LEVELS).to(torch.int8)
        # Turning the highest bit adds 128, and takes half the time of adding before the conversion.
        return whole.view(torch.uint8).bitwise_xor_(ZERO)


@dataclass(frozen=True, slots=True)
class QuantizedProduct:
    """A product whose input is made integers first."""

    quantize: Quantizer
    product: IntegerLinear

    def __call__(self, x: Tensor) -> Tensor:
        return self.product(self.quantize(x), x.dtype)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return self.product.add_to(residual, self.quantize(x))


class QuantizedFeedForward:
    """Widen, activate, narrow; between the two there are integers only."""

    def __init__(
        self,
        layer: BertLayer,
        middle: Range,
        activated: Range,
        activation: Activation,
        dtype: torch.dtype,
    ) -> None:
        widen, narrow = layer.intermediate.dense, layer.output.dense
        self.quantize = Quantizer(middle, widen.weight, dtype)
        self.widen = IntegerLinear(
            widen.weight, widen.bias, self.quantize.scale, ZERO, self.quantize.smooth
        )
        least = min(0.0, float(activated.min.min()))
        largest = max(1e-6, float(activated.max.max()))
        self.scale = (largest - least) / 255
        self.zero = round(-least / self.scale)
        self.narrow = IntegerLinear(narrow.weight, narrow.bias, self.scale, self.zero)
        self.activation = activation

    def widened(self, x: Tensor) -> Tensor:
        """What stands between the two, [M, 4 D], as integers."""
        return self.widen.to_integers(self.quantize(x), self.activation, self.scale, self.zero)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return self.narrow.add_to(residual, self.widened(x))


def make_quantized_layer(
    layer: BertLayer, number: int, ranges: Ranges, dtype: torch.dtype, hidden_act: str
) -> Layer:
    """Arrange one of transformers' BERT layers for inference in integers."""
    found = {name: ranges.found[number, name] for name in ("input", "mixed", "middle", "activated")}
    weight, bias = attention_weights(layer)
    width = weight.shape[1]
    mix = layer.attention.output
    into = Quantizer(found["input"], weight, dtype)
    mixed = Quantizer(found["mixed"], mix.dense.weight, dtype)

    def part(rows: slice) -> QuantizedProduct:
        return QuantizedProduct(
            into, IntegerLinear(weight[rows], bias[rows], into.scale, ZERO, into.smooth)
        )

    return Layer(
        qkv=part(slice(None)),
        query=part(slice(None, width)),
        key_value=part(slice(width, None)),
        mix=QuantizedProduct(
            mixed, IntegerLinear(mix.dense.weight, mix.dense.bias, mixed.scale, ZERO, mixed.smooth)
        ),
        feed=QuantizedFeedForward(
            layer, found["middle"], found["activated"], ACTIVATIONS[hidden_act], dtype
        ),
        attention_norm=Norm(mix.LayerNorm, dtype),
        output_norm=Norm(layer.output.LayerNorm, dtype),
    )


def _exact_at_the_limits() -> bool:
    """Whether the largest integers are multiplied exactly.

    Processors without VNNI add products in pairs, in 16 bits, which saturate: seldom, and silently.
    """
    product = IntegerLinear(torch.full((32, 48), float(LEVELS)), torch.zeros(32), 1.0, 0)
    y = product(torch.full((16, 48), 255, dtype=torch.uint8), torch.float32)
    return bool(y.eq(255 * LEVELS * 48).all())


def can_quantize() -> bool:
    """Whether oneDNN multiplies 8-bit integers on this machine, and gets it right."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(32, 48, generator=generator)
    bias, x = torch.randn(32, generator=generator), torch.randn(16, 48, generator=generator)
    try:
        quantize = Quantizer(Range(x.amin(0), x.amax(0)), weight, torch.float32)
        product = IntegerLinear(weight, bias, quantize.scale, ZERO, quantize.smooth)
        y = QuantizedProduct(quantize, product)(x)
        exact = _exact_at_the_limits()
    # These operators are torch's own for its compiler: in another version they may be gone.
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    return exact and bool((y - (x @ weight.T + bias)).abs().max() < 0.5)


CALIBRATION_SENTENCES, CALIBRATION_PIECES, CALIBRATION_SEED = 32, 16, 1
"""What int8 takes its scales from: random word pieces, so that they depend on the model alone.
On a model trained on reports, scales from reports were measured and gave no smaller error."""


def _calibrate(model: BertForMaskedLM, special: SpecialIds) -> Ranges:
    """Ranges of all inputs of products, from sentences of random word pieces."""
    ranges = Ranges()
    generator = torch.Generator().manual_seed(CALIBRATION_SEED)
    length = min(CALIBRATION_PIECES, int(model.config.max_position_embeddings) - 2)
    ids = torch.randint(
        model.config.vocab_size, (CALIBRATION_SENTENCES, length), generator=generator
    )
    copies = masked_copies(ids, range(ids.numel()), length, special)
    make_network(model, torch.float32, ranges).log_probabilities(copies, special.mask)
    return ranges


def make_quantized_network(model: BertForMaskedLM, special: SpecialIds) -> MaskedNetwork:
    """Arrange a model for inference in integers (ConfigError where a device has no exact ones)."""
    if model.device.type != "cpu" or not can_quantize():
        raise ConfigError(
            "int8 needs a CPU with oneDNN's integer products, and this is none; "
            "take bfloat16 or float32"
        )
    dtype = torch.bfloat16 if can_pack(torch.bfloat16) else torch.float32
    ranges = _calibrate(model, special)
    layers = [
        make_quantized_layer(layer, number, ranges, dtype, model.config.hidden_act)
        for number, layer in enumerate(layers_of(model))
    ]
    return MaskedNetwork(model, layers, dtype)
