"""The networks that `pretrain-image` trains, each a class of transformers, and the folder of one.

A Vision Transformer that begins from random weights learns slowly from a few thousand images. Two
choices of its first weights help, and leave the class as it is: places that are sines and cosines
(Beyer et al., Better plain ViT baselines, arXiv:2205.01580), and attention that at first looks at
what is like and near (Trockman and Kolter, Mimetic initialization, arXiv:2305.09828).
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cxrtext.files import replacing_folder, write_json, write_text
from cxrtext.images import Preprocessing
from cxrtext.models.backbones.weights import quietly
from cxrtext.models.image_encoder import STRIDES as RESNET_STRIDES
from cxrtext.models.image_encoder import ImageEncoder
from cxrtext.models.image_weights import load_image_weights
from cxrtext.training.image_pretraining.settings import VITS, ImagePretrainSettings


class ProjectionHead(nn.Module):
    """Linear maps with ReLU between them; the caller brings what it gives to unit length.

    ``sizes`` are of each linear map, the last D; with ``norm`` a batch norm stands before each
    ReLU, as in the CCL-K paper's heads.
    """

    def __init__(self, features: int, sizes: tuple[int, ...], *, norm: bool = False) -> None:
        super().__init__()
        if not sizes or min(sizes) < 1:
            raise ValueError(f"a head needs one size or more, each at least 1, not {sizes}")
        layers: list[nn.Module] = []
        before = features
        for size in sizes[:-1]:
            layers.append(nn.Linear(before, size, bias=not norm))
            layers.extend([nn.BatchNorm1d(size)] if norm else [])
            layers.append(nn.ReLU(True))
            before = size
        self.layers = nn.Sequential(*layers, nn.Linear(before, sizes[-1]))

    def forward(self, features: Tensor) -> Tensor:
        """Project features, [B, F] -> [B, D]."""
        projected: Tensor = self.layers(features)
        return projected


SELF, SPREAD = 0.7, 0.7
"""Of queries and keys: how much of their product is the identity, and how much is noise."""
OWN, VALUES = 0.4, 0.4
"""Of values and output: how much of their product is minus the identity, and how much noise."""


def stride_of(name: str) -> int:
    """Pixels of the input a region, along each axis."""
    return VITS[name].patch if name in VITS else RESNET_STRIDES[name]


def build_network(name: str, crop: int, weights: Path | None = None) -> nn.Module:
    """A one-channel network for squares of ``crop`` pixels, random or a ResNet's of elsewhere."""
    if name not in VITS:
        encoder = ImageEncoder(name)
        if weights:
            load_image_weights(encoder, weights)
        return encoder.backbone
    from transformers import ViTConfig, ViTModel

    shape = VITS[name]
    config = ViTConfig(
        hidden_size=shape.width,
        num_hidden_layers=shape.depth,
        num_attention_heads=shape.heads,
        intermediate_size=shape.hidden,
        image_size=crop,
        patch_size=shape.patch,
        num_channels=1,
        layer_norm_eps=1e-6,
    )
    network = ViTModel(config, add_pooling_layer=False)
    _begin(network, crop // shape.patch)
    return network


def channels_of(network: Any) -> int:
    """Channels of a network's regions."""
    config = network.config
    channels: int = config.hidden_size if config.model_type == "vit" else config.hidden_sizes[-1]
    return channels


def grid_of(network: Any, images: Tensor) -> Tensor:
    """Regions of normalized images, [B, 1, H, W] -> [B, C, h, w]."""
    found: Tensor = network(images).last_hidden_state
    if found.dim() == 4:
        return found
    side = images.shape[-1] // network.config.patch_size
    grid: Tensor = found[:, 1:].transpose(1, 2).unflatten(2, (-1, side))  # the first is [CLS]
    return grid


@torch.no_grad()
def _begin(network: Any, side: int) -> None:
    """Set places, and the products of the matrices of attention, of a new Vision Transformer."""
    width = network.config.hidden_size
    network.embeddings.position_embeddings[0, 1:] = sines_and_cosines(side, width)
    for layer in network.layers:
        attention = layer.attention
        size = attention.head_dim
        for head in range(attention.num_attention_heads):
            rows = slice(head * size, (head + 1) * size)
            query, key = _factors(_near_identity(width, SELF, SPREAD / math.sqrt(width)), size)
            attention.q_proj.weight[rows] = query.T
            attention.k_proj.weight[rows] = key.T
        output, value = _factors(_near_identity(width, -OWN, VALUES / math.sqrt(width)), width)
        attention.v_proj.weight.copy_(value.T)
        attention.o_proj.weight.copy_(output)


def _near_identity(width: int, own: float, noise: float) -> Tensor:
    return own * torch.eye(width) + noise * torch.randn(width, width)


def _factors(product: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The two factors [n, rank] whose A B^T is nearest to a product [n, n]."""
    left, sizes, right = torch.linalg.svd(product)
    roots = sizes[:rank].sqrt()
    return left[:, :rank] * roots, right[:rank].T * roots


def sines_and_cosines(side: int, width: int) -> Tensor:
    """Of the places of a grid, row by row, [side * side, width]: a half each for row and column."""
    quarter = width // 4
    angles = torch.arange(side)[:, None] * 10000.0 ** -(torch.arange(quarter) / quarter)
    along = torch.cat([angles.sin(), angles.cos()], dim=1)
    rows, columns = along.repeat_interleave(side, dim=0), along.repeat(side, 1)
    return torch.cat([rows, columns], dim=1)


LAID_OUT = (*VITS, "resnet18", "resnet50", "resnet50-half")
"""Networks that a configuration of transformers describes; ``resnet-narrow`` has no max pooling,
and none says that."""
BILINEAR = 2  # pillow's number of the filter that `~cxrtext.images.Preprocessing` resizes with

_README = """\
---
license: other
library_name: transformers
pipeline_tag: image-feature-extraction
tags: [chest-x-ray, cxrtext]
---

# {name}

A network for frontal chest radiographs, trained by `cxrtext pretrain-image`. It is no medical
device.

License: none comes with it. What may be done with it follows from the terms of the images and
reports that it was trained on; who passes it on writes the license here, and in the first lines.

{lines}

Input: one channel, gray values from 0 (black, air) to 1 (white, bone); the shorter side resized to
{resize} pixels (bilinear, as Pillow does it, in 8 bits), the center {crop} x {crop} pixels cut out,
{mean} subtracted, and divided by {std}; `preprocessor_config.json` says the same.{regions}

```
cxrtext encode MANIFEST --backbone FOLDER --out FEATURES
```
"""
_REGIONS = """

Output: [CLS], then a region for each patch, row by row. Training pooled the regions; nothing was
asked of [CLS] itself."""


def has_layout(settings: ImagePretrainSettings) -> bool:
    """Whether transformers can say what the network is, and what it is given."""
    # Others cut the center out of the whole image, we out of the center square: where the
    # difference is odd these are a pixel apart.
    return settings.image in LAID_OUT and (settings.resize - settings.crop) % 2 == 0


def write_backbone(
    folder: Path, network: Any, preprocessing: Preprocessing, lines: Sequence[str]
) -> None:
    """Write ``config.json``, ``model.safetensors``, ``preprocessor_config.json``, ``README.md``.

    ``lines`` say in the README what it was trained on.  The folder is replaced as a whole.
    """
    with replacing_folder(folder) as temporary:
        with quietly():
            network.save_pretrained(temporary)
        write_json(temporary / "preprocessor_config.json", processor_of(preprocessing))
        text = _README.format(
            name=folder.name,
            lines="\n".join(f"- {line}" for line in lines),
            regions=_REGIONS if network.config.model_type == "vit" else "",
            **preprocessing.to_dict(),
        )
        write_text(temporary / "README.md", text)


def processor_of(preprocessing: Preprocessing) -> dict[str, Any]:
    """The same preparation in the words of transformers' image processors.

    Where ``resize - crop`` is even, square images come out equal bit for bit, and of others a
    pixel in a hundred may be one gray level apart: Pillow keeps the place of our center
    square in 32 bits.
    """
    size, side = preprocessing.resize, preprocessing.crop
    return {
        "image_processor_type": "BitImageProcessor",
        "do_convert_rgb": False,
        "do_resize": True,
        "size": {"shortest_edge": size},
        "resample": BILINEAR,
        "do_center_crop": True,
        "crop_size": {"height": side, "width": side},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [preprocessing.mean],
        "image_std": [preprocessing.std],
    }
