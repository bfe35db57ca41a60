"""A scoring run: read, score what is not known yet, write."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import torch

from cxrtext.errors import DataError
from cxrtext.language.class_probability import WITHOUT_ETA
from cxrtext.language.eta.fit import EtaFit, fit_class_probability
from cxrtext.language.eta.report import EtaReport
from cxrtext.language.scoring.batches import groups_of
from cxrtext.language.scoring.cache import ScoreCache
from cxrtext.language.scoring.options import ScoreOptions
from cxrtext.language.scoring.output import write_results
from cxrtext.language.scoring.score import Progress
from cxrtext.language.scoring.scorer import Scorer
from cxrtext.language.scoring.summary import ScoreSummary
from cxrtext.language.scoring.text_reader import TextReader
from cxrtext.language.scoring.work import ScoreWork, WorkText
from cxrtext.language.scoring.workers import (
    ScorerPlan,
    Scores,
    model_for_workers,
    score_here,
    score_in_workers,
)
from cxrtext.models.masked_language_model import MaskedLanguageModel
from cxrtext.records import TextSource

COMMIT_SECONDS = 1.0
"""How often scores are kept; a kill loses no more than this."""


@dataclass(slots=True)
class ScoreRun:
    """One run.

    Args:
        source: The text.
        scorer: The language model.
        model: What the model was asked for by; workers load it from there.
        options: How to score.
        work: The work file.
        cache: Scores that outlive the run.
        started: When it began, as ``time.monotonic``.
        resumed: Distinct sentences that a run that was stopped had scored.
    """

    source: TextSource
    scorer: Scorer
    model: str | Path | MaskedLanguageModel
    options: ScoreOptions
    work: ScoreWork
    cache: ScoreCache | None
    started: float
    resumed: int = 0

    def read(self, on_read: Callable[[int], None] | None = None) -> None:
        """Read the text into the work file, and fix what is to be scored.

        Args:
            on_read: Called every few seconds with how many reports or sentences have been read.

        Raises:
            DataError: There is nothing to score, or too much was set aside.
        """
        options, work = self.options, self.work
        tokenizer = self.scorer.language.tokenizer
        TextReader(
            self.source, work, tokenizer, options.sections, options.longest, options.max_rejected
        ).read(on_read)
        if not work.count("sentence"):
            nothing = self._nothing()
            work.remove()
            raise nothing
        if work.without_eta() == work.count("sentence"):
            work.remove()
            raise DataError(
                f"{self.source.description}: the language model knows too few of its words: of "
                f"every sentence, {WITHOUT_ETA}; take a model of such reports, or train one with "
                "'cxrtext pretrain-text'"
            )
        if not work.fact("planned"):
            work.plan(self.cache)
            work.set_facts({"planned": 1})
            work.commit()
        self.resumed = work.scored() - work.known()

    def _nothing(self) -> DataError:
        where, rejected = self.source.description, self.work.count("rejected")
        if self.source.holds == "reports":
            why = (
                f"none of the {self.work.fact('studies')} reports has text in the sections "
                "wanted; look at its columns, or name other sections"
            )
        else:
            why = "there is no sentence in it"
        aside = f" ({rejected} items were set aside)" if rejected else ""
        return DataError(f"{where}: {why}{aside}")

    def score(self, progress: Progress | None) -> None:
        """Score what has no score, keeping scores in the work file and the cache every second."""
        total, done = self.work.count("text"), self.work.scored()
        unkept: Scores = {}
        kept = time.monotonic()
        try:
            for some in self._scores():
                unkept.update(some)
                done += len(some)
                if time.monotonic() - kept > COMMIT_SECONDS:
                    self._keep(unkept)
                    kept = time.monotonic()
                if progress is not None:
                    # A group that was half there is scored whole.
                    progress(min(done, total), total)
        finally:
            self._keep(unkept)

    def _keep(self, unkept: Scores) -> None:
        if self.cache is not None and unkept:
            digests = self.work.digests(list(unkept))
            self.cache.add(dict(zip(digests, unkept.values(), strict=True)))
        self.work.add_scores(unkept)
        self.work.commit()
        unkept.clear()

    def _pending(self) -> Iterator[list[WorkText]]:
        """Groups with something left to score."""
        window, budget = self.scorer.language.window, self.scorer.batch_tokens
        texts = self.work.to_score()
        for group in groups_of(texts, lambda text: len(text.pieces), window, budget):
            if not all(text.scored for text in group):
                yield group

    def _scores(self) -> Iterator[Scores]:
        workers = self.options.workers
        if workers == 1:
            return score_here(self.scorer, self._pending())
        model = model_for_workers(self.model, self.scorer.language)
        plan = ScorerPlan(
            model,
            self.options.precision,
            self.options.variant,
            self.scorer.batch_tokens,
            max(1, torch.get_num_threads() // workers),
        )
        return score_in_workers(plan, workers, self._pending())

    def judged(self) -> EtaReport:
        """Everything that a and k can be judged by; fitted, where that is wanted."""
        log_likelihood, count = self.work.values()
        fit: EtaFit | None = None
        a, k = self.options.a, self.options.k
        if self.options.fit:
            fit = fit_class_probability(log_likelihood, count)
            a, k = fit.a, fit.k
        name = self.scorer.language.name
        return EtaReport(log_likelihood, count, a, k, name, example=self.work.example, fit=fit)

    def write(self, out: Path | TextIO, report: EtaReport) -> None:
        """Write the table of sentences and, where wanted, that of word pieces."""
        language = self.scorer.language
        write_results(self.work, out, self.options.tokens, language, report.a, report.k)

    def summary(self, report: EtaReport) -> ScoreSummary:
        """Count what was done."""
        language, work = self.scorer.language, self.work
        reports, with_text = work.fact("studies"), work.fact("with_text")
        words = work.words()
        return ScoreSummary(
            model=language.name,
            fingerprint=language.fingerprint,
            a=report.a,
            k=report.k,
            fitted=report.fit is not None,
            precision=self.scorer.precision,
            variant=self.scorer.variant,
            reports=reports,
            with_text=with_text,
            without_text=reports - with_text,
            sentences=work.count("sentence"),
            distinct_sentences=work.count("text"),
            tokens=work.tokens(),
            words=words.words,
            unknown_words=words.unknown,
            without_eta=work.without_eta(),
            warning=words.warning(),
            from_cache=work.known(),
            resumed=self.resumed,
            rejected=work.count("rejected"),
            seconds=round(time.monotonic() - self.started, 3),
        )
