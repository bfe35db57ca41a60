"""ResNets with transformers' tensor names and initial weights, without importing it."""

import json
from collections import OrderedDict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from cxrtext.models.bert import States


@dataclass(frozen=True, slots=True, kw_only=True)
class ResNetConfig:
    """transformers' keys, and ``pools``."""

    model_type: ClassVar = "resnet"
    num_channels: int = 1
    embedding_size: int = 64  # channels of the stem
    hidden_sizes: tuple[int, ...]  # channels of each stage
    depths: tuple[int, ...]  # blocks of each stage
    layer_type: str  # "basic" or "bottleneck"
    hidden_act: str = "relu"
    downsample_in_first_stage: bool = False
    downsample_in_bottleneck: bool = False  # the stride in the first 1×1 convolution, not the 3×3
    pools: bool = True  # whether the stem pools after its convolution


def _convolve(
    inputs: int, outputs: int, kernel: int, stride: int = 1, relu: bool = True
) -> nn.Module:
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    parts["convolution"] = nn.Conv2d(
        inputs, outputs, kernel, stride, padding=kernel // 2, bias=False
    )
    parts["normalization"] = nn.BatchNorm2d(outputs)
    if relu:
        parts["activation"] = nn.ReLU()
    return nn.Sequential(parts)


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, config: ResNetConfig) -> None:
        super().__init__()
        self.shortcut: nn.Module = nn.Identity()
        if inputs != outputs or stride != 1:
            self.shortcut = _convolve(inputs, outputs, 1, stride, relu=False)
        if config.layer_type == "basic":
            layers = [
                _convolve(inputs, outputs, 3, stride),
                _convolve(outputs, outputs, 3, relu=False),
            ]
        else:
            inner = outputs // 4
            strides = (stride, 1) if config.downsample_in_bottleneck else (1, stride)
            layers = [
                _convolve(inputs, inner, 1, strides[0]),
                _convolve(inner, inner, 3, strides[1]),
                _convolve(inner, outputs, 1, relu=False),
            ]
        self.layer = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.layer(x) + self.shortcut(x))


def _named(**parts: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(parts))


class ResNet(nn.Module):
    """A ResNet without a head.

    Source: He et al. 2016.
    """

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        self.config = config
        self.embedder = _named(
            embedder=_convolve(config.num_channels, config.embedding_size, 7, 2),
            pooler=nn.MaxPool2d(3, 2, padding=1) if config.pools else nn.Identity(),
        )
        stages = []
        inputs, stride = config.embedding_size, 2 if config.downsample_in_first_stage else 1
        for outputs, depth in zip(config.hidden_sizes, config.depths, strict=True):
            first = Block(inputs, outputs, stride, config)
            rest = (Block(outputs, outputs, 1, config) for _ in range(depth - 1))
            stages.append(_named(layers=nn.Sequential(first, *rest)))
            inputs, stride = outputs, 2
        self.encoder = _named(stages=nn.Sequential(*stages))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.normal_(module.weight)  # transformers draws twice: keeps its random state
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, pixels: Tensor) -> States:
        """Features [B, C, h, w] of images [B, channels, H, W]."""
        return States(self.encoder(self.embedder(pixels)))

    def save_pretrained(self, folder: Path) -> None:
        """Write ``config.json`` and ``model.safetensors``, for transformers to read."""
        folder.mkdir(parents=True, exist_ok=True)
        values = asdict(self.config)
        del values["pools"]
        named = {"architectures": ["ResNetModel"], "model_type": "resnet", **values}
        (folder / "config.json").write_text(json.dumps(named, indent=2) + "\n", encoding="utf-8")
        state = {name: x.detach().cpu().contiguous() for name, x in self.state_dict().items()}
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
