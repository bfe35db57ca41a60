"""ResNets that turn a radiograph into a grid of region embeddings."""

from typing import Any, Literal, get_args

import torch.nn.functional as F
from torch import Tensor, nn

from cxrtext.models.position import build_position

Architecture = Literal["resnet18", "resnet50", "resnet-narrow"]
ARCHITECTURES: tuple[str, ...] = get_args(Architecture)
"""``resnet18`` and ``resnet50`` have stride 32; ``resnet-narrow`` has stride 16, three
stages of one block, and 128 channels in the last, for small images on a CPU."""

_SHAPES: dict[str, dict[str, Any]] = {
    "resnet18": {
        "layer_type": "basic",
        "hidden_sizes": [64, 128, 256, 512],
        "depths": [2, 2, 2, 2],
        "embedding_size": 64,
    },
    "resnet50": {
        "layer_type": "bottleneck",
        "hidden_sizes": [256, 512, 1024, 2048],
        "depths": [3, 4, 6, 3],
        "embedding_size": 64,
        # The stride is in a block's 3×3 convolution, as in torchvision ("v1.5") and in weights
        # trained there; with the stride elsewhere such weights load and compute nonsense.
        "downsample_in_bottleneck": False,
    },
    "resnet-narrow": {
        "layer_type": "basic",
        "hidden_sizes": [32, 64, 128],
        "depths": [1, 1, 1],
        "embedding_size": 32,
        "downsample_in_first_stage": True,
    },
}


STRIDES = {"resnet18": 32, "resnet50": 32, "resnet-narrow": 16}
"""Pixels of the input a region, along each axis."""


class ImageEncoder(nn.Module):
    """A one-channel ResNet and a linear map, with bias, of each region to D dimensions.

    ``position`` names what is added to that map by a region's place (:mod:`~.position`).

    :mod:`cxrtext.models.image_weights` starts it from weights of elsewhere.

    Raises:
        ValueError: There is no such architecture, or no such position.
    """

    def __init__(self, architecture: str, dimension: int = 128, position: str = "none") -> None:
        super().__init__()
        if architecture not in _SHAPES:
            raise ValueError(
                f"no image architecture '{architecture}'; there are {', '.join(ARCHITECTURES)}"
            )
        from transformers import ResNetConfig, ResNetModel

        shape = _SHAPES[architecture]
        self.backbone = ResNetModel(ResNetConfig(num_channels=1, **shape))
        if architecture == "resnet-narrow":
            # The first stage halves the size instead, by a learned convolution: at 128 pixels a
            # pleural line is one pixel wide, and does not survive max pooling.
            self.backbone.embedder.add_module("pooler", nn.Identity())
        channels = shape["hidden_sizes"][-1]
        self.projection = nn.Linear(channels, dimension)
        self.position = build_position(position, channels, dimension)

    def forward(self, images: Tensor) -> Tensor:
        """Embed images [B, 1, H, W], normalized, as unit vectors [B, h, w, D].

        h and w are H and W over the stride, rounded up.
        """
        return self.project(self.features(images))

    def features(self, images: Tensor) -> Tensor:
        """What the ResNet makes of images [B, 1, H, W]: [B, h, w, C], before the linear map."""
        found: Tensor = self.backbone(images).last_hidden_state
        return found.permute(0, 2, 3, 1).contiguous()

    def project(self, features: Tensor) -> Tensor:
        """Map features [B, h, w, C] to unit vectors [B, h, w, D]."""
        embedded = self.projection(features)
        if self.position is not None:
            embedded = embedded + self.position(features)
        return F.normalize(embedded, dim=-1)
