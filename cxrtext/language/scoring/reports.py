"""From reports to a table of scored sentences.

Scores are saved in the cache every second, without text.  A killed run that is started again reads
the text anew and scores the missing groups, so its table is the same, byte for byte.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TextIO

import numpy as np
import torch
from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.files import only_one
from cxrtext.language.class_probability import WITHOUT_ETA, WordCounter, Words, eta_of
from cxrtext.language.eta import fit_class_probability
from cxrtext.language.report_labels import Understood
from cxrtext.language.scoring.cache import ScoreCache, Scores, digest_of
from cxrtext.language.scoring.score import (
    Pieces,
    Scorer,
    encode_pieces,
    groups_of,
    open_model,
    total,
)
from cxrtext.language.scoring.settings import ScoreSettings, ScoreSummary, check_paths
from cxrtext.models.folders import DEFAULT_MODEL
from cxrtext.models.masked_lm import MaskedLanguageModel
from cxrtext.pausing import Progress
from cxrtext.records import LeftOut, Rejects, Sentence, SentenceWriter, TextSource, open_source
from cxrtext.records.columns import NO_COLUMNS
from cxrtext.records.report_sources import made_of_labels
from cxrtext.records.sentences import META, write_notes
from cxrtext.text import study_sentences
from cxrtext.text.tokenizer import TextTokenizer

MAX_PIECES = 500
"""Most word pieces: a text of at most 1000 characters with more is a pasted table and rejected."""

CACHE_NAME = "scores.sqlite"  # the cache beside the output
KEEP_SECONDS = 1.0  # how often scores are saved; a kill loses no more than this
READ_SECONDS = 2.0  # how often ``on_read`` is called


@dataclass(slots=True)
class Text:
    """A distinct sentence."""

    digest: bytes
    pieces: NDArray[np.int32]
    words: Words
    count: int = 0  # how often it occurs
    values: NDArray[np.float32] | None = None  # its word pieces' log-likelihoods


@dataclass(slots=True)
class Corpus:
    """The sentences of a run in order, and the distinct ones among them."""

    sentences: list[tuple[Sentence, Text]] = field(default_factory=list)
    texts: dict[bytes, Text] = field(default_factory=dict)
    understood: Understood = field(default_factory=Understood)
    studies: int = 0
    with_text: int = 0

    def add(self, sentence: Sentence, pieces: Pieces, words: WordCounter) -> None:
        digest = digest_of(pieces)
        if (text := self.texts.get(digest)) is None:
            text = Text(digest, np.asarray(pieces, np.int32), words.count(pieces))
            self.texts[digest] = text
        text.count += 1
        self.sentences.append((sentence, text))

    def total(self, of: Callable[[Text], int]) -> int:
        """The sum of a number over all sentences."""
        return sum(of(text) * text.count for text in self.texts.values())


def read_sentences(
    source: TextSource,
    tokenizer: TextTokenizer,
    settings: ScoreSettings,
    rejects: Rejects,
    on_read: Callable[[int], None] | None = None,
) -> Corpus:
    """Read the text (DataError if there is nothing to score, or no sentence can have an η)."""
    counter, corpus = WordCounter(tokenizer), Corpus()
    told_at = time.monotonic()
    for item in source:
        if isinstance(item, LeftOut):
            rejects.add(item.where, item.why)
            continue
        sentences = (
            [item] if isinstance(item, Sentence) else study_sentences(item, settings.sections)
        )
        corpus.studies += 1
        corpus.with_text += bool(sentences)
        corpus.understood.add(sentences)
        pieces = encode_pieces(tokenizer, [sentence.sentence for sentence in sentences])
        for sentence, ids in zip(sentences, pieces, strict=True):
            if 0 < len(ids) <= MAX_PIECES:
                corpus.add(sentence, ids, counter)
            else:
                place = f"study {sentence.study_id}, {sentence.section} {sentence.position}"
                why = f"{len(ids)} word pieces, where a sentence has 1 to {MAX_PIECES}"
                rejects.add(place, why)
        if on_read is not None and time.monotonic() - told_at > READ_SECONDS:
            on_read(corpus.studies)
            told_at = time.monotonic()
    if not corpus.sentences:
        why = "there is no sentence in it"
        if source.holds == "reports":
            why = (
                f"no report has text in the chosen sections (reports read: {corpus.studies}); "
                "check the columns, or choose other sections"
            )
        aside = f" ({len(rejects.rows)} items were rejected)" if rejects.rows else ""
        raise DataError(f"{source.description}: {why}{aside}")
    if all(text.words.mostly_unknown for text in corpus.texts.values()):
        raise DataError(
            f"{source.description}: the language model knows too few of its words: of every "
            f"sentence, {WITHOUT_ETA}; take a model of such reports, or train one with "
            "'cxrtext pretrain-text'"
        )
    return corpus


def _score(
    corpus: Corpus, scorer: Scorer, cache: ScoreCache | None, progress: Progress | None
) -> int:
    """Score what is not in the cache, and save it there; return how many scores were known."""
    texts = list(corpus.texts.values())
    if cache is not None:
        scores = cache.find([text.digest for text in texts])
        for text in texts:
            text.values = scores.get(text.digest)
    # Groups are scored in order and saved whole, so after a stop the remaining groups are the same.
    # So are the scores: their last digits depend on the other sentences of the group.
    left = sorted(
        (text for text in texts if text.values is None), key=lambda text: len(text.pieces)
    )
    done = known = len(texts) - len(left)
    unkept: Scores = {}
    saved_at = time.monotonic()
    try:
        for group in groups_of(
            left, lambda text: len(text.pieces), scorer.language.window, scorer.batch_tokens
        ):
            done += len(group)
            values = scorer.score([text.pieces.tolist() for text in group])
            for text, value in zip(group, values, strict=True):
                text.values = unkept[text.digest] = value
            if cache is not None and time.monotonic() - saved_at > KEEP_SECONDS:
                cache.add(unkept)
                unkept.clear()
                saved_at = time.monotonic()
            if progress is not None:
                progress(done, len(texts))
    finally:
        if cache is not None and unkept:
            cache.add(unkept)
    return known


def _fitted(corpus: Corpus) -> tuple[float, float]:
    """The a and k that fit how often the sentences with an η recur."""
    some = [text for text in corpus.texts.values() if not text.words.mostly_unknown]
    values = np.array([total(text.values) for text in some if text.values is not None])
    return fit_class_probability(values, np.array([text.count for text in some]))


def _write(corpus: Corpus, out: Path | TextIO, a: float, k: float) -> None:
    with SentenceWriter(out) as writer:
        for sentence, text in corpus.sentences:
            assert text.values is not None  # noqa: S101 - all are scored
            value = total(text.values)
            scored = replace(
                sentence,
                n_tokens=len(text.pieces),
                log_likelihood=value,
                eta=eta_of(value, text.words, a, k),
                unknown=text.words.unknown,
            )
            writer.add(scored)


def score_reports(
    reports: Path | str,
    out: Path | str | TextIO,
    settings: ScoreSettings | None = None,
    *,
    model: str | Path | MaskedLanguageModel = DEFAULT_MODEL,
    device: str | torch.device | None = None,
    columns: Mapping[str, str] = NO_COLUMNS,
    on_read: Callable[[int], None] | None = None,
    progress: Progress | None = None,
) -> ScoreSummary:
    """Score every sentence of the reports, and write them with their class probability.

    The cache is kept after the run: a sentence is scored once per model and precision, in whatever
    corpus it occurs.

    Args:
        reports: Anything ``open_source`` reads: a table of reports or sentences, a folder of text
            files, or "-" for sentences on standard input.
        out: The table of sentences to write, CSV or Parquet by its ending; ``<out>.meta.json`` and,
            if anything was rejected, ``<out>.rejected.csv`` are written beside it.  Or a stream,
            which gets only CSV; then a run can only continue with a named cache.
        settings: How to score, and what else to write.
        columns: A table's own headers by our names; the others are guessed.
        on_read: Called every few seconds with the number of reports or sentences read.
        progress: Called with the distinct sentences done and their total.

    Source: Wang et al. 2023 (sample-specific debiasing), §2.3.
    """
    started = time.monotonic()
    settings = settings or ScoreSettings()
    target = Path(out) if isinstance(out, str) else out
    path = target if isinstance(target, Path) else None
    settings.check()
    check_paths(reports, target)
    with ExitStack() as closing:
        source = open_source(reports, columns)
        if path is not None:
            closing.enter_context(only_one(path))
        language = open_model(model, device)
        scorer = Scorer(language, settings.precision, settings.batch_tokens)
        rejects = Rejects(settings.max_rejected, where=source.description)
        cache = _open_cache(scorer, path, settings, closing)
        try:
            corpus = read_sentences(source, language.tokenizer, settings, rejects, on_read)
        except DataError:
            if cache is not None and settings.cache is False:
                cache.remove()
            raise
        known = _score(corpus, scorer, cache, progress)
        a, k = _fitted(corpus) if settings.fit else (settings.a, settings.k)
        if path is not None:
            path.with_name(path.name + META).unlink(missing_ok=True)  # of the earlier table
        _write(corpus, target, a, k)
        words = Words(
            corpus.total(lambda text: text.words.words),
            corpus.total(lambda text: text.words.unknown),
        )
        summary = ScoreSummary(
            model=language.name,
            fingerprint=language.fingerprint,
            a=a,
            k=k,
            fitted=settings.fit,
            precision=settings.precision,
            reports=corpus.studies,
            with_text=corpus.with_text,
            without_text=corpus.studies - corpus.with_text,
            understood=corpus.understood.share,
            by_language=corpus.understood.by_language,
            by_section=corpus.understood.by_section,
            sentences=len(corpus.sentences),
            distinct_sentences=len(corpus.texts),
            tokens=corpus.total(lambda text: len(text.pieces)),
            words=words.words,
            unknown_words=words.unknown,
            without_eta=corpus.total(lambda text: text.words.mostly_unknown),
            from_cache=known,
            warning="; ".join(filter(None, (words.warning(), made_of_labels(reports)))) or None,
            rejected=len(rejects.rows),
            seconds=round(time.monotonic() - started, 3),
        )
        if path is not None:
            rejects.write(path)
            write_notes(path, asdict(summary))
        if cache is not None and settings.cache is False:
            cache.remove()
    return summary


def _open_cache(
    scorer: Scorer, out: Path | None, settings: ScoreSettings, closing: ExitStack
) -> ScoreCache | None:
    """The cache of scores; ``<out>.partial`` if none is kept after the run."""
    path = settings.cache if isinstance(settings.cache, Path) else None
    if path is None and out is not None:
        path = out.with_name(CACHE_NAME if settings.cache else f"{out.name}.partial")
    return None if path is None else closing.enter_context(ScoreCache(path, scorer.identity))
