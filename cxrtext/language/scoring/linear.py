"""Matrix products for inference, with weights packed once in a given precision."""

import torch
from torch import Tensor
from torch.nn import functional as F

from cxrtext.models.bert import ACTIVATIONS

POINTWISE = {
    "none": ("none", ""),
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "gelu_pytorch_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
    "silu": ("swish", ""),
}
"""oneDNN's operation and algorithm for each activation, by transformers' names."""

PACKED_ROWS = 1024  # rows of input that packed weights are optimized for; any number works


class PlainLinear:
    """A product by torch's own call, for GPUs and machines without oneDNN.

    ``weight`` is [N, K] and ``bias`` [N].
    """

    def __init__(self, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> None:
        self.weight = weight.detach().to(dtype)
        self.bias = bias.detach().to(dtype)

    def __call__(self, x: Tensor, activation: str = "none") -> Tensor:
        """Map [M, K] to [M, N]."""
        y = F.linear(x, self.weight, self.bias)
        return y if activation == "none" else ACTIVATIONS[activation]()(y)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias).add_(residual)


class PackedLinear:
    """A product with weights that oneDNN has packed once for its kernels.

    ``weight`` is [N, K], on the CPU, and ``bias`` [N]; float32 or bfloat16.
    """

    def __init__(self, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> None:
        plain = weight.detach().to(dtype).contiguous()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(plain, PACKED_ROWS)
        self.bias = bias.detach().to(dtype)

    def __call__(self, x: Tensor, activation: str = "none") -> Tensor:
        name, algorithm = POINTWISE[activation]
        y: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self.weight, self.bias, name, [], algorithm
        )
        return y

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, residual, self.weight, self.bias, "add")
        return y


Linear = PlainLinear | PackedLinear


def can_pack(dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies correctly in this precision on this machine."""
    if not torch.backends.mkldnn.is_available():
        return False
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(32, 48, generator=generator)
    bias = torch.randn(32, generator=generator)
    x = torch.randn(5, 48, generator=generator)
    try:
        y = PackedLinear(weight, bias, dtype)(x.to(dtype), "gelu")
    # torch has these operators for its own compiler: another version may not.
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    expected = PlainLinear(weight, bias, torch.float32)(x, "gelu")
    tolerance = 1e-4 if dtype == torch.float32 else 0.2
    return bool((y.float() - expected).abs().max() < tolerance)


def make_linear(weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Linear:
    """The fastest product for the weights' device."""
    if weight.device.type == "cpu" and can_pack(dtype):
        return PackedLinear(weight, bias, dtype)
    return PlainLinear(weight, bias, dtype)
