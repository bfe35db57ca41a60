"""Log-likelihoods of sentences, each distinct one scored once, in groups of equal length."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cxrtext.defaults import DEFAULT_A, DEFAULT_K
from cxrtext.device import choose_device
from cxrtext.errors import CheckpointError, ConfigError, DataError
from cxrtext.language.class_probability import WordCounter, Words, eta_of
from cxrtext.language.scoring.network import MaskedNetwork, SpecialIds, masked_copies
from cxrtext.language.scoring.settings import Precision, check_precision
from cxrtext.models.folders import DEFAULT_MODEL
from cxrtext.models.masked_lm import MaskedLanguageModel, load_masked_language_model
from cxrtext.pausing import Progress
from cxrtext.text.tokenizer import TextTokenizer, vocabulary_of

SPECIAL = 2  # special tokens around a sentence: [CLS] and [SEP]
MAX_GROUP = 512  # most sentences in a group

Item = TypeVar("Item")


def room(length: int, window: int, batch_tokens: int) -> int:
    """How many sentences of a length, in word pieces, fit into a group of ``batch_tokens``.

    A sentence of n word pieces takes n copies of n + 2 tokens, at most ``window`` + 2; a sentence
    over the budget is a group of its own.
    """
    return min(MAX_GROUP, max(1, batch_tokens // (length * (min(length, window) + SPECIAL))))


def groups_of(
    items: Iterable[Item], length: Callable[[Item], int], window: int, batch_tokens: int
) -> Iterator[list[Item]]:
    """Divide sentences, sorted by length, into groups of equal length.

    The groups only depend on the sentences and their order, shortest first, so a killed run that
    starts again makes the same groups and gets the same numbers.
    """
    group: list[Item] = []
    for item in items:
        size = length(item)
        if group and (length(group[0]) != size or len(group) >= room(size, window, batch_tokens)):
            yield group
            group = []
        group.append(item)
    if group:
        yield group


ENGINE = 2  # version of the arithmetic: cached scores of another version are not used
BATCH_TOKENS_CPU, BATCH_TOKENS_CUDA = 4096, 65_536  # default tokens in one forward pass


def open_model(
    model: str | Path | MaskedLanguageModel,
    device: str | torch.device | None = None,
) -> MaskedLanguageModel:
    """Load a model, or return a loaded one, moved to ``device`` if that is given."""
    if isinstance(model, MaskedLanguageModel):
        if device is not None:
            nn.Module.to(model.model, choose_device(device))
        return model
    return load_masked_language_model(model, device=choose_device(device))


class Scorer:
    """A language model ready to score (ConfigError if it cannot score in this precision)."""

    def __init__(
        self,
        language: MaskedLanguageModel,
        precision: Precision = "float32",
        batch_tokens: int | None = None,
    ) -> None:
        if batch_tokens is not None and batch_tokens < 1:
            raise ConfigError(f"batch_tokens is {batch_tokens}; it must be at least 1")
        check_precision(precision)
        if precision == "float16" and language.model.device.type == "cpu":
            raise ConfigError("float16 is only for GPUs; use bfloat16 on a CPU")
        self.language, self.precision = language, precision
        on_gpu = language.model.device.type == "cuda"
        self.batch_tokens = batch_tokens or (BATCH_TOKENS_CUDA if on_gpu else BATCH_TOKENS_CPU)
        tokenizer = language.tokenizer
        self._special = SpecialIds(
            tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id
        )
        self._network = MaskedNetwork(language.model, getattr(torch, precision))

    @property
    def identity(self) -> str:
        """Everything that a score depends on except the sentence."""
        return f"{self.language.fingerprint} {self.precision} original engine {ENGINE}"

    def score(self, group: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        """Score sentences of equal positive length, given as word pieces without special tokens.

        Returns ``log P(w_t | the rest)`` for every word piece of each sentence, in nats, float32
        [n].

        Source: Salazar et al. 2020, eq. 2.
        """
        ids = torch.tensor(group, dtype=torch.long, device=self.language.model.device)
        window = self.language.window
        width = min(ids.shape[1], window) + SPECIAL
        parts, mask = [], self._special.mask
        at_once, total = max(1, self.batch_tokens // width), ids.numel()
        for start in range(0, total, at_once):
            rows = range(start, min(total, start + at_once))
            copies = masked_copies(ids, rows, window, self._special)
            parts.append(self._network.log_probabilities(copies, mask))
        values = torch.cat(parts).clamp(max=0.0).reshape(ids.shape).cpu()
        if not bool(values.isfinite().all()):
            raise CheckpointError(
                f"model '{self.language.name}' gives likelihoods that are not finite numbers in "
                f"{self.precision}; its weights are damaged, or need float32"
            )
        return list(values.numpy())


Pieces = tuple[int, ...]  # a sentence as word-piece ids, without special tokens


@dataclass(frozen=True, slots=True)
class SentenceScores:
    """The language model's scores of some sentences."""

    log_likelihood: NDArray[np.float64]  # pseudo-log-likelihoods, in nats, [S]
    n_tokens: NDArray[np.int64]  # number of word pieces, without special tokens, [S]
    tokens: list[list[str]]  # the word pieces of each sentence
    # The log-likelihood of each word piece, in nats; each sums to ``log_likelihood``.
    token_log_likelihood: list[NDArray[np.float32]]
    words: list[Words]  # the number of words, and of words outside the vocabulary

    def eta(self, a: float = DEFAULT_A, k: float = DEFAULT_K) -> list[float | None]:
        """Class probabilities ``a · p^k``; None if a sentence is mostly unknown, [S]."""
        rows = zip(self.log_likelihood.tolist(), self.words, strict=True)
        return [eta_of(value, words, a, k) for value, words in rows]


