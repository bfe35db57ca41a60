"""The vision models that can be a backbone: a closed table from a configuration's ``model_type``.

Each is one class of transformers, named here, with the layout of its output.  Neither an Auto class
nor code of a model's folder is ever used, and of its configuration the keys of a schema are read
and no others (``auto_map``, ``_attn_implementation`` and the like do not get through).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from cxrtext.images.preprocessing import strided_offset

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


def _one_side(value: Any) -> Any:
    """[n, n] is n; two sides of different length are refused as no whole number."""
    if isinstance(value, list | tuple) and len(value) == 2 and value[0] == value[1]:
        return value[0]
    return value


Count = Annotated[int, Field(gt=0, le=200)]
Width = Annotated[int, Field(gt=0, le=131_072)]
Side = Annotated[int, Field(gt=0, le=8192), BeforeValidator(_one_side)]
Small = Annotated[float, Field(gt=0, le=1)]
Activation = Literal[
    "gelu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu", "relu", "relu6", "silu", "swish"
]
Stages = Annotated[list[Width], Field(min_length=1, max_length=8)]


class _Schema(BaseModel):
    """Keys of a ``config.json`` that are read; one that is absent has transformers' default."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    num_channels: Literal[1, 3] | None = None
    hidden_act: Activation | None = None


class _Normed(_Schema):
    layer_norm_eps: Small | None = None


class _Transformer(_Normed):
    hidden_size: Width | None = None
    num_hidden_layers: Count | None = None
    num_attention_heads: Annotated[int, Field(gt=0, le=1024)] | None = None
    image_size: Side | None = None
    patch_size: Side | None = None


class _Dinov2(_Transformer):
    mlp_ratio: Annotated[int, Field(gt=0, le=64)] | None = None
    qkv_bias: bool | None = None
    use_swiglu_ffn: bool | None = None


class _Dinov2WithRegisters(_Dinov2):
    num_register_tokens: Annotated[int, Field(ge=0, le=64)] | None = None


class _Tower(_Transformer):
    intermediate_size: Width | None = None


class _Dinov3(_Tower):
    num_register_tokens: Annotated[int, Field(ge=0, le=64)] | None = None
    rope_theta: Annotated[float, Field(gt=0, le=1e6)] | None = None
    query_bias: bool | None = None
    key_bias: bool | None = None
    value_bias: bool | None = None
    proj_bias: bool | None = None
    mlp_bias: bool | None = None
    use_gated_mlp: bool | None = None


class _Vit(_Tower):
    qkv_bias: bool | None = None


class _Swin(_Normed):
    image_size: Side | None = None
    patch_size: Side | None = None
    embed_dim: Width | None = None
    depths: Annotated[list[Count], Field(min_length=1, max_length=8)] | None = None
    num_heads: Annotated[list[Count], Field(min_length=1, max_length=8)] | None = None
    window_size: Annotated[int, Field(gt=0, le=64)] | None = None
    mlp_ratio: Annotated[float, Field(gt=0, le=64)] | None = None
    qkv_bias: bool | None = None
    use_absolute_embeddings: bool | None = None


class _ConvNext(_Normed):
    patch_size: Side | None = None
    num_stages: Count | None = None
    hidden_sizes: Annotated[list[Width], Field(min_length=1, max_length=8)] | None = None
    depths: Annotated[list[Count], Field(min_length=1, max_length=8)] | None = None
    layer_scale_init_value: Annotated[float, Field(ge=0, le=1)] | None = None


class _ResNet(_Schema):
    embedding_size: Width | None = None
    hidden_sizes: Annotated[list[Width], Field(min_length=1, max_length=8)] | None = None
    depths: Annotated[list[Count], Field(min_length=1, max_length=8)] | None = None
    layer_type: Literal["basic", "bottleneck"] | None = None
    downsample_in_first_stage: bool | None = None
    downsample_in_bottleneck: bool | None = None


class _EfficientNet(_Schema):
    batch_norm_eps: Small | None = None
    width_coefficient: Annotated[float, Field(gt=0, le=8)] | None = None
    depth_coefficient: Annotated[float, Field(gt=0, le=8)] | None = None
    depth_divisor: Count | None = None
    hidden_dim: Width | None = None
    squeeze_expansion_ratio: Small | None = None
    kernel_sizes: Stages | None = None
    in_channels: Stages | None = None
    out_channels: Stages | None = None
    strides: Annotated[list[Literal[1, 2]], Field(min_length=1, max_length=8)] | None = None
    num_block_repeats: Stages | None = None
    expand_ratios: Stages | None = None
    depthwise_padding: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=99)] | None = (
        None
    )


def _registers(config: Any) -> int:
    return 1 + int(config.num_register_tokens)


def _patch(config: Any) -> int:
    return int(config.patch_size)


def _merged(config: Any) -> int:
    """A patch, halved at every stage after the first."""
    return int(config.patch_size) << (len(config.depths) - 1)


def _strided(config: Any) -> int:
    """A convolution and a pooling of stride 2, then stages."""
    return 4 << (len(config.depths) - 1 + bool(config.downsample_in_first_stage))


def _centered_first(config: Any) -> float:
    return strided_offset(_strided(config))


def _efficient_stride(config: Any) -> int:
    return 2 * math.prod(map(int, config.strides))


