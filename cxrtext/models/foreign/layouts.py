"""The layouts that the folder of a finished pair can have, each read by its own rules.

Sizes are read from tensors where possible.  No code in a folder is used; pickles are read as
tensors and plain values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cxrtext.errors import CheckpointError
from cxrtext.images.preprocessing import Preprocessing, strided_offset
from cxrtext.models.folders import BIOVIL, CONFIG, CXR_CLIP, OPEN_CLIP, OPENAI, read_object
from cxrtext.models.foreign import names
from cxrtext.models.foreign.network import network_of, part_of, read_configuration, without_buffers
from cxrtext.models.foreign.processor import FILTERS, Prepared, prepared_by, read_processor
from cxrtext.models.foreign.tokenizers import clip_tokenizer, siglip_tokenizer
from cxrtext.models.foreign.towers import (
    BesideMissing,
    ImageTower,
    ResidualHead,
    TextTower,
    cxr_bert_head,
    patch_projector,
)
from cxrtext.models.weight_files import filled, only_tensors, read_pickle, read_state, read_tensors
from cxrtext.text.tokenizer import load_tokenizer

State = Mapping[str, Tensor]
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_CHEXZERO = ((101.48761 / 255,) * 3, (83.43944 / 255,) * 3)
_UNIT, _HALF = ((0.0,) * 3, (1.0,) * 3), ((0.5,) * 3, (0.5,) * 3)
BIOVIL_RESIZE, BIOVIL_STRIDE = 512, 32
HEAD = 64
"""Width of an attention head if no file says it; tensors do not show it."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The two towers of a pair, and what belongs to them."""

    images: ImageTower
    texts: TextTower
    tokenizer: Any
    preprocessing: Preprocessing  # with mean 0 and std 1: the image tower has the levels
    scale: float  # the model's factor for similarities
    max_tokens: int

    @property
    def text(self) -> dict[str, Any]:
        """Sizes of the text tower."""
        config: Any = self.texts.trunk.config
        keys = ("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size")
        kind = config.model_type.removesuffix("_text_model")
        return {"model_type": kind, **{key: getattr(config, key) for key in keys}}

    @property
    def dimension(self) -> int:
        """D, measured on an embedding of the text tower."""
        with torch.inference_mode():
            ids = torch.zeros(1, 2, dtype=torch.long)
            return int(self.texts(ids, torch.ones_like(ids)).shape[-1])


def _linear(source: Path, state: State, prefix: str) -> nn.Linear:
    """The projection under a prefix."""
    own = names.under(state, prefix)
    _require(source, own, "weight")
    out, inside = own["weight"].shape
    return filled(source, lambda: nn.Linear(inside, out, bias="bias" in own), own)


def _of_transformers(
    folder: Path, kind: str, processor: str, tokenizer: Callable[[Path], Any]
) -> Parts:
    """A CLIP or SigLIP saved by transformers."""
    path = folder / CONFIG
    values = read_object(path)
    towers = _towers(path, kind, *(part_of(values, f"{one}_config") for one in ("vision", "text")))
    pieces = tokenizer(folder)
    source, state = read_state(folder)
    return _pair(
        source, without_buffers(state), towers, read_processor(folder, processor, 3), pieces
    )


def _towers(path: Path, kind: str, vision: Any, text: Any) -> tuple[Any, Any]:
    """The configurations of a CLIP's or SigLIP's towers."""
    return (
        read_configuration(path, f"{kind}_vision_model", vision, "vision_config."),
        read_configuration(path, f"{kind}_text_model", text, "text_config."),
    )


def _pair(
    source: Path, state: State, towers: tuple[Any, Any], prepared: Prepared, pieces: Any
) -> Parts:
    """A CLIP or SigLIP with transformers' names."""
    import transformers

    vision, text = towers
    length, padded = text.max_position_embeddings, {}
    if vision.model_type == "clip_vision_model":
        _require(source, state, "visual_projection.weight", "text_projection.weight", "logit_scale")
        width = len(state["visual_projection.weight"])
        config: Any = transformers.CLIPConfig(
            vision_config=vision, text_config=text, projection_dim=width
        )
    else:
        config = transformers.SiglipConfig(vision_config=vision, text_config=text)
        padded = {"length": length, "padding": pieces.pad_token_id}
    model = network_of(source, config, state)
    heads = [getattr(model, f"{tower}_projection", nn.Identity()) for tower in ("visual", "text")]
    levels = (prepared.mean, prepared.std)
    return Parts(
        ImageTower(model.vision_model, "pooler", heads[0], levels),
        TextTower(model.text_model, "pooler", heads[1], **padded),
        pieces,
        prepared.preprocessing,
        math.exp(float(model.logit_scale.detach())),
        length,
    )


