"""Masked language models: saved, loaded as transformers loads them, and refused without running."""

import json
import os
import pickle
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM

from cxrtext.errors import CheckpointError
from cxrtext.models.bert import MaskedBert
from cxrtext.models.masked_lm import (
    fingerprint_of,
    load_masked_language_model,
    save_masked_language_model,
)
from tests.models.conftest import LANGUAGE_MODEL, configured, pickled, tensors, write_cxr_bert

DECODER, WORDS = "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"


@pytest.fixture
def folder(copied: Callable[[str], Path]) -> Path:
    return copied(LANGUAGE_MODEL)


def logits(model: MaskedBert | BertForMaskedLM) -> Tensor:
    with torch.no_grad():
        found: Any = model(torch.tensor([[2, 7, 8, 4, 9, 3]]))
    logits: Tensor = found if isinstance(model, MaskedBert) else found.logits
    return logits


def check_logits(ours: MaskedBert | BertForMaskedLM, theirs: MaskedBert | BertForMaskedLM) -> None:
    torch.testing.assert_close(logits(ours), logits(theirs.eval()), rtol=0, atol=0)


def by_transformers(folder: Path) -> BertForMaskedLM:
    return BertForMaskedLM.from_pretrained(folder, dtype=torch.float32)


def test_a_saved_model_loads_the_same_here_and_in_transformers(
    folder: Path, tmp_path: Path
) -> None:
    first = load_masked_language_model(folder)
    check_logits(first.model, by_transformers(folder))
    (again := tmp_path / "again").mkdir()
    save_masked_language_model(first.model, first.tokenizer, again)
    assert DECODER not in load_file(again / "model.safetensors")
    loaded = load_masked_language_model(again)
    check_logits(loaded.model, first.model)
    check_logits(by_transformers(again), first.model)
    assert loaded.fingerprint == fingerprint_of(first.model, first.tokenizer) == first.fingerprint
    assert (loaded.name, loaded.window) == ("again", 62)
    assert not loaded.model.training
    words = loaded.model.bert.embeddings.word_embeddings
    assert loaded.model.cls.predictions.decoder.weight is words.weight
    own = [*loaded.model.parameters(), *loaded.model.buffers()]
    assert not any(tensor.is_meta for tensor in own)


def test_cxr_berts_layout_with_its_extra_keys_loads(tmp_path: Path) -> None:
    folder = write_cxr_bert(tmp_path / "cxr")
    state = torch.load(folder / "pytorch_model.bin")
    assert {DECODER, "cls.predictions.decoder.bias"} <= set(state)
    loaded = load_masked_language_model(folder)
    assert type(loaded.model) is MaskedBert
    theirs = BertForMaskedLM(BertConfig(**asdict(loaded.model.config)))
    theirs.load_state_dict(state, strict=False)
    check_logits(loaded.model, theirs)


def test_the_fingerprint_is_of_the_content_and_not_of_the_file(folder: Path) -> None:
    def found() -> str:
        return load_masked_language_model(folder).fingerprint

    safe = found()
    tensors(lambda s: s["cls.predictions.transform.dense.bias"].add_(1))(folder)
    other = found()
    assert other != safe
    pickled(folder)
    assert found() == other
    (folder / "tokenizer.json").unlink()
    vocabulary = (folder / "vocab.txt").read_text()
    assert "effusion" in vocabulary
    (folder / "vocab.txt").write_text(vocabulary.replace("effusion", "infusion"))
    assert found() not in (safe, other)


def test_an_untied_decoder_is_its_own(folder: Path) -> None:
    tensors(lambda s: s.update({DECODER: s[WORDS] + 1}))(folder)
    configured(tie_word_embeddings=False)(folder)
    state = load_masked_language_model(folder).model.state_dict()
    torch.testing.assert_close(state[DECODER], state[WORDS] + 1)


def test_a_pickle_beside_safetensors_is_not_read(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"not read")
    capfd.readouterr()
    assert load_masked_language_model(folder).window == 62
    assert capfd.readouterr() == ("", "")


def test_a_few_rows_without_a_word_piece_are_usual(folder: Path) -> None:
    def lengthen(state: dict[str, Tensor]) -> None:
        for name in (WORDS, "cls.predictions.bias"):
            state[name] = torch.cat([state[name], torch.zeros(100, *state[name].shape[1:])])

    tensors(lengthen)(folder)
    rows = len(load_file(folder / "model.safetensors")[WORDS])
    configured(vocab_size=rows)(folder)
    assert load_masked_language_model(folder).model.config.vocab_size == rows


def test_what_a_hostile_configuration_names_is_not_touched(folder: Path) -> None:
    configured(
        auto_map={"AutoConfig": "evil.Config", "AutoModelForMaskedLM": "evil.Model"},
        _attn_implementation="someone/evil-kernel",
        _attn_implementation_internal="someone/evil-kernel",
        attn_implementation="someone/evil-kernel",
        is_decoder=True,
        chunk_size_feed_forward=7,
        quantization_config={"quant_method": "evil"},
        torch_dtype="float16",
    )(folder)
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    config = load_masked_language_model(folder).model.config
    assert "evil" not in json.dumps(asdict(config))


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_that_runs_something_is_refused(
    folder: Path, tmp_path: Path, zipped: bool
) -> None:
    path, marker = pickled(folder) / "pytorch_model.bin", tmp_path / "ran"

    class Payload:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(marker),)

    hostile = {**torch.load(path), "x": Payload()}
    if zipped:
        torch.save(hostile, path)
    else:
        path.write_bytes(pickle.dumps(hostile))
    with pytest.raises(CheckpointError, match="could run code"):
        load_masked_language_model(folder)
    assert not marker.exists()


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("content", [b"", b"\x80", b"PK\x03\x04", b"\x00" * 100, b"\xff" * 16])
def test_damaged_weights_are_refused(folder: Path, name: str, content: bytes) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=name):
        load_masked_language_model(folder)
