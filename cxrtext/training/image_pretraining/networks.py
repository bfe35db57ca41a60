"""The networks that `pretrain-image` trains, each an existing class of transformers.

A Vision Transformer that begins from random weights learns slowly from a few thousand images. Two
choices of its first weights help, and leave the class as it is: places that are sines and cosines
(Beyer et al., Better plain ViT baselines, arXiv:2205.01580), and attention that at first looks at
what is like and near (Trockman and Kolter, Mimetic initialization, arXiv:2305.09828).
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from cxrtext.models.image_encoder import STRIDES as RESNET_STRIDES
from cxrtext.models.image_encoder import ImageEncoder
from cxrtext.training.image_pretraining.settings import VITS

SELF, SPREAD = 0.7, 0.7
"""Of queries and keys: how much of their product is the identity, and how much is noise."""
OWN, VALUES = 0.4, 0.4
"""Of values and output: how much of their product is minus the identity, and how much noise."""


def stride_of(name: str) -> int:
    """Pixels of the input a region, along each axis."""
    return VITS[name].patch if name in VITS else RESNET_STRIDES[name]


def build_network(name: str, crop: int) -> nn.Module:
    """A one-channel network with random weights, for squares of ``crop`` pixels."""
    if name not in VITS:
        return ImageEncoder(name).backbone
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
    waves = 10000.0 ** -(torch.arange(quarter) / quarter)
    angles = torch.arange(side)[:, None] * waves
    along = torch.cat([angles.sin(), angles.cos()], dim=1)
    rows, columns = along.repeat_interleave(side, dim=0), along.repeat(side, 1)
    return torch.cat([rows, columns], dim=1)
