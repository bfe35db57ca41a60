"""Text encoders of three families: outputs as transformers', folders checked key by key."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from cxrtext.errors import CheckpointError
from cxrtext.models import load_masked_language_model
from cxrtext.models.masked_lm import MaskedLanguageModel
from cxrtext.models.text_encoder import TextEncoder, longest_input, text_config
from cxrtext.models.text_folder import PretrainedText, family_of, load_text_encoder
from cxrtext.training.data.batches import group_by_length
from tests.models.conftest import WriteModel
from tests.models.text_families import (
    WRITERS,
    report_sentences,
    write_bert,
    write_mpnet,
    write_pooling,
    write_roberta,
)

FAMILIES = ("bert", "roberta", "mpnet")


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    return report_sentences(30)


@pytest.fixture(scope="module")
def folders(sentences: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("encoders")
    return {name: write(root / name, sentences) for name, write in WRITERS.items()}


def encoder(found: PretrainedText, pooling: str) -> TextEncoder:
    made = TextEncoder(found.config, 16, pooling=pooling)
    made.backbone.load_state_dict(found.state)
    return made.eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_states_are_transformers_own(
    family: str, folders: dict[str, Path], sentences: list[str]
) -> None:
    """Of padded batches and without padding; by the mask of [n, T] and that of a training step."""
    theirs = AutoModel.from_pretrained(folders[family]).eval()
    found = load_text_encoder(folders[family])
    told = AutoTokenizer.from_pretrained(folders[family])(
        sentences[:80], padding=True, return_tensors="pt", return_token_type_ids=False
    )
    mask = told["attention_mask"]
    assert 0 < int(mask.sum()) < mask.numel()
    pieces = sorted((ids[: int(n)].tolist() for ids, n in zip(told["input_ids"], mask.sum(1),
        strict=True)), key=len)  # fmt: skip
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


def test_pooling_by_hand(folders: dict[str, Path]) -> None:
    """Padding does not count; the special tokens do, as in sentence-transformers."""
    found = load_text_encoder(folders["roberta"])
    ours = encoder(found, "mean")
    ids = torch.tensor([[0, 50, 60, 2, 1, 1]])
    with torch.inference_mode():
        states = ours.backbone(ids, attention_mask=ids.ne(1).long()).last_hidden_state
        got = ours.states(ids, ids.ne(1).long())
    torch.testing.assert_close(got, states[:, :4].mean(1), rtol=0, atol=1e-7)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_longest_sentence_has_a_position(family: str, folders: dict[str, Path]) -> None:
    found = load_text_encoder(folders[family])
    assert longest_input(found.config) == 64
    ours = encoder(found, "cls")
    ids = torch.full((1, 64), found.tokenizer.unk_token_id)
    with torch.inference_mode():
        assert ours.states(ids, None).isfinite().all()
        with pytest.raises((IndexError, RuntimeError)):
            ours.states(torch.cat([ids, ids[:, :1]], dim=1), None)


@pytest.mark.parametrize("write", [write_bert, write_roberta])
def test_a_head_is_left_aside(
    write: Callable[..., Path], sentences: list[str], tmp_path: Path
) -> None:
    plain = load_text_encoder(write(tmp_path / "plain", sentences))
    with_head = load_text_encoder(write(tmp_path / "head", sentences, head=True))
    assert plain.config == with_head.config
    assert plain.state.keys() == with_head.state.keys()
    pickled = tmp_path / "pickled"
    shutil.copytree(tmp_path / "head", pickled)
    state = load_file(pickled / "model.safetensors")
    (pickled / "model.safetensors").unlink()
    torch.save(state, pickled / "pytorch_model.bin")
    again = load_text_encoder(pickled)
    assert all(torch.equal(again.state[name], value) for name, value in with_head.state.items())


def test_cxr_berts_layout_is_an_encoder_as_it_is_a_language_model(
    write_cxr_bert: WriteModel, tmp_path: Path
) -> None:
    folder = write_cxr_bert(tmp_path / "cxr-bert")
    whole: MaskedLanguageModel = load_masked_language_model(folder)
    found = load_text_encoder(folder)
    wanted = whole.model.bert.state_dict()
    assert found.state.keys() == wanted.keys()
    assert all(torch.equal(found.state[name], wanted[name]) for name in wanted)
    assert found.config == text_config(whole.model.config.to_dict())
    assert "model_type" not in found.config
    assert found.tokenizer.get_vocab() == whole.tokenizer.get_vocab()
    assert found.pooling is None


def test_a_bert_without_a_head_is_an_encoder_and_no_language_model(
    folders: dict[str, Path],
) -> None:
    assert load_text_encoder(folders["bert"]).config["hidden_size"] == 32
    with pytest.raises(CheckpointError, match="without the masked-language-model head"):
        load_masked_language_model(folders["bert"])
    with pytest.raises(
        CheckpointError, match="only cxr-bert, bert; sentences are scored by a BERT"
    ):
        load_masked_language_model(folders["roberta"])


def edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """Changes a folder's ``config.json``."""

    def write(folder: Path) -> None:
        content = json.loads((folder / "config.json").read_text())
        change(content)
        (folder / "config.json").write_text(json.dumps(content))

    return write


