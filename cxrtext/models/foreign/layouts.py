"""What a folder of a finished pair can be: a closed table, each entry read by its own rules.

Neither an Auto class nor code of a folder is used; pickles are read as tensors and plain values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from cxrtext.errors import CheckpointError
from cxrtext.images.preprocessing import Preprocessing, strided_offset
from cxrtext.models.folders import BIOVIL, CONFIG, CXR_CLIP, OPEN_CLIP, OPENAI, read_json
from cxrtext.models.foreign import names
from cxrtext.models.foreign.configs import ClipText, ClipVision, checked, open_clip, sizes_of_bert
from cxrtext.models.foreign.kinds import BACKBONES
from cxrtext.models.foreign.network import BUFFERS, network_of
from cxrtext.models.foreign.processor import Prepared, read_processor
from cxrtext.models.foreign.text import only_tensors, read_encoder_config
from cxrtext.models.foreign.tokenizers import clip_tokenizer, siglip_tokenizer
from cxrtext.models.foreign.towers import (
    BesideMissing,
    CxrBertHead,
    ImageTower,
    ResidualHead,
    TextTower,
    patch_projector,
)
from cxrtext.models.text_encoder import BertKeys
from cxrtext.models.weight_files import (
    check_finite,
    misfit,
    read_archive,
    read_state,
    read_tensors,
)
from cxrtext.text.tokenizer import load_tokenizer_of

State = Mapping[str, Tensor]
M = TypeVar("M", bound=nn.Module)
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_CHEXZERO = ((101.48761 / 255,) * 3, (83.43944 / 255,) * 3)
BIOVIL_RESIZE, BIOVIL_STRIDE = 512, 32
_UNUSED = {"bos_token_id": 0, "pad_token_id": 0}  # nothing reads them here
BERT_HEAD = 64
"""Width of an attention head of every BERT that is known here; no tensor tells it."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The two towers of a pair, and what goes with them."""

    images: ImageTower
    texts: TextTower
    tokenizer: Any
    preprocessing: Preprocessing  # with mean 0 and std 1: levels are the tower's
    scale: float  # what the model multiplies similarities by
    max_tokens: int
    text: Mapping[str, Any]  # sizes of the text tower: layers, width, inner width, vocabulary


def _text(kind: str, layers: int, width: int, inner: int, vocabulary: int) -> dict[str, Any]:
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": inner,
        "vocab_size": vocabulary,
    }


