"""From reports to a table of scored sentences.

The sentences of a run and their scores lie in a temporary SQLite database, of which a kill leaves
nothing: memory does not grow with the corpus.  What was scored is kept every second in
``<out>.partial``, a cache of this run alone, without text.  A run that was killed and is started
again reads the text anew, makes the same groups and scores those that are missing, so that its
table is the same, byte for byte.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TextIO

import torch

from cxrtext.errors import DataError
from cxrtext.files import only_one
from cxrtext.language.class_probability import WITHOUT_ETA, WordCounter, Words, eta_of
from cxrtext.language.eta.statistics import EtaReport
from cxrtext.language.report_labels import Understood
from cxrtext.language.scoring.cache import ScoreCache
from cxrtext.language.scoring.score import Scorer, Scores, encode_pieces, open_model, scores_of
from cxrtext.language.scoring.settings import ScoreSettings, ScoreSummary, check_paths
from cxrtext.language.scoring.store import PartialScores, SentenceStore, open_store
from cxrtext.models.folders import DEFAULT_MODEL
from cxrtext.models.masked_lm import MaskedLanguageModel
from cxrtext.pausing import Progress
from cxrtext.records import (
    LeftOut,
    Rejects,
    RowWriter,
    Sentence,
    SentenceWriter,
    TextSource,
    open_source,
)
from cxrtext.records.columns import NO_COLUMNS
from cxrtext.records.report_sources import made_of_labels
from cxrtext.records.sentences import META, write_notes
from cxrtext.records.tables import Kind
from cxrtext.text import study_sentences
from cxrtext.text.tokenizer import vocabulary_of
from cxrtext.text.word_pieces import BertTokenizer

MAX_PIECES = 500
"""Word pieces; text of at most 1000 characters that has more is a pasted table, and rejected."""

CACHE_NAME = "scores.sqlite"  # the cache beside the output
KEEP_SECONDS = 1.0  # how often scores are kept; a kill loses no more than this
READ_SECONDS = 2.0  # how often it is said how much was read

TOKEN_COLUMNS: dict[str, Kind] = {
    "study_id": "text",
    "section": "text",
    "position": "whole",
    "token_index": "whole",
    "token": "text",
    "log_likelihood": "real",
}
"""The table of word pieces: one row each, ``token_index`` from 0 in the sentence."""


def read_sentences(
    source: TextSource,
    work: SentenceStore,
    tokenizer: BertTokenizer,
    settings: ScoreSettings,
    rejects: Rejects,
    on_read: Callable[[int], None] | None = None,
) -> tuple[int, int, Understood]:
    """Read the text; how many studies there are, how many have text, and what is understood."""
    counter, understood = WordCounter(tokenizer), Understood()
    studies = with_text = 0
    said = time.monotonic()
    for item in source:
        if isinstance(item, LeftOut):
            rejects.add(item.where, item.why)
            continue
        sentences = (
            [item] if isinstance(item, Sentence) else study_sentences(item, settings.sections)
        )
        studies += 1
        with_text += bool(sentences)
        understood.add(sentences)
        pieces = encode_pieces(tokenizer, [sentence.sentence for sentence in sentences])
        for sentence, ids in zip(sentences, pieces, strict=True):
            if 0 < len(ids) <= MAX_PIECES:
                work.add(sentence, ids, counter.count(ids))
            else:
                place = f"study {sentence.study_id}, {sentence.section} {sentence.position}"
                why = f"{len(ids)} word pieces, where a sentence has 1 to {MAX_PIECES}"
                rejects.add(place, why)
        if on_read is not None and time.monotonic() - said > READ_SECONDS:
            on_read(studies)
            said = time.monotonic()
    return studies, with_text, understood


def check_text(source: TextSource, work: SentenceStore, studies: int, rejected: int) -> None:
    """Raise a DataError where there is nothing to score, or no sentence can have an η."""
    sentences, with_eta = work.numbers("SELECT count(*), total(has_eta) FROM text")
    if not sentences:
        why = "there is no sentence in it"
        if source.holds == "reports":
            why = (
                f"none of the {studies} reports has text in the sections wanted; look at its "
                "columns, or name other sections"
            )
        aside = f" ({rejected} items were rejected)" if rejected else ""
        raise DataError(f"{source.description}: {why}{aside}")
    if not with_eta:
        raise DataError(
            f"{source.description}: the language model knows too few of its words: of every "
            f"sentence, {WITHOUT_ETA}; take a model of such reports, or train one with "
            "'cxrtext pretrain-text'"
        )


def _score(
    work: SentenceStore,
    scores: Iterator[Scores],
    caches: Sequence[ScoreCache],
    progress: Progress | None,
) -> None:
    """Keep group after group as it is scored, in the first cache first: a kill may come between."""
    distinct, done = work.numbers("SELECT count(*), count(tokens) FROM text")
    unkept: Scores = {}

    def keep() -> None:
        if unkept:
            for cache in caches:
                cache.add(unkept)
            work.set_scores(unkept)
            unkept.clear()

    kept = time.monotonic()
    try:
        for some in scores:
            unkept.update(some)
            done += len(some)
            if time.monotonic() - kept > KEEP_SECONDS:
                keep()
                kept = time.monotonic()
            if progress is not None:
                progress(min(done, distinct), distinct)
    finally:
        keep()


def _write(
    work: SentenceStore,
    out: Path | TextIO,
    tokens: Path | None,
    tokenizer: BertTokenizer,
    report: EtaReport,
) -> None:
    names = vocabulary_of(tokenizer)
    with ExitStack() as closing:
        writer = closing.enter_context(SentenceWriter(out))
        pieces_writer = None
        if tokens is not None:
            pieces_writer = closing.enter_context(RowWriter(tokens, TOKEN_COLUMNS))
        for sentence, words, pieces, values in work.results():
            eta = eta_of(sentence.log_likelihood, words, report.a, report.k)
            writer.add(replace(sentence, eta=eta))
            if pieces_writer is not None:
                place = (sentence.study_id, sentence.section, sentence.position)
                for number, (piece, value) in enumerate(zip(pieces, values, strict=True)):
                    row = (*place, number, names[piece], float(value))
                    pieces_writer.write(dict(zip(TOKEN_COLUMNS, row, strict=True)))


def score_reports(
    reports: Path | str,
    out: Path | str | TextIO,
    settings: ScoreSettings | None = None,
    *,
    model: str | Path | MaskedLanguageModel = DEFAULT_MODEL,
    device: str | torch.device | None = None,
    columns: Mapping[str, str] = NO_COLUMNS,
    on_scored: Callable[[EtaReport], None] | None = None,
    on_read: Callable[[int], None] | None = None,
    progress: Progress | None = None,
) -> ScoreSummary:
    """Score every sentence of some reports, and write them with their class probability.

    The cache outlives the run: a sentence is scored once for a model and precision, whatever
    corpus it stands in.

    Args:
        reports: What ``open_source`` reads: a table of reports or sentences, a folder of text
            files, or "-" for sentences on standard input.
        out: The table of sentences to write, CSV or Parquet by its ending; ``<out>.meta.json`` and,
            where something was rejected, ``<out>.rejected.csv`` are written beside it.  Or a
            stream, which gets CSV and nothing else; then only the cache lets a run continue.
        settings: How to score, and what is written beside.
        columns: What a table calls its columns; the others are guessed.
        on_scored: Called with what `eta_summary` describes, before the run ends.
        on_read: Called every few seconds with how many reports or sentences have been read.
        progress: Called with distinct sentences done and in all.

    Source: Wang et al. 2023 (sample-specific debiasing), §2.3.
    """
    started = time.monotonic()
    settings = settings or ScoreSettings()
    target = Path(out) if isinstance(out, str) else out
    path = target if isinstance(target, Path) else None
    settings.check()
    check_paths(reports, target, settings.tokens)
    with ExitStack() as closing:
        source = open_source(reports, columns)
        for made in (settings.tokens, path):
            if made is not None:
                closing.enter_context(only_one(made))
        language = open_model(model, device)
        scorer = Scorer(language, settings.precision, settings.batch_tokens)
        known, partial = _open_caches(source, scorer, path, settings, closing)
        caches = [each for each in (partial, known) if each is not None]
        work = closing.enter_context(open_store())
        rejects = Rejects(settings.max_rejected, where=source.description)
        studies, with_text, understood = read_sentences(
            source, work, language.tokenizer, settings, rejects, on_read
        )
        try:
            check_text(source, work, studies, len(rejects.rows))
        except DataError:
            if partial is not None:
                partial.remove()
            raise
        resumed = work.look_up(partial, known)
        groups = work.groups(language.window, scorer.batch_tokens)
        _score(work, (scores_of(scorer, group) for group in groups), caches, progress)
        report = work.eta_report(settings, language.name)
        if path is not None:
            path.with_name(path.name + META).unlink(missing_ok=True)  # of the table before
        _write(work, target, settings.tokens, language.tokenizer, report)
        counts = work.counts()
        words = Words(counts["words"], counts["unknown_words"])
        summary = ScoreSummary(
            model=language.name,
            fingerprint=language.fingerprint,
            a=report.a,
            k=report.k,
            fitted=settings.fit,
            precision=settings.precision,
            reports=studies,
            with_text=with_text,
            without_text=studies - with_text,
            understood=understood.share,
            by_language=understood.by_language,
            by_section=understood.by_section,
            **counts,
            warning="; ".join(filter(None, (words.warning(), made_of_labels(reports)))) or None,
            resumed=resumed,
            rejected=len(rejects.rows),
            seconds=round(time.monotonic() - started, 3),
        )
        if path is not None:
            rejects.write(path)
            write_notes(path, asdict(summary))
        if on_scored is not None:
            on_scored(report)
        if partial is not None:
            partial.remove()
    return summary


def _open_caches(
    source: TextSource,
    scorer: Scorer,
    out: Path | None,
    settings: ScoreSettings,
    closing: ExitStack,
) -> tuple[ScoreCache | None, PartialScores | None]:
    """The cache of scores that outlives the run, and that of this run; ``closing`` closes them."""
    known = partial = None
    path = settings.cache
    if path is True:
        path = out.with_name(CACHE_NAME) if out else False
    if isinstance(path, Path):
        known = closing.enter_context(ScoreCache(path, scorer.identity))
    if out is not None:
        identity = {
            "source": source.digest,
            "scorer": scorer.identity,
            "batch_tokens": scorer.batch_tokens,
            "sections": settings.sections and list(settings.sections),
        }
        name = out.with_name(out.name + ".partial")
        partial = closing.enter_context(PartialScores(name, identity))
    return known, partial
