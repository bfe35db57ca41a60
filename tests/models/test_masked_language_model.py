import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM

from cxrtext.errors import CheckpointError
from cxrtext.models.masked_lm import (
    fingerprint_of,
    load_masked_language_model,
    save_masked_language_model,
)
from cxrtext.text import save_tokenizer, train_tokenizer
from tests.models.conftest import CXR_BERT, projection_head

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 24,
}
DECODER, WORDS = "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"


def build() -> BertForMaskedLM:
    torch.manual_seed(0)
    size = len(train_tokenizer(["The lungs are clear."] * 3, 200))
    model = BertForMaskedLM(BertConfig(vocab_size=size, **SIZES))
    model.train(False)
    return model


def write(folder: Path, state: dict[str, Any], *, pickled: bool = False, **config: Any) -> Path:
    """A model folder with this state, as others write it."""
    folder.mkdir(exist_ok=True)
    tokenizer = train_tokenizer(["The lungs are clear."] * 3, 200)
    save_tokenizer(tokenizer, folder)
    values = {"model_type": "bert", "vocab_size": len(tokenizer), **SIZES, **config}
    (folder / "config.json").write_text(json.dumps(values))
    if pickled:
        torch.save(state, folder / "pytorch_model.bin")
    else:
        save_file({k: v.clone() for k, v in state.items()}, folder / "model.safetensors")
    return folder


@pytest.fixture
def state() -> dict[str, Tensor]:
    return dict(build().state_dict())


def logits(model: BertForMaskedLM) -> Tensor:
    with torch.no_grad():
        found: Tensor = model(torch.tensor([[2, 7, 8, 4, 9, 3]])).logits
    return found


def test_a_saved_model_loads_the_same_here_and_in_transformers(tmp_path: Path) -> None:
    model = build()
    tokenizer = train_tokenizer(["The lungs are clear."] * 3, 200)
    save_masked_language_model(model, tokenizer, tmp_path)
    loaded = load_masked_language_model(tmp_path)
    theirs = BertForMaskedLM.from_pretrained(tmp_path, use_safetensors=True, dtype=torch.float32)
    torch.testing.assert_close(logits(loaded.model), logits(model), rtol=0, atol=0)
    torch.testing.assert_close(logits(theirs.eval()), logits(model), rtol=0, atol=0)
    assert loaded.fingerprint == fingerprint_of(model, tokenizer)
    assert (loaded.name, loaded.window) == (tmp_path.name, 22)
    assert not loaded.model.training
    assert loaded.model.get_output_embeddings().weight is loaded.model.get_input_embeddings().weight
    assert not any(
        tensor.is_meta for tensor in [*loaded.model.parameters(), *loaded.model.buffers()]
    )


def test_transformers_own_files_load(tmp_path: Path) -> None:
    model = build()
    model.save_pretrained(tmp_path)
    train_tokenizer(["The lungs are clear."] * 3, 200).save_pretrained(tmp_path)
    torch.testing.assert_close(
        logits(load_masked_language_model(tmp_path).model), logits(model), rtol=0, atol=0
    )


@pytest.mark.parametrize("pickled", [True, False])
def test_cxr_berts_layout_with_its_extra_keys_loads(tmp_path: Path, pickled: bool) -> None:
    model = build()
    state = {**model.state_dict(), **projection_head(16)}
    state["bert.embeddings.position_ids"] = torch.arange(24)[None]
    assert {DECODER, "cls.predictions.decoder.bias"} <= set(state)
    folder = write(tmp_path / "cxr", state, pickled=pickled, **CXR_BERT)
    loaded = load_masked_language_model(folder)
    assert type(loaded.model) is BertForMaskedLM
    torch.testing.assert_close(logits(loaded.model), logits(model), rtol=0, atol=0)


