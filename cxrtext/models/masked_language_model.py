"""Masked language models: from a folder or the hub, checked key by key, and back to a folder."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import BertForMaskedLM, BertTokenizer

from cxrtext.errors import CheckpointError, HubError
from cxrtext.files import write_json
from cxrtext.models.cxr_bert import (
    CheckpointConfig,
    CxrBertModel,
    build_model,
    load_state,
    read_config,
)
from cxrtext.text.tokenizer import load_tokenizer, lowercases, save_tokenizer, vocabulary_of

DEFAULT_MODEL = "microsoft/BiomedVLP-CXR-BERT-general"
"""CXR-BERT's masked language model, on the hub or in its local cache."""

SAFE_WEIGHTS, PICKLED_WEIGHTS = "model.safetensors", "pytorch_model.bin"
SMALL_FILES = ("config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json")
HUB_TIMEOUT = 10.0
"""Seconds that the hub may take to answer."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True, slots=True)
class MaskedLanguageModel:
    """A masked language model ready for use.

    Args:
        model: The network, in evaluation mode; ``model.bert`` is the encoder without a head.
        tokenizer: Its tokenizer.
        name: What it was asked for by: a hub id or a folder's name.
        fingerprint: SHA-256 over configuration, weights and vocabulary; the same weights have the
            same fingerprint in either file format.
    """

    model: BertForMaskedLM
    tokenizer: BertTokenizer
    name: str
    fingerprint: str

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


def _read_pickle(path: Path) -> Mapping[str, Any]:
    """Read a pickled state with torch's restricted unpickler, which builds tensors only."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state = torch.load(path, map_location="cpu", weights_only=True)
    # A damaged pickle can raise anything at all.
    except Exception:  # noqa: BLE001
        raise CheckpointError(
            f"{path}: not a plain file of weights: it is damaged, or holds objects that could run "
            "code and are not loaded; convert it to model.safetensors where you trust it"
        ) from None
    if not isinstance(state, Mapping):
        raise CheckpointError(f"{path}: holds no tensors by name")
    return state


def read_state(folder: Path) -> tuple[Path, Mapping[str, Any]]:
    """Read the weights of a model folder, safetensors before pickle.

    Returns:
        The file they came from, and tensors by name.

    Raises:
        CheckpointError: There is no file of weights, or it cannot be read.
    """
    safe, pickled = folder / SAFE_WEIGHTS, folder / PICKLED_WEIGHTS
    if safe.is_file():
        try:
            return safe, load_file(safe)
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{safe}: not readable as safetensors ({error})") from None
    if pickled.is_file():
        return pickled, _read_pickle(pickled)
    raise CheckpointError(f"{folder}: no {SAFE_WEIGHTS} and no {PICKLED_WEIGHTS}")


def find_model_folder(name_or_path: str | Path) -> Path:
    """Return the local folder of a model, fetched from the hub when it is not here yet.

    Raises:
        CheckpointError: The name is neither a folder nor a hub id.
        HubError: The hub cannot be reached, or does not have the model.
    """
    folder = Path(name_or_path)
    if folder.is_dir():
        return folder
    name = str(name_or_path)
    if isinstance(name_or_path, Path) or not _HUB_ID.fullmatch(name):
        raise CheckpointError(
            f"{name}: no such model folder; train one: cxrtext pretrain-text REPORTS --out DIR"
        )
    return _cached_snapshot(name) or _downloaded_snapshot(name)


def _complete(folder: Path) -> bool:
    has_vocabulary = any((folder / name).is_file() for name in ("vocab.txt", "tokenizer.json"))
    has_weights = any((folder / name).is_file() for name in (SAFE_WEIGHTS, PICKLED_WEIGHTS))
    return (folder / "config.json").is_file() and has_vocabulary and has_weights


def _cached_snapshot(name: str) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, OSError, ValueError):
        return None
    return folder if _complete(folder) else None


def _downloaded_snapshot(name: str) -> Path:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    try:
        # One question first: the download itself would try again for minutes.
        files = {
            entry.rfilename
            for entry in HfApi().model_info(name, timeout=HUB_TIMEOUT).siblings or []
        }
        weights = SAFE_WEIGHTS if SAFE_WEIGHTS in files else PICKLED_WEIGHTS
        folder = Path(
            snapshot_download(
                name, allow_patterns=[*SMALL_FILES, weights], etag_timeout=HUB_TIMEOUT
            )
        )
    # Its transport has had three different families of errors so far.
    except Exception as error:  # noqa: BLE001
        reason = type(error).__name__
        raise HubError(
            f"model '{name}' is not a folder here, and the hub did not give it ({reason}).\n"
            "Download its folder where there is access and pass the path, or train a model on "
            "your reports: cxrtext pretrain-text REPORTS --out DIR"
        ) from None
    return folder


def load_masked_language_model(
    name_or_path: str | Path, *, device: str | torch.device = "cpu"
) -> MaskedLanguageModel:
    """Load a masked language model.

    Args:
        name_or_path: A folder of the ``BertForMaskedLM`` family or of CXR-BERT's layout, or a hub
            id, for which the local cache is looked at first.
        device: Where to put the network.

    Returns:
        The model in evaluation mode, float32.  A projection head in the file is left aside.

    Raises:
        CheckpointError: The folder is incomplete or damaged, or its parts do not fit each other.
        HubError: The hub cannot be reached, or does not have the model.
    """
    folder = find_model_folder(name_or_path)
    name = folder.name if folder == Path(name_or_path) else str(name_or_path)
    model, tokenizer = _load(folder, head=False)
    fingerprint = fingerprint_of(model, tokenizer)
    nn.Module.to(model, torch.device(device))
    return MaskedLanguageModel(model, tokenizer, name, fingerprint)


def load_cxr_bert(
    name_or_path: str | Path, *, device: str | torch.device = "cpu"
) -> tuple[CxrBertModel, BertTokenizer]:
    """Load CXR-BERT with its projection head; every key of the head is needed.

    Raises:
        CheckpointError: As ``load_masked_language_model``, or there is no projection head.
        HubError: The hub cannot be reached, or does not have the model.
    """
    model, tokenizer = _load(find_model_folder(name_or_path), head=True)
    assert isinstance(model, CxrBertModel)  # noqa: S101 - head=True builds this class
    nn.Module.to(model, torch.device(device))
    return model, tokenizer


def _load(folder: Path, *, head: bool) -> tuple[BertForMaskedLM, BertTokenizer]:
    config = read_config(folder / "config.json")
    tokenizer = load_tokenizer(folder)
    if len(tokenizer) > config.vocab_size:
        raise CheckpointError(
            f"{folder}: the vocabulary has {len(tokenizer)} word pieces, config.json says "
            f"{config.vocab_size}"
        )
    source, state = read_state(folder)
    model = build_model(config, head=head)
    load_state(model, state, source)
    model.eval()
    return model, tokenizer


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
