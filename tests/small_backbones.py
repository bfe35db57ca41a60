"""Small vision models with random weights, of exactly the classes that can be a backbone."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers

VIT = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 7,
}
TOWER = {**VIT, "intermediate_size": 40}
TEXT = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "vocab_size": 40,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
CONVNEXT = {"hidden_sizes": [8, 16], "depths": [1, 2], "num_stages": 2, "patch_size": 4}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "resnet": (
        "ResNet",
        "Model",
        {"embedding_size": 8, "hidden_sizes": [8, 12], "depths": [1, 2], "layer_type": "basic"},
    ),
    "dinov2": ("Dinov2", "Model", VIT),
    "dinov2_with_registers": ("Dinov2WithRegisters", "Model", {**VIT, "num_register_tokens": 3}),
    "siglip": ("Siglip", "Model", {"vision_config": TOWER, "text_config": TEXT}),
    "siglip_vision_model": ("SiglipVision", "Model", TOWER),
    "clip": ("CLIP", "Model", {"vision_config": TOWER, "text_config": TEXT}),
    "clip_vision_model": ("CLIPVision", "Model", TOWER),
    "vit": ("ViT", "Model", TOWER),
    "convnext": ("ConvNext", "Model", CONVNEXT),
    "convnextv2": ("ConvNextV2", "Model", CONVNEXT),
    "efficientnet": (
        "EfficientNet",
        "Model",
        {
            "width_coefficient": 0.01,
            "depth_coefficient": 1.0,
            "hidden_dim": 16,
            "kernel_sizes": [3, 5],
            "in_channels": [8, 8],
            "out_channels": [8, 12],
            "strides": [2, 2],
            "num_block_repeats": [1, 2],
            "expand_ratios": [1, 2],
            "depthwise_padding": [],
            "hidden_act": "swish",
        },
    ),
}
"""By model_type: the family and head in transformers, and the configuration."""
SIZES = {"convnext": 32, "convnextv2": 32, "resnet": 32, "efficientnet": 32}
"""The side of the crop; 28 for others."""
PROCESSOR = {
    "image_processor_type": "BitImageProcessor",
    "resample": 3,
    "image_mean": [0.53, 0.48, 0.41],
    "image_std": [0.26, 0.27, 0.22],
}


def build(model_type: str, *, head: str = "", seed: int = 0, **changes: Any) -> Any:
    """A model in transformers, in evaluation mode; every tensor of it is random."""
    family, plain, values = MODELS[model_type]
    config = getattr(transformers, f"{family}Config")(**{**values, **changes})
    torch.manual_seed(seed)
    model = getattr(transformers, f"{family}{head or plain}")(config).eval()
    generator = torch.Generator().manual_seed(seed)
    spread = 2.0 if model_type == "efficientnet" else 0.7  # its gates halve what they are given
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point():
            noise = torch.rand(tensor.shape, generator=generator)
            tensor.copy_(noise + 0.5 if name.endswith("running_var") else (noise - 0.5) * spread)
    return model


def write(
    folder: Path, model_type: str, *, processor: dict[str, Any] | None = None, **changes: Any
) -> Path:
    """A folder as transformers saves a model, with preprocessor_config.json."""
    build(model_type, **changes).save_pretrained(folder)
    size = SIZES.get(model_type, 28)
    values = {**PROCESSOR, "size": {"shortest_edge": size + 4}, "crop_size": size}
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps(values if processor is None else processor))
    return folder
