"""Masked language models: from a folder or the hub, checked key by key, and back to a folder.

Nothing of the hub's own code is used, and no file can name code to run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from cxrtext.errors import CheckpointError
from cxrtext.files import SUMS, check_folder, write_json
from cxrtext.models.folders import PICKLED_WEIGHTS, SAFE_WEIGHTS, commit_of, find_model_folder
from cxrtext.models.weight_files import keep_copy, read_state
from cxrtext.text.tokenizer import load_tokenizer, lowercases, save_tokenizer, vocabulary_of

Positive = Annotated[int, Field(gt=0, le=1_000_000)]
Share = Annotated[float, Field(ge=0, lt=1)]
PROJECTION = 128
"""Size of CXR-BERT's projection head, which is not read; part of every fingerprint."""
SPARE_ROWS, SPARE_SHARE = 256, 0.1
"""Rows of the embedding that may be without a word piece, or this share of them where that is
more: some trainers round the number of rows up."""


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


@dataclass(frozen=True, slots=True)
class MaskedLanguageModel:
    """A masked language model ready for use.

    Args:
        model: The network, in evaluation mode; ``model.bert`` is the encoder without a head.
        name: What it was asked for by: a hub id or a folder's name.
        fingerprint: SHA-256 over configuration, weights and vocabulary; the same weights have the
            same fingerprint in either file format.
        revision: The hub's commit that it came from; None for a folder.
    """

    model: BertForMaskedLM
    tokenizer: BertTokenizer
    name: str
    fingerprint: str
    revision: str | None = None

    @property
    def window(self) -> int:
        """Most word pieces that fit the network at once, special tokens not counted."""
        return int(self.model.config.max_position_embeddings) - 2


def fingerprint_of(model: BertForMaskedLM, tokenizer: BertTokenizer) -> str:
    """Return the SHA-256 digest of a model's configuration, weights and vocabulary."""
    config = _known(model).model_dump(
        exclude={"hidden_dropout_prob", "attention_probs_dropout_prob"}
    )
    config["projection_size"] = PROJECTION
    vocabulary = [lowercases(tokenizer), vocabulary_of(tokenizer)]
    digest = hashlib.sha256(json.dumps([config, vocabulary], sort_keys=True).encode())
    for name, tensor in sorted(_independent(model).items()):
        digest.update(f"{name} {list(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()


def _known(model: BertForMaskedLM) -> CheckpointConfig:
    """The configuration of a model in memory, as the schema knows it."""
    return CheckpointConfig.model_validate(model.config.to_dict())


def _independent(model: BertForMaskedLM) -> dict[str, torch.Tensor]:
    """The state without tensors that only repeat others."""
    state: dict[str, torch.Tensor] = model.state_dict()
    repeated = {"cls.predictions.decoder.bias"}
    if model.config.tie_word_embeddings:
        repeated.add("cls.predictions.decoder.weight")
    return {name: tensor for name, tensor in state.items() if name not in repeated}


def load_masked_language_model(
    name_or_path: str | Path, *, device: str | torch.device = "cpu", offline: bool = False
) -> MaskedLanguageModel:
    """Load a masked language model, in evaluation mode and float32.

    Args:
        name_or_path: A folder of the ``BertForMaskedLM`` family or of CXR-BERT's layout, whose
            projection head is left aside; or a hub id, with or without ``@revision``, for which
            the local cache is looked at first.
        device: Where to put the network.
        offline: Never touch the network; HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE say the same.

    Raises:
        CheckpointError: The folder is incomplete or damaged, or its parts do not fit each other.
        HubError: The model is not here, and the hub cannot be reached, does not have it or may
            not be asked.
    """
    folder = find_model_folder(name_or_path, offline=offline)
    name = folder.name if folder == Path(name_or_path) else str(name_or_path)
    model, tokenizer = _load(folder)
    fingerprint = fingerprint_of(model, tokenizer)
    nn.Module.to(model, torch.device(device))
    return MaskedLanguageModel(model, tokenizer, name, fingerprint, commit_of(folder))


def _load(folder: Path) -> tuple[BertForMaskedLM, BertTokenizer]:
    if (folder / SUMS).exists():  # this program's own; a model of the hub lists no digests
        check_folder(folder, ("config.json", SAFE_WEIGHTS), CheckpointError, "copy it again")
    config = _read_config(folder / "config.json")
    tokenizer = load_tokenizer(folder)
    _check_fit(folder, len(tokenizer), config.vocab_size)
    source, state = read_state(folder)
    model = _network(config, state, source)
    if source.name == PICKLED_WEIGHTS:
        keep_copy(source, state)
    return model, tokenizer


def _check_fit(folder: Path, pieces: int, rows: int) -> None:
    """Refuse a vocabulary that cannot be the one that the weights were trained with."""
    if pieces > rows:
        raise CheckpointError(
            f"{folder}: the vocabulary has {pieces} word pieces, config.json says {rows}"
        )
    if rows - pieces > max(SPARE_ROWS, SPARE_SHARE * rows):
        raise CheckpointError(
            f"{folder}: the vocabulary has {pieces} word pieces, config.json says {rows}: the "
            "tokenizer's files are of another model; copy those of this one"
        )


def save_masked_language_model(
    model: BertForMaskedLM, tokenizer: BertTokenizer, folder: Path
) -> None:
    """Write ``config.json``, ``model.safetensors`` and the tokenizer's files into a folder.

    Tensors that repeat others are written once; transformers' own classes load it too.
    """
    config = {"architectures": ["BertForMaskedLM"], **_known(model).model_dump()}
    write_json(folder / "config.json", config | {"model_type": "bert", "dtype": "float32"})
    tensors = {
        name: tensor.detach().cpu().contiguous() for name, tensor in _independent(model).items()
    }
    save_file(tensors, folder / SAFE_WEIGHTS, metadata={"format": "pt"})
    save_tokenizer(tokenizer, folder)


def _read_config(path: Path) -> CheckpointConfig:
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


def _network(config: CheckpointConfig, state: Mapping[str, Any], source: Path) -> BertForMaskedLM:
    """A checkpoint's network on the CPU, in float32; every key of the file is checked.

    Raises:
        CheckpointError: A tensor is missing, unexpected, of another shape, not of floating point
            or not finite, or the head is missing as a whole.
    """
    orphans = [
        str(name)
        for name, value in state.items()
        if not (isinstance(name, str) and isinstance(value, Tensor))
    ]
    if orphans:
        raise CheckpointError(f"{source}: not tensors: {_names(orphans)}")
    _check_has_head(state, source)
    values = config.model_dump(exclude={"model_type", "position_embedding_type"})
    with torch.device("meta"):  # shapes only, no memory
        model = BertForMaskedLM(BertConfig(**values))
    wanted = {name: value.shape for name, value in model.state_dict().items()}
    state = _completed(source, state, tied=config.tie_word_embeddings)
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
    # Two buffers that no checkpoint holds are still on the meta device.
    embeddings = model.bert.embeddings
    positions = torch.arange(config.max_position_embeddings).unsqueeze(0)
    embeddings.register_buffer("position_ids", positions, persistent=False)
    embeddings.register_buffer("token_type_ids", torch.zeros_like(positions), persistent=False)
    model.tie_weights()
    model.eval()
    return model
