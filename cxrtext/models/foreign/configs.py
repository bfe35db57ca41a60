"""Configurations of finished pairs: the keys that are read, every other key is dropped."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.images.preprocessing import Preprocessing
from cxrtext.models.folders import read_json, refused
from cxrtext.models.foreign.kinds import Activation, Count, Side, Small, Width
from cxrtext.models.foreign.processor import Prepared

_OPENAI = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
_HEAD = 64  # width of an attention head
MAX_GRID = 128  # patches a side; attention takes time by the fourth power of it


class _Tower(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    hidden_size: Width | None = None
    intermediate_size: Width | None = None
    num_hidden_layers: Count | None = None
    num_attention_heads: Annotated[int, Field(gt=0, le=1024)] | None = None
    hidden_act: Activation | None = None
    layer_norm_eps: Small | None = None


class ClipVision(_Tower):
    """The image tower of a CLIP or SigLIP of transformers."""

    image_size: Side | None = None
    patch_size: Side | None = None
    num_channels: Literal[3] | None = None

    @model_validator(mode="after")
    def _check_grid(self) -> Self:
        if (self.image_size or 1) > MAX_GRID * (self.patch_size or MAX_GRID):
            raise ValueError(f"more than {MAX_GRID} patches a side")
        return self


class ClipText(_Tower):
    """The text tower of a CLIP or SigLIP of transformers."""

    vocab_size: Annotated[int, Field(gt=0, le=2_000_000)] | None = None
    max_position_embeddings: Annotated[int, Field(gt=2, le=100_000)] | None = None
    eos_token_id: Annotated[int, Field(ge=0)] | None = None
    projection_size: Width | None = None


class _OpenVision(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    image_size: Side = 224
    layers: Count = 12
    width: Width = 768
    head_width: Width = 64
    patch_size: Side = 16
    mlp_ratio: Annotated[float, Field(gt=0, le=64)] = 4.0
    pool_type: Literal["tok"] = "tok"
    pos_embed_type: Literal["learnable"] = "learnable"
    timm_model_name: str | None = None
    timm_pool: str = "avg"
    timm_proj: str | None = "linear"


class _OpenText(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    context_length: Annotated[int, Field(gt=2, le=100_000)] = 77
    heads: Annotated[int, Field(gt=0, le=1024)] = 8
    pool_type: Literal["argmax"] = "argmax"
    text_arch: Literal["clip"] = "clip"
    hf_model_name: str | None = None
    hf_proj_type: str = "mlp"
    hf_pooler_type: str = "mean_pooler"


class OpenClip(BaseModel):
    """An ``open_clip_config.json``."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    class _Model(BaseModel):
        model_config = ConfigDict(extra="ignore", frozen=True)

        quick_gelu: bool = False
        vision_cfg: _OpenVision = _OpenVision()
        text_cfg: _OpenText = _OpenText()

    class _Images(BaseModel):
        model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

        mean: Annotated[list[float], Field(min_length=3, max_length=3)] = list(_OPENAI[0])
        std: Annotated[list[float], Field(min_length=3, max_length=3)] = list(_OPENAI[1])
        interpolation: Literal["bicubic", "bilinear"] = "bicubic"
        resize_mode: Literal["shortest", "squash"] = "shortest"

    model_cfg: _Model = _Model()
    preprocess_cfg: _Images = _Images()

    @property
    def hf_text(self) -> bool:
        """Whether the text tower is a model of transformers."""
        return self.model_cfg.text_cfg.hf_model_name is not None

    @property
    def timm(self) -> bool:
        """Whether the image tower is a model of timm."""
        return self.model_cfg.vision_cfg.timm_model_name is not None

    @property
    def context_length(self) -> int:
        """Most pieces of a sentence."""
        return self.model_cfg.text_cfg.context_length

    def prepared(self, path: Path) -> Prepared:
        """How its images are resized and scaled."""
        given, side = self.preprocess_cfg, self.model_cfg.vision_cfg.image_size
        if min(given.std) <= 0:
            raise CheckpointError(f"{path}: preprocess_cfg.std has to be above 0")
        fit: Literal["center", "stretch"] = "stretch" if given.resize_mode == "squash" else "center"
        own = Preprocessing(side, side, 0.0, 1.0, given.interpolation, fit)
        return Prepared(own, tuple(given.mean), tuple(given.std))

    def vision(self) -> dict[str, Any]:
        """The image tower of open_clip's own, in transformers' words."""
        given = self.model_cfg.vision_cfg
        return {
            **self._both(),
            "hidden_size": given.width,
            "intermediate_size": int(given.width * given.mlp_ratio),
            "num_hidden_layers": given.layers,
            "num_attention_heads": given.width // given.head_width,
            "image_size": given.image_size,
            "patch_size": given.patch_size,
        }

    def text(self, named: Mapping[str, Tensor]) -> dict[str, Any]:
        """The text tower of open_clip's own; its sizes stand in its tensors, too."""
        vocabulary, width = named["text_model.embeddings.token_embedding.weight"].shape
        layer = "text_model.encoder.layers.{}.mlp.fc1.weight"
        layers = layers_of(named, layer)
        return {
            **self._both(),
            "hidden_size": width,
            "intermediate_size": len(named[layer.format(0)]),
            "num_hidden_layers": layers,
            "num_attention_heads": self.model_cfg.text_cfg.heads,
            "max_position_embeddings": self.context_length,
            "vocab_size": vocabulary,
            "eos_token_id": 2,  # pooled at the highest id, as open_clip does
        }

    def _both(self) -> dict[str, Any]:
        quick = "quick_gelu" if self.model_cfg.quick_gelu else "gelu"
        return {"hidden_act": quick, "layer_norm_eps": 1e-5}

    def vit(self, state: Mapping[str, Tensor]) -> dict[str, Any]:
        """Timm's vision transformer as a ``ViTConfig``; its sizes are those of its tensors."""
        patch = state["visual.trunk.patch_embed.proj.weight"]
        block = "visual.trunk.blocks.{}.mlp.fc1.weight"
        layers = layers_of(state, block)
        return {
            "hidden_size": len(patch),
            "intermediate_size": len(state[block.format(0)]),
            "num_hidden_layers": layers,
            "num_attention_heads": max(1, len(patch) // _HEAD),
            "image_size": self.model_cfg.vision_cfg.image_size,
            "patch_size": patch.shape[-1],
            "layer_norm_eps": 1e-6,
            "hidden_act": "gelu",
        }

    @property
    def bert_pooling(self) -> Literal["first", "mean"]:
        """How the BERT's states are pooled."""
        given = self.model_cfg.text_cfg.hf_pooler_type
        return "mean" if given == "mean_pooler" else "first"


def open_clip(path: Path) -> OpenClip:
    """Read an ``open_clip_config.json``; what is not read here is refused (CheckpointError)."""
    values = read_json(path)
    try:
        found = OpenClip.model_validate(values)
    except ValidationError as error:
        raise refused(path, "", error) from None
    vision, text = found.model_cfg.vision_cfg, found.model_cfg.text_cfg
    if found.timm and (
        not vision.timm_model_name.startswith("vit_")  # type: ignore[union-attr]
        or (vision.timm_pool, vision.timm_proj) != ("", "linear")
    ):
        raise CheckpointError(
            f"{path}: of timm's models a vit_… with timm_pool '' and timm_proj 'linear' is read, "
            "as BiomedCLIP has it"
        )
    if found.hf_text and not found.timm:
        raise CheckpointError(
            f"{path}: a text tower of transformers is read beside an image tower of timm alone"
        )
    known = ("cls_last_hidden_state_pooler", "mean_pooler")
    if found.hf_text and (text.hf_pooler_type not in known or text.hf_proj_type != "mlp"):
        raise CheckpointError(
            f"{path}: text_cfg: of a BERT, hf_pooler_type {' or '.join(known)} and hf_proj_type "
            "mlp are read"
        )
    for part, schema in (("vision_cfg", _OpenVision), ("text_cfg", _OpenText)):
        given = values["model_cfg"].get(part, {}) if isinstance(values, dict) else {}
        for key, value in given.items():
            if key not in schema.model_fields and key not in _HARMLESS and value:
                raise CheckpointError(f"{path}: {part}.{key} {value!r} is a rule not known here")
    return found


_HARMLESS = {
    *("layers", "width", "mlp_ratio", "vocab_size", "output_tokens", "patch_dropout", "timm_drop"),
    *("timm_drop_path", "timm_model_pretrained", "hf_model_pretrained", "hf_tokenizer_name"),
    *("tokenizer_kwargs", "timm_proj_bias"),
}
"""Keys whose values stand in the tensors, or matter to training alone."""


def layers_of(state: Mapping[str, Tensor], pattern: str) -> int:
    """How many layers tensors are of, whose names have a number in the place of {}."""
    return next(n for n in count() if pattern.format(n) not in state)


def sizes_of_bert(source: Path, state: Mapping[str, Tensor], head: int) -> dict[str, Any]:
    """A ``BertConfig``'s sizes by its tensors, heads being ``head`` wide."""
    try:
        vocabulary, width = state["embeddings.word_embeddings.weight"].shape
        inner = "encoder.layer.{}.intermediate.dense.weight"
        return {
            "vocab_size": vocabulary,
            "hidden_size": width,
            "num_hidden_layers": layers_of(state, inner),
            "num_attention_heads": max(1, width // head),
            "intermediate_size": len(state[inner.format(0)]),
            "max_position_embeddings": len(state["embeddings.position_embeddings.weight"]),
            "type_vocab_size": len(state["embeddings.token_type_embeddings.weight"]),
        }
    except KeyError as error:
        raise CheckpointError(f"{source}: its text tower has no {error.args[0]}") from None


def checked(path: Path, part: str, schema: type[BaseModel], values: Any) -> dict[str, Any]:
    """The values of a schema that are given (CheckpointError)."""
    try:
        return schema.model_validate(values).model_dump(exclude_none=True)
    except ValidationError as error:
        raise refused(path, f"{part}.", error) from None
