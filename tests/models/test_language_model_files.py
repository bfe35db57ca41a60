import json
import os
import pickle
import time
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from cxrtext.errors import CheckpointError, HubError
from cxrtext.models.masked_language_model import DEFAULT_MODEL, load_masked_language_model
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


def check_hub_error(capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    with pytest.raises(HubError) as caught:
        load_masked_language_model(DEFAULT_MODEL)
    assert time.monotonic() - started < 5
    message = str(caught.value)
    assert len(message.splitlines()) == 2
    assert "pass the path" in message
    assert "cxrtext pretrain-text REPORTS --out DIR" in message
    assert capsys.readouterr() == ("", "")
    assert caught.value.exit_code == 1


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_offline_the_hub_is_not_asked_for_long(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    check_hub_error(capsys)


def test_a_hub_that_cannot_be_reached_is_two_lines(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import huggingface_hub

    def unreachable(*args: object, **kwargs: object) -> None:
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    check_hub_error(capsys)


def test_a_cached_snapshot_is_used_without_the_hub(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    def unreachable(*args: object, **kwargs: object) -> None:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    repository = empty_cache / "models--microsoft--BiomedVLP-CXR-BERT-general"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    (repository / "snapshots").mkdir()
    write_model(repository / "snapshots" / ("0" * 40))
    loaded = load_masked_language_model(DEFAULT_MODEL)
    assert loaded.name == DEFAULT_MODEL


def test_only_the_needed_files_are_fetched(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    folder = write_model(tmp_path / "remote")
    asked: list[object] = []

    class Entry:
        def __init__(self, name: str) -> None:
            self.rfilename = name

    class Info:
        def __init__(self) -> None:
            names = ("config.json", "pytorch_model.bin", "modeling_x.py")
            self.siblings = [Entry(name) for name in names]

    def answer(*args: object, **kwargs: object) -> Info:
        return Info()

    def snapshot(name: str, *, local_files_only: bool = False, **kwargs: object) -> str:
        if local_files_only:
            raise LocalEntryNotFoundError("not here")
        asked.append(kwargs["allow_patterns"])
        return str(folder)

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", answer)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert load_masked_language_model("someone/model").name == "someone/model"
    assert asked == [
        ["config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json", "pytorch_model.bin"]
    ]


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
    with pytest.raises(CheckpointError, match="not tensors: epoch, model"):
        load_masked_language_model(folder)
    torch.save([torch.ones(1)], folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="no tensors by name"):
        load_masked_language_model(folder)
