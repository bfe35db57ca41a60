"""Renames the tensors of other libraries to transformers' names.

Sources: the other libraries' own code: openai/CLIP's ``model.py`` (CheXzero has a copy),
open_clip's ``timm_model.py`` and ``hf_model.py``, timm's ``vision_transformer.py``, torchvision's
``resnet.py``.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.models.weight_files import listed

State = Mapping[str, Tensor]
Rules = Mapping[str, str]
"""Patterns with their replacements, applied to a name in order."""

_CLIP = {
    r"^visual\.(class_embedding)$": r"vision_model.embeddings.\1",
    r"^visual\.conv1\.": "vision_model.embeddings.patch_embedding.",
    r"^visual\.positional_embedding$": "vision_model.embeddings.position_embedding.weight",
    r"^visual\.ln_pre\.": "vision_model.pre_layrnorm.",
    r"^visual\.ln_post\.": "vision_model.post_layernorm.",
    r"^visual\.transformer\.resblocks\.": "vision_model.encoder.layers.",
    r"^transformer\.resblocks\.": "text_model.encoder.layers.",
    r"^token_embedding\.": "text_model.embeddings.token_embedding.",
    r"^positional_embedding$": "text_model.embeddings.position_embedding.weight",
    r"^ln_final\.": "text_model.final_layer_norm.",
    r"\.ln_([12])\.": r".layer_norm\1.",
    r"\.attn\.in_proj_": ".self_attn.{}_proj.",
    r"\.attn\.out_proj\.": ".self_attn.out_proj.",
    r"\.mlp\.c_fc\.": ".mlp.fc1.",
    r"\.mlp\.c_proj\.": ".mlp.fc2.",
}
_CLIP_TURNED = {
    "visual.proj": "visual_projection.weight",
    "text_projection": "text_projection.weight",
}
"""Matrices multiplied from the right, [width, D], which are transposed."""
_CLIP_CONSTANTS = ("input_resolution", "context_length", "vocab_size", "attn_mask")
"""Entries of OpenAI's archives that are not weights."""
_VIT = {
    r"^cls_token$": "embeddings.cls_token",
    r"^pos_embed$": "embeddings.position_embeddings",
    r"^patch_embed\.proj\.": "embeddings.patch_embeddings.projection.",
    r"^norm\.": "layernorm.",
    r"^blocks\.": "encoder.layer.",
    r"\.norm1\.": ".layernorm_before.",
    r"\.norm2\.": ".layernorm_after.",
    r"\.attn\.qkv\.": ".attention.attention.{}.",
    r"\.attn\.proj\.": ".attention.output.dense.",
    r"\.mlp\.fc1\.": ".intermediate.dense.",
    r"\.mlp\.fc2\.": ".output.dense.",
}
_RESNET = {
    r"^conv1\.": "embedder.embedder.convolution.",
    r"^bn1\.": "embedder.embedder.normalization.",
    **{rf"^layer{n}\.(\d+)\.": rf"encoder.stages.{n - 1}.layers.\1." for n in range(1, 10)},
    r"\.downsample\.0\.": ".shortcut.convolution.",
    r"\.downsample\.1\.": ".shortcut.normalization.",
    **{rf"\.conv{n}\.": f".layer.{n - 1}.convolution." for n in range(1, 4)},
    **{rf"\.bn{n}\.": f".layer.{n - 1}.normalization." for n in range(1, 4)},
}


def of_openai(state: State) -> dict[str, Tensor]:
    """A CLIP with OpenAI's names as transformers' ``CLIPModel``; unknown names stay."""
    own = dict(state)
    turned = {new: own.pop(old).T.contiguous() for old, new in _CLIP_TURNED.items() if old in own}
    weights = {name: x for name, x in own.items() if name not in _CLIP_CONSTANTS}
    return turned | _renamed(weights, _CLIP, ("q", "k", "v"))


def of_timm_vit(state: State) -> dict[str, Tensor]:
    """Timm's vision transformer as transformers' ``ViTModel``, with the hub files' names."""
    return _renamed(state, _VIT, ("query", "key", "value"))


def of_torchvision_resnet(state: State) -> dict[str, Tensor]:
    """Torchvision's ResNet as transformers' ``ResNetModel``."""
    return _renamed(state, _RESNET)


def _renamed(state: State, rules: Rules, thirds: tuple[str, ...] = ()) -> dict[str, Tensor]:
    """Apply rules; ``thirds`` replace {} if queries, keys and values are one matrix or bias."""
    named: dict[str, Tensor] = {}
    for name, tensor in state.items():
        for pattern, replacement in rules.items():
            name = re.sub(pattern, replacement, name)
        if "{}" in name:
            parts = zip(thirds, tensor.chunk(3), strict=True)
            named |= {name.replace("{}", third): part.contiguous() for third, part in parts}
        else:
            named[name] = tensor
    return named


def under(state: State, prefix: str) -> dict[str, Tensor]:
    """The tensors with a prefix, without the prefix in their names."""
    return {name.removeprefix(prefix): x for name, x in state.items() if name.startswith(prefix)}


def only_prefix(source: Path, state: State, stem: re.Pattern[str], what: str) -> str:
    """What precedes the names of the only network in a file, such as ``module.`` or "".

    ``stem`` matches the whole name of a network's first convolution; its first group is the prefix.
    A file with several networks, such as a student and a teacher, is refused.
    """
    prefixes = sorted({found[1] for name in state if (found := stem.fullmatch(name))})
    if len(prefixes) == 1:
        return prefixes[0]
    which = f", under {listed(prefixes)}; save only the wanted one" if prefixes else ""
    raise CheckpointError(f"{source}: holds {len(prefixes) or 'no'} {what}{which}")
