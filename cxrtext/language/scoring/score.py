"""Scoring sentences: equal ones once, the rest in groups of equal length."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import BertTokenizer

from cxrtext.defaults import DEFAULT_A, DEFAULT_K
from cxrtext.errors import DataError
from cxrtext.language.class_probability import WordCounter, Words, eta_of
from cxrtext.language.scoring.scorer import Scorer, open_model, plan_groups
from cxrtext.language.scoring.settings import Precision, Variant
from cxrtext.models.folders import DEFAULT_MODEL
from cxrtext.models.masked_lm import MaskedLanguageModel
from cxrtext.text.tokenizer import vocabulary_of

Progress = Callable[[int, int], None]  # called with how much is done and how much there is
Pieces = tuple[int, ...]  # a sentence as word-piece ids, without special tokens
Group = Sequence[tuple[bytes, Pieces]]  # sentences of one length: digest and word pieces of each
Scores = dict[bytes, NDArray[np.float32]]  # word pieces' log-likelihoods by digest of the sentence


@dataclass(frozen=True, slots=True)
class SentenceScores:
    """What the language model says of some sentences."""

    log_likelihood: NDArray[np.float64]  # pseudo-log-likelihoods, in nats, [S]
    n_tokens: NDArray[np.int64]  # word pieces of each, special tokens not counted, [S]
    tokens: list[list[str]]  # the word pieces of each
    # The log-likelihood of each word piece, in nats; each sums to ``log_likelihood``.
    token_log_likelihood: list[NDArray[np.float32]]
    words: list[Words]  # the words of each, and how many of them the vocabulary lacks

    def eta(self, a: float = DEFAULT_A, k: float = DEFAULT_K) -> list[float | None]:
        """Class probabilities ``a · p^k``; None where a sentence is mostly unknown, [S]."""
        rows = zip(self.log_likelihood.tolist(), self.words, strict=True)
        return [eta_of(value, words, a, k) for value, words in rows]

    def warning(self) -> str | None:
        """A line that says that the sentences are foreign to the model, or None."""
        counts = [(each.words, each.unknown) for each in self.words]
        words, unknown = (sum(column) for column in zip(*counts, strict=True))
        return Words(words, unknown).warning()

    @property
    def log_likelihood_per_token(self) -> NDArray[np.float64]:
        """Length-normalized: the mean over the word pieces, in nats, [S]."""
        return self.log_likelihood / self.n_tokens


def encode_pieces(tokenizer: BertTokenizer, sentences: Sequence[str]) -> list[Pieces]:
    """Turn sentences into word-piece ids, without special tokens and without a limit of length.

    Equal sentences share their tuple; that of an empty one is empty.
    """
    texts = list(dict.fromkeys(sentences))
    # The tokenizers library beneath, because transformers warns of lengths above 512.
    encodings = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    pieces = {text: tuple(encoding.ids) for text, encoding in zip(texts, encodings, strict=True)}
    return [pieces[text] for text in sentences]


def _scored(
    scorer: Scorer, unique: Sequence[Pieces], progress: Progress | None
) -> dict[Pieces, NDArray[np.float32]]:
    known: dict[Pieces, NDArray[np.float32]] = {}
    lengths = [len(sentence) for sentence in unique]
    for indices in plan_groups(lengths, scorer.language.window, scorer.batch_tokens):
        group = [unique[index] for index in indices]
        known.update(zip(group, scorer.score(group), strict=True))
        if progress is not None:
            progress(len(known), len(unique))
    return known


def scores_of(scorer: Scorer, group: Group) -> Scores:
    """Score a group, by digest of the sentence."""
    values = scorer.score([pieces for _, pieces in group])
    return {digest: value for (digest, _), value in zip(group, values, strict=True)}


def score_sentences_detailed(
    sentences: Sequence[str],
    model: str | Path | MaskedLanguageModel = DEFAULT_MODEL,
    *,
    device: str | torch.device | None = None,
    batch_tokens: int | None = None,
    precision: Precision = "float32",
    variant: Variant = "original",
    progress: Progress | None = None,
) -> SentenceScores:
    """Score sentences and their word pieces by their pseudo-log-likelihood.

    Args:
        sentences: The sentences, S of them.  Equal ones are scored once.  One that is longer than
            the network's window is scored piece by piece, in the window around each.
        batch_tokens: Tokens in one forward pass, which bounds the memory; default by device.
        precision: Arithmetic of the network: "float32", "bfloat16", "float16" (GPU) or "int8"
            (CPU).
        variant: "original" masks one word piece at a time (Salazar et al. 2020);
            "within-word-l2r" masks the rest of its word with it (Kauf and Ivanova 2023).

    Returns:
        Log-likelihoods in nats of sentences and word pieces, in the order given.

    Raises:
        DataError: A sentence has no word piece in it.
        ConfigError: The precision or variant is unknown, or not to be had on the device.
        CheckpointError: The model cannot be loaded, or is damaged.
        HubError: The model is not here, and the hub cannot be reached.

    Source: Salazar et al. 2020, eq. 2; Kauf and Ivanova 2023.
    """
    language = open_model(model, device)
    tokenizer = language.tokenizer
    pieces = encode_pieces(tokenizer, sentences)
    for number, sentence in enumerate(pieces):
        if not sentence:
            raise DataError(f"sentence {number} (counted from 0) is empty; leave it out")
    scorer = Scorer(language, precision, variant, batch_tokens)
    known = _scored(scorer, list(dict.fromkeys(pieces)), progress)
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
    variant: Variant = "original",
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """Score sentences by their pseudo-log-likelihood, in nats, at most 0, [S].

    Arguments and errors are those of ``score_sentences_detailed``.
    """
    return score_sentences_detailed(
        sentences,
        model,
        device=device,
        batch_tokens=batch_tokens,
        precision=precision,
        variant=variant,
        progress=progress,
    ).log_likelihood