def tensors(change: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], object]:
    """Changes a folder's weights."""

    def write(folder: Path) -> None:
        state = load_file(folder / "model.safetensors")
        change(state)
        save_file(state, folder / "model.safetensors")

    return write


KEY = "encoder.layer.1.output.dense.weight"
WORDS = "embeddings.word_embeddings.weight"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (tensors(lambda s: s.pop(KEY)), f"missing: '{KEY}'$"),
        (tensors(lambda s: s.update(extra=torch.ones(1))), "unexpected: 'extra'$"),
        (tensors(lambda s: s.update({KEY: torch.ones(2, 3)})), rf"{KEY} has shape \[2, 3\]"),
        (tensors(lambda s: s[KEY].fill_(torch.nan)), f"{KEY} holds values that are no finite"),
        (
            tensors(lambda s: s.update({"cls.predictions.decoder.weight": s[WORDS] + 1,
                "lm_head.decoder.weight": s[WORDS] + 1})),
            "decoder.weight differs from embeddings.word_embeddings.weight",
        ),
        (edit(lambda c: c.update(model_type="xlm-roberta")),
            "model_type: 'xlm-roberta' is not read here, only cxr-bert, bert, roberta, mpnet"),
        (edit(lambda c: c.update(hidden_size="wide")), "config.json: hidden_size: Input should"),
        (edit(lambda c: c.update(num_attention_heads=3)), "no multiple of num_attention_heads 3"),
        (edit(lambda c: c.update(vocab_size=99)), "word pieces, config.json says 99"),
        (edit(lambda c: c.pop("model_type")), "config.json: model_type: Field required"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(
    folders: dict[str, Path],
    tmp_path: Path,
    family: str,
    change: Callable[[Path], object],
    message: str,
) -> None:
    folder = Path(shutil.copytree(folders[family], tmp_path / "m"))
    change(folder)
    with pytest.raises(CheckpointError, match=message):
        load_text_encoder(folder)


def test_padding_and_distances_must_be_what_the_network_counts_by(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    for family, change, message in (
        ("roberta", {"pad_token_id": 3}, "tokenizer pads with 1, config.json says 3"),
        ("roberta", {"pad_token_id": 65}, "leaves no position of max_position_embeddings 66"),
        ("mpnet", {"pad_token_id": 0}, "pad_token_id: Input should be greater"),
        ("mpnet", {"relative_attention_num_buckets": 8}, "num_buckets: Input should be greater"),
    ):
        folder = Path(shutil.copytree(folders[family], tmp_path / f"{family}{len(message)}"))
        edit(lambda c, change=change: c.update(change))(folder)  # type: ignore[misc]
        with pytest.raises(CheckpointError, match=message):
            load_text_encoder(folder)


def test_the_pooling_of_sentence_transformers_is_read(
    folders: dict[str, Path], sentences: list[str], tmp_path: Path
) -> None:
    assert load_text_encoder(folders["mpnet"]).pooling == "mean"
    assert load_text_encoder(write_mpnet(tmp_path / "m", sentences, "cls")).pooling == "cls"
    write_pooling(tmp_path / "m", "max")
    with pytest.raises(CheckpointError, match=r"1_Pooling/config.json: pools by max, and here"):
        load_text_encoder(tmp_path / "m")
    note = tmp_path / "m/1_Pooling/config.json"
    note.write_text('{"pooling_mode": "mean", "word_embedding_dimension": 32}')
    assert load_text_encoder(tmp_path / "m").pooling == "mean"
    note.write_text('{"pooling_mode": "mean", "word_embedding_dimension": 64}')
    with pytest.raises(CheckpointError, match="pools states of 64 numbers, the encoder's have 32"):
        load_text_encoder(tmp_path / "m")
    note.write_text("[]")
    with pytest.raises(CheckpointError, match="not a readable JSON object"):
        load_text_encoder(tmp_path / "m")


def test_the_family_of_a_folder(folders: dict[str, Path], checkpoint: Path, tmp_path: Path) -> None:
    assert [family_of(folders[name]) for name in FAMILIES] == list(FAMILIES)
    assert family_of(checkpoint) == "bert"
    assert family_of(tmp_path) == "bert"
    (tmp_path / "config.json").write_text("[1]")
    assert family_of(tmp_path) == "bert"
    (tmp_path / "config.json").write_text('{"text": {"model_type": "mpnet"}}')
    assert family_of(tmp_path) == "mpnet"


def test_a_configuration_cannot_name_code(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["roberta"], tmp_path / "m"))
    hostile = {"auto_map": {"AutoModel": "evil.Model"}, "_attn_implementation": "evil/kernels"}
    edit(lambda c: c.update(hostile))(folder)
    assert not set(hostile) & set(load_text_encoder(folder).config)
