"""Configurations of transformers' networks, from untrusted values.

A ``config.json`` can name code to run (``auto_map``), kernels to fetch (``_attn_implementation``)
and more.  Only the keys in :data:`KEYS` are read; transformers' own classes check types and fill in
missing keys, and every number is bounded before a network is built.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from cxrtext.errors import line_of
from cxrtext.models.bert import ACTIVATIONS, BertConfig

_TRANSFORMER = "hidden_size num_hidden_layers num_attention_heads hidden_act layer_norm_eps "
_PATCHES = _TRANSFORMER + "num_channels image_size patch_size "
_DINOV2 = _PATCHES + "mlp_ratio qkv_bias use_swiglu_ffn"
_TOWER = _PATCHES + "intermediate_size"
_CONVNEXT = "num_channels hidden_act layer_norm_eps patch_size num_stages hidden_sizes depths"
_TEXT_TOWER = _TRANSFORMER + "intermediate_size vocab_size max_position_embeddings eos_token_id"
KEYS = {
    "resnet": "num_channels hidden_act embedding_size hidden_sizes depths layer_type "
    "downsample_in_first_stage downsample_in_bottleneck",
    "convnext": f"{_CONVNEXT} layer_scale_init_value",
    "convnextv2": _CONVNEXT,
    "efficientnet": "num_channels hidden_act batch_norm_eps width_coefficient depth_coefficient "
    "depth_divisor hidden_dim squeeze_expansion_ratio kernel_sizes in_channels out_channels "
    "strides num_block_repeats expand_ratios depthwise_padding",
    "vit": f"{_TOWER} qkv_bias",
    "dinov2": _DINOV2,
    "dinov2_with_registers": f"{_DINOV2} num_register_tokens",
    "siglip_vision_model": _TOWER,
    "siglip_text_model": f"{_TEXT_TOWER} projection_size",
    "clip_vision_model": _TOWER,
    "clip_text_model": _TEXT_TOWER,
    "bert": "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size "
    "hidden_act hidden_dropout_prob attention_probs_dropout_prob max_position_embeddings "
    "initializer_range layer_norm_eps tie_word_embeddings pad_token_id type_vocab_size",
}
"""The keys that are read, by ``model_type``; other types are refused."""
_UNUSED = {"bos_token_id": 0, "pad_token_id": 0}  # keys of text towers that nothing reads here
_FIXED = {"clip_text_model": _UNUSED, "siglip_text_model": {**_UNUSED, "eos_token_id": 1}}
_MOST = {
    **dict.fromkeys(("num_hidden_layers", "num_stages", "depths", "num_block_repeats"), 200),
    **dict.fromkeys(("image_size", "patch_size"), 8192),
    **dict.fromkeys(("vocab_size", "eos_token_id", "pad_token_id"), 2_000_000),
}
_WIDEST = 131_072  # largest number under any other key
_GRID = 128  # most patches along a side; attention's time grows with its fourth power


def configuration(model_type: str, values: Mapping[str, Any]) -> Any:
    """The configuration in transformers for a ``model_type`` (ValueError with one line)."""
    from huggingface_hub.errors import StrictDataclassError
    from transformers import CONFIG_MAPPING, AutoConfig
    from transformers.activations import ACT2FN

    given = _given(model_type, values)
    for key, value in given.items():
        default = getattr(CONFIG_MAPPING[model_type], key, None)
        if isinstance(default, float) and type(value) is int:
            given[key] = float(min(value, 2 * _WIDEST))
        elif key in ("image_size", "patch_size") and isinstance(value, list) and value:
            given[key] = value[0] if value == value[:1] * 2 else -1
    try:
        config = AutoConfig.for_model(model_type, **_FIXED.get(model_type, {}) | given)
    except (StrictDataclassError, ValueError, TypeError) as error:
        raise ValueError(line_of(error)) from None
    if config.hidden_act not in ACT2FN:
        raise ValueError(f"hidden_act: {config.hidden_act[:40]!r} is not known to transformers")
    check_sizes(settings_of(config), given)
    return config


def bert_configuration(values: Mapping[str, Any]) -> BertConfig:
    """A BERT's configuration for this program (ValueError with one line)."""
    given = _given("bert", values)
    for field in fields(BertConfig):
        value, wanted = given.get(field.name, field.default), type(field.default)
        if wanted is float and type(value) is int:
            given[field.name] = value = float(min(value, 2 * _WIDEST))
        if type(value) is not wanted:
            raise ValueError(f"{field.name}: {str(value)[:40]!r} is not of type {wanted.__name__}")
    config = BertConfig(**given)
    if config.hidden_act not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise ValueError(f"hidden_act: {config.hidden_act[:40]!r} is not known; known are {known}")
    check_sizes(settings_of(config), given)
    return config


def _given(model_type: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: values[key] for key in KEYS[model_type].split() if values.get(key) is not None}


def check_sizes(settings: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse numbers of a configuration out of range; messages show them as ``given``."""
    for key, value in settings.items():
        numbers, most = value if isinstance(value, list) else [value], _MOST.get(key, _WIDEST)
        plain = (number for number in numbers if isinstance(number, int | float))
        if len(numbers) > 99 or not all(0 <= number <= most for number in plain):
            raise ValueError(f"{key}: {str(given.get(key))[:40]} is not between 0 and {most}")
    if settings.get("num_channels", 3) not in (1, 3):
        raise ValueError(f"num_channels: {settings['num_channels']} is neither 1 nor 3")
    if settings.get("image_size", 0) > _GRID * settings.get("patch_size", 0):
        raise ValueError(f"image_size: more than {_GRID} patches a side")
    heads = settings.get("num_attention_heads", 1)
    if settings.get("hidden_size", 0) % heads:
        raise ValueError(
            f"hidden_size {settings['hidden_size']} is not a multiple of "
            f"num_attention_heads {heads}"
        )
    stages = {k: len(x) for k, x in settings.items() if isinstance(x, list)}
    stages.pop("depthwise_padding", None)  # lists blocks, not stages
    stages |= {"num_stages": settings["num_stages"]} if "num_stages" in settings else {}
    if len(set(stages.values())) > 1:
        raise ValueError(f"the numbers of stages differ: {stages}")


def settings_of(config: Any) -> dict[str, Any]:
    """The values of :data:`KEYS` that a configuration has."""
    values = {key: getattr(config, key) for key in KEYS[config.model_type].split()}
    return {key: list(x) if isinstance(x, tuple) else x for key, x in values.items()}
