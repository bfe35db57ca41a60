"""Folders of text encoders and language models: configuration, tokenizer and weights, checked.

Nothing of the hub's own code is used, and no file can name code to run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.files import SUMS, check_folder
from cxrtext.models.folders import (
    CONFIG,
    POOLING,
    SAFE_WEIGHTS,
    commit_of,
    find_model_folder,
    read_json,
    refused,
)
from cxrtext.models.text_encoder import FAMILIES, MODEL_TYPES, POOLINGS, EncoderConfig, text_config
from cxrtext.models.weight_files import check_finite, listed, misfit, read_state
from cxrtext.text.tokenizer import load_tokenizer_of

SPARE_ROWS, SPARE_SHARE = 256, 0.1
"""Rows of the embedding that may be without a word piece, or this share of them where that is
more: some trainers round the number of rows up."""
_HEADS = (
    *("cls.predictions.", "cls.seq_relationship.", "cls_projection_head."),
    *("lm_head.", "classifier."),
)
"""What an encoder may have been saved with, and does not need."""
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids", "pooler.")


@dataclass(frozen=True, slots=True)
class TextFolder:
    """What a folder holds, the parts compared with each other."""

    family: str  # one of FAMILIES
    config: EncoderConfig  # what is read of its configuration
    tokenizer: Any  # as transformers' own class of the family has it
    source: Path  # the file of the weights
    state: Mapping[str, Any]  # what that holds, not yet checked


@dataclass(frozen=True, slots=True)
class PretrainedText:
    """A text encoder to start from."""

    config: dict[str, Any]  # what a checkpoint keeps of its configuration
    state: dict[str, Tensor]  # its tensors in float32, by the names of the encoder alone
    tokenizer: Any
    # how a sentence-transformers folder says that states are pooled; None elsewhere
    pooling: str | None
    name: str  # what it was asked for by: a hub id or a folder's name
    revision: str | None = None  # the hub's commit that it came from; None for a folder


def load_text_encoder(name_or_path: str | Path) -> PretrainedText:
    """Load a BERT, RoBERTa or MPNet, saved with or without a head, which is left aside.

    Args:
        name_or_path: A folder as transformers or sentence-transformers write it, or of CXR-BERT's
            layout; or a hub id, with or without ``@revision``, for which the local cache is looked
            at first.
    """
    folder, name = found_folder(name_or_path, offline=False)
    found = read_text_folder(folder)
    pooling = _pooling_of(folder, found.config.hidden_size)
    state = _encoder_state(found)
    config = text_config(found.config.model_dump())
    return PretrainedText(config, state, found.tokenizer, pooling, name, commit_of(folder))


def found_folder(name_or_path: str | Path, *, offline: bool) -> tuple[Path, str]:
    """The folder of a model, fetched from the hub when it is not here, and the model's name."""
    folder = find_model_folder(name_or_path, offline=offline)
    return folder, folder.name if folder == Path(name_or_path) else str(name_or_path)


def read_text_folder(folder: Path, families: Iterable[str] = FAMILIES) -> TextFolder:
    """Read configuration, tokenizer and weights; refuse what cannot belong together."""
    if (folder / SUMS).exists():  # this program's own; a model of the hub lists no digests
        check_folder(folder, (CONFIG, SAFE_WEIGHTS), CheckpointError, "copy it again")
    family, config = read_encoder_config(folder / CONFIG, tuple(families))
    tokenizer = load_tokenizer_of(folder, family)
    check_pieces(folder, tokenizer, config.vocab_size)
    pad = config.pad_token_id
    if family != "bert" and tokenizer.pad_token_id != pad:  # positions are counted by it
        raise CheckpointError(
            f"{folder}: the tokenizer pads with {tokenizer.pad_token_id}, {CONFIG} says {pad}; "
            "copy all files from the same model"
        )
    return TextFolder(family, config, tokenizer, *read_state(folder))


def read_encoder_config(path: Path, families: Iterable[str]) -> tuple[str, EncoderConfig]:
    """The family of a ``config.json``, and its keys by this program's own schema."""
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file; a model folder holds a config.json")
    values = read_json(path)
    given = values.get("model_type") if isinstance(values, dict) else None
    known = [name for name, family in MODEL_TYPES.items() if family in families]
    if given is not None and given not in known:
        anything = set(families) == set(FAMILIES)
        scored = "" if anything else "; sentences are scored by a BERT with its head"
        raise CheckpointError(
            f"{path}: model_type: {str(given)[:40]!r} is not read here, only "
            f"{', '.join(known)}{scored}"
        )
    family = MODEL_TYPES[given or known[0]]
    try:
        config = FAMILIES[family].keys.model_validate(values)
    except ValidationError as error:
        raise refused(path, "", error) from None
    if config.hidden_size % config.num_attention_heads:
        raise CheckpointError(
            f"{path}: hidden_size {config.hidden_size} is no multiple of "
            f"num_attention_heads {config.num_attention_heads}"
        )
    pad, positions = config.pad_token_id, config.max_position_embeddings
    if pad >= config.vocab_size:
        raise CheckpointError(
            f"{path}: pad_token_id {pad} is outside the vocabulary of {config.vocab_size}"
        )
    if family != "bert" and pad + 1 >= positions:
        raise CheckpointError(
            f"{path}: pad_token_id {pad} leaves no position of max_position_embeddings {positions}"
        )
    return family, config


