"""CXR-BERT's layout: its configuration, its class, and which tensors a checkpoint must hold.

The class is a masked language model with an optional projection of ``[CLS]`` into the space that
is shared with images.  Nothing of the hub's own code is used.

Source: Boecking et al. 2022 (BioViL), §2.2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM

from cxrtext.errors import CheckpointError

Positive = Annotated[int, Field(gt=0, le=1_000_000)]
Share = Annotated[float, Field(ge=0, lt=1)]


class CheckpointConfig(BaseModel):
    """The keys of a ``config.json`` that are read; every other key is dropped.

    A folder's configuration can name code to run (``auto_map``), kernels to fetch
    (``_attn_implementation``) and more; none of that gets past this list.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    model_type: Literal["bert", "cxr-bert"]
    vocab_size: Positive
    hidden_size: Annotated[int, Field(gt=0, le=16_384)]
    num_hidden_layers: Annotated[int, Field(gt=0, le=200)]
    num_attention_heads: Annotated[int, Field(gt=0, le=1024)]
    intermediate_size: Annotated[int, Field(gt=0, le=131_072)]
    hidden_act: Literal["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"] = "gelu"
    hidden_dropout_prob: Share = 0.1
    attention_probs_dropout_prob: Share = 0.1
    max_position_embeddings: Annotated[int, Field(gt=2, le=100_000)] = 512
    position_embedding_type: Literal["absolute"] = "absolute"
    type_vocab_size: Annotated[int, Field(gt=0, le=1024)] = 2
    initializer_range: Annotated[float, Field(gt=0, le=1)] = 0.02
    layer_norm_eps: Annotated[float, Field(gt=0, le=1)] = 1e-12
    pad_token_id: Annotated[int, Field(ge=0)] = 0
    tie_word_embeddings: bool = True
    projection_size: Annotated[int, Field(gt=0, le=16_384)] = 128


class CxrBertConfig(BertConfig):
    """BERT's configuration and the size of the projection."""

    model_type = "cxr-bert"
    projection_size: int = 128


class ProjectionHead(nn.Module):
    """Hidden size → 128 → 128, with GELU and a layer norm between."""

    def __init__(self, config: CxrBertConfig) -> None:
        super().__init__()
        size = config.projection_size
        self.dense_to_hidden = nn.Linear(config.hidden_size, size)
        self.LayerNorm = nn.LayerNorm(size, eps=1e-12)
        self.dense_to_output = nn.Linear(size, size)

    def forward(self, hidden: Tensor) -> Tensor:
        """Project [..., H] to [..., P], not normalised."""
        activated = nn.functional.gelu(self.dense_to_hidden(hidden))
        projected: Tensor = self.dense_to_output(self.LayerNorm(activated))
        return projected


