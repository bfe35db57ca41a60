"""Masked language models: loaded from a folder or the hub, checked key by key, and saved.

No code from the hub is used, and no file can name code to run.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from cxrtext.errors import CheckpointError
from cxrtext.files import write_json
from cxrtext.models.bert import MaskedBert
from cxrtext.models.configurations import settings_of
from cxrtext.models.folders import SAFE_WEIGHTS, TRAIN, commit_of, foreign
from cxrtext.models.foreign.text import HEAD, TextFolder, found_folder, read_text_folder, repeated
from cxrtext.models.weight_files import filled, on_cpu
from cxrtext.text.tokenizer import TextTokenizer, save_tokenizer, vocabulary_of

PROJECTION = 128  # size of CXR-BERT's projection head; not read, but part of every fingerprint


@dataclass(frozen=True, slots=True)
class MaskedLanguageModel:
    """A masked language model ready for use."""

    # the network, in evaluation mode; model.bert is the encoder without a head
    model: MaskedBert
    tokenizer: TextTokenizer
    name: str  # the hub id or folder name that it was loaded by
    # SHA-256 over configuration, weights and vocabulary, the same for both file formats
    fingerprint: str
    revision: str | None = None  # the hub's commit; None for a folder

    @property
    def window(self) -> int:
        """Most word pieces in one pass of the network, without special tokens."""
        return int(self.model.config.max_position_embeddings) - 2


def fingerprint_of(model: MaskedBert, tokenizer: TextTokenizer) -> str:
    """SHA-256 over a model's configuration, weights and vocabulary."""
    config = _known(model) | {"projection_size": PROJECTION}
    del config["hidden_dropout_prob"], config["attention_probs_dropout_prob"]
    vocabulary: list[Any] = [bool(tokenizer.do_lower_case), vocabulary_of(tokenizer)]
    if settings := tokenizer.unusual_settings:
        vocabulary.append(settings)
    digest = hashlib.sha256(json.dumps([config, vocabulary], sort_keys=True).encode())
    for name, tensor in sorted(on_cpu(_independent(model)).items()):
        digest.update(f"{name} {list(tensor.shape)}".encode())
        digest.update(tensor.numpy().data)
    return digest.hexdigest()


def _known(model: MaskedBert) -> dict[str, Any]:
    """The keys that are read, from the configuration of a model in memory."""
    both = {"model_type": "bert", "position_embedding_type": "absolute"}
    return settings_of(model.config) | both


def _independent(model: MaskedBert) -> dict[str, torch.Tensor]:
    """The state without tensors that only repeat others."""
    return {n: x for n, x in model.state_dict().items() if n not in repeated(model.config)}


def load_masked_language_model(
    name_or_path: str | Path, *, device: str | torch.device = "cpu", offline: bool = False
) -> MaskedLanguageModel:
    """Load a masked language model, in evaluation mode and float32.

    Args:
        name_or_path: A folder with a ``BertForMaskedLM`` or CXR-BERT's layout (its projection head
            is ignored); or a hub id, with or without ``@revision``, which is first looked up in
            the local cache.
        offline: Never use the network; HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE do the same.
    """
    folder, name = found_folder(name_or_path, offline=offline)
    with foreign(folder):
        parts = read_text_folder(folder)
        model, tokenizer = _network(parts), parts.tokenizer
    fingerprint = fingerprint_of(model, tokenizer)
    nn.Module.to(model, torch.device(device))
    return MaskedLanguageModel(model, tokenizer, name, fingerprint, commit_of(folder))


def save_masked_language_model(model: MaskedBert, tokenizer: TextTokenizer, folder: Path) -> None:
    """Write ``config.json``, ``model.safetensors`` and the tokenizer's files into a folder.

    Tensors that repeat others are written once; transformers' own classes can load the folder too.
    """
    config = {"architectures": ["BertForMaskedLM"], **_known(model), "dtype": "float32"}
    write_json(folder / "config.json", config)
    save_file(on_cpu(_independent(model)), folder / SAFE_WEIGHTS, metadata={"format": "pt"})
    save_tokenizer(tokenizer, folder)


def _network(found: TextFolder) -> MaskedBert:
    """A folder's network on the CPU, in float32; every key of its file is checked."""
    state = found.state
    has_encoder = "embeddings.word_embeddings.weight" in state
    if has_encoder and not any(name.startswith(HEAD) for name in state):
        raise CheckpointError(
            f"{found.source}: holds an encoder without the masked-language-model head ({HEAD}*), "
            "so it cannot score sentences; use a checkpoint saved with its head "
            f"(BertForMaskedLM), or train one: {TRAIN}"
        )
    for copy, original in repeated(found.config).items():
        if original in state:
            state.setdefault(copy, state[original])
    named = {name if name.startswith("cls.") else f"bert.{name}": x for name, x in state.items()}
    return filled(found.source, lambda: MaskedBert(found.config), named).eval()