def check_pieces(folder: Path, tokenizer: Any, rows: int) -> None:
    """Refuse a vocabulary that cannot be the one that the weights were trained with."""
    pieces = 1 + max(tokenizer.get_vocab().values())
    if pieces > rows:
        raise CheckpointError(
            f"{folder}: the vocabulary has {pieces} word pieces, the model {rows}"
        )
    if rows - pieces > max(SPARE_ROWS, SPARE_SHARE * rows):
        raise CheckpointError(
            f"{folder}: the vocabulary has {pieces} word pieces, the model {rows}: the "
            "tokenizer's files are of another model; copy those of this one"
        )


def _pooling_of(folder: Path, width: int) -> str | None:
    """How a sentence-transformers folder says that states are pooled; None where it does not."""
    path = folder / POOLING
    if not path.is_file():
        return None
    values = read_json(path)
    try:
        modes = {
            key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
            for key, value in values.items()
            if key.startswith("pooling_mode_") and value is True
        }
        if isinstance(values.get("pooling_mode"), str):
            modes = {values["pooling_mode"]}
        given = values.get("word_embedding_dimension", width)
    except AttributeError:
        raise CheckpointError(f"{path}: not a readable JSON object; copy it again") from None
    if given != width:
        raise CheckpointError(
            f"{path}: pools states of {given} numbers, the encoder's have {width}; copy all files "
            "from the same model"
        )
    if len(modes) == 1 and modes <= set(POOLINGS):
        return str(*modes)
    raise CheckpointError(
        f"{path}: pools by {' and '.join(sorted(modes)) or 'nothing'}, and here there is cls or "
        "mean; remove the folder 1_Pooling from a copy of the model, and choose model.pooling"
    )


def _encoder_state(found: TextFolder) -> dict[str, Tensor]:
    """The encoder's tensors, every one checked, with the names that it has by itself."""
    family = FAMILIES[found.family]
    values = found.config.model_dump(exclude={"position_embedding_type"})
    with torch.device("meta"):  # shapes only, no memory
        network = family.build(values)
    state = only_tensors(found.source, found.state)
    prefix = family.prefix if any(name.startswith(family.prefix) for name in state) else ""
    if found.config.tie_word_embeddings:
        copies = {f"{family.decoder}weight": f"{prefix}embeddings.word_embeddings.weight"}
        state = completed(found.source, state, copies)
    wanted = {f"{prefix}{name}": value for name, value in network.state_dict().items()}
    kept = fitted(found.source, state, wanted, (*_HEADS, *(f"{prefix}{name}" for name in _BUFFERS)))
    return {name.removeprefix(prefix): tensor for name, tensor in kept.items()}


def only_tensors(source: Path, state: Mapping[Any, Any]) -> dict[str, Tensor]:
    """A file's content, refused where something of it is no tensor by name."""
    orphans = [
        str(name)
        for name, value in state.items()
        if not (isinstance(name, str) and isinstance(value, Tensor))
    ]
    if orphans:
        raise CheckpointError(f"{source}: not tensors: {listed(orphans)}")
    return dict(state)


def completed(
    source: Path, state: Mapping[str, Tensor], copies: Mapping[str, str]
) -> dict[str, Tensor]:
    """Fill in tensors that a file may leave out because they repeat others; refuse unequal ones.

    ``copies`` says of each such name which one it repeats.
    """
    filled = dict(state)
    for copy, original in copies.items():
        if original not in filled and copy in filled:
            filled[original] = filled[copy]
        elif original in filled:
            other = filled.setdefault(copy, filled[original])
            if other.shape != filled[original].shape or not torch.equal(other, filled[original]):
                raise CheckpointError(
                    f"{source}: {copy} differs from {original}, although the configuration says "
                    "that they are one"
                )
    return filled


def fitted(
    source: Path,
    state: Mapping[str, Tensor],
    wanted: Mapping[str, Tensor],
    harmless: tuple[str, ...],
) -> dict[str, Tensor]:
    """The tensors that are wanted, in float32; names with a harmless beginning may be extra."""
    kept = {
        name: tensor
        for name, tensor in state.items()
        if name in wanted or not name.startswith(harmless)
    }
    if fault := misfit(kept, wanted):
        raise CheckpointError(f"{source}: the tensors do not fit the configuration; {fault}")
    check_finite(source, kept)
    return {name: kept[name].to(torch.float32).contiguous() for name in wanted}