class CxrBertModel(BertForMaskedLM):
    """A masked language model with CXR-BERT's projection head."""

    config_class = CxrBertConfig

    def __init__(self, config: CxrBertConfig) -> None:
        super().__init__(config)
        self.cls_projection_head = ProjectionHead(config)

    def embed(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Embed sentences.

        Args:
            input_ids: Word pieces with special tokens, [S, T].
            attention_mask: 1 where there is a token, [S, T].

        Returns:
            Unit vectors, [S, P].
        """
        hidden = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return nn.functional.normalize(self.cls_projection_head(hidden[:, 0]), dim=-1)


def read_config(path: Path) -> CheckpointConfig:
    """Read a ``config.json`` by this module's own schema.

    Raises:
        CheckpointError: It is missing, is no JSON object, or a known key has a value out of range.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file; a model folder holds a config.json")
    try:
        config = CheckpointConfig.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise CheckpointError(f"{path}: not a readable JSON file") from None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = ".".join(map(str, first["loc"])) or "the file"
        raise CheckpointError(f"{path}: {name}: {first['msg']}") from None
    if config.hidden_size % config.num_attention_heads:
        raise CheckpointError(
            f"{path}: hidden_size {config.hidden_size} is no multiple of "
            f"num_attention_heads {config.num_attention_heads}"
        )
    if config.pad_token_id >= config.vocab_size:
        raise CheckpointError(
            f"{path}: pad_token_id {config.pad_token_id} is outside the vocabulary of "
            f"{config.vocab_size}"
        )
    return config


def build_model(config: CheckpointConfig, *, head: bool = False) -> BertForMaskedLM:
    """Build the model on the meta device: shapes only, no memory.

    Args:
        config: The configuration.
        head: Whether to build the projection head too.
    """
    values = config.model_dump(exclude={"model_type", "position_embedding_type"})
    if not head:
        del values["projection_size"]
    with torch.device("meta"):
        return (
            CxrBertModel(CxrBertConfig(**values)) if head else BertForMaskedLM(BertConfig(**values))
        )


_DECODER = "cls.predictions.decoder."
_TIED = {
    f"{_DECODER}weight": "bert.embeddings.word_embeddings.weight",
    f"{_DECODER}bias": "cls.predictions.bias",
}
# What other heads of the same family leave in a file, and this model does not need.
_HARMLESS = (
    "bert.embeddings.position_ids",
    "bert.embeddings.token_type_ids",
    "bert.pooler.",
    "cls.seq_relationship.",
    "cls_projection_head.",
)


_HEAD = "cls.predictions."


def _check_has_head(state: Mapping[str, Any], source: Path) -> None:
    """Refuse an encoder that was saved without its head: new weights there would score noise."""
    has_encoder = any(name.endswith("embeddings.word_embeddings.weight") for name in state)
    if has_encoder and not any(name.startswith(_HEAD) for name in state):
        raise CheckpointError(
            f"{source}: holds an encoder without the masked-language-model head ({_HEAD}*), so it "
            "cannot score sentences; take a checkpoint that was saved with its head "
            "(BertForMaskedLM), or train one: cxrtext pretrain-text REPORTS --out DIR"
        )


def _names(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


def _completed(source: Path, state: Mapping[str, Tensor], *, tied: bool) -> dict[str, Tensor]:
    """Fill in tensors that a file may leave out because they repeat others; refuse unequal ones."""
    completed = dict(state)
    for copy, original in _TIED.items():
        if copy.endswith("weight") and not tied:
            continue
        if original not in completed and copy in completed:
            completed[original] = completed[copy]
        elif original in completed:
            other = completed.setdefault(copy, completed[original])
            if other.shape != completed[original].shape or not torch.equal(
                other, completed[original]
            ):
                raise CheckpointError(
                    f"{source}: {copy} differs from {original}, although the configuration says "
                    "that they are one"
                )
    return completed


def load_state(model: BertForMaskedLM, state: Mapping[str, Any], source: Path) -> None:
    """Put a checkpoint's tensors into a model built by ``build_model``; every key is checked.

    Args:
        model: The model on the meta device; afterwards on the CPU, in float32.
        state: Tensors by name.
        source: The file, for messages.

    Raises:
        CheckpointError: A tensor is missing, unexpected, of another shape, not of floating point
            or not finite, or the head is missing as a whole.
    """
    strays = [
        str(name)
        for name, value in state.items()
        if not (isinstance(name, str) and isinstance(value, Tensor))
    ]
    if strays:
        raise CheckpointError(f"{source}: not tensors: {_names(strays)}")
    _check_has_head(state, source)
    wanted = {name: value.shape for name, value in model.state_dict().items()}
    state = _completed(source, state, tied=bool(model.config.tie_word_embeddings))
    missing = [name for name in wanted if name not in state]
    extra = [name for name in state if name not in wanted and not name.startswith(_HARMLESS)]
    if missing or extra:
        parts = [f"missing: {_names(missing)}"] if missing else []
        parts += [f"unexpected: {_names(extra)}"] if extra else []
        raise CheckpointError(
            f"{source}: the tensors do not fit the configuration; {'; '.join(parts)}"
        )
    for name, shape in wanted.items():
        if state[name].shape != shape:
            raise CheckpointError(
                f"{source}: {name} has shape {list(state[name].shape)}, the configuration asks "
                f"for {list(shape)}"
            )
        if not state[name].is_floating_point() or not bool(state[name].isfinite().all()):
            raise CheckpointError(f"{source}: {name} holds values that are no finite numbers")
    kept = {name: state[name].to(torch.float32).contiguous() for name in wanted}
    model.load_state_dict(kept, strict=True, assign=True)
    _restore_buffers(model)
    model.tie_weights()


def _restore_buffers(model: BertForMaskedLM) -> None:
    """Give the two buffers that no checkpoint holds their values, off the meta device."""
    embeddings = model.bert.embeddings
    positions = torch.arange(model.config.max_position_embeddings).unsqueeze(0)
    embeddings.register_buffer("position_ids", positions, persistent=False)
    embeddings.register_buffer("token_type_ids", torch.zeros_like(positions), persistent=False)
