"""Scoring sentences: equal ones once, the rest in groups of equal length."""

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import BertTokenizer

from cxrtext.errors import CheckpointError, DataError
from cxrtext.language.batches import plan_groups
from cxrtext.language.pseudo_log_likelihood import Precision, group_log_likelihoods
from cxrtext.models.masked_language_model import (
    DEFAULT_MODEL,
    MaskedLanguageModel,
    load_masked_language_model,
)

Progress = Callable[[int, int], None]
"""Called with how much is done and how much there is."""

Pieces = tuple[int, ...]
"""A sentence as word-piece ids, without special tokens."""

BATCH_TOKENS_CPU, BATCH_TOKENS_CUDA = 4096, 65_536
"""Default tokens in one forward pass."""


@dataclass(frozen=True, slots=True)
class SentenceScores:
    """What the language model says of some sentences.

    Args:
        log_likelihood: Pseudo-log-likelihoods, in nats, [S].
        n_tokens: Word pieces of each, special tokens not counted, [S].
    """

    log_likelihood: NDArray[np.float64]
    n_tokens: NDArray[np.int64]


def choose_device(device: str | torch.device | None) -> torch.device:
    """Return the device asked for; by default the GPU where there is one."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)


def open_model(
    model: str | Path | MaskedLanguageModel, device: str | torch.device | None
) -> MaskedLanguageModel:
    """Return a model that is loaded already as it is, or load it."""
    if isinstance(model, MaskedLanguageModel):
        if device is not None:
            nn.Module.to(model.model, torch.device(device))
        return model
    return load_masked_language_model(model, device=choose_device(device))


def default_batch_tokens(language: MaskedLanguageModel) -> int:
    """Return the default token budget of the device that the model is on."""
    return BATCH_TOKENS_CUDA if language.model.device.type == "cuda" else BATCH_TOKENS_CPU


def encode_pieces(tokenizer: BertTokenizer, sentences: Sequence[str]) -> list[Pieces]:
    """Turn sentences into word pieces, without special tokens and without a limit of length.

    Args:
        tokenizer: The tokenizer.
        sentences: The sentences; equal ones are encoded once and share their tuple.

    Returns:
        The word-piece ids of each; none where a sentence is empty.
    """
    texts = list(dict.fromkeys(sentences))
    # The tokenizers library beneath, because transformers warns of lengths above 512.
    encodings = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    pieces = {text: tuple(encoding.ids) for text, encoding in zip(texts, encodings, strict=True)}
    return [pieces[text] for text in sentences]


def distinct(pieces: Iterable[Pieces]) -> list[Pieces]:
    """Return each sentence once, in order of first occurrence."""
    return list(dict.fromkeys(pieces))


def score_pieces(
    language: MaskedLanguageModel,
    pieces: Sequence[Pieces],
    known: MutableMapping[Pieces, float],
    *,
    batch_tokens: int | None = None,
    precision: Precision = "float32",
    most: int = 512,
) -> Iterator[list[Pieces]]:
    """Score distinct sentences group by group, leaving out the groups that are known.

    Args:
        language: The model.
        pieces: Distinct sentences as word pieces, none of them empty.
        known: Pseudo-log-likelihoods by sentence, in nats; what is scored is added to it.
        batch_tokens: Tokens in one forward pass; default by device.
        precision: Arithmetic of the network.
        most: Most sentences in a group.

    Yields:
        The sentences of each group when they stand in ``known``.

    Raises:
        CheckpointError: The network's answer is no finite number.
    """
    budget = batch_tokens or default_batch_tokens(language)
    lengths = [len(sentence) for sentence in pieces]
    for indices in plan_groups(lengths, language.window, budget, most):
        group = [pieces[index] for index in indices]
        if not all(sentence in known for sentence in group):
            values = group_log_likelihoods(language, group, budget, precision)
            if not np.isfinite(values).all():
                raise CheckpointError(
                    f"model '{language.name}' gives likelihoods that are no finite numbers; "
                    "its weights are damaged"
                )
            known.update(zip(group, values, strict=True))
        yield group


def score_sentences_detailed(
    sentences: Sequence[str],
    model: str | Path | MaskedLanguageModel = DEFAULT_MODEL,
    *,
    device: str | torch.device | None = None,
    batch_tokens: int | None = None,
    precision: Precision = "float32",
    progress: Progress | None = None,
) -> SentenceScores:
    """Score sentences by their pseudo-log-likelihood, and count their word pieces.

    Args:
        sentences: The sentences, S of them.  Equal ones are scored once.  One that is longer than
            the network's window is scored piece by piece in the window around each.
        model: A hub id, a model folder, or a loaded model.
        device: Where to compute; by default the GPU where there is one, or where the loaded model
            is.
        batch_tokens: Tokens in one forward pass; default by device.
        precision: Arithmetic of the network: "float32" or "bfloat16".
        progress: Called with distinct sentences done and in all.

    Returns:
        Log-likelihoods in nats and numbers of word pieces, in the order given.

    Raises:
        DataError: A sentence has no word piece in it.
        CheckpointError: The model cannot be loaded, or is damaged.
        HubError: The model is not here, and the hub cannot be reached.

    Source: Salazar et al. 2020, eq. 2; METHOD section 1.
    """
    language = open_model(model, device)
    pieces = encode_pieces(language.tokenizer, sentences)
    for number, sentence in enumerate(pieces):
        if not sentence:
            raise DataError(f"sentence {number} (counted from 0) is empty; leave it out")
    unique = distinct(pieces)
    known: dict[Pieces, float] = {}
    done = 0
    for group in score_pieces(
        language, unique, known, batch_tokens=batch_tokens, precision=precision
    ):
        done += len(group)
        if progress is not None:
            progress(done, len(unique))
    return SentenceScores(
        np.array([known[sentence] for sentence in pieces], dtype=np.float64),
        np.array([len(sentence) for sentence in pieces], dtype=np.int64),
    )


def score_sentences(
    sentences: Sequence[str],
    model: str | Path | MaskedLanguageModel = DEFAULT_MODEL,
    *,
    device: str | torch.device | None = None,
    batch_tokens: int | None = None,
    precision: Precision = "float32",
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """Score sentences by their pseudo-log-likelihood.

    Arguments and errors are those of ``score_sentences_detailed``.

    Returns:
        Log-likelihoods in nats, at most 0, [S].
    """
    return score_sentences_detailed(
        sentences,
        model,
        device=device,
        batch_tokens=batch_tokens,
        precision=precision,
        progress=progress,
    ).log_likelihood
