"""Masked language models: from a folder or the hub, checked key by key, and back to a folder."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import BertForMaskedLM, BertTokenizer

from cxrtext.errors import CheckpointError
from cxrtext.files import SUMS, check_folder, write_json
from cxrtext.models.cxr_bert import (
    CheckpointConfig,
    CxrBertModel,
    build_model,
    load_state,
    read_config,
)
from cxrtext.models.hub import DEFAULT_MODEL, commit_of, find_model_folder
from cxrtext.models.model_files import PICKLED_WEIGHTS, SAFE_WEIGHTS
from cxrtext.models.weight_files import keep_copy, read_state
from cxrtext.text.tokenizer import load_tokenizer, lowercases, save_tokenizer, vocabulary_of

__all__ = [
    "DEFAULT_MODEL",
    "MaskedLanguageModel",
    "find_model_folder",
    "fingerprint_of",
    "load_cxr_bert",
    "load_masked_language_model",
    "save_masked_language_model",
]

SPARE_ROWS, SPARE_SHARE = 256, 0.1
"""Rows of the embedding that may be without a word piece, or this share of them where that is
more: some trainers round the number of rows up."""


@dataclass(frozen=True, slots=True)
class MaskedLanguageModel:
    """A masked language model ready for use.

    Args:
        model: The network, in evaluation mode; ``model.bert`` is the encoder without a head.
        tokenizer: Its tokenizer.
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
    """Load a masked language model.

    Args:
        name_or_path: A folder of the ``BertForMaskedLM`` family or of CXR-BERT's layout, or a hub
            id, with or without ``@revision``, for which the local cache is looked at first.
        device: Where to put the network.
        offline: Never touch the network; HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE say the same.

    Returns:
        The model in evaluation mode, float32.  A projection head in the file is left aside.

    Raises:
        CheckpointError: The folder is incomplete or damaged, or its parts do not fit each other.
        HubError: The model is not here, and the hub cannot be reached, does not have it or may
            not be asked.
    """
    folder = find_model_folder(name_or_path, offline=offline)
    name = folder.name if folder == Path(name_or_path) else str(name_or_path)
    model, tokenizer = _load(folder, head=False)
    fingerprint = fingerprint_of(model, tokenizer)
    nn.Module.to(model, torch.device(device))
    return MaskedLanguageModel(model, tokenizer, name, fingerprint, commit_of(folder))


def load_cxr_bert(
    name_or_path: str | Path, *, device: str | torch.device = "cpu", offline: bool = False
) -> tuple[CxrBertModel, BertTokenizer]:
    """Load CXR-BERT with its projection head; every key of the head is needed.

    Raises:
        CheckpointError: As ``load_masked_language_model``, or there is no projection head.
        HubError: As ``load_masked_language_model``.
    """
    model, tokenizer = _load(find_model_folder(name_or_path, offline=offline), head=True)
    assert isinstance(model, CxrBertModel)  # noqa: S101 - head=True builds this class
    nn.Module.to(model, torch.device(device))
    return model, tokenizer


def _load(folder: Path, *, head: bool) -> tuple[BertForMaskedLM, BertTokenizer]:
    if (folder / SUMS).exists():  # this program's own; a model of the hub lists no digests
        check_folder(folder, ("config.json", SAFE_WEIGHTS), CheckpointError, "copy it again")
    config = read_config(folder / "config.json")
    tokenizer = load_tokenizer(folder)
    _check_fit(folder, len(tokenizer), config.vocab_size)
    source, state = read_state(folder)
    model = build_model(config, head=head)
    load_state(model, state, source)
    if source.name == PICKLED_WEIGHTS:
        keep_copy(source, state)
    model.eval()
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
    """Write ``config.json``, ``model.safetensors`` and the tokenizer's files.

    Args:
        model: The network; tensors that repeat others are written once.
        tokenizer: Its tokenizer.
        folder: An existing folder; transformers' own classes load the model from there too.
    """
    config = {"architectures": ["BertForMaskedLM"], **_known(model).model_dump()}
    del config["projection_size"]
    write_json(folder / "config.json", config | {"model_type": "bert", "dtype": "float32"})
    tensors = {
        name: tensor.detach().cpu().contiguous() for name, tensor in _independent(model).items()
    }
    save_file(tensors, folder / SAFE_WEIGHTS, metadata={"format": "pt"})
    save_tokenizer(tokenizer, folder)
