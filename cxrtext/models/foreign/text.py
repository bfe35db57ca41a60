"""Loads folders of text encoders and language models: configuration, tokenizer and weights.

No code from the hub is used, and no file can name code to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.files import SUMS, check_folder
from cxrtext.models.bert import Bert, BertConfig
from cxrtext.models.configurations import settings_of
from cxrtext.models.folders import (
    CONFIG,
    POOLING,
    SAFE_WEIGHTS,
    commit_of,
    find_model_folder,
    foreign,
    read_object,
)
from cxrtext.models.text_encoder import POOLINGS, text_config, text_configuration
from cxrtext.models.weight_files import filled, read_state
from cxrtext.text.tokenizer import load_tokenizer

SPARE_ROWS, SPARE_SHARE = 256, 0.1
"""Most rows of the embedding without a word piece, or this share of them if that is more: some
trainers round the number of rows up."""
_LEFT_OUT = (
    *("cls.seq_relationship.", "cls_projection_head.", "classifier.", "pooler."),
    *("embeddings.position_ids", "embeddings.token_type_ids"),
)
"""Tensors that a file may have besides an encoder and a language model's head."""
HEAD = "cls.predictions."


@dataclass(frozen=True, slots=True)
class TextFolder:
    """The parts of a folder, checked against each other."""

    config: BertConfig
    tokenizer: Any
    source: Path  # the file of the weights
    state: dict[str, Tensor]  # of the encoder, without a prefix, and of a language model's head


@dataclass(frozen=True, slots=True)
class PretrainedText:
    """A text encoder to start from."""

    config: dict[str, Any]  # the part of its configuration that a checkpoint keeps
    state: dict[str, Tensor]  # its tensors in float32, by the encoder's own names
    tokenizer: Any
    # how a sentence-transformers folder pools states; None for others
    pooling: str | None
    name: str  # the hub id or folder name that it was loaded by
    revision: str | None = None  # the hub's commit; None for a folder


def load_text_encoder(name_or_path: str | Path) -> PretrainedText:
    """Load a BERT; a saved head is ignored.

    Args:
        name_or_path: A folder from transformers or sentence-transformers, or with CXR-BERT's
            layout; or a hub id, with or without ``@revision``, which is first looked up in the
            local cache.
    """
    folder, name = found_folder(name_or_path)
    with foreign(folder):
        parts = read_text_folder(folder)
        pooling = _pooling_of(folder, parts.config.hidden_size)
        own = {name: x for name, x in parts.state.items() if not name.startswith(HEAD)}
        network = filled(parts.source, lambda: Bert(parts.config), own)
    config = text_config(settings_of(parts.config))
    return PretrainedText(
        config, network.state_dict(), parts.tokenizer, pooling, name, commit_of(folder)
    )


def found_folder(name_or_path: str | Path, *, offline: bool = False) -> tuple[Path, str]:
    """The folder of a model, fetched from the hub if it is not here, and the model's name."""
    folder = find_model_folder(name_or_path, offline=offline)
    return folder, folder.name if folder == Path(name_or_path) else str(name_or_path)


def read_text_folder(folder: Path) -> TextFolder:
    """Read configuration, tokenizer and weights; refuse parts that cannot belong together."""
    if (folder / SUMS).exists():  # made by this program; models from the hub list no digests
        check_folder(folder, (CONFIG, SAFE_WEIGHTS), CheckpointError, "copy it again")
    config = _text_configuration(folder / CONFIG)
    tokenizer = load_tokenizer(folder)
    check_pieces(folder, tokenizer, config.vocab_size)
    source, weights = read_state(folder)
    state = {name.removeprefix("bert."): x for name, x in weights.items()}
    state = {_renamed(n): x for n, x in state.items() if not n.startswith(_LEFT_OUT)}
    return TextFolder(config, tokenizer, source, _completed(source, state, config))


def _text_configuration(path: Path) -> BertConfig:
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file; a model folder holds a config.json")
    try:
        config = text_configuration(read_object(path))
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from None
    if config.pad_token_id >= config.vocab_size:
        raise CheckpointError(
            f"{path}: pad_token_id {config.pad_token_id} is outside the vocabulary of "
            f"{config.vocab_size}"
        )
    return config


def repeated(config: BertConfig) -> dict[str, str]:
    """The tensors of a language model's head that only repeat others, with those."""
    copies = {f"{HEAD}decoder.bias": f"{HEAD}bias"}
    if config.tie_word_embeddings:
        copies[f"{HEAD}decoder.weight"] = "embeddings.word_embeddings.weight"
    return copies


def _completed(source: Path, state: Mapping[str, Tensor], config: BertConfig) -> dict[str, Tensor]:
    """Fill in tensors that a file may omit because they repeat others; refuse unequal ones."""
    filled = dict(state)
    for copy, original in repeated(config).items():
        if copy not in filled:
            continue
        own = filled.setdefault(original, filled[copy])
        if own.shape != filled[copy].shape or not torch.equal(own, filled[copy]):
            raise CheckpointError(
                f"{source}: {copy} differs from {original}, although the configuration says "
                "that they are one"
            )
    return filled


def _renamed(name: str) -> str:
    """A tensor's present name; files from BERT's first years have TensorFlow's names."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
        "LayerNorm.beta", "LayerNorm.bias"
    )


def check_pieces(folder: Path, tokenizer: Any, rows: int) -> None:
    """Refuse a vocabulary that cannot be the one used in training the weights."""
    pieces = 1 + max(tokenizer.get_vocab().values())
    if pieces > rows:
        raise CheckpointError(
            f"{folder}: the vocabulary has {pieces} word pieces, the model {rows}"
        )
    if rows - pieces > max(SPARE_ROWS, SPARE_SHARE * rows):
        raise CheckpointError(
            f"{folder}: the vocabulary has {pieces} word pieces, the model {rows}: the "
            "tokenizer's files belong to another model; copy this model's"
        )


def _pooling_of(folder: Path, width: int) -> str | None:
    """How a sentence-transformers folder pools states; None if it does not say."""
    path = folder / POOLING
    if not path.is_file():
        return None
    values = read_object(path)
    modes = {
        key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for key, value in values.items()
        if key.startswith("pooling_mode_") and value is True
    }
    if isinstance(values.get("pooling_mode"), str):
        modes = {values["pooling_mode"]}
    given = values.get("word_embedding_dimension", width)
    if given != width:
        raise CheckpointError(
            f"{path}: pools states of {given} numbers, the encoder's have {width}; copy all files "
            "from the same model"
        )
    if len(modes) == 1 and modes <= set(POOLINGS):
        return str(*modes)
    raise CheckpointError(
        f"{path}: pools by {' and '.join(sorted(modes)) or 'nothing'}, and here there is cls or "
        "mean; take another model"
    )
