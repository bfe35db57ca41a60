"""Tokenizers of CLIP and SigLIP; of a folder's files the vocabulary alone is read."""

from __future__ import annotations

import gzip
import string
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cxrtext.errors import CheckpointError
from cxrtext.files import open_regular, read_regular
from cxrtext.files.digests import MAX_SMALL
from cxrtext.models.folders import read_object

_START, _END = "<|startoftext|>", "<|endoftext|>"
_SIMPLE = "bpe_simple_vocab_16e6.txt.gz"
_MERGES = 49152 - 256 - 2  # that OpenAI's tokenizer takes of the file


def clip_tokenizer(folder: Path) -> Any:
    """CLIP's byte pairs: ``tokenizer.json``, ``vocab.json`` with ``merges.txt``, OpenAI's list."""
    from transformers import CLIPTokenizer

    fast, plain, simple = (folder / name for name in ("tokenizer.json", "vocab.json", _SIMPLE))
    if fast.is_file():
        model = read_object(fast).get("model") or {}
        vocabulary, merges = model.get("vocab"), model.get("merges")
        source = fast
    elif plain.is_file() and (folder / "merges.txt").is_file():
        vocabulary, source = read_object(plain), plain
        lines = read_regular(folder / "merges.txt").decode("utf-8").splitlines()
        merges = [line for line in lines if line and not line.startswith("#version")]
    elif simple.is_file():
        vocabulary, merges = _of_openai(simple)
        source = simple
    else:
        raise CheckpointError(
            f"{folder}: no CLIP tokenizer: copy tokenizer.json, or vocab.json with merges.txt, or "
            f"OpenAI's {_SIMPLE} there"
        )
    if not isinstance(vocabulary, dict) or not isinstance(merges, list):
        raise CheckpointError(f"{source}: not CLIP's byte pairs")
    if missing := [token for token in (_START, _END) if token not in vocabulary]:
        raise CheckpointError(f"{source}: the vocabulary lacks {missing[0]}")
    pairs: Any = [tuple(one.split(" ")) if isinstance(one, str) else tuple(one) for one in merges]
    return CLIPTokenizer(vocab=vocabulary, merges=pairs)


def _of_openai(path: Path) -> tuple[dict[str, int], list[str]]:
    """The vocabulary that OpenAI's ``SimpleTokenizer`` makes of its list of merges."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    try:
        with open_regular(path) as packed, gzip.open(packed) as unpacked:
            data = unpacked.read(MAX_SMALL + 1)
        if len(data) > MAX_SMALL:
            raise ValueError(f"unpacks to more than {MAX_SMALL} bytes")
        lines = data.decode("utf-8").split("\n")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise CheckpointError(f"{path}: not readable ({error}); copy it again") from None
    merges = lines[1 : _MERGES + 1]
    letters = bytes_to_unicode().values()
    pieces = [*letters, *(f"{letter}</w>" for letter in letters)]
    pieces += ["".join(merge.split()) for merge in merges]
    return {piece: number for number, piece in enumerate([*pieces, _START, _END])}, merges


def siglip_tokenizer(folder: Path) -> Any:
    """SigLIP's unigrams, of ``spiece.model`` or ``tokenizer.json``.

    Sentences lose their punctuation and their capitals, as SigLIP's own tokenizer has it.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    pieces, charsmap = _unigrams(folder)
    ids = {piece: number for number, (piece, _) in enumerate(pieces)}
    if "</s>" not in ids or "<unk>" not in ids:
        raise CheckpointError(f"{folder}: SigLIP's vocabulary lacks </s> or <unk>")
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
    """Fields of a serialized ``ModelProto``: pieces (1), and the normalizer's map (3, 2)."""
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
    """Fields of a protobuf message: numbers as their bytes, all else as it stands."""
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
