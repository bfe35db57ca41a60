"""Tokenizers: loading without running anything from the folder, and training of WordPiece ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from cxrtext.files import write_text
from cxrtext.text.vocabularies import (
    SPECIAL,
    SPECIAL_TOKENS,
    WordPieces,
    read_byte_pairs,
    read_word_pieces,
)
from cxrtext.text.word_pieces import BertTokenizer

OTHER_CHARACTERS = 100
"""Most characters outside ASCII in a trained vocabulary; the rest become [UNK]."""


def make_tokenizer(vocabulary: dict[str, int]) -> BertTokenizer:
    return BertTokenizer(WordPieces(vocabulary))


def load_tokenizer(folder: Path) -> BertTokenizer:
    """Load the BERT tokenizer of a folder with ``vocab.txt`` or ``tokenizer.json``.

    Only the vocabulary and the normalization are read; no class or code that the folder names is.
    """
    return BertTokenizer(read_word_pieces(folder))


def load_tokenizer_of(folder: Path, family: str) -> Any:
    """Load a tokenizer of one of the families of :data:`SPECIAL` as :func:`load_tokenizer` does."""
    if family == "bert":
        return load_tokenizer(folder)
    pad, unknown, start, end, mask = SPECIAL[family]
    values: dict[str, Any] = {"pad_token": pad, "unk_token": unknown, "mask_token": mask}
    values |= {"cls_token": start, "bos_token": start, "sep_token": end, "eos_token": end}
    if family == "roberta":
        from transformers import RobertaTokenizer

        found = read_byte_pairs(folder, family)
        values |= {"vocab": found.ids, "merges": found.merges}
        return RobertaTokenizer(add_prefix_space=found.add_prefix_space, **values)
    from transformers import MPNetTokenizer

    pieces = read_word_pieces(folder, family)
    return MPNetTokenizer(
        vocab=dict(pieces.ids),
        do_lower_case=pieces.lowercase,
        strip_accents=pieces.strip_accents,
        tokenize_chinese_chars=pieces.split_chinese,
        **values,
    )


def train_tokenizer(sentences: Iterable[str], vocabulary_size: int = 4000) -> BertTokenizer:
    """Train a lower-casing WordPiece vocabulary of at most so many pieces, special ones included.

    Every printable ASCII character is in it, so that [UNK] is rare.  The same sentences give the
    same vocabulary.

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
    tokenizer.save_pretrained(folder)


def vocabulary_of(tokenizer: BertTokenizer) -> list[str]:
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


def continues_word(tokenizer: BertTokenizer) -> list[bool]:
    """Return by id whether a piece continues the word of the piece before it."""
    return [piece.startswith("##") and piece != "##" for piece in vocabulary_of(tokenizer)]
