"""Networks of transformers with the tensors of a file, checked key by key.

They are transformers' own classes by ``model_type`` (:mod:`cxrtext.models.configurations`); no code
in a folder is used.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from logging import CRITICAL
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cxrtext.errors import CheckpointError, line_of
from cxrtext.files import check_listed
from cxrtext.images.preprocessing import strided_offset
from cxrtext.models.configurations import configuration
from cxrtext.models.folders import CONFIG, PICKLED_WEIGHTS, SAFE_WEIGHTS, read_object
from cxrtext.models.foreign.names import only_prefix
from cxrtext.models.weight_files import check_finite, difference, listed, read_state

BACKBONES = (
    *("resnet", "convnext", "convnextv2", "efficientnet", "vit", "dinov2"),
    *("dinov2_with_registers", "siglip", "siglip_vision_model", "clip", "clip_vision_model"),
)
"""The ``model_type`` values of backbones; ``siglip`` and ``clip`` also have a text tower."""
STEM = re.compile(
    r"((?:.+\.)?)(?:embedder\.embedder\.convolution"
    r"|embeddings\.(?:convolution|patch_embeddings?(?:\.projection)?))\.weight"
)
"""The name of the first convolution; the group is the prefix of a model's own tensors."""
_HEADS = (
    *("classifier", "cls_classifier", "distillation_classifier", "decoder", "head", "logit_bias"),
    *("logit_scale", "mask_token", "pooler", "projector", "text_model", "text_projection"),
    "visual_projection",
)
"""First parts of ignored names: heads, and the other tower of a pair."""
BUFFERS = ("mask_token", "position_ids", "relative_position_index", "inv_freq", "attn_mask")
"""Last parts of ignored names: tensors of masked pretraining, and constants."""
_NEEDLESS = ("mask_token", "num_batches_tracked")
"""Last parts of names that a file may omit, because nothing here uses these tensors."""


def read_configuration(path: Path, model_type: str, values: Any, part: str = "") -> Any:
    """The configuration in transformers for a file's values (CheckpointError)."""
    try:
        return configuration(model_type, values)
    except (ValueError, AttributeError) as error:
        raise CheckpointError(f"{path}: {part}{error}") from None


def read_vision(folder: Path) -> tuple[str, Any]:
    """A folder's ``model_type``, and the configuration of its vision model."""
    path = folder / CONFIG
    if not path.exists():
        raise CheckpointError(
            f"{path}: no such file; a backbone is the folder of a model of transformers, with "
            f"{CONFIG}, {SAFE_WEIGHTS} and preprocessor_config.json"
        )
    values = read_object(path)
    model_type = values.get("model_type")
    if model_type not in BACKBONES:
        raise CheckpointError(
            f"{path}: model_type {model_type!r} is not a known backbone; known are "
            f"{', '.join(BACKBONES)}"
        )
    own = str(model_type)
    if own in ("siglip", "clip"):
        own, values = f"{own}_vision_model", part_of(values, "vision_config")
    config = read_configuration(path, own, values)
    if own == "siglip_vision_model":
        config.vision_use_head = False
    return str(model_type), config


