"""``cxrtext job score``: the likelihoods of the sentences of reports in shards, and their table.

A shard holds the scores of distinct sentences of the whole corpus, in the groups in which ``cxrtext
score-text`` scores them, by digests: no text of a report lies on the storage, and a sentence that
is said a thousand times is scored once.  ``finish`` makes the table as ``score-text`` makes it of a
cache that knows every sentence.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.errors import CheckpointError, ConfigError
from cxrtext.files import scratch_folder
from cxrtext.jobs.driver import Running
from cxrtext.jobs.engines.engine import Task
from cxrtext.jobs.kind import (
    ROW_S,
    SHARD,
    START_S,
    Kind,
    Made,
    Make,
    Work,
    Workers,
    every_shard,
    ready_job,
    require_here,
    require_same,
)
from cxrtext.jobs.plan import Contents, Definition, Plan
from cxrtext.jobs.shards import Shard
from cxrtext.jobs.status import JobStatus
from cxrtext.language.eta.statistics import EtaReport
from cxrtext.language.scoring.cache import ScoreCache
from cxrtext.language.scoring.reports import check_text, read_sentences, score_reports
from cxrtext.language.scoring.score import Group, Scorer, keep_memory, open_model, scores_of
from cxrtext.language.scoring.settings import ScoreSettings, ScoreSummary
from cxrtext.language.scoring.store import SentenceStore, open_store
from cxrtext.models.folders import DEFAULT_MODEL
from cxrtext.records import Rejects, open_source

KIND = "score"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions(Workers):
    """What comes out, and who does it; a shard has whole groups of sentences of one length."""

    settings: ScoreSettings = field(default_factory=ScoreSettings)  # but for a, k and fit


@dataclass(frozen=True, slots=True)
class ScoreWork(Work):
    model: str  # folder or hub id of the language model
    device: str = "cpu"

    kind = KIND

    @contextmanager
    def open(self, plan: Plan) -> Iterator[Make]:
        import torch

        torch.set_num_threads(plan.definition["threads"])
        keep_memory()
        scorer = _scorer(self.model, _settings(plan), self.device, offline=True)
        require_here(self.model, "model", scorer.identity == plan.definition["language model"])
        yield partial(_scored, scorer)


def _scored(scorer: Scorer, task: Task) -> Shard:
    scores = {}
    for _, rows in groupby(task.rows, lambda row: row[0]):
        scores.update(scores_of(scorer, [(digest, pieces) for _, digest, pieces in rows]))
    values = [scores[digest] for _, digest, _ in task.rows]
    arrays: dict[str, Any] = {}
    if values:
        arrays = {
            "digests": np.stack([np.frombuffer(row[1], np.uint8) for row in task.rows]),
            "lengths": np.array([len(value) for value in values], np.int64),
            "values": np.concatenate(values).astype(np.float32),
        }
    return Shard(task.number, list(range(len(values))), {}, {}, arrays)


def _settings(plan: Plan) -> ScoreSettings:
    names = ("sections", "precision", "batch_tokens")
    return ScoreSettings(**{name: plan.shared[name] for name in names})


def _scorer(
    model: str | Path, settings: ScoreSettings, device: str, *, offline: bool = False
) -> Scorer:
    language = open_model(model, device, offline=offline)
    return Scorer(language, settings.precision, settings.batch_tokens)


class _Score(Kind):
    name = KIND

    def __init__(
        self,
        address: str,
        reports: Path,
        model: str | Path,
        options: ScoreOptions,
        scorer: Scorer,
        sentences: SentenceStore,
        digest: str,
    ) -> None:
        super().__init__(address, options)
        self._options, self._shard = options, options.shard or SHARD
        self._reports, self._scorer, self._sentences = reports, scorer, sentences
        self._model = str(Path(model).resolve()) if Path(model).is_dir() else str(model)
        self._digest = digest

    def definition(self) -> Definition:
        sections = self._options.settings.sections
        return {
            **_inputs(self._digest, self._scorer),
            "--section": sections and list(sections),
            "--batch-tokens": self._scorer.batch_tokens,
            "--shard": self._shard,
            "threads": self._options.threads,
        }

    def contents(self) -> Contents:
        (distinct,) = self._sentences.numbers("SELECT count(*) FROM text")
        settings = self._options.settings
        shared = {
            "source": str(self._reports.resolve()),
            "model": self._model,
            "sections": settings.sections and list(settings.sections),
            "precision": settings.precision,
            "batch_tokens": self._scorer.batch_tokens,
        }
        return Contents(distinct, sum(1 for _ in self._shards()), shared)

    def work(self) -> ScoreWork:
        return ScoreWork(self.storage.location, self._model, self._options.device)

    def tasks(self) -> Iterator[Task]:
        for number, groups in enumerate(self._shards()):
            rows = tuple((g, *sentence) for g, group in enumerate(groups) for sentence in group)
            yield Task(number, rows, limit_s=START_S + ROW_S * len(rows))

    def _shards(self) -> Iterator[list[Group]]:
        scorer = self._scorer
        some: list[Group] = []
        for group in self._sentences.groups(scorer.language.window, scorer.batch_tokens):
            some.append(group)
            if sum(map(len, some)) >= self._shard:
                yield some
                some = []
        if some:
            yield some


def _inputs(digest: str, scorer: Scorer) -> Definition:
    return {"text": digest, "language model": scorer.identity}


def score_job(
    reports: Path,
    address: str,
    model: str | Path = DEFAULT_MODEL,
    options: ScoreOptions | None = None,
    running: Running | None = None,
) -> JobStatus:
    """Score the sentences of some reports in shards; a job that was stopped goes on."""
    options = options or ScoreOptions()
    settings = options.settings
    settings.check()
    if str(reports) == "-":
        raise ConfigError("a job cannot read standard input; give a table or a folder")
    scorer = _scorer(model, settings, options.device)
    source = open_source(reports)
    with open_store() as store:
        rejects = Rejects(settings.max_rejected, where=source.description)
        studies, _ = read_sentences(source, store, scorer.language.tokenizer, settings, rejects)
        check_text(source, store, studies, len(rejects.rows))
        return _Score(address, reports, model, options, scorer, store, source.digest).run(running)


def finish_score(
    address: str,
    out: Path,
    *,
    reports: Path | None = None,
    model: str | Path | None = None,
    device: str = "cpu",
    settings: ScoreSettings | None = None,
    on_scored: Callable[[EtaReport], None] | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> ScoreSummary:
    """Make the table of sentences of a score job, as ``score-text`` makes it.

    ``reports`` and ``model``: where they lie now, by default where they lay when it was begun;
    ``settings``: what the job does not fix: ``a``, ``k``, ``fit``, ``tokens``, ``max_rejected``.
    """
    settings = settings or ScoreSettings()
    made = ready_job(address, KIND, settings.max_rejected)
    plan = made.plan
    reports, model = reports or Path(plan.shared["source"]), model or plan.shared["model"]
    fixed = _settings(plan)
    scorer = _scorer(model, fixed, device)
    require_same(made, _inputs(open_source(reports).digest, scorer))
    with scratch_folder(out.absolute().parent, "scores") as folder:
        known = folder / "scores.sqlite"
        _collect(made, known, scorer.identity, progress)
        ours = ("a", "k", "fit", "tokens", "max_rejected")
        fixed = replace(fixed, cache=known, **{name: getattr(settings, name) for name in ours})
        summary = score_reports(reports, out, fixed, model=scorer.language, on_scored=on_scored)
    if not summary.from_cache == summary.distinct_sentences == plan.rows:
        raise CheckpointError(
            f"{made.storage.address}: the shards have {summary.from_cache} of "
            f"{summary.distinct_sentences} sentences; start the job anew in another folder"
        )
    return replace(summary, from_cache=0)


def _collect(made: Made, known: Path, identity: str, progress: Callable[[int, int], None]) -> None:
    """Put the scores of all shards into a cache; together they are of as many as were planned."""
    count = 0
    with ScoreCache(known, identity) as cache:
        for shard in every_shard(made):
            if not shard.places:
                continue
            values = np.split(shard.arrays["values"], np.cumsum(shard.arrays["lengths"])[:-1])
            digests = [row.tobytes() for row in shard.arrays["digests"]]
            cache.add(dict(zip(digests, values, strict=True)))
            count += len(digests)
            progress(count, made.plan.rows)
    if count != made.plan.rows:
        raise CheckpointError(
            f"{made.storage.address}: the shards have {count} sentences, not {made.plan.rows}; "
            "start the job anew in another folder"
        )
