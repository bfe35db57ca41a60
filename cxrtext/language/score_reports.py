"""From a table of reports to a table of scored sentences."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from cxrtext.errors import ConfigError, DataError
from cxrtext.files import write_json
from cxrtext.language.corpus import Corpus, read_corpus
from cxrtext.language.partial_scores import PartialScores
from cxrtext.language.pseudo_log_likelihood import Precision
from cxrtext.language.score import (
    Pieces,
    Progress,
    default_batch_tokens,
    distinct,
    encode_pieces,
    open_model,
    score_pieces,
)
from cxrtext.models.masked_language_model import DEFAULT_MODEL, MaskedLanguageModel
from cxrtext.objectives import class_probability
from cxrtext.records import Rejects, Sentence, write_sentences

LONGEST_SENTENCE = 500
"""Word pieces; text of at most 1000 characters that has more is a pasted table, and set aside."""


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """What a run of scoring did; also the content of ``<out>.meta.json``.

    Args:
        model: Hub id or folder name of the language model.
        fingerprint: SHA-256 of its configuration, weights and vocabulary.
        a: Largest class probability.
        k: Exponent on the likelihood.
        precision: Arithmetic of the network.
        reports: Number of reports.
        with_text: Reports with at least one sentence.
        without_text: Reports without; empty sections are normal.
        sentences: Sentences scored.
        distinct_sentences: Of these, different from each other.
        tokens: Word pieces of all sentences.
        rejected: Sentences set aside, listed in ``<out>.rejected.csv``.
        resumed: Distinct sentences whose score was there from a run that was stopped.
        seconds: Wall-clock time.
    """

    model: str
    fingerprint: str
    a: float
    k: float
    precision: str
    reports: int
    with_text: int
    without_text: int
    sentences: int
    distinct_sentences: int
    tokens: int
    rejected: int
    resumed: int
    seconds: float


def _check(out: Path, a: float, k: float) -> None:
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"{out}: the table of sentences ends in .csv or .parquet")
    if not 0.0 < a < 1.0:
        raise ConfigError(f"a is {a:g}; it must lie between 0 and 1")
    if not 0.0 <= k < float("inf"):
        raise ConfigError(f"k is {k:g}; it must be at least 0")


def _scores(
    language: MaskedLanguageModel,
    pieces: Sequence[Pieces],
    partial: PartialScores,
    batch_tokens: int,
    precision: Precision,
    progress: Progress | None,
) -> tuple[dict[Pieces, float], int]:
    """Score distinct sentences, keeping each group as it comes; also how many were there."""
    known = partial.known(pieces)
    resumed, done = len(known), 0
    before = set(known)
    with partial:
        for group in score_pieces(
            language, pieces, known, batch_tokens=batch_tokens, precision=precision
        ):
            if not before.issuperset(group):
                partial.add({sentence: known[sentence] for sentence in group})
            done += len(group)
            if progress is not None:
                progress(done, len(pieces))
    return known, resumed


def _set_aside(
    corpus: Corpus, language: MaskedLanguageModel, rejects: Rejects, longest: int
) -> tuple[list[Sentence], list[Pieces]]:
    """The sentences to score and their word pieces; pasted tables go to the rejects."""
    sentences = corpus.sentences
    kept, kept_pieces = [], []
    encoded = encode_pieces(language.tokenizer, [sentence.sentence for sentence in sentences])
    for sentence, pieces in zip(sentences, encoded, strict=True):
        if 0 < len(pieces) <= longest:
            kept.append(sentence)
            kept_pieces.append(pieces)
        else:
            place = f"study {sentence.study_id}, {sentence.section} {sentence.position}"
            rejects.add(place, f"a sentence of {len(pieces)} word pieces is none")
    return kept, kept_pieces


def _with_values(
    sentences: Sequence[Sentence],
    pieces: Sequence[Pieces],
    scores: dict[Pieces, float],
    a: float,
    k: float,
) -> list[Sentence]:
    log_p = torch.tensor([scores[sentence] for sentence in pieces], dtype=torch.float64)
    # Not below the least float32, so that eta is above 0 in whatever training computes with.
    eta = class_probability(log_p, a, k).clamp(min=torch.finfo(torch.float32).tiny).tolist()
    return [
        replace(sentence, n_tokens=len(ids), log_likelihood=scores[ids], eta=value)
        for sentence, ids, value in zip(sentences, pieces, eta, strict=True)
    ]


def _counts(
    corpus: Corpus, sentences: Sequence[Sentence], pieces: Sequence[Pieces]
) -> dict[str, int]:
    return {
        "reports": len(corpus.studies),
        "with_text": corpus.with_text,
        "without_text": len(corpus.studies) - corpus.with_text,
        "sentences": len(sentences),
        "distinct_sentences": len({sentence.sentence for sentence in sentences}),
        "tokens": sum(map(len, pieces)),
    }


def score_reports(
    reports: Path,
    out: Path,
    *,
    model: str | Path | MaskedLanguageModel = DEFAULT_MODEL,
    a: float = 0.2,
    k: float = 0.35,
    sections: Sequence[str] | None = None,
    device: str | torch.device | None = None,
    batch_tokens: int | None = None,
    precision: Precision = "float32",
    max_rejected: int = 100,
    longest: int = LONGEST_SENTENCE,
    progress: Progress | None = None,
) -> ScoreSummary:
    """Score every sentence of a table of reports, and write them with their class probability.

    Until the output is written, ``<out>.partial`` keeps the scores, so that a run that was killed
    and is started again continues; the output is the same as that of a run in one go.

    Args:
        reports: A CSV or Parquet table of reports.
        out: The table of sentences to write, CSV or Parquet by its ending; ``<out>.meta.json`` and,
            where something was set aside, ``<out>.rejected.csv`` are written beside it.
        model: A hub id, a model folder, or a loaded model.
        a: Largest class probability, in (0, 1).
        k: Exponent on the likelihood.
        sections: Sections wanted; by default those that describe the image.
        device: Where to compute; by default the GPU where there is one.
        batch_tokens: Tokens in one forward pass; default by device.
        precision: Arithmetic of the network: "float32" or "bfloat16".
        max_rejected: How many sentences may be set aside.
        longest: Word pieces of the longest sentence that is scored; a longer one is set aside.
        progress: Called with distinct sentences done and in all.

    Returns:
        The counts.

    Raises:
        DataError: The table cannot be read, no report has text, or too much was set aside.
        ConfigError: ``a``, ``k`` or a section's name is wrong.
        CheckpointError: The model cannot be loaded.
        HubError: The model is not here, and the hub cannot be reached.

    Source: Wang et al. 2023 (sample-specific debiasing), §2.3; METHOD sections 1 and 2.
    """
    started = time.monotonic()
    _check(out, a, k)
    corpus = read_corpus(reports, sections)
    language = open_model(model, device)
    budget = batch_tokens or default_batch_tokens(language)
    rejects = Rejects(max_rejected)
    sentences, pieces = _set_aside(corpus, language, rejects, longest)
    if not sentences:
        raise DataError(f"{reports}: no report has a sentence of at most {longest} pieces")
    unique = distinct(pieces)
    identity = f"{language.fingerprint} {precision} {budget}"
    partial = PartialScores(out.with_name(out.name + ".partial"), identity)
    scores, resumed = _scores(language, unique, partial, budget, precision, progress)
    write_sentences(out, _with_values(sentences, pieces, scores, a, k))
    rejects.write(out)
    summary = ScoreSummary(
        model=language.name,
        fingerprint=language.fingerprint,
        a=a,
        k=k,
        precision=precision,
        **_counts(corpus, sentences, pieces),
        rejected=len(rejects.rows),
        resumed=resumed,
        seconds=round(time.monotonic() - started, 3),
    )
    write_json(out.with_name(out.name + ".meta.json"), asdict(summary))
    partial.remove()
    return summary