def _linear(source: Path, weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    own = {"weight": weight} | ({} if bias is None else {"bias": bias})
    out, inside = weight.shape
    return _filled(source, lambda: nn.Linear(inside, out, bias=bias is not None), own)


def _filled(source: Path, make: Callable[[], M], state: State) -> M:
    """A module with the tensors of a file, every one of them used (CheckpointError)."""
    spare: Callable[[str], bool] = lambda name: name.endswith("num_batches_tracked")  # noqa: E731
    with torch.device("meta"):  # shapes only, no memory
        wanted = make().state_dict()
    if fault := misfit(state, wanted, spare):
        raise CheckpointError(f"{source}: the tensors of a projection do not fit; {fault}")
    check_finite(source, {name: x for name, x in state.items() if not spare(name)})
    module = make()
    module.load_state_dict(dict(state), strict=False)
    return module


def _clip_parts(
    source: Path,
    state: State,
    vision: Mapping[str, Any],
    text: Mapping[str, Any],
    prepared: Prepared,
    tokenizer: Any,
) -> Parts:
    """A CLIP in transformers' names."""
    import transformers

    width = int(state["visual_projection.weight"].shape[0])
    vision = checked(source, "image tower", ClipVision, vision)
    text = checked(source, "text tower", ClipText, text)
    config = transformers.CLIPConfig(
        text_config={**_UNUSED, **text}, vision_config=vision, projection_dim=width
    )
    model = network_of(source, transformers.CLIPModel, config, state)
    images = ImageTower(
        model.vision_model, "pooler", model.visual_projection, (prepared.mean, prepared.std)
    )
    own: Any = config.text_config
    return Parts(
        images,
        TextTower(model.text_model, "pooler", model.text_projection),
        tokenizer,
        prepared.preprocessing,
        math.exp(float(model.logit_scale.detach())),
        own.max_position_embeddings,
        _text(
            "clip",
            own.num_hidden_layers,
            own.hidden_size,
            own.intermediate_size,
            own.vocab_size,
        ),
    )


def _transformers_clip(folder: Path) -> Parts:
    vision, text = _both(folder)
    tokenizer = clip_tokenizer(folder)
    source, state = read_state(folder)
    kept = _without_buffers(only_tensors(source, state))
    _require(source, kept, "visual_projection.weight", "text_projection.weight", "logit_scale")
    prepared = read_processor(folder, "CLIPImageProcessor", 3)
    return _clip_parts(source, kept, vision, text, prepared, tokenizer)


def _siglip(folder: Path) -> Parts:
    import transformers

    vision, text = _both(folder)
    tokenizer = siglip_tokenizer(folder)
    source, state = read_state(folder)
    config = transformers.SiglipConfig(
        text_config={**_UNUSED, "eos_token_id": 1, **text}, vision_config=vision
    )
    kept = _without_buffers(only_tensors(source, state))
    model = network_of(source, transformers.SiglipModel, config, kept)
    prepared = read_processor(folder, "SiglipImageProcessor", 3)
    own: Any = config.text_config
    levels = (prepared.mean, prepared.std)
    return Parts(
        ImageTower(model.vision_model, "pooler", nn.Identity(), levels),
        TextTower(
            model.text_model,
            "pooler",
            nn.Identity(),
            length=own.max_position_embeddings,
            padding=tokenizer.pad_token_id,
        ),
        tokenizer,
        prepared.preprocessing,
        math.exp(float(model.logit_scale.detach())),
        own.max_position_embeddings,
        _text(
            "siglip",
            own.num_hidden_layers,
            own.hidden_size,
            own.intermediate_size,
            own.vocab_size,
        ),
    )


def _both(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two configurations of a pair of transformers, keys by schema."""
    path = folder / CONFIG
    values = read_json(path)
    parts = []
    for name, schema in (("vision_config", ClipVision), ("text_config", ClipText)):
        found = [values.get(f"{name}{ending}") for ending in ("", "_dict")]
        merged = {key: x for one in found if isinstance(one, dict) for key, x in one.items()}
        parts.append(checked(path, name, schema, merged))
    return parts[0], parts[1]


def _open_clip(folder: Path) -> Parts:
    path = folder / OPEN_CLIP
    config = open_clip(path)
    source, state = _open_clip_state(folder)
    prepared = config.prepared(path)
    if config.hf_text:
        return _biomedclip(folder, source, state, config, prepared)
    if config.timm:
        raise CheckpointError(
            f"{path}: an image tower of timm beside a text tower of open_clip is not read here; "
            "only beside a BERT"
        )
    named = names.of_openai(state)
    return _clip_parts(
        source, named, config.vision(), config.text(named), prepared, clip_tokenizer(folder)
    )


def _open_clip_state(folder: Path) -> tuple[Path, dict[str, Tensor]]:
    stems = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
    source = next((folder / name for name in stems if (folder / name).is_file()), None)
    if source is None:
        raise CheckpointError(f"{folder}: no {stems[0]} and no {stems[1]}; copy one there")
    return source, {
        name.removeprefix("module."): tensor for name, tensor in read_tensors(source).items()
    }


def _biomedclip(folder: Path, source: Path, state: State, config: Any, prepared: Prepared) -> Parts:
    """Timm's vision transformer and a BERT: BiomedCLIP's two towers."""
    import transformers

    vit = checked(source, "image tower", ClipVision, config.vit(state))
    trunk = network_of(
        source,
        transformers.ViTModel,
        transformers.ViTConfig(**vit),
        names.of_timm_vit(names.under(state, "visual.trunk.")),
        add_pooling_layer=False,
    )
    _require(source, state, "visual.head.proj.weight", "text.proj.0.weight", "text.proj.2.weight")
    image_head = _linear(
        source, state["visual.head.proj.weight"], state.get("visual.head.proj.bias")
    )
    bert, sizes = _bert(source, names.under(state, "text.transformer."), pooler=False)
    text_head = nn.Sequential(
        _linear(source, state["text.proj.0.weight"]),
        nn.GELU(),
        _linear(source, state["text.proj.2.weight"]),
    )
    known = ("visual.trunk.", "visual.head.proj.", "text.transformer.", "text.proj.", "logit_scale")
    if extra := [name for name in state if not name.startswith(known)]:
        raise CheckpointError(f"{source}: {len(extra)} tensors are not known, such as {extra[0]}")
    return Parts(
        ImageTower(trunk, "first", image_head, (prepared.mean, prepared.std)),
        TextTower(bert, config.bert_pooling, text_head),
        load_tokenizer_of(folder, "bert"),
        prepared.preprocessing,
        math.exp(float(state["logit_scale"])),
        config.context_length,
        sizes,
    )


def _bert(source: Path, state: State, *, pooler: bool) -> tuple[nn.Module, dict[str, Any]]:
    """A BERT whose sizes its tensors tell; a pooling layer is left out unless it is wanted."""
    import transformers

    own = {name: x for name, x in state.items() if pooler or not name.startswith("pooler.")}
    own = _without_buffers(own)
    sizes = checked(
        source,
        "text tower",
        BertKeys,
        {"model_type": "bert", **sizes_of_bert(source, own, BERT_HEAD)},
    )
    config = transformers.BertConfig(**sizes)
    model = network_of(source, transformers.BertModel, config, own, add_pooling_layer=pooler)
    return model, _text(
        "bert",
        config.num_hidden_layers,
        config.hidden_size,
        config.intermediate_size,
        config.vocab_size,
    )


def _openai(folder: Path) -> Parts:
    """CheXzero's file, or another of OpenAI's names: every size stands in its tensors."""
    source = only_file(folder, OPENAI)
    state = read_tensors(source)
    _require(source, state, "visual.proj", "text_projection", "visual.conv1.weight")
    vision, text = _sizes_of_openai(state)
    side = vision["image_size"]
    own = Preprocessing(side, side, 0.0, 1.0, "lanczos", "pad")
    prepared = Prepared(own, *_CHEXZERO)
    named = names.of_openai(state)
    return _clip_parts(source, named, vision, text, prepared, clip_tokenizer(folder))


def _sizes_of_openai(state: State) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sizes as OpenAI's ``build_model`` reads them off a state; heads are 64 wide."""

    def layers(prefix: str) -> int:
        found = {name.split(".")[-4 if "attn." in name else -3] for name in state
                 if name.startswith(f"{prefix}transformer.resblocks.")}  # fmt: skip
        return 1 + max(int(one) for one in found if one.isdigit())

    width, _, patch, _ = state["visual.conv1.weight"].shape
    grid = round((len(state["visual.positional_embedding"]) - 1) ** 0.5)
    vocabulary, text_width = state["token_embedding.weight"].shape
    both = {"hidden_act": "quick_gelu", "layer_norm_eps": 1e-5}
    vision = {
        **both, "hidden_size": width, "patch_size": patch, "image_size": patch * grid,
        "intermediate_size": 4 * width, "num_attention_heads": max(1, width // 64),
        "num_hidden_layers": layers("visual."),
    }  # fmt: skip
    text = {
        **both, "hidden_size": text_width, "vocab_size": vocabulary, "eos_token_id": 2,
        "intermediate_size": 4 * text_width, "num_attention_heads": max(1, text_width // 64),
        "num_hidden_layers": layers(""),
        "max_position_embeddings": len(state["positional_embedding"]),
    }  # fmt: skip
    return vision, text


def _biovil(folder: Path) -> Parts:
    """BioViL, or BioViL-T of a single film: hi-ml's image model and its CXR-BERT."""
    source = only_file(folder, BIOVIL)
    state = read_tensors(source)
    with_prior = "encoder.missing_previous_emb" in state
    trunk = _resnet(source, names.under(state, "encoder.encoder."))
    own = names.under(state, "projector.model.")
    _require(source, own, "0.weight", "3.weight")
    hidden, width = own["0.weight"].shape[:2]
    dimension = len(own["3.weight"])
    project = _filled(source, lambda: patch_projector(width, hidden, dimension), own)
    head: nn.Module = project
    if with_prior:
        to_vit = state["encoder.backbone_to_vit.weight"]
        reduce = _filled(
            source,
            lambda: nn.Conv2d(to_vit.shape[1], len(to_vit), 1, bias=False),
            names.under(state, "encoder.backbone_to_vit."),
        )
        head = BesideMissing(reduce, state["encoder.missing_previous_emb"], project)
    crop = 448 if with_prior else 480
    return _with_cxr_bert(folder, trunk, head, Preprocessing(BIOVIL_RESIZE, crop, 0.0, 1.0))


def _with_cxr_bert(
    folder: Path, trunk: nn.Module, head: nn.Module, preprocessing: Preprocessing
) -> Parts:
    source, state = read_state(folder)
    state = only_tensors(source, state)
    _, config = read_encoder_config(folder / CONFIG, ("bert",))
    bert, sizes = _bert(source, names.under(state, "bert."), pooler=False)
    own = names.under(state, "cls_projection_head.")
    _require(source, own, "dense_to_hidden.weight")
    dimension, width = own["dense_to_hidden.weight"].shape
    text_head = _filled(source, lambda: CxrBertHead(width, dimension), own)
    levels = ((0.0,) * 3, (1.0,) * 3)
    images = ImageTower(trunk, "patches", head, levels, strided_offset(BIOVIL_STRIDE))
    return Parts(
        images,
        TextTower(bert, "first", text_head),
        load_tokenizer_of(folder, "bert"),
        preprocessing,
        1.0,
        int(config.max_position_embeddings),
        sizes,
    )


def _resnet(source: Path, state: State) -> Any:
    """A ResNet of torchvision's names with bottleneck blocks; a classifier is left out."""
    import transformers

    own = names.of_torchvision_resnet({k: x for k, x in state.items() if not k.startswith("fc.")})
    stages = sorted({int(name.split(".")[2]) for name in own if name.startswith("encoder.stages.")})
    depths, widths = [], []
    for stage in stages:
        prefix = f"encoder.stages.{stage}.layers."
        blocks = {
            int(name.removeprefix(prefix).split(".")[0]) for name in own if name.startswith(prefix)
        }
        depths.append(1 + max(blocks))
        widths.append(len(own[f"{prefix}0.shortcut.convolution.weight"]))
    sizes = {
        "embedding_size": len(own["embedder.embedder.convolution.weight"]),
        "hidden_sizes": widths,
        "depths": depths,
        "layer_type": "bottleneck",
    }
    config = transformers.ResNetConfig(
        **checked(source, "image tower", BACKBONES["resnet"].schema, sizes)
    )
    return network_of(source, transformers.ResNetModel, config, own, attention="eager")


def _cxr_clip(folder: Path) -> Parts:
    """CXR-CLIP's archive: its own configuration says how each tower is pooled."""
    source = only_file(folder, CXR_CLIP)
    state, said = read_archive(source, "model", "config")
    model = (said or {}).get("model", {})
    image, text = model.get("image_encoder", {}), model.get("text_encoder", {})
    pooled = {"eos": "last", "bos": "first", "mean": "mean"}.get(str(text.get("pooling")))
    if pooled is None:
        raise CheckpointError(f"{source}: its text_encoder.pooling is none of eos, bos, mean")
    side = int((said.get("base") or {}).get("image_size", 224))
    own = Preprocessing(side, side, 0.0, 1.0, "bilinear", "center")
    if image.get("name") == "resnet":
        trunk = _resnet(source, names.under(state, "image_encoder.resnet."))
        pooling, levels = "mean", _IMAGENET
    elif image.get("model_type") == "swin":
        trunk = _swin(source, names.under(state, "image_encoder.image_encoder."))
        pooling, levels = "first", ((0.5,) * 3, (0.5,) * 3)
    else:
        raise CheckpointError(f"{source}: its image encoder is neither a ResNet nor a Swin")
    bert, sizes = _bert(source, names.under(state, "text_encoder.text_encoder."), pooler=False)
    return Parts(
        ImageTower(trunk, pooling, _head(source, state, "image_projection."), levels),  # type: ignore[arg-type]
        TextTower(bert, pooled, _head(source, state, "text_projection.")),  # type: ignore[arg-type]
        load_tokenizer_of(folder, "bert"),
        own,
        math.exp(float(state["logit_scale"])),
        int((said.get("base") or {}).get("text_max_length", 256)),
        sizes,
    )


def _swin(source: Path, state: State) -> Any:
    """Swin-Tiny, the one that CXR-CLIP was trained with."""
    import transformers

    own = {name: x for name, x in state.items() if not name.endswith("relative_position_index")}
    return network_of(source, transformers.SwinModel, transformers.SwinConfig(), own)


def _head(source: Path, state: State, prefix: str) -> nn.Module:
    own = names.under(state, prefix)
    _require(source, own, "projection.weight")
    if "fc.weight" in own:
        dimension, width = own["projection.weight"].shape
        return _filled(source, lambda: ResidualHead(width, dimension), own)
    return _linear(source, own["projection.weight"], own.get("projection.bias"))


def only_file(folder: Path, pattern: str) -> Path:
    """The one file of a pattern (CheckpointError)."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        said = ", ".join(path.name for path in found) or "none"
        raise CheckpointError(f"{folder}: wants one file {pattern}, and holds {said}")
    return found[0]


def _require(source: Path, state: State, *wanted: str) -> None:
    if missing := [name for name in wanted if name not in state]:
        raise CheckpointError(
            f"{source}: has no {missing[0]}, so it is no whole pair of this layout; copy the "
            "file of the pair, not of one tower"
        )


def _without_buffers(state: State) -> dict[str, Tensor]:
    return {name: x for name, x in state.items() if name.split(".")[-1] not in BUFFERS}


LAYOUTS: dict[str, Callable[[Path], Parts]] = {
    "clip": _transformers_clip,
    "siglip": _siglip,
    "open_clip": _open_clip,
    "openai": _openai,
    "biovil": _biovil,
    "cxr-clip": _cxr_clip,
}
"""Every layout, by the name that :func:`cxrtext.models.folders.layout_of` gives a folder."""
