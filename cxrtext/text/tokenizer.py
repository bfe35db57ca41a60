"""WordPiece tokenizers: loading without running anything from the folder, and training."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.errors import CheckpointError
from cxrtext.files import write_json, write_text

if TYPE_CHECKING:
    from transformers import BertTokenizer

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""BERT's special tokens, in the order in which a trained vocabulary starts."""

OTHER_CHARACTERS = 100
"""Most characters outside ASCII in a trained vocabulary; the rest become [UNK]."""


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise CheckpointError(f"{path}: not a readable JSON file") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: not a JSON object")
    return value


def _from_tokenizer_json(path: Path) -> tuple[dict[str, int], bool]:
    """The vocabulary of a ``tokenizer.json``, and whether it lower-cases."""
    content = _json(path)
    model, normalizer = content.get("model"), content.get("normalizer")
    if not isinstance(model, dict):
        model = {}
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict) or model.get("type", "WordPiece") != "WordPiece":
        raise CheckpointError(f"{path}: not a WordPiece tokenizer; a BERT tokenizer is needed")
    lowercase = normalizer.get("lowercase", True) if isinstance(normalizer, dict) else True
    return vocabulary, bool(lowercase)


def _from_vocabulary_text(path: Path) -> tuple[dict[str, int], bool]:
    """The vocabulary of a ``vocab.txt``, and whether the folder's settings lower-case."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: not UTF-8 text") from None
    if lines[-1] == "":
        lines.pop()
    settings = path.with_name("tokenizer_config.json")
    lowercase = _json(settings).get("do_lower_case", True) if settings.is_file() else True
    return {token.rstrip("\r"): number for number, token in enumerate(lines)}, bool(lowercase)


def _check_vocabulary(path: Path, vocabulary: dict[str, int]) -> None:
    missing = [token for token in SPECIAL_TOKENS if token not in vocabulary]
    if missing:
        raise CheckpointError(f"{path}: the vocabulary lacks {', '.join(missing)}")
    if not all(type(number) is int for number in vocabulary.values()) or sorted(
        vocabulary.values()
    ) != list(range(len(vocabulary))):
        raise CheckpointError(
            f"{path}: the vocabulary's ids do not run from 0 without gaps; download the file again"
        )


def _added_tokens(folder: Path, path: Path) -> tuple[Path, dict[str, Any]]:
    """Tokens that were added beside the word pieces, by the file that says so."""
    if path.name == "tokenizer.json":
        added = _json(path).get("added_tokens")
        tokens = [item for item in added or [] if isinstance(item, dict)]
        return path, {str(item.get("content")): item.get("id") for item in tokens}
    path = folder / "added_tokens.json"
    return path, _json(path) if path.is_file() else {}


def _check_added(path: Path, added: dict[str, Any], vocabulary: dict[str, int]) -> None:
    """Refuse added tokens that the vocabulary lacks or has by another id: they would be lost."""
    orphans = [token for token, number in added.items() if vocabulary.get(token) != number]
    if orphans:
        raise CheckpointError(
            f"{path}: {len(orphans)} added tokens do not stand in the vocabulary by the same id; "
            "write them into vocab.txt, each at the line of its id"
        )


def make_tokenizer(vocabulary: dict[str, int], *, lowercase: bool = True) -> BertTokenizer:
    """Build BERT's tokenizer over a vocabulary of word pieces."""
    from transformers import BertTokenizer

    return BertTokenizer(vocab=dict(vocabulary), do_lower_case=lowercase)


def load_tokenizer(folder: Path) -> BertTokenizer:
    """Load the BERT tokenizer of a folder with ``vocab.txt`` or ``tokenizer.json``.

    Only the vocabulary and the lower-casing are read; no class or code that the folder names is.

    Raises:
        CheckpointError: There is neither, or it is no WordPiece vocabulary with BERT's special
            tokens, or tokens were added that it lacks.
    """
    fast, plain = folder / "tokenizer.json", folder / "vocab.txt"
    if plain.is_file():
        path, (vocabulary, lowercase) = plain, _from_vocabulary_text(plain)
    elif fast.is_file():
        path, (vocabulary, lowercase) = fast, _from_tokenizer_json(fast)
    else:
        raise CheckpointError(
            f"{folder}: no vocab.txt and no tokenizer.json; copy one of them there"
        )
    _check_vocabulary(path, vocabulary)
    _check_added(*_added_tokens(folder, path), vocabulary)
    return make_tokenizer(vocabulary, lowercase=lowercase)


def train_tokenizer(sentences: Iterable[str], vocabulary_size: int = 4000) -> BertTokenizer:
    """Train a lower-casing WordPiece vocabulary.

    Args:
        vocabulary_size: Most word pieces, special tokens and letters included.

    Returns:
        A BERT tokenizer; every printable ASCII character is in its vocabulary, so that [UNK] is
        rare.  The same sentences give the same vocabulary.

    Raises:
        ValueError: The size leaves no room for the special tokens and the characters.

    Source: Devlin et al. 2019; Schuster and Nakajima 2012 (WordPiece).
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    corpus = list(sentences)
    normalizer = normalizers.BertNormalizer(lowercase=True)
    alphabet = _alphabet(corpus, normalizer.normalize_str)
    # Both forms of each letter come first and in order: left to the trainer, their ids, and with
    # them the ties between merges, change from run to run.
    single = [*alphabet, *(f"##{letter}" for letter in alphabet)]
    least = len(SPECIAL_TOKENS) + len(single)
    if vocabulary_size < least:
        raise ValueError(f"vocabulary_size is {vocabulary_size}; at least {least} are needed")
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))  # noqa: S106 - no password
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary_size,
        min_frequency=2,
        limit_alphabet=len(alphabet),
        initial_alphabet=alphabet,
        special_tokens=[*SPECIAL_TOKENS, *single],
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return make_tokenizer(tokenizer.get_vocab())


def _alphabet(corpus: Iterable[str], normalize: Callable[[str], str]) -> list[str]:
    """Printable ASCII in lower case, then the most frequent other characters of the corpus."""
    ascii_characters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    counts = Counter("".join(map(normalize, corpus)))
    others = [c for c in counts if c not in ascii_characters and not c.isspace()]
    others.sort(key=lambda character: (-counts[character], character))
    return ascii_characters + others[:OTHER_CHARACTERS]


def save_tokenizer(tokenizer: BertTokenizer, folder: Path) -> None:
    """Write ``vocab.txt``, ``tokenizer.json`` and ``tokenizer_config.json`` into a folder."""
    write_text(folder / "vocab.txt", "\n".join(vocabulary_of(tokenizer)) + "\n")
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"do_lower_case": lowercases(tokenizer), "tokenizer_class": "BertTokenizer"}
    write_json(folder / "tokenizer_config.json", settings)


def vocabulary_of(tokenizer: BertTokenizer) -> list[str]:
    """Return the word pieces, by id."""
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


def continues_word(tokenizer: BertTokenizer) -> list[bool]:
    """Return by id whether a piece continues the word of the piece before it."""
    return [piece.startswith("##") and piece != "##" for piece in vocabulary_of(tokenizer)]


def lowercases(tokenizer: BertTokenizer) -> bool:
    """Return whether the tokenizer lower-cases its input."""
    return bool(tokenizer.do_lower_case)
