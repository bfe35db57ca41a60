"""Vocabularies of model folders, read and checked: word pieces, and byte-level BPE.

Only what is listed here is read; a normalizer, a pre-tokenizer or an added token that is not is
refused, because the ids would not be those that the model was trained with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxrtext.errors import CheckpointError
from cxrtext.files import read_regular

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""BERT's special tokens, in the order in which a trained vocabulary starts."""
SPECIAL = {
    "bert": SPECIAL_TOKENS,
    "mpnet": ("<pad>", "[UNK]", "<s>", "</s>", "<mask>"),
    "roberta": ("<pad>", "<unk>", "<s>", "</s>", "<mask>"),
}
"""Tokens of padding, unknown pieces, start, end and mask by family; a RoBERTa's vocabulary is of
bytes, the others' are of word pieces."""

_FAST, _PLAIN, _BYTES, _MERGES = "tokenizer.json", "vocab.txt", "vocab.json", "merges.txt"
_SETTINGS = "tokenizer_config.json"
_FRAMES = {"BertProcessing", "RobertaProcessing", "TemplateProcessing"}


@dataclass(frozen=True, slots=True)
class WordPieces:
    """A vocabulary of word pieces, and how text is normalized before it is cut into them."""

    ids: dict[str, int]  # by word piece
    lowercase: bool = True
    strip_accents: bool | None = None  # None does as ``lowercase`` says
    split_chinese: bool = True  # whether each Chinese character is a word


@dataclass(frozen=True, slots=True)
class BytePairs:
    """A byte-level vocabulary, and the pairs that are merged, first to last."""

    ids: dict[str, int]
    merges: list[tuple[str, str]]
    add_prefix_space: bool = False


def read_word_pieces(folder: Path, family: str = "bert") -> WordPieces:
    """Read the word pieces of a folder with ``vocab.txt`` or ``tokenizer.json``."""
    fast, plain = folder / _FAST, folder / _PLAIN
    if plain.is_file():
        path, vocabulary = plain, _from_vocabulary_text(plain)
    elif fast.is_file():
        path, vocabulary = fast, _from_tokenizer_json(fast, SPECIAL[family][1])
    else:
        raise CheckpointError(f"{folder}: no {_PLAIN} and no {_FAST}; copy one of them there")
    _check_vocabulary(path, vocabulary.ids, family)
    advice = "write them into vocab.txt, each at the line of its id"
    _check_added(*_added_tokens(folder, path), vocabulary.ids, advice)
    return vocabulary


