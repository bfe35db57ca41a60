"""The layers of a network that only infers."""

from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertForMaskedLM
from transformers.models.bert.modeling_bert import BertLayer

from cxrtext.language.scoring.linear import Activation, Linear, make_linear

ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
}
"""transformers' names."""


class Product(Protocol):
    """A matrix product with a bias."""

    def __call__(self, x: Tensor) -> Tensor:
        """Map [M, K] to [M, N]."""

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Map [M, K] to [M, N] and add [M, N]."""


class FeedForward(Protocol):
    """The two products of a layer that work on each token alone."""

    def widened(self, x: Tensor) -> Tensor:
        """What stands between the two, [M, 4 D]."""

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Map [M, D] to [M, D] and add [M, D]."""


class Norm:
    """A layer norm.

    Args:
        module: torch's layer norm.
        dtype: Of what it normalises.
    """

    def __init__(self, module: nn.LayerNorm, dtype: torch.dtype) -> None:
        # torch takes float32 weights with bfloat16 input on the CPU, and not on a GPU.
        kept = torch.float32 if module.weight.device.type == "cpu" else dtype
        self.weight, self.bias = module.weight.detach().to(kept), module.bias.detach().to(kept)
        self.epsilon = module.eps

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise [..., D]."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


@dataclass(frozen=True, slots=True)
class PlainFeedForward:
    """Widen, activate, narrow."""

    widen: Linear
    narrow: Linear
    activation: Activation

    def widened(self, x: Tensor) -> Tensor:
        """What stands between the two, [M, 4 D]."""
        return self.widen(x, self.activation)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Map [M, D] to [M, D] and add [M, D]."""
        return self.narrow.add_to(residual, self.widened(x))


@dataclass(frozen=True, slots=True)
class Layer:
    """One transformer layer.

    Args:
        qkv: To queries, keys and values side by side, D to 3 D.
        query: The first third of ``qkv``, D to D.
        key_value: The rest, D to 2 D.
        mix: After attention, D to D.
        feed: Between the two norms.
        attention_norm: After ``mix`` and its residual.
        output_norm: After ``feed`` and its residual.
    """

    qkv: Product
    query: Product
    key_value: Product
    mix: Product
    feed: FeedForward
    attention_norm: Norm
    output_norm: Norm


def layers_of(model: BertForMaskedLM) -> list[BertLayer]:
    """Return the transformer layers of a model, first to last."""
    return [cast(BertLayer, layer) for layer in model.bert.encoder.layer]


def attention_weights(layer: BertLayer) -> tuple[Tensor, Tensor]:
    """Weight [3 D, D] and bias [3 D] of queries, keys and values side by side."""
    attention = layer.attention.self
    parts = [attention.query, attention.key, attention.value]
    return torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])


def make_layer(layer: BertLayer, dtype: torch.dtype, hidden_act: str) -> Layer:
    """Arrange one of transformers' BERT layers for inference."""
    weight, bias = attention_weights(layer)
    width = weight.shape[1]
    mix, widen, narrow = layer.attention.output, layer.intermediate.dense, layer.output.dense
    return Layer(
        qkv=make_linear(weight, bias, dtype),
        query=make_linear(weight[:width], bias[:width], dtype),
        key_value=make_linear(weight[width:], bias[width:], dtype),
        mix=make_linear(mix.dense.weight, mix.dense.bias, dtype),
        feed=PlainFeedForward(
            make_linear(widen.weight, widen.bias, dtype),
            make_linear(narrow.weight, narrow.bias, dtype),
            ACTIVATIONS[hidden_act],
        ),
        attention_norm=Norm(mix.LayerNorm, dtype),
        output_norm=Norm(layer.output.LayerNorm, dtype),
    )
