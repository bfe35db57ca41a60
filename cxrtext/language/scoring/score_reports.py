"""From reports to a table of scored sentences."""

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

import torch

from cxrtext.files import only_one
from cxrtext.language.eta.report import EtaReport
from cxrtext.language.scoring.cache import ScoreCache
from cxrtext.language.scoring.options import (
    LONGEST_SENTENCE,
    Precision,
    ScoreOptions,
    Variant,
    check_paths,
)
from cxrtext.language.scoring.output import write_rejects
from cxrtext.language.scoring.run import ScoreRun
from cxrtext.language.scoring.score import Progress
from cxrtext.language.scoring.scorer import Scorer, open_model
from cxrtext.language.scoring.summary import ScoreSummary
from cxrtext.language.scoring.work import ScoreWork
from cxrtext.language.scoring.workers import model_for_workers
from cxrtext.models.masked_language_model import DEFAULT_MODEL, MaskedLanguageModel
from cxrtext.records import open_source
from cxrtext.records.sentences import META, write_notes

CACHE_NAME = "scores.sqlite"
"""The cache beside the output."""


def _open_run(
    reports: Path | str,
    out: Path | TextIO,
    model: str | Path | MaskedLanguageModel,
    device: str | torch.device | None,
    offline: bool,
    options: ScoreOptions,
    closing: ExitStack,
) -> ScoreRun:
    """Open the text, the model, the work file and the cache; ``closing`` closes them."""
    started = time.monotonic()
    source = open_source(reports)
    if options.tokens is not None:
        closing.enter_context(only_one(options.tokens))
    if isinstance(out, Path):
        closing.enter_context(only_one(out))
        place = out
    else:
        place = Path(closing.enter_context(tempfile.TemporaryDirectory())) / "stream"
    language = open_model(model, device, offline=offline)
    if options.workers > 1:
        model_for_workers(model, language)
    scorer = Scorer(language, options.precision, options.variant, options.batch_tokens)
    identity = {
        "source": source.identity,
        "scorer": scorer.identity,
        "batch_tokens": scorer.batch_tokens,
        "sections": options.sections,
        "longest": options.longest,
    }
    cache = None
    if isinstance(options.cache, Path) or (options.cache and isinstance(out, Path)):
        path = place.with_name(CACHE_NAME) if options.cache is True else Path(options.cache)
        cache = closing.enter_context(ScoreCache(path, scorer.identity))
    partial = place.with_name(place.name + ".partial")
    work = closing.enter_context(ScoreWork(partial, identity))
    return ScoreRun(source, scorer, model, options, work, cache, started)


def score_reports(
    reports: Path | str,
    out: Path | TextIO,
    *,
    model: str | Path | MaskedLanguageModel = DEFAULT_MODEL,
    a: float = 0.2,
    k: float = 0.35,
    fit: bool = False,
    sections: Sequence[str] | None = None,
    device: str | torch.device | None = None,
    offline: bool = False,
    precision: Precision = "float32",
    variant: Variant = "original",
    batch_tokens: int | None = None,
    workers: int = 1,
    cache: Path | bool = True,
    tokens: Path | None = None,
    max_rejected: int = 100,
    longest: int = LONGEST_SENTENCE,
    judge: Callable[[EtaReport], None] | None = None,
    on_read: Callable[[int], None] | None = None,
    progress: Progress | None = None,
) -> ScoreSummary:
    """Score every sentence of some reports, and write them with their class probability.

    Memory does not grow with the corpus.  Until the output is written, ``<out>.partial`` (readable
    by its owner alone) keeps the work, so that a run that was killed and is started again
    continues, and its output is the same, byte for byte.  The cache outlives the run: a sentence
    is scored once for a model, precision and variant, whatever corpus it stands in.

    Args:
        reports: What ``open_source`` reads: a table of reports or sentences, a folder of text
            files, or "-" for sentences on standard input.
        out: The table of sentences to write, CSV or Parquet by its ending; ``<out>.meta.json`` and,
            where something was set aside, ``<out>.rejected.csv`` are written beside it.  Or a
            stream, which gets CSV and nothing else; then only the cache lets a run continue.
        model: A hub id, a model folder, or a loaded model.
        a: Largest class probability, in (0, 1).
        k: Exponent on the likelihood.
        fit: Whether to fit a and k to how often the very same sentences recur, instead.
        sections: Sections wanted; by default those that describe the image.
        device: Where to compute; by default the GPU where there is one.
        offline: Never ask the hub, even for a model that is not here.
        precision: Arithmetic of the network: "float32", "bfloat16", "float16" (GPU) or "int8"
            (CPU).
        variant: "original" or "within-word-l2r"; see ``score_sentences_detailed``.
        batch_tokens: Tokens in one forward pass; default by device.
        workers: Processes that score at once, on the CPU; each loads the model and takes its
            share of the threads.
        cache: The file of scores that outlives the run; True is ``scores.sqlite`` beside the
            output, False none.
        tokens: A table of word pieces with their log-likelihoods to write, CSV or Parquet.
        max_rejected: How many rows and sentences may be set aside.
        longest: Word pieces of the longest sentence that is scored; a longer one is set aside.
        judge: Called with everything that a and k can be judged by, before the work is removed.
        on_read: Called every few seconds with how many reports or sentences have been read.
        progress: Called with distinct sentences done and in all.

    Returns:
        The counts.

    Raises:
        DataError: The text cannot be read, there is none, or too much was set aside.
        ConfigError: An option is wrong.
        CheckpointError: The model cannot be loaded.
        HubError: The model is not here, and the hub cannot be reached.
        WorkError: Another process makes the same output, or a worker died.

    Source: Wang et al. 2023 (sample-specific debiasing), §2.3; METHOD sections 1 and 2.
    """
    wanted = None if sections is None else tuple(sections)
    options = ScoreOptions(
        a, k, fit, wanted, precision, variant, batch_tokens, workers, max_rejected, longest,
        cache, tokens,
    )  # fmt: skip
    options.check()
    check_paths(reports, out, tokens)
    with ExitStack() as closing:
        run = _open_run(reports, out, model, device, offline, options, closing)
        run.read(on_read)
        run.score(progress)
        report = run.judged()
        if isinstance(out, Path):
            out.with_name(out.name + META).unlink(missing_ok=True)  # of the table before
        run.write(out, report)
        summary = run.summary(report)
        if isinstance(out, Path):
            write_rejects(out, run.work.rejected())
            write_notes(out, asdict(summary))
        if judge is not None:
            judge(report)
        run.work.remove()
    return summary