def part_of(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The configuration of one tower of a pair."""
    both = (values.get(name), values.get(f"{name}_dict"))
    return {key: x for part in both if isinstance(part, dict) for key, x in part.items()}


def stride_of(config: Any) -> int:
    """Pixels per region, along each axis."""
    match config.model_type:
        case "resnet":  # a convolution and a pooling of stride 2, then stages
            return int(4 << (len(config.depths) - 1 + config.downsample_in_first_stage))
        case "efficientnet":
            return int(2 * math.prod(config.strides))
        case "convnext" | "convnextv2":  # halved at every stage after the first
            return int(config.patch_size) << (len(config.depths) - 1)
    return int(config.patch_size)


def offset_of(config: Any) -> float:
    """Pixels from a region's center to its cell's middle, to the right and down."""
    if config.model_type == "resnet":
        return strided_offset(stride_of(config))
    if config.model_type != "efficientnet":
        return 0.0
    # Padding is on the right and below, so a stride of 2 is centered on its second pixel, except in
    # the blocks of ``depthwise_padding``, which pad all sides equally.
    shift, step, block = 1, 2, 0
    for stride, repeats in zip(config.strides, config.num_block_repeats, strict=True):
        if stride == 2:
            shift += step * (block not in config.depthwise_padding)
            step *= 2
        block += math.ceil(config.depth_coefficient * repeats)
    return strided_offset(step) - shift


def load_network(folder: Path, config: Any) -> tuple[Any, str]:
    """A folder's vision model, in float32, and the SHA-256 of its tensors with their names."""
    for name in (SAFE_WEIGHTS, PICKLED_WEIGHTS):
        parts = folder / f"{name}.index.json"
        if parts.is_file() and not (folder / name).is_file():
            raise CheckpointError(
                f"{parts}: the weights are in several files; write them as one: "
                'model.save_pretrained(FOLDER, max_shard_size="100GB") of transformers'
            )
    for name in (CONFIG, SAFE_WEIGHTS, PICKLED_WEIGHTS):  # if SHA256SUMS lists them
        check_listed(folder / name, CheckpointError)
    source, state = read_state(folder)
    tensors = _vision_tensors(source, state)
    return network_of(source, config, tensors), _digest(tensors)


def network_of(source: Path, config: Any, state: Mapping[str, Tensor]) -> Any:
    """A network of transformers without a pooling layer, in float32, using all tensors of a file.

    The names may be those of the hub's files; transformers converts them to its own.
    """
    from transformers import MODEL_MAPPING

    model_class: Any = MODEL_MAPPING[type(config)]
    pooled = "add_pooling_layer" in inspect.signature(model_class.__init__).parameters
    build = {"add_pooling_layer": False} if pooled else {}
    constants = (*BUFFERS, *_NEEDLESS)
    check_finite(source, {n: x for n, x in state.items() if n.split(".")[-1] not in constants})
    with quietly(), torch.random.fork_rng(devices=[]):
        try:
            with torch.device("meta"):  # only shapes, no memory
                own = model_class(config, **build).state_dict().values()
            wanted, held = (sum(x.numel() for x in some) for some in (own, state.values()))
            if wanted > 2 * held:
                raise ValueError(f"that describes {wanted} numbers, and the file has {held}")
            model, info = model_class.from_pretrained(
                None,
                config=config,
                state_dict=dict(state),
                dtype=torch.float32,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                **build,
            )
        except (RuntimeError, ValueError, TypeError) as error:
            raise CheckpointError(
                f"{source}: does not fit its configuration: {line_of(error)}"
            ) from None
    missing = [x for x in info["missing_keys"] if x.split(".")[-1] not in _NEEDLESS]
    if fault := difference(missing, info["unexpected_keys"], sorted(info["mismatched_keys"])):
        raise CheckpointError(f"{source}: the tensors do not fit the configuration; {fault}")
    for line in info.get("error_msgs") or ():
        raise CheckpointError(f"{source}: {str(line).splitlines()[0]}")
    return model.eval()


def without_buffers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: x for name, x in state.items() if name.split(".")[-1] not in BUFFERS}


def _vision_tensors(source: Path, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of the vision model, by its own names."""
    prefix = only_prefix(source, state, STEM, "vision models in transformers' names")
    own = {
        name: tensor
        for name, tensor in without_buffers(state).items()
        if name.removeprefix(prefix).split(".")[0] not in _HEADS
    }
    if unknown := [name for name in own if not name.startswith(prefix)]:
        raise CheckpointError(
            f"{source}: {len(unknown)} tensors are neither the vision model's nor of a head that "
            f"is known: {listed(unknown)}"
        )
    return {name.removeprefix(prefix): x for name, x in own.items()}


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over tensors by the file's own names, which do not change with library versions."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        if name.split(".")[-1] in _NEEDLESS:
            continue
        digest.update(f"{name} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().to(torch.float32).contiguous().numpy().data)
    return digest.hexdigest()


@contextmanager
def quietly() -> Iterator[None]:
    """Turn off transformers' table and progress bar; errors are reported in one line instead."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