def _efficient_offset(config: Any) -> float:
    """Padding is on the right and below, so that a stride of 2 is centered on its second pixel.

    But for the blocks of ``depthwise_padding``, that pad all sides alike.
    """
    shift, step, block = 1, 2, 0
    for stride, repeats in zip(config.strides, config.num_block_repeats, strict=True):
        if stride == 2:
            shift += step * (block not in config.depthwise_padding)
            step *= 2
        block += math.ceil(config.depth_coefficient * repeats)
    return strided_offset(step) - shift


def _interpolated(config: Any, size: int) -> dict[str, Any]:
    return {"interpolate_pos_encoding": size != config.image_size}


def _perhaps_interpolated(config: Any, size: int) -> dict[str, Any]:
    return _interpolated(config, size) if config.use_absolute_embeddings else {}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of backbone.

    What is taken is transformers' ``last_hidden_state``: after the last layer norm for DINOv2,
    DINOv3, ViT, SigLIP and Swin; before it for CLIP, where that norm stands behind the pooling of
    the class token alone, and for ConvNeXT; a ResNet and an EfficientNet have none.
    """

    config: str  # transformers' class of the configuration
    model: str  # and of the network
    schema: type[BaseModel]
    stem: str  # the convolution whose tensor shows what stands before the model's own names
    stride: Callable[[Any], int] = _patch  # pixels a region along each axis, from a configuration
    prefix: Callable[[Any], int] = lambda _: 1  # tokens before the first region's: [CLS]
    maps: bool = False  # [B, C, h, w] instead of tokens [B, prefix + h w, C]
    # pixels from a region's center to its cell's middle, to the right and down
    offset: Callable[[Any], float] = lambda _: 0.0
    # keywords of the call, from a configuration and the side of the input
    call: Callable[[Any, int], dict[str, Any]] = lambda _config, _size: {}
    attention: str = "sdpa"
    build: Mapping[str, Any] = field(default_factory=dict)  # keywords of the network's class
    fixed: Mapping[str, Any] = field(default_factory=dict)  # of the configuration's, set by us
    # of the image processor where preprocessor_config.json does not name one
    processor: str = "BitImageProcessor"

    def classes(self) -> tuple[type[PretrainedConfig], type[PreTrainedModel]]:
        """The classes of transformers, imported here."""
        import transformers

        return getattr(transformers, self.config), getattr(transformers, self.model)


_PROJECTED = "embeddings.patch_embeddings.projection.weight"

_SIGLIP = Kind(
    "SiglipVisionConfig",
    "SiglipVisionModel",
    _Tower,
    "embeddings.patch_embedding.weight",
    prefix=lambda _: 0,
    call=_interpolated,
    fixed={"vision_use_head": False},
    processor="SiglipImageProcessor",
)
_CLIP = Kind(
    "CLIPVisionConfig",
    "CLIPVisionModel",
    _Tower,
    "embeddings.patch_embedding.weight",
    call=_interpolated,
    processor="CLIPImageProcessor",
)

BACKBONES: dict[str, Kind] = {
    "resnet": Kind(
        "ResNetConfig",
        "ResNetModel",
        _ResNet,
        "embedder.embedder.convolution.weight",
        stride=_strided,
        offset=_centered_first,
        prefix=lambda _: 0,
        maps=True,
        attention="eager",
        processor="ConvNextImageProcessor",
    ),
    "dinov2": Kind(
        "Dinov2Config", "Dinov2Model", _Dinov2, _PROJECTED, fixed={"use_mask_token": False}
    ),
    "dinov2_with_registers": Kind(
        "Dinov2WithRegistersConfig",
        "Dinov2WithRegistersModel",
        _Dinov2WithRegisters,
        _PROJECTED,
        prefix=_registers,
    ),
    "dinov3_vit": Kind(
        "DINOv3ViTConfig",
        "DINOv3ViTModel",
        _Dinov3,
        "embeddings.patch_embeddings.weight",
        prefix=_registers,
        processor="DINOv3ViTImageProcessor",
    ),
    "siglip": _SIGLIP,
    "siglip_vision_model": _SIGLIP,
    "clip": _CLIP,
    "clip_vision_model": _CLIP,
    "vit": Kind(
        "ViTConfig",
        "ViTModel",
        _Vit,
        _PROJECTED,
        call=_interpolated,
        build={"add_pooling_layer": False},
        processor="ViTImageProcessor",
    ),
    "swin": Kind(
        "SwinConfig",
        "SwinModel",
        _Swin,
        _PROJECTED,
        stride=_merged,
        prefix=lambda _: 0,
        call=_perhaps_interpolated,
        build={"add_pooling_layer": False},
        fixed={"drop_path_rate": 0.0},
        processor="ViTImageProcessor",
    ),
    "convnext": Kind(
        "ConvNextConfig",
        "ConvNextModel",
        _ConvNext,
        "embeddings.patch_embeddings.weight",
        stride=_merged,
        prefix=lambda _: 0,
        maps=True,
        attention="eager",
        processor="ConvNextImageProcessor",
    ),
    "efficientnet": Kind(
        "EfficientNetConfig",
        "EfficientNetModel",
        _EfficientNet,
        "embeddings.convolution.weight",
        stride=_efficient_stride,
        offset=_efficient_offset,
        prefix=lambda _: 0,
        maps=True,
        attention="eager",
        processor="EfficientNetImageProcessor",
    ),
}
"""Every kind, by ``model_type``; ``siglip`` and ``clip`` are folders with a text tower too."""