def read_byte_pairs(folder: Path, family: str = "roberta") -> BytePairs:
    """Read a folder's byte-level BPE: ``tokenizer.json``, or ``vocab.json`` and ``merges.txt``."""
    fast, plain = folder / _FAST, folder / _BYTES
    settings = _settings(folder).get("add_prefix_space")
    if fast.is_file():
        path, found = fast, _bytes_of_tokenizer_json(fast)
        if settings is not None and bool(settings) != found.add_prefix_space:
            raise CheckpointError(
                f"{folder / _SETTINGS}: add_prefix_space is not what {_FAST} says; copy both files "
                "from the same model"
            )
    elif plain.is_file() and (folder / _MERGES).is_file():
        path = plain
        found = BytePairs(_json(plain), _merges_of(folder / _MERGES), bool(settings))
    else:
        raise CheckpointError(
            f"{folder}: no {_FAST}, and not both {_BYTES} and {_MERGES}; copy them there"
        )
    _check_vocabulary(path, found.ids, family)
    _check_added(*_added_tokens(folder, path), found.ids, "take a model without added tokens")
    _check_merges(path, found)
    return found


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(read_regular(path).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        raise CheckpointError(f"{path}: not a readable JSON file") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: not a JSON object")
    return value


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / _SETTINGS
    return _json(path) if path.is_file() else {}


def _part(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = content.get(name)
    return part if isinstance(part, dict) else {}


def _check_step(path: Path, content: Mapping[str, Any], name: str, known: set[str]) -> None:
    """Refuse a step of a ``tokenizer.json`` that is of another type; none at all is fine."""
    step = content.get(name)
    kind = step.get("type") if isinstance(step, dict) else step
    if kind is not None and kind not in known:
        only = f", only {', '.join(sorted(known))}" if known else ""
        raise CheckpointError(f"{path}: {name} {str(kind)[:40]!r} is not supported{only}")


def _optional(value: object) -> bool | None:
    return None if value is None else bool(value)


def _lines(path: Path) -> list[str]:
    try:
        lines = read_regular(path).decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
    if lines[-1] == "":
        lines.pop()
    return [line.rstrip("\r") for line in lines]


# --- word pieces ---


def _from_tokenizer_json(path: Path, unknown: str) -> WordPieces:
    content = _json(path)
    model, normalizer = _part(content, "model"), _part(content, "normalizer")
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict) or model.get("type", "WordPiece") != "WordPiece":
        raise CheckpointError(f"{path}: not a WordPiece tokenizer; a BERT tokenizer is needed")
    _check_step(path, content, "normalizer", {"BertNormalizer"})
    _check_step(path, content, "pre_tokenizer", {"BertPreTokenizer"})
    _check_step(path, content, "post_processor", _FRAMES)
    if model.get("unk_token", unknown) != unknown:
        raise CheckpointError(
            f"{path}: unknown pieces are {str(model['unk_token'])[:40]!r}, only {unknown} is read"
        )
    return WordPieces(
        vocabulary,
        bool(normalizer.get("lowercase", True)),
        _optional(normalizer.get("strip_accents")),
        bool(normalizer.get("handle_chinese_chars", True)),
    )


def _from_vocabulary_text(path: Path) -> WordPieces:
    settings = _settings(path.parent)
    return WordPieces(
        {token: number for number, token in enumerate(_lines(path))},
        bool(settings.get("do_lower_case", True)),
        _optional(settings.get("strip_accents")),
        bool(settings.get("tokenize_chinese_chars", True)),
    )


# --- bytes ---


def _bytes_of_tokenizer_json(path: Path) -> BytePairs:
    content = _json(path)
    model, cut = _part(content, "model"), _part(content, "pre_tokenizer")
    vocabulary, merges = model.get("vocab"), model.get("merges")
    if model.get("type", "BPE") != "BPE" or not (
        isinstance(vocabulary, dict) and isinstance(merges, list)
    ):
        raise CheckpointError(f"{path}: not a BPE tokenizer; a RoBERTa tokenizer is needed")
    _check_step(path, content, "normalizer", set())
    _check_step(path, content, "pre_tokenizer", {"ByteLevel"})
    _check_step(path, content, "post_processor", _FRAMES)
    plain = {
        "dropout": None,
        "byte_fallback": False,
        "ignore_merges": False,
        "continuing_subword_prefix": "",
        "end_of_word_suffix": "",
    }
    for name, usual in plain.items():
        if (model.get(name) or usual) != usual:
            raise CheckpointError(f"{path}: model.{name} is not supported")
    if cut.get("type") != "ByteLevel" or not cut.get("use_regex", True):
        raise CheckpointError(f"{path}: not cut into bytes as a RoBERTa tokenizer does")
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    return BytePairs(vocabulary, _pairs(path, pairs), bool(cut.get("add_prefix_space", False)))


def _merges_of(path: Path) -> list[tuple[str, str]]:
    lines = _lines(path)
    first = 1 if lines and lines[0].startswith("#version") else 0
    return _pairs(path, [line.split(" ") for line in lines[first:] if line])


def _pairs(path: Path, merges: list[Any]) -> list[tuple[str, str]]:
    for number, merge in enumerate(merges, 1):
        texts = isinstance(merge, list) and all(isinstance(piece, str) for piece in merge)
        if not (texts and len(merge) == 2 and all(merge)):
            raise CheckpointError(f"{path}: merge {number} is not of two pieces; copy it again")
    return [(left, right) for left, right in merges]


def _check_merges(path: Path, found: BytePairs) -> None:
    known = found.ids
    unknown = sum(not (a in known and b in known and a + b in known) for a, b in found.merges)
    if unknown:
        raise CheckpointError(
            f"{path}: {unknown} merges are of pieces that the vocabulary lacks; copy both from the "
            "same model"
        )


# --- both ---


def _check_vocabulary(path: Path, vocabulary: Mapping[str, Any], family: str) -> None:
    missing = [token for token in SPECIAL[family] if token not in vocabulary]
    if missing:
        raise CheckpointError(f"{path}: the vocabulary lacks {', '.join(missing)}")
    if not all(type(number) is int for number in vocabulary.values()) or sorted(
        vocabulary.values()
    ) != list(range(len(vocabulary))):
        raise CheckpointError(
            f"{path}: the vocabulary's ids do not run from 0 without gaps; download the file again"
        )


def _added_tokens(folder: Path, path: Path) -> tuple[Path, dict[str, Any]]:
    """Tokens that were added beside the vocabulary, by the file that says so."""
    if path.name == _FAST:
        tokens = [item for item in _json(path).get("added_tokens") or [] if isinstance(item, dict)]
        return path, {str(item.get("content")): item.get("id") for item in tokens}
    path = folder / "added_tokens.json"
    return path, _json(path) if path.is_file() else {}


def _check_added(
    path: Path, added: dict[str, Any], vocabulary: Mapping[str, int], advice: str
) -> None:
    """Refuse added tokens that the vocabulary lacks or has by another id: they would be lost."""
    orphans = [token for token, number in added.items() if vocabulary.get(token) != number]
    if orphans:
        raise CheckpointError(
            f"{path}: {len(orphans)} added tokens do not stand in the vocabulary by the same id; "
            f"{advice}"
        )
