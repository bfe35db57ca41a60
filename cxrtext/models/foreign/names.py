"""Tensors of other libraries by the names that transformers gives them; contents are not changed.

Sources: the modules that other libraries save, read in their own code: openai/CLIP's ``model.py``
(CheXzero has a copy), open_clip's ``transformer.py``, ``timm_model.py`` and ``hf_model.py``, timm's
``vision_transformer.py``, torchvision's ``resnet.py``.
"""

import re
from collections.abc import Mapping, Sequence

from torch import Tensor

State = Mapping[str, Tensor]

_BLOCK = re.compile(r"transformer\.resblocks\.(\d+)\.(.+)")
_IN_BLOCK = {
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "attn.out_proj": "self_attn.out_proj",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}
_CLIP = {
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.ln_pre.weight": "vision_model.pre_layrnorm.weight",
    "visual.ln_pre.bias": "vision_model.pre_layrnorm.bias",
    "visual.ln_post.weight": "vision_model.post_layernorm.weight",
    "visual.ln_post.bias": "vision_model.post_layernorm.bias",
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "ln_final.weight": "text_model.final_layer_norm.weight",
    "ln_final.bias": "text_model.final_layer_norm.bias",
    "logit_scale": "logit_scale",
}
_CLIP_TURNED = {
    "visual.proj": "visual_projection.weight",
    "text_projection": "text_projection.weight",
}
"""Matrices that are multiplied from the right, [width, D]."""
CLIP_CONSTANTS = ("input_resolution", "context_length", "vocab_size", "attn_mask", "text.attn_mask")
"""What OpenAI's archives and older files of open_clip hold besides weights."""


def of_openai(state: State) -> dict[str, Tensor]:
    """A CLIP of OpenAI's or open_clip's names as transformers' ``CLIPModel``; unknown ones stay."""
    named: dict[str, Tensor] = {}
    for name, tensor in state.items():
        own = name.removeprefix("text.")  # where open_clip keeps the text tower as a module
        if own in CLIP_CONSTANTS or name in CLIP_CONSTANTS:
            continue
        if own in _CLIP_TURNED:
            named[_CLIP_TURNED[own]] = tensor.T.contiguous()
        elif own in _CLIP:
            named[_CLIP[own]] = tensor
        elif found := _BLOCK.fullmatch(own.removeprefix("visual.")):
            tower = "vision_model" if own.startswith("visual.") else "text_model"
            _put_block(named, f"{tower}.encoder.layers.{found[1]}", found[2], tensor)
        else:
            named[name] = tensor
    return named


def _put_block(named: dict[str, Tensor], layer: str, inside: str, tensor: Tensor) -> None:
    part, _, kind = inside.rpartition(".")
    if part == "attn" and kind.startswith("in_proj_"):
        named.update(
            _thirds(f"{layer}.self_attn.{{}}_proj.{kind.removeprefix('in_proj_')}", tensor, "qkv")
        )
    else:
        named[f"{layer}.{_IN_BLOCK.get(part, part)}.{kind}"] = tensor


def _thirds(pattern: str, tensor: Tensor, parts: Sequence[str]) -> dict[str, Tensor]:
    """Queries, keys and values of one matrix or bias, by a pattern of their names."""
    split = zip(parts, tensor.chunk(3), strict=True)
    return {pattern.format(part): third.contiguous() for part, third in split}


_VIT = {
    "cls_token": "embeddings.cls_token",
    "pos_embed": "embeddings.position_embeddings",
    "patch_embed.proj": "embeddings.patch_embeddings.projection",
    "norm": "layernorm",
    "norm1": "layernorm_before",
    "norm2": "layernorm_after",
    "attn.proj": "attention.output.dense",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
}
_VIT_BLOCK = re.compile(r"blocks\.(\d+)\.(.+)\.(weight|bias)")


def of_timm_vit(state: State) -> dict[str, Tensor]:
    """Timm's vision transformer as transformers' ``ViTModel``, by the names of the hub's files."""
    named: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if found := _VIT_BLOCK.fullmatch(name):
            layer, part, kind = f"encoder.layer.{found[1]}", found[2], found[3]
            if part == "attn.qkv":
                pattern = f"{layer}.attention.attention.{{}}.{kind}"
                named.update(_thirds(pattern, tensor, ("query", "key", "value")))
            else:
                named[f"{layer}.{_VIT.get(part, part)}.{kind}"] = tensor
            continue
        part, _, kind = name.rpartition(".")
        named[_VIT.get(name) or (f"{_VIT[part]}.{kind}" if part in _VIT else name)] = tensor
    return named


_RESNET = re.compile(r"layer(\d)\.(\d+)\.(conv|bn|downsample\.)(\d)\.(.+)")


def of_torchvision_resnet(state: State) -> dict[str, Tensor]:
    """Torchvision's ResNet as transformers' ``ResNetModel``."""
    named: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if found := _RESNET.fullmatch(name):
            stage, block, part, number, kind = found.groups()
            layer = f"encoder.stages.{int(stage) - 1}.layers.{block}"
            if part == "downsample.":
                inside = f"shortcut.{('convolution', 'normalization')[int(number)]}"
            else:
                what = "convolution" if part == "conv" else "normalization"
                inside = f"layer.{int(number) - 1}.{what}"
            named[f"{layer}.{inside}.{kind}"] = tensor
        elif name.startswith(("conv1.", "bn1.")):
            part, _, kind = name.partition(".")
            what = "convolution" if part == "conv1" else "normalization"
            named[f"embedder.embedder.{what}.{kind}"] = tensor
        else:
            named[name] = tensor
    return named


def under(state: State, prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with something, without it."""
    return {name.removeprefix(prefix): x for name, x in state.items() if name.startswith(prefix)}
