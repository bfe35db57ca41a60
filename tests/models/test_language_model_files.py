import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from cxrtext.errors import CheckpointError
from cxrtext.models.masked_lm import load_masked_language_model
from cxrtext.text import save_tokenizer, train_tokenizer


def write_model(folder: Path) -> Path:
    """A tiny model in the hub's layout: the weights as a pickle."""
    folder.mkdir()
    tokenizer = train_tokenizer(["The lungs are clear."] * 3, 200)
    save_tokenizer(tokenizer, folder)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=24,
    )
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    torch.save(BertForMaskedLM(config).state_dict(), folder / "pytorch_model.bin")
    return folder


class Payload:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_that_runs_something_is_refused(tmp_path: Path, zipped: bool) -> None:
    folder, marker = write_model(tmp_path / "m"), tmp_path / "ran"
    state = torch.load(folder / "pytorch_model.bin", weights_only=True)
    hostile = {**state, "x": Payload(marker)}
    if zipped:
        torch.save(hostile, folder / "pytorch_model.bin")
    else:
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps(hostile))
    with pytest.raises(CheckpointError, match="could run code"):
        load_masked_language_model(folder)
    assert not marker.exists()


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("content", [b"", b"\x80", b"PK\x03\x04", b"\x00" * 100, b"\xff" * 16])
def test_damaged_weights_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "pytorch_model.bin").unlink()
    (folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=name):
        load_masked_language_model(folder)


def test_a_pickle_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    torch.save({"epoch": 3, "model": {}}, folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="not tensors: 'epoch', 'model'"):
        load_masked_language_model(folder)
    torch.save([torch.ones(1)], folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="no tensors by name"):
        load_masked_language_model(folder)
