"""Tokenizers of CLIP and SigLIP; only the vocabulary is read from a folder's files."""

from __future__ import annotations

import string
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cxrtext.errors import CheckpointError
from cxrtext.files import read_regular
from cxrtext.models.folders import read_object


def clip_tokenizer(folder: Path) -> Any:
    """CLIP's byte pairs, from ``tokenizer.json``."""
    from transformers import CLIPTokenizer

    path = folder / "tokenizer.json"
    if not path.is_file():
        raise CheckpointError(
            f"{folder}: no tokenizer.json; copy the model's there, or that of "
            "openai/clip-vit-base-patch32, which is OpenAI's"
        )
    model = read_object(path).get("model") or {}
    vocabulary, merges = model.get("vocab"), model.get("merges")
    if not isinstance(vocabulary, dict) or not isinstance(merges, list):
        raise CheckpointError(f"{path}: not CLIP's byte pairs")
    for token in ("<|startoftext|>", "<|endoftext|>"):
        if token not in vocabulary:
            raise CheckpointError(f"{path}: the vocabulary has no {token}")
    pairs: Any = [tuple(one.split(" ")) if isinstance(one, str) else tuple(one) for one in merges]
    return CLIPTokenizer(vocab=vocabulary, merges=pairs)


def siglip_tokenizer(folder: Path) -> Any:
    """SigLIP's unigrams, from ``spiece.model`` or ``tokenizer.json``.

    Punctuation and capitals are removed, as in SigLIP's own tokenizer.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    pieces, charsmap = _unigrams(folder)
    ids = {piece: number for number, (piece, _) in enumerate(pieces)}
    if "</s>" not in ids or "<unk>" not in ids:
        raise CheckpointError(f"{folder}: SigLIP's vocabulary has no </s> or no <unk>")
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=ids["<unk>"]))
    clean = [normalizers.Replace(mark, "") for mark in string.punctuation]
    mapped = [normalizers.Precompiled(charsmap)] if charsmap else []
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Lowercase(),
            *clean,
            *mapped,
            normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", ids["</s>"])]
    )
    special = {"eos_token": "</s>", "pad_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def _unigrams(folder: Path) -> tuple[list[tuple[str, float]], bytes]:
    """Pieces with their scores, and sentencepiece's map of characters."""
    model, fast = folder / "spiece.model", folder / "tokenizer.json"
    if model.is_file():
        try:
            return _of_sentencepiece(read_regular(model))
        except (OSError, IndexError, KeyError, ValueError, TypeError, struct.error):
            raise CheckpointError(f"{model}: not a sentencepiece model") from None
    if not fast.is_file():
        raise CheckpointError(f"{folder}: no spiece.model and no tokenizer.json; copy one there")
    part = read_object(fast).get("model") or {}
    if part.get("type") != "Unigram" or not isinstance(part.get("vocab"), list):
        raise CheckpointError(f"{fast}: not a Unigram tokenizer, as SigLIP's is")
    return [(str(piece), float(score)) for piece, score in part["vocab"]], b""


def _of_sentencepiece(data: bytes) -> tuple[list[tuple[str, float]], bytes]:
    """Two fields of a serialized ``ModelProto``: pieces (1), and the normalizer's map (3, 2)."""
    pieces: list[tuple[str, float]] = []
    charsmap = b""
    for field, value in _fields(data):
        if field == 1:
            piece = dict(_fields(value))
            score = struct.unpack("<f", piece.get(2, bytes(4)))[0]
            pieces.append((piece[1].decode("utf-8"), score))
        elif field == 3:
            charsmap = dict(_fields(value)).get(2, b"")
    return pieces, charsmap


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Fields of a protobuf message, each with its bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            end = _varint(data, at)[1]
        elif key & 7 == 2:
            length, at = _varint(data, at)
            end = at + length
        else:
            end = at + {1: 8, 5: 4}[key & 7]
        if end > len(data):
            raise ValueError("ends early")
        yield key >> 3, data[at:end]
        at = end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