_POOLERS = {"cls_last_hidden_state_pooler": "first", "mean_pooler": "mean"}


def _open_clip(folder: Path) -> Parts:
    """BiomedCLIP saved by open_clip: timm's vision transformer and a BERT."""
    path = folder / OPEN_CLIP
    values = read_object(path)
    whole, rules = (_part(path, values, name) for name in ("model_cfg", "preprocess_cfg"))
    vision, text = (_part(path, whole, name) for name in ("vision_cfg", "text_cfg"))
    pooling: Any = _POOLERS.get(text.get("hf_pooler_type", "mean_pooler"))
    is_vit = str(vision.get("timm_model_name")).startswith("vit_") and vision.get("timm_pool") == ""
    if not (is_vit and pooling and text.get("hf_model_name")):
        raise CheckpointError(
            f"{path}: of open_clip's models a vit_… of timm with timm_pool '' is read, beside a "
            f"BERT with hf_pooler_type {' or '.join(_POOLERS)}, as BiomedCLIP has them"
        )
    prepared = _open_clip_images(path, rules, vision.get("image_size", 224))
    stems = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
    source = next((folder / name for name in stems if (folder / name).is_file()), None)
    if source is None:
        raise CheckpointError(f"{folder}: no {stems[0]} and no {stems[1]}; copy one there")
    state = {name.removeprefix("module."): x for name, x in read_tensors(source).items()}
    patch = state["visual.trunk.patch_embed.proj.weight"]
    block = "visual.trunk.blocks.{}.mlp.fc1.weight"
    sizes = {
        "hidden_size": len(patch), "patch_size": patch.shape[-1], "layer_norm_eps": 1e-6,
        "image_size": prepared.preprocessing.crop, "intermediate_size": len(state[block.format(0)]),
        "num_hidden_layers": _layers(state, block), "num_attention_heads": _heads(len(patch)),
    }  # fmt: skip
    vit = read_configuration(source, "vit", sizes, "image tower: ")
    trunk = network_of(source, vit, names.of_timm_vit(names.under(state, "visual.trunk.")))
    head = _linear(source, state, "visual.head.proj.")
    text_head = nn.Sequential(
        _linear(source, state, "text.proj.0."), nn.GELU(), _linear(source, state, "text.proj.2.")
    )
    known = ("visual.trunk.", "visual.head.proj.", "text.transformer.", "text.proj.", "logit_scale")
    if extra := [name for name in state if not name.startswith(known)]:
        raise CheckpointError(f"{source}: {len(extra)} tensors are not known, such as {extra[0]}")
    return Parts(
        ImageTower(trunk, "first", head, (prepared.mean, prepared.std)),
        TextTower(_bert(source, state, "text.transformer."), pooling, text_head),
        load_tokenizer(folder),
        prepared.preprocessing,
        math.exp(float(state["logit_scale"])),
        text.get("context_length", 77),
    )


