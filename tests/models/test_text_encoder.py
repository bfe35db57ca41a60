"""Text encoders: outputs as transformers', folders checked key by key."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from cxrtext.errors import CheckpointError
from cxrtext.models import load_masked_language_model
from cxrtext.models.foreign.text import PretrainedText, load_text_encoder
from cxrtext.models.masked_lm import MaskedLanguageModel
from cxrtext.models.text_encoder import TextEncoder, text_config
from cxrtext.training.data.batches import group_by_length
from tests.grids import grid
from tests.models.conftest import (
    LANGUAGE_MODEL,
    Change,
    configured,
    pickled,
    tensors,
    write_cxr_bert,
)
from tests.models.text_encoders import report_sentences, write_bert, write_pooling


def encoder(found: PretrainedText, pooling: str) -> TextEncoder:
    made = TextEncoder(found.config, 16, pooling=pooling)
    made.backbone.load_state_dict(found.state)
    return made.eval()


def test_states_are_transformers_own(text_folders: dict[str, Path]) -> None:
    """Of padded batches and without padding; by the mask of [n, T] and that of a training step."""
    theirs = AutoModel.from_pretrained(text_folders["bert"]).eval()
    found = load_text_encoder(text_folders["bert"])
    told = AutoTokenizer.from_pretrained(text_folders["bert"])(
        report_sentences(30)[:80], padding=True, return_tensors="pt", return_token_type_ids=False
    )
    mask = told["attention_mask"]
    assert 0 < int(mask.sum()) < mask.numel()
    pieces = [ids[own.bool()].tolist() for ids, own in zip(told["input_ids"], mask, strict=True)]
    pieces.sort(key=len)
    with torch.inference_mode():
        states = theirs(**told).last_hidden_state
        wanted = {
            "cls": states[:, 0],
            "mean": (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True),
        }
        for pooling, value in wanted.items():
            ours = encoder(found, pooling)
            got = ours.states(told["input_ids"], mask)
            torch.testing.assert_close(got, value, rtol=0, atol=1e-6)
            groups = group_by_length(pieces, found.tokenizer.pad_token_id)
            assert any(group.attention is not None for group in groups)
            step = torch.cat([ours.states(g.input_ids, g.attention) for g in groups])
            order = sorted(range(len(mask)), key=lambda i: int(mask[i].sum()))
            torch.testing.assert_close(step, value[order], rtol=0, atol=1e-6)
            alone = ours.states(told["input_ids"][:1, : int(mask[0].sum())], None)
            torch.testing.assert_close(alone, value[:1], rtol=0, atol=1e-6)


def test_a_head_is_left_aside(tmp_path: Path) -> None:
    plain = load_text_encoder(write_bert(tmp_path / "plain", report_sentences(30)))
    with_head = load_text_encoder(write_bert(tmp_path / "head", report_sentences(30), head=True))
    assert plain.config == with_head.config
    assert plain.state.keys() == with_head.state.keys()
    again = load_text_encoder(pickled(tmp_path / "head"))
    assert all(torch.equal(again.state[name], value) for name, value in with_head.state.items())


def test_cxr_berts_layout_is_an_encoder_as_it_is_a_language_model(tmp_path: Path) -> None:
    folder = write_cxr_bert(tmp_path / "cxr-bert")
    whole: MaskedLanguageModel = load_masked_language_model(folder)
    found = load_text_encoder(folder)
    wanted = whole.model.bert.state_dict()
    assert found.state.keys() == wanted.keys()
    assert all(torch.equal(found.state[name], wanted[name]) for name in wanted)
    assert found.config == text_config(asdict(whole.model.config))
    assert "model_type" not in found.config
    assert found.tokenizer.get_vocab() == whole.tokenizer.get_vocab()
    assert found.pooling is None


def test_a_bert_without_a_head_is_an_encoder_and_no_language_model(
    copied: Callable[[str], Path], text_folders: dict[str, Path]
) -> None:
    bare, named = text_folders["bert"], copied("bert")
    assert load_text_encoder(bare).config["hidden_size"] == 32
    state = load_file(named / "model.safetensors")
    save_file({f"bert.{name}": x for name, x in state.items()}, named / "model.safetensors")
    for folder in (bare, named):
        with pytest.raises(
            CheckpointError, match=r"without the masked.*cls\.predictions\.\*.*cannot"
        ):
            load_masked_language_model(folder)


KEY = "encoder.layer.1.output.dense.weight"
WORDS = "embeddings.word_embeddings.weight"
State = dict[str, Tensor]


def own(change: Callable[[State, str], object]) -> Change:
    """Changes weights, with the name that KEY has among them."""
    return tensors(lambda s: change(s, next(name for name in s if name.endswith(KEY))))


def other_decoder(state: State) -> None:
    words = next(value for name, value in state.items() if name.endswith(WORDS)) + 1
    state["cls.predictions.decoder.weight"] = words


REFUSED: dict[str, tuple[Change, str]] = {
    "missing": (own(lambda s, key: s.pop(key)), f"missing: '.*{KEY}'(;|$)"),
    "unexpected": (
        tensors(lambda s: s.update(extra=torch.ones(1))),
        r"unexpected: '(bert\.)?extra'(;|$)",
    ),
    "shape": (own(lambda s, key: s.update({key: torch.ones(2, 3)})), rf"{KEY} has shape \[2, 3\]"),
    "whole numbers": (own(lambda s, key: s.update({key: s[key].long()})), "not of floating point"),
    "not finite": (own(lambda s, key: s[key].fill_(torch.nan)), f"{KEY} holds .* not finite"),
    "decoder": (tensors(other_decoder), rf"decoder.weight differs from [a-z.]*{WORDS}"),
    "family": (
        configured(model_type="roberta"),
        "model_type: 'roberta' is not read here, only bert, cxr-bert",
    ),
    "too wide": (configured(hidden_size=10**12), "hidden_size: 1000000000000 is not between"),
    "heads": (configured(num_attention_heads=3), "not a multiple of num_attention_heads 3"),
    "few pieces": (configured(vocab_size=99), "the vocabulary has .* the model 99$"),
    "many pieces": (configured(vocab_size=999_999), "belong to another model"),
    "some pieces": (configured(vocab_size=610), "has shape"),
    "activation": (configured(hidden_act="torch.os.system"), "hidden_act: .* is not known"),
}


def load(kind: str, folder: Path) -> object:
    return (load_masked_language_model if kind == LANGUAGE_MODEL else load_text_encoder)(folder)


@grid(1, kind=["bert", LANGUAGE_MODEL], case=list(REFUSED))
def test_what_does_not_fit_is_refused(copied: Callable[[str], Path], kind: str, case: str) -> None:
    change, message = REFUSED[case]
    change(folder := copied(kind))
    with pytest.raises(CheckpointError, match=message):
        load(kind, folder)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
        (LANGUAGE_MODEL, {"position_embedding_type": "relative_key"}, "position_embedding_type"),
        (LANGUAGE_MODEL, {"pad_token_id": 600}, "pad_token_id 600 is outside the vocabulary"),
    ],
)
def test_padding_and_distances_must_be_what_the_network_counts_by(
    copied: Callable[[str], Path], kind: str, change: dict[str, Any], message: str
) -> None:
    configured(**change)(folder := copied(kind))
    with pytest.raises(CheckpointError, match=message):
        load(kind, folder)


def test_the_pooling_of_sentence_transformers_is_read(tmp_path: Path) -> None:
    write_bert(tmp_path / "m", report_sentences(30))
    for pooling in ("mean", "cls"):
        write_pooling(tmp_path / "m", pooling)
        assert load_text_encoder(tmp_path / "m").pooling == pooling
    write_pooling(tmp_path / "m", "max")
    with pytest.raises(CheckpointError, match=r"1_Pooling/config.json: pools by max, and here"):
        load_text_encoder(tmp_path / "m")
    note = tmp_path / "m/1_Pooling/config.json"
    note.write_text('{"pooling_mode": "mean", "word_embedding_dimension": 32}')
    assert load_text_encoder(tmp_path / "m").pooling == "mean"
    for text, says in (
        ('{"pooling_mode": "mean", "word_embedding_dimension": 64}', "of 64 numbers, .* have 32"),
        ("[]", "not a JSON object"),
    ):
        note.write_text(text)
        with pytest.raises(CheckpointError, match=says):
            load_text_encoder(tmp_path / "m")
