import json
from pathlib import Path

import pytest
from transformers import BertTokenizer

from cxrtext.errors import CheckpointError
from cxrtext.text import load_tokenizer, save_tokenizer, train_tokenizer
from cxrtext.text.tokenizer import continues_word, make_tokenizer
from cxrtext.text.vocabularies import SPECIAL_TOKENS

SENTENCES = ["The lungs are clear.", "No pneumothorax.", "Heart size is normal."] * 5


@pytest.fixture(scope="module")
def tokenizer() -> BertTokenizer:
    return train_tokenizer(SENTENCES, 300)


def test_a_trained_vocabulary_has_whole_words_and_falls_back_on_letters(
    tokenizer: BertTokenizer,
) -> None:
    assert tokenizer.tokenize("The LUNGS are clear.") == ["the", "lungs", "are", "clear", "."]
    assert "[UNK]" not in tokenizer.tokenize("zygomatic, 7%! [x]")
    assert tokenizer.convert_ids_to_tokens([0, 1, 2, 3, 4]) == list(SPECIAL_TOKENS)


def test_training_twice_gives_the_same(tokenizer: BertTokenizer) -> None:
    assert train_tokenizer(SENTENCES, 300).get_vocab() == tokenizer.get_vocab()


@pytest.mark.parametrize("keep", ["vocab.txt", "tokenizer.json"])
def test_either_file_loads_the_same(tokenizer: BertTokenizer, tmp_path: Path, keep: str) -> None:
    save_tokenizer(tokenizer, tmp_path)
    ours = BertTokenizer.from_pretrained(tmp_path)
    for path in tmp_path.iterdir():
        if path.name != keep:
            path.unlink()
    text = "No Pneumothorax: zygomatic."
    expected = tokenizer(text)["input_ids"]
    assert load_tokenizer(tmp_path)(text)["input_ids"] == expected
    assert ours(text)["input_ids"] == expected
    assert (expected[0], expected[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)


def test_lower_casing_is_read_from_the_folder(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "the", "The"]) + "\n")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert load_tokenizer(tmp_path).tokenize("The the") == ["The", "the"]


def test_nothing_that_the_folder_names_is_imported(
    tokenizer: BertTokenizer, tmp_path: Path
) -> None:
    save_tokenizer(tokenizer, tmp_path)
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')")
    (tmp_path / "tokenizer_config.json").write_text(
        '{"auto_map": {"AutoTokenizer": "evil.Evil"}, "tokenizer_class": "Evil"}'
    )
    assert type(load_tokenizer(tmp_path)) is BertTokenizer


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.txt", "the\nlungs\n", "lacks \\[PAD\\]"),
        ("vocab.txt", b"\xff\xfe\x00", "not UTF-8"),
        ("vocab.txt", "\n".join([*SPECIAL_TOKENS, "a", "a"]), "without gaps"),
        ("tokenizer.json", "{", "not a readable JSON"),
        ("tokenizer.json", "[]", "not a JSON object"),
        ("tokenizer.json", '{"model": {"type": "BPE", "vocab": {}}}', "not a WordPiece"),
        ("tokenizer.json", '{"model": 7}', "not a WordPiece"),
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


def test_ids_with_gaps_are_refused(tmp_path: Path) -> None:
    vocabulary = {token: number for number, token in enumerate(SPECIAL_TOKENS)} | {"the": 10**9}
    content = {"model": {"type": "WordPiece", "vocab": vocabulary}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match="without gaps"):
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
    tokenizer = make_tokenizer({name: number for number, name in enumerate(names)})
    assert continues_word(tokenizer) == [False] * 6 + [True, False, False]


def test_too_small_a_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="at least"):
        train_tokenizer(SENTENCES, 50)