def test_the_fingerprint_is_of_the_content_and_not_of_the_file(
    tmp_path: Path, state: dict[str, Tensor]
) -> None:
    safe = load_masked_language_model(write(tmp_path / "a", state))
    pickled = load_masked_language_model(write(tmp_path / "b", state, pickled=True))
    assert safe.fingerprint == pickled.fingerprint
    state["cls.predictions.transform.dense.bias"] = torch.ones(16)
    assert load_masked_language_model(write(tmp_path / "c", state)).fingerprint != safe.fingerprint
    vocabulary = (tmp_path / "a/vocab.txt").read_text()
    (tmp_path / "a/vocab.txt").write_text(vocabulary.replace("lungs", "heart"))
    assert load_masked_language_model(tmp_path / "a").fingerprint != safe.fingerprint


def test_half_precision_files_are_loaded_as_float32(
    tmp_path: Path, state: dict[str, Tensor]
) -> None:
    half = {name: value.half() for name, value in state.items()}
    model = load_masked_language_model(write(tmp_path / "half", half)).model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_tensors_that_repeat_others_may_be_left_out(
    tmp_path: Path, state: dict[str, Tensor]
) -> None:
    expected = logits(build())
    for name in (DECODER, "cls.predictions.decoder.bias"):
        del state[name]
    found = load_masked_language_model(write(tmp_path / "m", state)).model
    torch.testing.assert_close(logits(found), expected, rtol=0, atol=0)


KEY = "bert.encoder.layer.1.output.dense.weight"
Change = Callable[[dict[str, Tensor]], object]
CHANGES: dict[str, tuple[Change, str]] = {
    "missing": (lambda s: s.pop(KEY), f"missing: '{KEY}'$"),
    "many missing": (lambda s: [s.pop(k) for k in list(s)[5:20]], "and 11 more$"),
    "unexpected": (lambda s: s.update({"bert.extra": torch.ones(1)}), "unexpected: 'bert.extra'$"),
    "renamed": (
        lambda s: s.update({f"model.{KEY}": s.pop(KEY)}),
        f"missing: '{KEY}'; unexpected: 'model.{KEY}'",
    ),
    "shape": (lambda s: s.update({KEY: torch.ones(16, 31)}), r"has shape \[16, 31\]"),
    "whole numbers": (
        lambda s: s.update({KEY: torch.ones(16, 32, dtype=torch.int64)}),
        "not of floating point",
    ),
    "not finite": (lambda s: s.update({KEY: torch.full((16, 32), torch.nan)}), "no finite"),
    "decoder": (lambda s: s.update({DECODER: s[DECODER] + 1}), "differs from bert.embeddings"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_tensors_that_do_not_fit_are_named(
    tmp_path: Path, state: dict[str, Tensor], name: str
) -> None:
    change, message = CHANGES[name]
    change(state)
    with pytest.raises(CheckpointError, match=message):
        load_masked_language_model(write(tmp_path / "m", state))


def test_an_untied_decoder_is_its_own(tmp_path: Path, state: dict[str, Tensor]) -> None:
    state[DECODER] = state[DECODER] + 1
    folder = write(tmp_path / "m", state, tie_word_embeddings=False)
    model = load_masked_language_model(folder).model
    torch.testing.assert_close(model.state_dict()[DECODER], state[DECODER])
    torch.testing.assert_close(model.state_dict()[WORDS], state[WORDS])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "gpt2"}, "model_type"),
        ({"hidden_size": "16"}, "hidden_size|no multiple|shape"),
        ({"hidden_size": 10**12}, "hidden_size"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"num_attention_heads": 3}, "no multiple"),
        ({"vocab_size": -1}, "vocab_size"),
        ({"vocab_size": 10}, "vocabulary has"),
        ({"vocab_size": 999_999}, "of another model"),
        ({"vocab_size": 200}, "has shape"),
        ({"pad_token_id": 153}, "pad_token_id 153 is outside the vocabulary"),
        ({"hidden_act": "torch.os.system"}, "hidden_act"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"layer_norm_eps": None}, "layer_norm_eps"),
    ],
)
def test_a_configuration_out_of_range_is_refused(
    tmp_path: Path, state: dict[str, Tensor], config: dict[str, Any], message: str
) -> None:
    folder = write(tmp_path / "m", state)
    values = json.loads((folder / "config.json").read_text()) | config
    (folder / "config.json").write_text(json.dumps(values))
    if config == {"hidden_size": "16"}:  # a number in quotes is still the number
        assert load_masked_language_model(folder).window == 22
        return
    with pytest.raises(CheckpointError, match=message):
        load_masked_language_model(folder)


