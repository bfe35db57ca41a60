"""BERT's tokenizer: loaded from a folder, trained, and called.

It uses only ``tokenizers``, because transformers takes seconds to import; ids are the same.  Only
the vocabulary and the settings and steps named here are read from a folder.  Another normalizer or
pre-tokenizer, or an added token missing from the vocabulary, is refused: ids would differ from the
model's training.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cxrtext.errors import CheckpointError
from cxrtext.files import read_regular, write_json, write_text

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Padding, unknown pieces, start, end, mask: the first pieces of a trained vocabulary."""
OTHER_CHARACTERS = 100
"""Most non-ASCII characters in a trained vocabulary; others become [UNK]."""

_FAST, _SETTINGS = "tokenizer.json", "tokenizer_config.json"
_STEPS = {
    "normalizer": ("BertNormalizer",),
    "pre_tokenizer": ("BertPreTokenizer",),
    "post_processor": ("BertProcessing", "RobertaProcessing", "TemplateProcessing"),
}
Settings = dict[str, Any]


class TextTokenizer:
    """Cuts text into the pieces of a vocabulary; called like transformers' tokenizers.

    Args:
        settings: ``do_lower_case``, ``strip_accents`` and ``tokenize_chinese_chars``, as in
            transformers.
    """

    def __init__(self, ids: Mapping[str, int], settings: Mapping[str, Any] | None = None) -> None:
        from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

        settings = settings or {}
        self.do_lower_case = bool(settings.get("do_lower_case", True))
        accents = settings.get("strip_accents")
        self.strip_accents = None if accents is None else bool(accents)
        self.tokenize_chinese_chars = bool(settings.get("tokenize_chinese_chars", True))
        own = Tokenizer(models.WordPiece(dict(ids), unk_token=SPECIAL_TOKENS[1]))
        own.normalizer = normalizers.BertNormalizer(
            handle_chinese_chars=self.tokenize_chinese_chars,
            strip_accents=self.strip_accents,
            lowercase=self.do_lower_case,
        )
        own.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        own.decoder = decoders.WordPiece(prefix="##")
        own.add_special_tokens(list(SPECIAL_TOKENS))
        self.all_special_ids = [ids[token] for token in SPECIAL_TOKENS]
        self.pad_token_id, self.unk_token_id, self.cls_token_id = self.all_special_ids[:3]
        self.sep_token_id, self.mask_token_id = self.all_special_ids[3:]
        begin, end = SPECIAL_TOKENS[2:4]
        own.post_processor = processors.TemplateProcessing(
            single=f"{begin}:0 $A:0 {end}:0",
            pair=f"{begin}:0 $A:0 {end}:0 $B:1 {end}:1",
            special_tokens=[(begin, self.cls_token_id), (end, self.sep_token_id)],
        )
        self.backend_tokenizer = own

    def __len__(self) -> int:
        return int(self.backend_tokenizer.get_vocab_size())

    def get_vocab(self) -> dict[str, int]:
        vocabulary: dict[str, int] = self.backend_tokenizer.get_vocab()
        return vocabulary

    def tokenize(self, text: str) -> list[str]:
        pieces: list[str] = self.backend_tokenizer.encode(text, add_special_tokens=False).tokens
        return pieces

    def __call__(
        self,
        texts: str | Sequence[str],
        *,
        add_special_tokens: bool = True,
        truncation: bool = False,
        max_length: int | None = None,
        padding: bool = False,
        return_tensors: str | None = None,
        return_token_type_ids: bool = False,
    ) -> dict[str, Any]:
        """Ids and attention masks, without the outer list for a single text.

        Args:
            truncation: Keep the first ``max_length`` ids, counting special ones.
            return_tensors: "pt" for padded tensors [S, T]; None for lists.
        """
        every = [texts] if isinstance(texts, str) else list(texts)
        encodings = self.backend_tokenizer.encode_batch(every, add_special_tokens=False)
        around = 2 if add_special_tokens else 0
        most = max_length - around if truncation and max_length is not None else None
        ids = [encoding.ids[:most] for encoding in encodings]
        if add_special_tokens:
            ids = [[self.cls_token_id, *one, self.sep_token_id] for one in ids]
        width = max(map(len, ids), default=0) if padding else 0
        lists: dict[str, Any] = {
            "input_ids": [[*one, *[self.pad_token_id] * (width - len(one))] for one in ids],
            "attention_mask": [[1] * len(one) + [0] * (width - len(one)) for one in ids],
        }
        if return_token_type_ids:
            lists["token_type_ids"] = [[0] * len(one) for one in lists["input_ids"]]
        if return_tensors is not None:
            import torch

            return {name: torch.tensor(rows) for name, rows in lists.items()}
        return {name: rows[0] for name, rows in lists.items()} if isinstance(texts, str) else lists

    def save_pretrained(self, folder: Path) -> None:
        """Write ``tokenizer.json`` and ``tokenizer_config.json`` into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self.backend_tokenizer.save(str(folder / _FAST))
        settings = {"do_lower_case": self.do_lower_case, "tokenizer_class": "BertTokenizer"}
        write_json(folder / _SETTINGS, settings | self.unusual_settings)

    @property
    def unusual_settings(self) -> dict[str, bool]:
        """The settings other than the lower case that differ from BERT's own."""
        settings: dict[str, bool] = {}
        if self.strip_accents is not None:
            settings["strip_accents"] = self.strip_accents
        if not self.tokenize_chinese_chars:
            settings["tokenize_chinese_chars"] = False
        return settings