def encode_pieces(tokenizer: TextTokenizer, sentences: Sequence[str]) -> list[Pieces]:
    """Turn sentences into word-piece ids, without special tokens and without a length limit.

    Equal sentences share one tuple; an empty sentence gives an empty tuple.
    """
    texts = list(dict.fromkeys(sentences))
    encodings = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    pieces = {text: tuple(encoding.ids) for text, encoding in zip(texts, encodings, strict=True)}
    return [pieces[text] for text in sentences]


def score_sentences_detailed(
    sentences: Sequence[str],
    model: str | Path | MaskedLanguageModel = DEFAULT_MODEL,
    *,
    device: str | torch.device | None = None,
    batch_tokens: int | None = None,
    precision: Precision = "float32",
    progress: Progress | None = None,
) -> SentenceScores:
    """Score sentences and their word pieces by their pseudo-log-likelihood.

    Args:
        sentences: S sentences.  Equal ones are scored once.  In a sentence longer than the
            network's window, each piece is scored in the window around it.
        batch_tokens: Tokens in one forward pass, which bound the memory; default by device.
        precision: Arithmetic of the network: "float32", "bfloat16" or "float16" (GPU).

    Source: Salazar et al. 2020, eq. 2.
    """
    language = open_model(model, device)
    tokenizer = language.tokenizer
    pieces = encode_pieces(tokenizer, sentences)
    for number, sentence in enumerate(pieces):
        if not sentence:
            raise DataError(f"sentence {number} (counted from 0) is empty; leave it out")
    scorer = Scorer(language, precision, batch_tokens)
    distinct = sorted(dict.fromkeys(pieces), key=len)
    known: dict[Pieces, NDArray[np.float32]] = {}
    for group in groups_of(distinct, len, language.window, scorer.batch_tokens):
        known.update(zip(group, scorer.score(group), strict=True))
        if progress is not None:
            progress(len(known), len(distinct))
    values = [known[sentence] for sentence in pieces]
    names, counter = vocabulary_of(tokenizer), WordCounter(tokenizer)
    return SentenceScores(
        np.array([total(value) for value in values], dtype=np.float64),
        np.array([len(sentence) for sentence in pieces], dtype=np.int64),
        [[names[piece] for piece in sentence] for sentence in pieces],
        values,
        [counter.count(sentence) for sentence in pieces],
    )


def total(values: NDArray[np.float32]) -> float:
    """The log-likelihood of a sentence: the sum over its word pieces, in float64."""
    return float(values.sum(dtype=np.float64))


def score_sentences(
    sentences: Sequence[str],
    model: str | Path | MaskedLanguageModel = DEFAULT_MODEL,
    *,
    device: str | torch.device | None = None,
    batch_tokens: int | None = None,
    precision: Precision = "float32",
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """Score sentences by their pseudo-log-likelihood, in nats, at most 0, [S].

    Arguments and errors as in ``score_sentences_detailed``.
    """
    return score_sentences_detailed(
        sentences,
        model,
        device=device,
        batch_tokens=batch_tokens,
        precision=precision,
        progress=progress,
    ).log_likelihood