def test_a_few_rows_without_a_word_piece_are_usual(
    tmp_path: Path, state: dict[str, Tensor]
) -> None:
    rows = len(state[WORDS]) + 100
    for name in (WORDS, "cls.predictions.bias"):
        padding = torch.zeros(100, *state[name].shape[1:])
        state[name] = torch.cat([state[name], padding])
    for name in (DECODER, "cls.predictions.decoder.bias"):
        del state[name]
    folder = write(tmp_path / "m", state, vocab_size=rows)
    assert load_masked_language_model(folder).model.config.vocab_size == rows


@pytest.mark.parametrize("prefix", ["bert.", ""])
def test_an_encoder_without_its_head_is_said_so(
    tmp_path: Path, state: dict[str, Tensor], prefix: str
) -> None:
    encoder = {
        name.replace("bert.", prefix, 1): value
        for name, value in state.items()
        if name.startswith("bert.")
    }
    with pytest.raises(CheckpointError, match=r"without the masked.*cls\.predictions\.\*.*cannot"):
        load_masked_language_model(write(tmp_path / "m", encoder))


def test_a_head_with_a_part_missing_is_another_matter(
    tmp_path: Path, state: dict[str, Tensor]
) -> None:
    del state["cls.predictions.transform.dense.bias"]
    with pytest.raises(CheckpointError, match=r"missing: 'cls\.predictions\.transform\.dense"):
        load_masked_language_model(write(tmp_path / "m", state))


def test_what_a_hostile_configuration_names_is_not_touched(
    tmp_path: Path, state: dict[str, Tensor]
) -> None:
    folder = write(
        tmp_path / "m",
        state,
        auto_map={"AutoConfig": "evil.Config", "AutoModelForMaskedLM": "evil.Model"},
        _attn_implementation="someone/evil-kernel",
        _attn_implementation_internal="someone/evil-kernel",
        attn_implementation="someone/evil-kernel",
        is_decoder=True,
        chunk_size_feed_forward=7,
        quantization_config={"quant_method": "evil"},
        torch_dtype="float16",
    )
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    model = load_masked_language_model(folder).model
    assert not model.config.is_decoder
    assert not hasattr(model.config, "auto_map")
    assert "evil" not in json.dumps(model.config.to_dict())


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"bert"', b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_configuration_is_refused(
    tmp_path: Path, state: dict[str, Tensor], content: bytes
) -> None:
    folder = write(tmp_path / "m", state)
    (folder / "config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_masked_language_model(folder)


def test_safetensors_come_before_a_pickle(tmp_path: Path, state: dict[str, Tensor]) -> None:
    folder = write(tmp_path / "m", state)
    (folder / "pytorch_model.bin").write_bytes(b"not read")
    assert load_masked_language_model(folder).window == 22


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.txt"])
def test_an_incomplete_folder_names_what_is_missing(
    tmp_path: Path, state: dict[str, Tensor], name: str
) -> None:
    folder = write(tmp_path / "m", state)
    (folder / name).unlink()
    (folder / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=name.split(".")[0]):
        load_masked_language_model(folder)


@pytest.mark.parametrize("name", ["no-such-folder", Path("no/such"), "/no/such", "a/b/c", "../x"])
def test_what_is_neither_folder_nor_hub_id_is_said_so(name: str | Path) -> None:
    with pytest.raises(CheckpointError, match="no such model folder"):
        load_masked_language_model(name)


def test_loading_prints_nothing(
    tmp_path: Path, state: dict[str, Tensor], capfd: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "m", state)
    capfd.readouterr()
    load_masked_language_model(folder)
    assert capfd.readouterr() == ("", "")
    assert set(load_file(folder / "model.safetensors")) == set(state)


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