def train_tokenizer(sentences: Iterable[str], vocabulary_size: int = 4000) -> TextTokenizer:
    """Train a lower-casing WordPiece vocabulary of at most so many pieces, with special ones.

    It has every printable ASCII character, so that [UNK] is rare.  The same sentences give the same
    vocabulary.

    Source: Devlin et al. 2019; Schuster and Nakajima 2012 (WordPiece).
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    corpus = list(sentences)
    normalizer = normalizers.BertNormalizer(lowercase=True)
    alphabet = _alphabet(corpus, normalizer.normalize_str)
    # Both forms of each letter come first and in order: the trainer would give them other ids in
    # each run, and so decide ties between merges differently.
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
    return TextTokenizer(tokenizer.get_vocab())


def _alphabet(corpus: Iterable[str], normalize: Callable[[str], str]) -> list[str]:
    """Printable ASCII in lower case, then the most frequent other characters of the corpus."""
    ascii_characters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    counts = Counter("".join(map(normalize, corpus)))
    others = [c for c in counts if c not in ascii_characters and not c.isspace()]
    others.sort(key=lambda character: (-counts[character], character))
    return ascii_characters + others[:OTHER_CHARACTERS]


def save_tokenizer(tokenizer: TextTokenizer, folder: Path) -> None:
    """Write ``vocab.txt``, ``tokenizer.json`` and ``tokenizer_config.json`` into a folder."""
    write_text(folder / "vocab.txt", "\n".join(vocabulary_of(tokenizer)) + "\n")
    tokenizer.save_pretrained(folder)


def vocabulary_of(tokenizer: TextTokenizer) -> list[str]:
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


def continues_word(tokenizer: TextTokenizer) -> list[bool]:
    """By id, whether a piece continues the word of the piece before it."""
    return [piece.startswith("##") and piece != "##" for piece in vocabulary_of(tokenizer)]


# --- folders ---


def load_tokenizer(folder: Path) -> TextTokenizer:
    """Load the tokenizer of a folder, from ``vocab.txt`` or ``tokenizer.json``.

    Classes and code that the folder names are ignored.
    """
    path = folder / _SETTINGS
    source, ids, settings = _word_pieces(folder, _json(path) if path.is_file() else {})
    if missing := [token for token in SPECIAL_TOKENS if token not in ids]:
        raise CheckpointError(f"{source}: the vocabulary has no {', '.join(missing)}")
    numbers = list(ids.values())
    if not all(type(number) is int for number in numbers) or sorted(numbers) != [*range(len(ids))]:
        raise CheckpointError(
            f"{source}: the vocabulary's ids do not run from 0 without gaps; download the file "
            "again"
        )
    _check_added(folder, source, ids)
    return TextTokenizer(ids, settings)


def _word_pieces(folder: Path, given: Settings) -> tuple[Path, dict[str, int], Settings]:
    fast, plain = folder / _FAST, folder / "vocab.txt"
    if plain.is_file():
        return plain, {token: number for number, token in enumerate(_lines(plain))}, given
    if not fast.is_file():
        raise CheckpointError(f"{folder}: no {plain.name} and no {_FAST}; copy one of them there")
    content, unknown = _json(fast), SPECIAL_TOKENS[1]
    model, normalizer = _part(content, "model"), _part(content, "normalizer")
    if not isinstance(model.get("vocab"), dict) or model.get("type", "WordPiece") != "WordPiece":
        raise CheckpointError(f"{fast}: not a WordPiece tokenizer; a BERT tokenizer is needed")
    _check_steps(fast, content)
    if (said := model.get("unk_token", unknown)) != unknown:
        raise CheckpointError(
            f"{fast}: unknown pieces are {str(said)[:40]!r}, only {unknown} is read"
        )
    settings = {
        "do_lower_case": normalizer.get("lowercase", True),
        "strip_accents": normalizer.get("strip_accents"),
        "tokenize_chinese_chars": normalizer.get("handle_chinese_chars", True),
    }
    return fast, model["vocab"], settings


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(read_regular(path).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        raise CheckpointError(f"{path}: not a readable JSON file") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: not a JSON object")
    return value


def _lines(path: Path) -> list[str]:
    try:
        text = read_regular(path).decode("utf-8")
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]


def _part(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = content.get(name)
    return part if isinstance(part, dict) else {}


def _check_steps(path: Path, content: Mapping[str, Any]) -> None:
    """Refuse steps of a ``tokenizer.json`` of unknown types; missing steps are fine."""
    for name, known in _STEPS.items():
        step = content.get(name)
        kind = step.get("type") if isinstance(step, dict) else step
        if kind is not None and kind not in known:
            raise CheckpointError(
                f"{path}: {name} {str(kind)[:40]!r} is not supported, only {', '.join(known)}"
            )


def _check_added(folder: Path, source: Path, ids: Mapping[str, int]) -> None:
    """Refuse added tokens that are not in the vocabulary by the same id: they would be lost."""
    path = source if source.name == _FAST else folder / "added_tokens.json"
    added = _json(path) if path.is_file() else {}
    if path.name == _FAST:
        tokens = [item for item in added.get("added_tokens") or [] if isinstance(item, dict)]
        added = {str(item.get("content")): item.get("id") for item in tokens}
    if orphans := [token for token, number in added.items() if ids.get(token) != number]:
        raise CheckpointError(
            f"{path}: {len(orphans)} added tokens are not in the vocabulary with the same id; "
            "add each to the vocabulary at its id"
        )
