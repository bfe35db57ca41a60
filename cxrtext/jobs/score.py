"""``cxrtext job score``: the likelihoods of the sentences of reports in shards, and their table.

A shard holds the scores of distinct sentences of the whole corpus, in the groups in which ``cxrtext
score-text`` scores them, by digests: no text of a report lies on the storage, and a sentence that
is said a thousand times is scored once.  ``finish`` makes the table as ``score-text`` makes it of a
cache that knows every sentence.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.errors import CheckpointError, ConfigError
from cxrtext.files import scratch_folder
from cxrtext.files.storage import Storage, open_storage
from cxrtext.jobs.driver import Running, drive
from cxrtext.jobs.engines import open_engine
from cxrtext.jobs.engines.engine import Start, Task
from cxrtext.jobs.finishing import every_shard, require_ready, require_same
from cxrtext.jobs.kept import Kept
from cxrtext.jobs.plan import Plan, begin, begun, plan_file, read_plan
from cxrtext.jobs.shards import Shard, ShardFile, commit_shard
from cxrtext.jobs.status import JobStatus
from cxrtext.language.scoring.cache import ScoreCache
from cxrtext.language.scoring.reports import check_text, read_sentences, score_reports
from cxrtext.language.scoring.scorer import Scorer, open_model
from cxrtext.language.scoring.settings import (
    MAX_PIECES,
    Precision,
    ScoreSettings,
    ScoreSummary,
    Variant,
)
from cxrtext.language.scoring.store import SentenceStore, open_store
from cxrtext.language.scoring.workers import Group, keep_memory, scores_of
from cxrtext.models.folders import DEFAULT_MODEL
from cxrtext.records import Rejects, open_source

KIND = "score"
SHARD = 500
START_S, SENTENCE_S = 300.0, 5.0
"""What a worker may take for a shard and for each of its sentences before it counts as lost."""


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """What comes out, and who does it; see :func:`cxrtext.language.score_reports`."""

    sections: tuple[str, ...] | None = None
    precision: Precision = "float32"
    variant: Variant = "original"
    batch_tokens: int | None = None
    longest: int = MAX_PIECES
    max_rejected: int = 100
    offline: bool = False
    shard: int = SHARD  # distinct sentences a shard, up to whole groups of one length
    threads: int = 1  # of a worker; sums depend on it, so it is the job's
    device: str = "cpu"
    workers: int | None = None  # None: one a core
    engine: str = "local"
    cluster: str | None = None  # address of one that runs, for the engine "dask"

    def settings(self) -> ScoreSettings:
        """As a run of ``score-text`` takes them."""
        settings = ScoreSettings(
            0.5, 1.0, False, self.sections, self.precision, self.variant, self.batch_tokens, 1,
            self.max_rejected, self.longest, False, None,
        )  # fmt: skip
        settings.check()
        return settings


@dataclass(frozen=True, slots=True)
class ScoreWork:
    """Scores the sentences of a task and commits their shard."""

    address: str  # of the job
    model: str  # folder or hub id of the language model
    device: str = "cpu"

    def __call__(self, task: Task) -> None:
        """Make a shard."""
        storage, plan, scorer = _opened(self)
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
        shard = Shard(task.number, list(range(len(values))), {}, {}, arrays)
        commit_shard(storage, plan.digest, shard)


def _open(work: ScoreWork) -> tuple[Storage, Plan, Scorer]:
    import torch

    storage = open_storage(work.address)
    plan = read_plan(storage, KIND)
    torch.set_num_threads(plan.definition["threads"])
    keep_memory()
    language = open_model(work.model, work.device, offline=True)
    shared = plan.shared
    scorer = Scorer(language, shared["precision"], shared["variant"], shared["batch_tokens"])
    if scorer.identity != plan.definition["language model"]:
        raise CheckpointError(
            f"{work.model}: is another model here than the one that the job was begun with; "
            "copy that one to every machine"
        )
    return storage, plan, scorer


_opened = Kept(_open)


@contextmanager
def _read(
    reports: Path, scorer: Scorer, options: ScoreOptions
) -> Iterator[tuple[SentenceStore, str]]:
    """The sentences of a source, and its digest."""
    source = open_source(reports)
    with open_store() as work:
        rejects = Rejects(options.max_rejected, where=source.description)
        studies, _ = read_sentences(
            source, work, scorer.language.tokenizer, options.settings(), rejects
        )
        check_text(source, work, studies, len(rejects.rows))
        yield work, source.digest


def _shards_of(groups: Iterable[Group], size: int) -> Iterator[list[Group]]:
    """Groups together until they hold so many sentences."""
    some: list[Group] = []
    for group in groups:
        some.append(group)
        if sum(map(len, some)) >= size:
            yield some
            some = []
    if some:
        yield some


def score_job(
    reports: Path,
    address: str,
    model: str | Path = DEFAULT_MODEL,
    options: ScoreOptions | None = None,
    running: Running | None = None,
    *,
    start: Start | None = None,
) -> JobStatus:
    """Score the sentences of some reports in shards; a job that was stopped goes on.

    Args:
        reports: A table of reports or sentences, or a folder of text files.
        address: The job's folder, or an fsspec address.
        start: Starts the engine with the work; by default the one that the options name.

    Raises:
        DataError: The text cannot be read, or the job was begun with other text, model or options.
        ConfigError: An option is wrong.
        CheckpointError: The model cannot be loaded.
        WorkError: Shards could not be made; the others were.
    """
    options, running = options or ScoreOptions(), running or Running()
    options.settings()
    if str(reports) == "-":
        raise ConfigError("a job cannot read standard input; give a table or a folder")
    storage = open_storage(address)
    scorer = _scorer(model, options)
    with _read(reports, scorer, options) as (work, digest):
        definition = _definition(digest, scorer, options)

        def shards_of(store: SentenceStore = work) -> Iterator[list[Group]]:
            groups = store.groups(scorer.language.window, scorer.batch_tokens)
            return _shards_of(groups, options.shard)

        plan = begun(storage, KIND, definition)
        if plan is None:
            (distinct,) = work.numbers("SELECT count(*) FROM text")
            shards = len([None for _ in shards_of()])
            shared = {
                "source": str(reports.resolve()),
                "model": str(Path(model).resolve()) if Path(model).is_dir() else str(model),
                "sections": options.sections,
                "longest": options.longest,
                "precision": options.precision,
                "variant": options.variant,
                "batch_tokens": scorer.batch_tokens,
            }
            plan = begin(storage, KIND, definition, rows=distinct, shards=shards, shared=shared)
        name = str(Path(model).resolve()) if Path(model).is_dir() else str(model)
        todo = ScoreWork(storage.location, name, options.device)
        chosen = start or (
            lambda work: open_engine(
                options.engine, work, options.workers, address=options.cluster,
                gpu=options.device.startswith("cuda"), shared=plan_file(storage),
            )
        )  # fmt: skip
        tasks = _tasks(shards_of())
        return drive(storage, plan, tasks, lambda: chosen(todo), running)


def _scorer(model: str | Path, options: ScoreOptions) -> Scorer:
    language = open_model(model, options.device, offline=options.offline)
    return Scorer(language, options.precision, options.variant, options.batch_tokens)


def _definition(digest: str, scorer: Scorer, options: ScoreOptions) -> dict[str, Any]:
    return {
        "text": digest,
        "language model": scorer.identity,
        "--section": options.sections,
        "--longest": options.longest,
        "--batch-tokens": scorer.batch_tokens,
        "--shard": options.shard,
        "threads": options.threads,
    }


def _tasks(shards: Iterable[list[Group]]) -> Iterator[Task]:
    for number, groups in enumerate(shards):
        rows = tuple((g, *sentence) for g, group in enumerate(groups) for sentence in group)
        limit = START_S + SENTENCE_S * len(rows)
        yield Task(number, rows, limit_s=limit)


def finish_score(
    address: str,
    out: Path,
    *,
    reports: Path | None = None,
    model: str | Path | None = None,
    device: str = "cpu",
    max_rejected: int = 100,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    **table: Any,
) -> ScoreSummary:
    """Make the table of sentences of a score job, as ``score-text`` makes it.

    Args:
        out: The table, CSV or Parquet by its ending.
        reports: Where the reports lie now; by default where they lay when the job was begun.
        model: Where the language model lies now, likewise.
        max_rejected: How many rows and sentences may be rejected.
        table: What else :func:`cxrtext.language.score_reports` takes of ``a``, ``k``, ``fit``,
            ``tokens``, ``on_scored`` and ``offline``.

    Raises:
        DataError: Shards are missing, the text or the model is another one, or too much was
            rejected.
        CheckpointError: A shard is damaged.
    """
    storage = open_storage(address)
    plan = read_plan(storage, KIND)
    done = require_ready(storage, plan, max_rejected)
    shared = plan.shared
    reports, model = reports or Path(shared["source"]), model or shared["model"]
    options = ScoreOptions(
        tuple(shared["sections"]) if shared["sections"] else None,
        shared["precision"],
        shared["variant"],
        shared["batch_tokens"],
        shared["longest"],
        device=device,
        offline=bool(table.get("offline")),
    )
    scorer = _scorer(model, options)
    now = _definition(open_source(reports).digest, scorer, options)
    require_same(storage, plan, now, ("text", "language model"))
    with scratch_folder(out.absolute().parent, "scores") as folder:
        known = folder / "scores.sqlite"
        _collect(storage, plan, done, known, scorer.identity, progress)
        summary = score_reports(
            reports,
            out,
            model=scorer.language,
            sections=options.sections,
            precision=options.precision,
            variant=options.variant,
            batch_tokens=options.batch_tokens,
            longest=options.longest,
            cache=known,
            max_rejected=max_rejected,
            **table,
        )
    if not summary.from_cache == summary.distinct_sentences == plan.rows:
        raise CheckpointError(
            f"{storage.address}: the shards have {summary.from_cache} of "
            f"{summary.distinct_sentences} sentences; start the job anew in another folder"
        )
    return replace(summary, from_cache=0)


def _collect(
    storage: Storage,
    plan: Plan,
    done: Mapping[int, ShardFile],
    known: Path,
    identity: str,
    progress: Callable[[int, int], None],
) -> None:
    """Put the scores of all shards into a cache; together they are of as many as were planned."""
    count = 0
    with ScoreCache(known, identity) as cache:
        for shard in every_shard(storage, plan, done, None):
            if not shard.places:
                continue
            ends = np.cumsum(shard.arrays["lengths"])[:-1]
            values = np.split(shard.arrays["values"], ends)
            digests = [row.tobytes() for row in shard.arrays["digests"]]
            cache.add(dict(zip(digests, values, strict=True)))
            count += len(digests)
            progress(count, plan.rows)
    if count != plan.rows:
        raise CheckpointError(
            f"{storage.address}: the shards have {count} sentences, not {plan.rows}; start the job "
            "anew in another folder"
        )