def _part(path: Path, values: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = values.get(name, {})
    if not isinstance(part, dict):
        raise CheckpointError(f"{path}: {name} is not an object; copy the file again")
    return part


def _open_clip_images(path: Path, given: Mapping[str, Any], side: Any) -> Prepared:
    sizes = {"shortest": {"shortest_edge": side}, "squash": {"height": side, "width": side}}
    mode, resample = given.get("resize_mode", "shortest"), given.get("interpolation", "bicubic")
    if mode not in sizes or resample not in ("bicubic", "bilinear"):
        raise CheckpointError(f"{path}: resize_mode {mode}, interpolation {resample}: not known")
    rules = {"size": sizes[mode], "crop_size": side, "resample": FILTERS.index(resample)}
    rules |= {"image_mean": given.get("mean"), "image_std": given.get("std")}
    return prepared_by(path, "CLIPImageProcessor", rules, 3)


def _layers(state: State, pattern: str) -> int:
    """The number of layers, counted by tensor names with a number for {}."""
    return next(n for n in count() if pattern.format(n) not in state)


def _heads(width: int) -> int:
    return max(1, width // HEAD)


def _bert(source: Path, state: State, prefix: str) -> Any:
    """A BERT with the sizes of its tensors; a pooling layer is ignored."""
    own = without_buffers(names.under(state, prefix))
    own = {name: x for name, x in own.items() if not name.startswith("pooler.")}
    inner = "encoder.layer.{}.intermediate.dense.weight"
    _require(source, own, "embeddings.word_embeddings.weight", inner.format(0))
    vocabulary, width = own["embeddings.word_embeddings.weight"].shape
    sizes = {
        "vocab_size": vocabulary, "hidden_size": width, "num_hidden_layers": _layers(own, inner),
        "num_attention_heads": _heads(width), "intermediate_size": len(own[inner.format(0)]),
        "max_position_embeddings": len(own["embeddings.position_embeddings.weight"]),
        "type_vocab_size": len(own["embeddings.token_type_embeddings.weight"]),
    }  # fmt: skip
    return network_of(source, read_configuration(source, "bert", sizes, "text tower: "), own)


def _openai(folder: Path) -> Parts:
    """CheXzero's file, or another with OpenAI's names."""
    source = only_file(folder, OPENAI)
    state = read_tensors(source)
    _require(source, state, "visual.proj", "text_projection", "visual.conv1.weight")
    vision, text = _tower_of_openai(state, "visual."), _tower_of_openai(state, "")
    _, _, patch, _ = state["visual.conv1.weight"].shape
    side = patch * round((len(state["visual.positional_embedding"]) - 1) ** 0.5)
    vision |= {"patch_size": patch, "image_size": side}
    text |= {
        "vocab_size": len(state["token_embedding.weight"]),
        "max_position_embeddings": len(state["positional_embedding"]),
        "eos_token_id": 2,  # makes transformers pool at the highest id, as OpenAI does
    }
    prepared = Prepared(Preprocessing(side, side, 0.0, 1.0, "lanczos", "pad"), *_CHEXZERO)
    towers = _towers(source, "clip", vision, text)
    return _pair(source, names.of_openai(state), towers, prepared, clip_tokenizer(folder))


def _tower_of_openai(state: State, prefix: str) -> dict[str, Any]:
    """Sizes of a tower, read from a state like OpenAI's ``build_model``."""
    blocks = f"{prefix}transformer.resblocks."
    inner, width = state[f"{blocks}0.mlp.c_fc.weight"].shape
    return {
        "hidden_act": "quick_gelu",
        "layer_norm_eps": 1e-5,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": _layers(state, f"{blocks}{{}}.mlp.c_fc.weight"),
        "num_attention_heads": _heads(width),
    }


def _biovil(folder: Path) -> Parts:
    """BioViL, or BioViL-T for a single film: hi-ml's image model and its CXR-BERT."""
    source = only_file(folder, BIOVIL)
    state = read_tensors(source)
    with_prior = "encoder.missing_previous_emb" in state
    trunk = _resnet(source, names.under(state, "encoder.encoder."))
    own = names.under(state, "projector.model.")
    _require(source, own, "0.weight", "3.weight")
    hidden, width = own["0.weight"].shape[:2]
    dimension = len(own["3.weight"])
    head: nn.Module = filled(source, lambda: patch_projector(width, hidden, dimension), own)
    if with_prior:
        to_vit = names.under(state, "encoder.backbone_to_vit.")
        out, inside = to_vit["weight"].shape[:2]
        reduce = filled(source, lambda: nn.Conv2d(inside, out, 1, bias=False), to_vit)
        head = BesideMissing(reduce, state["encoder.missing_previous_emb"], head)
    images = ImageTower(trunk, "patches", head, _UNIT, strided_offset(BIOVIL_STRIDE))
    source, state = read_state(folder)
    own = names.under(state, "cls_projection_head.")
    _require(source, own, "dense_to_hidden.weight")
    joint, states = own["dense_to_hidden.weight"].shape
    text_head = filled(source, lambda: cxr_bert_head(states, joint), own)
    bert = _bert(source, state, "bert.")
    return Parts(
        images,
        TextTower(bert, "first", text_head),
        load_tokenizer(folder),
        Preprocessing(BIOVIL_RESIZE, 448 if with_prior else 480, 0.0, 1.0),
        1.0,
        bert.config.max_position_embeddings,
    )


def _resnet(source: Path, state: State) -> Any:
    """A ResNet with torchvision's names and bottleneck blocks; a classifier is ignored."""
    own = names.of_torchvision_resnet({k: x for k, x in state.items() if not k.startswith("fc.")})
    first = "encoder.stages.{}.layers.0.shortcut.convolution.weight"
    block = "encoder.stages.{}.layers.{{}}.layer.0.convolution.weight"
    stages = range(_layers(own, first))
    sizes = {
        "embedding_size": len(own["embedder.embedder.convolution.weight"]),
        "hidden_sizes": [len(own[first.format(stage)]) for stage in stages],
        "depths": [_layers(own, block.format(stage)) for stage in stages],
        "layer_type": "bottleneck",
    }
    return network_of(source, read_configuration(source, "resnet", sizes, "image tower: "), own)


def _cxr_clip(folder: Path) -> Parts:
    """CXR-CLIP's archive; its own configuration says how each tower is pooled."""
    import transformers

    source = only_file(folder, CXR_CLIP)
    whole = read_pickle(source)
    if not all(isinstance(whole.get(part), Mapping) for part in ("model", "config")):
        raise CheckpointError(f"{source}: has no 'model' with tensors and 'config' beside it")
    state, said = only_tensors(whole["model"]), whole["config"]
    base, model = said.get("base") or {}, said.get("model", {})
    image, text = model.get("image_encoder", {}), model.get("text_encoder", {})
    pooled: Any = {"eos": "last", "bos": "first", "mean": "mean"}.get(str(text.get("pooling")))
    if pooled is None:
        raise CheckpointError(f"{source}: its text_encoder.pooling is not one of eos, bos, mean")
    if image.get("name") == "resnet":
        trunk = _resnet(source, names.under(state, "image_encoder.resnet."))
        head = _head(source, state, "image_projection.")
        images = ImageTower(trunk, "mean", head, _IMAGENET)
    elif image.get("model_type") == "swin":  # Swin-Tiny, which CXR-CLIP was trained with
        own = without_buffers(names.under(state, "image_encoder.image_encoder."))
        trunk = network_of(source, transformers.SwinConfig(), own)
        images = ImageTower(trunk, "first", _head(source, state, "image_projection."), _HALF)
    else:
        raise CheckpointError(f"{source}: its image encoder is neither a ResNet nor a Swin")
    bert = _bert(source, state, "text_encoder.text_encoder.")
    side = int(base.get("image_size", 224))
    return Parts(
        images,
        TextTower(bert, pooled, _head(source, state, "text_projection.")),
        load_tokenizer(folder),
        Preprocessing(side, side, 0.0, 1.0, "bilinear", "center"),
        math.exp(float(state["logit_scale"])),
        int(base.get("text_max_length", 256)),
    )


def _head(source: Path, state: State, prefix: str) -> nn.Module:
    own = names.under(state, prefix)
    if "fc.weight" not in own:
        return _linear(source, state, f"{prefix}projection.")
    _require(source, own, "projection.weight")
    dimension, width = own["projection.weight"].shape
    return filled(source, lambda: ResidualHead(width, dimension), own)


def only_file(folder: Path, pattern: str) -> Path:
    """The only file that matches a pattern (CheckpointError)."""
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        names_found = ", ".join(path.name for path in files) or "none"
        raise CheckpointError(f"{folder}: wants one file {pattern}, and holds {names_found}")
    return files[0]


def _require(source: Path, state: State, *wanted: str) -> None:
    if missing := [name for name in wanted if name not in state]:
        raise CheckpointError(
            f"{source}: has no {missing[0]}, so it is not a whole pair of this layout; copy the "
            "file of the pair, not of one tower"
        )


LAYOUTS: dict[str, Callable[[Path], Parts]] = {
    "clip": lambda f: _of_transformers(f, "clip", "CLIPImageProcessor", clip_tokenizer),
    "siglip": lambda f: _of_transformers(f, "siglip", "SiglipImageProcessor", siglip_tokenizer),
    "open_clip": _open_clip,
    "openai": _openai,
    "biovil": _biovil,
    "cxr-clip": _cxr_clip,
}
"""The reader of each layout, by its name from :func:`cxrtext.models.folders.layout_of`."""
