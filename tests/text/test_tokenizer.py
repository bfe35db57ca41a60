"""Tokenizers: trained, read from a folder, and of RoBERTa and MPNet as transformers' own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import BertTokenizer as TheirBertTokenizer
from transformers import MPNetTokenizer, RobertaTokenizer

from cxrtext.errors import CheckpointError
from cxrtext.text import load_tokenizer, save_tokenizer, train_tokenizer
from cxrtext.text.tokenizer import SPECIAL_TOKENS, TextTokenizer, continues_word
from tests.models.text_families import report_sentences, write_mpnet, write_roberta

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
        ("vocab.txt", "the\nlungs\n", "lacks \\[PAD\\]"),
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
            with pytest.raises(CheckpointError, match="1 added tokens do not stand"):
                load_tokenizer(folder)


DOMAIN_WORDS = ("pneumothorax", "effusion", "cardiomegaly", "atelectasis", "consolidation")


def test_frequent_words_of_radiology_become_single_pieces() -> None:
    """Among many rarer words that share their letters, and with the smaller of the named sizes."""
    sentences = []
    for number in range(400):
        word = DOMAIN_WORDS[number % len(DOMAIN_WORDS)]
        rare = f"{word[:4]}{chr(97 + number % 26)}{word[-5:]}{chr(97 + number % 17)}"
        sentences.append(f"There is no {word} at level {number} near the {rare}.")
    tokenizer = train_tokenizer(sentences, 1000)
    for word in DOMAIN_WORDS:
        assert tokenizer.tokenize(word) == [word]
        assert tokenizer.tokenize(word.upper()) == [word]
    assert len(tokenizer.tokenize("pneumoperitoneum")) > 1
    assert tokenizer.unk_token_id not in tokenizer("pneumoperitoneum")["input_ids"]


def test_pieces_that_continue_a_word_are_told_from_those_that_start_one() -> None:
    names = [*SPECIAL_TOKENS, "the", "##thorax", "#", "##"]
    tokenizer = TextTokenizer({name: number for number, name in enumerate(names)})
    assert continues_word(tokenizer) == [False] * 6 + [True, False, False]


OWN: dict[str, Any] = {
    "bert": TheirBertTokenizer,
    "roberta": RobertaTokenizer,
    "mpnet": MPNetTokenizer,
}
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
def folders(tokenizer: TextTokenizer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    save_tokenizer(tokenizer, root / "bert")
    return {
        "bert": root / "bert",
        "roberta": write_roberta(root / "roberta", report_sentences()),
        "mpnet": write_mpnet(root / "mpnet", report_sentences()),
    }


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet"])
def test_ids_are_those_of_transformers_from_either_files(
    family: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    sentences = report_sentences()
    plain = load_tokenizer(folders[family], family)
    plain.save_pretrained(tmp_path / "fast")
    assert not (tmp_path / "fast/vocab.txt").exists()
    fast = load_tokenizer(tmp_path / "fast", family)
    assert len(sentences) > 200
    for folder in (folders[family], tmp_path / "fast"):
        theirs = OWN[family].from_pretrained(folder)
        for given in (sentences, ODD):
            asked: dict[str, Any] = {"truncation": True, "max_length": 64, "padding": True}
            wanted = theirs(given, return_token_type_ids=False, **asked)
            for ours in (plain, fast):
                assert ours(given, return_token_type_ids=False, **asked) == dict(wanted)
    if family == "roberta":  # files of the first years, as roberta-base's
        fast_json(lambda c: (c["model"].pop("type"), c["model"].update(merges_as_text(c))))(
            tmp_path / "fast"
        )
        old = load_tokenizer(tmp_path / "fast", family)
        assert old(sentences)["input_ids"] == plain(sentences)["input_ids"]
    assert plain("")["input_ids"] == [plain.cls_token_id, plain.sep_token_id]
    assert type(plain) is TextTokenizer


@pytest.mark.parametrize("setting", ["strip_accents", "tokenize_chinese_chars", "do_lower_case"])
def test_normalization_is_read_as_the_folder_says(
    folders: dict[str, Path], tmp_path: Path, setting: str
) -> None:
    for family in ("mpnet", "bert"):
        folder = tmp_path / family
        folder.mkdir()
        (folder / "vocab.txt").write_bytes((folders["mpnet"] / "vocab.txt").read_bytes())
        (folder / "tokenizer_config.json").write_text(json.dumps({setting: False}))
        ours, theirs = load_tokenizer(folder, family), OWN[family].from_pretrained(folder)
        ours.save_pretrained(folder / "fast")
        again = load_tokenizer(folder / "fast", family)
        for text in ("größer", "心影增大", "naïve façade", "The the"):
            assert ours(text)["input_ids"] == theirs(text)["input_ids"] == again(text)["input_ids"]


def test_a_space_before_the_first_word_is_read_as_the_folder_says(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes((folders["roberta"] / name).read_bytes())
    without = load_tokenizer(tmp_path, "roberta")
    (tmp_path / "tokenizer_config.json").write_text('{"add_prefix_space": true}')
    spaced = load_tokenizer(tmp_path, "roberta")
    assert spaced("Lungs")["input_ids"] == without(" Lungs")["input_ids"]
    assert spaced("Lungs")["input_ids"] != without("Lungs")["input_ids"]
    spaced.save_pretrained(tmp_path / "fast")
    again = load_tokenizer(tmp_path / "fast", "roberta")
    assert again("Lungs")["input_ids"] == spaced("Lungs")["input_ids"]
    (tmp_path / "fast/tokenizer_config.json").write_text('{"add_prefix_space": false}')
    with pytest.raises(CheckpointError, match="add_prefix_space is not what tokenizer.json says"):
        load_tokenizer(tmp_path / "fast", "roberta")


def merges_as_text(content: dict[str, Any]) -> dict[str, list[str]]:
    return {"merges": [" ".join(pair) for pair in content["model"]["merges"]]}


def fast_json(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """Changes a folder's ``tokenizer.json``."""

    def write(folder: Path) -> None:
        path = folder / "tokenizer.json"
        content = json.loads(path.read_text("utf-8"))
        change(content)
        path.write_text(json.dumps(content))

    return write


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (fast_json(lambda c: c.update(normalizer={"type": "Lowercase"})), "normalizer 'Lowercase'"),
        (fast_json(lambda c: c.update(pre_tokenizer=None)), "not cut into bytes"),
        (fast_json(lambda c: c["model"].update(type="WordPiece")), "not a BPE tokenizer"),
        (fast_json(lambda c: c["model"].update(dropout=0.1)), r"model\.dropout is not supported"),
        (fast_json(lambda c: c["model"]["merges"].append(["zq", "qz"])), "1 merges are of pieces"),
        (fast_json(lambda c: c["model"]["vocab"].pop("<mask>")), "lacks <mask>"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "not both vocab.json and merges.txt"),
    ],
)
def test_what_is_not_known_of_a_roberta_is_refused(
    folders: dict[str, Path], tmp_path: Path, change: Callable[[Path], object], message: str
) -> None:
    load_tokenizer(folders["roberta"], "roberta").save_pretrained(tmp_path)
    change(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        load_tokenizer(tmp_path, "roberta")


@pytest.mark.parametrize("family", OWN)
def test_nothing_that_the_folder_names_is_imported(
    family: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    load_tokenizer(folders[family], family).save_pretrained(tmp_path)
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')")
    hostile = {"auto_map": {"AutoTokenizer": "evil.Evil"}, "tokenizer_class": "Evil"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(hostile))
    assert type(load_tokenizer(tmp_path, family)) is TextTokenizer
