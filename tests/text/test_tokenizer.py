"""The tokenizer: trained, read from a folder, and as transformers' own."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import BertTokenizer as TheirBertTokenizer

from cxrtext.errors import CheckpointError
from cxrtext.text import load_tokenizer, save_tokenizer, train_tokenizer
from cxrtext.text.tokenizer import SPECIAL_TOKENS, TextTokenizer, continues_word
from tests.models.text_encoders import report_sentences

SENTENCES = ["The lungs are clear.", "No pneumothorax.", "Heart size is normal."] * 5


@pytest.fixture(scope="module")
def tokenizer() -> TextTokenizer:
    return train_tokenizer(SENTENCES, 300)


def test_a_trained_vocabulary_has_whole_words_and_falls_back_on_letters(
    tokenizer: TextTokenizer,
) -> None:
    assert tokenizer.tokenize("The LUNGS are clear.") == ["the", "lungs", "are", "clear", "."]
    assert "[UNK]" not in tokenizer.tokenize("zygomatic, 7%! [x]")
    assert tokenizer.all_special_ids == [0, 1, 2, 3, 4]
    assert [tokenizer.get_vocab()[token] for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]


def test_training_again_gives_the_same_and_few_pieces_are_refused(
    tokenizer: TextTokenizer,
) -> None:
    assert train_tokenizer(SENTENCES, 300).get_vocab() == tokenizer.get_vocab()
    with pytest.raises(ValueError, match="at least"):
        train_tokenizer(SENTENCES, 50)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.txt", "the\nlungs\n", "has no \\[PAD\\]"),
        ("vocab.txt", b"\xff\xfe\x00", "not UTF-8"),
        ("vocab.txt", "\n".join([*SPECIAL_TOKENS, "a", "a"]), "without gaps"),
        ("tokenizer.json", "{", "not a readable JSON"),
        ("tokenizer.json", '{"model": {"type": "BPE", "vocab": {}}}', "not a WordPiece"),
        ("notes.txt", "", "no vocab.txt and no tokenizer.json"),
    ],
)
def test_a_broken_vocabulary_is_refused(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CheckpointError, match=message):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("added", "ok"),
    [({"[MASK]": 4}, True), ({"[MASK]": 400}, False), ({"pneumothorax": 6}, False), ({}, True)],
)
def test_added_tokens_that_the_vocabulary_lacks_are_refused(
    tmp_path: Path, added: dict[str, int], ok: bool
) -> None:
    vocabulary = {token: number for number, token in enumerate([*SPECIAL_TOKENS, "the"])}
    tokens = [{"id": number, "content": token} for token, number in added.items()]
    content = {"model": {"type": "WordPiece", "vocab": vocabulary}, "added_tokens": tokens}
    fast, plain = tmp_path / "fast", tmp_path / "plain"
    for folder in (fast, plain):
        folder.mkdir()
    (fast / "tokenizer.json").write_text(json.dumps(content))
    (plain / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    (plain / "added_tokens.json").write_text(json.dumps(added))
    for folder in (fast, plain):
        if ok:
            assert len(load_tokenizer(folder)) == 6
        else:
            with pytest.raises(CheckpointError, match="1 added tokens are not in the vocabulary"):
                load_tokenizer(folder)


def test_pieces_that_continue_a_word_are_told_from_those_that_start_one() -> None:
    names = [*SPECIAL_TOKENS, "the", "##thorax", "#", "##"]
    tokenizer = TextTokenizer({name: number for number, name in enumerate(names)})
    assert continues_word(tokenizer) == [False] * 6 + [True, False, False]


ODD = [
    "",
    " ",
    "  Two  spaces,\ttab,\nline  ",
    "ÜBERLAGERUNG der Lunge, naïve façade; größer als 5 µm²…",
    'Size < 5 mm > 3 mm; "AP/LAT" (x-ray) [2] {a} #1 & 50% @ $3 ~ ^ | \\ ` 1.5x10^-3 — no?!',
    "心影增大。肺部清晰",
    "🫁 e\u0301 \u200b\ufeff\u00a0",
    "##ax <s> </s> <pad> <unk> <mask> [CLS] [UNK]",
    "pneumothorax " * 700,
]


@pytest.fixture(scope="module")
def folder(tokenizer: TextTokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(tokenizer, made)
    return made


def test_ids_are_those_of_transformers_from_either_file(folder: Path, tmp_path: Path) -> None:
    sentences = report_sentences()
    plain = load_tokenizer(folder)
    plain.save_pretrained(tmp_path / "fast")
    assert not (tmp_path / "fast/vocab.txt").exists()
    fast = load_tokenizer(tmp_path / "fast")
    assert len(sentences) > 200
    for place in (folder, tmp_path / "fast"):
        theirs = TheirBertTokenizer.from_pretrained(place)
        for given in (sentences, ODD):
            asked: dict[str, Any] = {"truncation": True, "max_length": 64, "padding": True}
            wanted = theirs(given, return_token_type_ids=False, **asked)
            for ours in (plain, fast):
                assert ours(given, return_token_type_ids=False, **asked) == dict(wanted)
    assert plain("")["input_ids"] == [plain.cls_token_id, plain.sep_token_id]
    assert type(plain) is TextTokenizer


@pytest.mark.parametrize("setting", ["strip_accents", "tokenize_chinese_chars", "do_lower_case"])
def test_normalization_is_read_as_the_folder_says(
    folder: Path, tmp_path: Path, setting: str
) -> None:
    (tmp_path / "vocab.txt").write_bytes((folder / "vocab.txt").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({setting: False}))
    ours, theirs = load_tokenizer(tmp_path), TheirBertTokenizer.from_pretrained(tmp_path)
    ours.save_pretrained(tmp_path / "fast")
    again = load_tokenizer(tmp_path / "fast")
    for text in ("größer", "心影增大", "naïve façade", "The the"):
        assert ours(text)["input_ids"] == theirs(text)["input_ids"] == again(text)["input_ids"]


@pytest.mark.parametrize(
    ("step", "kind"), [("normalizer", "Lowercase"), ("pre_tokenizer", "ByteLevel")]
)
def test_steps_that_are_not_berts_are_refused(
    folder: Path, tmp_path: Path, step: str, kind: str
) -> None:
    load_tokenizer(folder).save_pretrained(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    (tmp_path / "tokenizer.json").write_text(json.dumps({**content, step: {"type": kind}}))
    with pytest.raises(CheckpointError, match=f"{step} '{kind}' is not supported, only Bert"):
        load_tokenizer(tmp_path)


def test_nothing_that_the_folder_names_is_imported(folder: Path, tmp_path: Path) -> None:
    load_tokenizer(folder).save_pretrained(tmp_path)
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')")
    hostile = {"auto_map": {"AutoTokenizer": "evil.Evil"}, "tokenizer_class": "Evil"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(hostile))
    assert type(load_tokenizer(tmp_path)) is TextTokenizer
