"""A pull from begin to end: questions, studies, instances, and what failed once more.

Stopped at any moment, by whatever, the same command resumes.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from cxrtext.errors import ConfigError
from cxrtext.files import only_one
from cxrtext.images.dicom.described import Described
from cxrtext.pacs.faults import DeniedError, GoneError, PeerError, TooLargeError
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.query import Instance, Question, Source
from cxrtext.pacs.retrieval import objects
from cxrtext.pacs.retrieval.pull_state import FILE, FetchState, Row, State
from cxrtext.pacs.retrieval.search import Search, search
from cxrtext.pacs.throttle import PATIENCE_S, Retrying, Throttle

IMAGES = "images"
BATCH = 1000
AGAIN = 2  # how often what was set aside is tried again at the end
Answer = TypeVar("Answer")
Show = Callable[[str, int, int, str], None]


@dataclass(frozen=True, slots=True)
class PullOptions:
    first: date
    last: date
    modalities: tuple[str, ...] = ("CR", "DX")
    accessions: tuple[str, ...] = ()  # only these, of the days
    dry_run: bool = False
    patience_s: float = PATIENCE_S


@dataclass(frozen=True, slots=True)
class PullSummary:
    """What became of everything that was found: ``found = fetched + left out + failed``."""

    studies: int
    found: int
    fetched: int  # of a dry run: what would be
    left: Mapping[str, int]  # by reason
    failed: Mapping[str, int]  # by reason
    unlisted: Mapping[str, int]  # studies whose instances are not known, by reason
    cut: int  # days or accession numbers that the peer may have more of than it gave
    bytes: int
    dry_run: bool = False
    images: Path | None = None

    @property
    def whole(self) -> bool:
        return not (self.failed or self.unlisted or self.cut)

    def __str__(self) -> str:
        word = "to fetch" if self.dry_run else "fetched"
        line = (
            f"found {self.found} = {self.fetched} {word} + {sum(self.left.values())} left out + "
            f"{sum(self.failed.values())} failed"
        )
        if self.unlisted:
            line += f"; {sum(self.unlisted.values())} studies could not be listed whole"
        if self.cut:
            line += f"; {self.cut} questions that the peer cuts off may have more"
        return line


@dataclass
class _Run:
    peer: Peer
    options: PullOptions
    images: Path
    state: State
    source: Source
    retrying: Retrying
    show: Show


def pull_archive(
    peer: Peer,
    out: Path,
    options: PullOptions,
    show: Show = lambda *_: None,
    say: Callable[[str], None] = lambda _line: None,
) -> PullSummary:
    """Pull the radiographs of a peer into ``out/images``, with what is known in ``pull.sqlite``.

    Args:
        show: Told of progress: title, done, total, unit.
    """
    if options.first > options.last:
        raise ConfigError(f"--from {options.first} is after --to {options.last}; exchange them")
    throttle = Throttle(peer.limits, say)
    with closing(objects.open_source(peer, throttle)) as source:
        mend = "; run the same command again to resume"
        retrying = Retrying(peer, throttle, say, patience_s=options.patience_s, mend=mend)
        if options.dry_run:
            with State(None) as state:
                run = _Run(peer, options, out, state, source, retrying, show)
                return _summary(_find(run))
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        with only_one(out / FILE), State(out / FILE) as state:
            images = out / IMAGES
            images.mkdir(mode=0o700, exist_ok=True)
            run = _Run(peer, options, images, state, source, retrying, show)
            state.belongs_to(peer.name)
            state.retry("failed", "aside")
            _fetch(_find(run))
            return _summary(run)


@dataclass(frozen=True, slots=True)
class _Asked:
    kind: str  # "day" or "accession"
    key: str
    modality: str
    question: Question
    final: bool  # whether the answer will not change


def _questions(options: PullOptions) -> Iterator[_Asked]:
    days = f"{options.first:%Y%m%d}-{options.last:%Y%m%d}"
    for accession in options.accessions:
        yield _Asked("accession", accession, days, Question(days, accession=accession), False)
    if options.accessions:
        return
    over = datetime.now(UTC).date() - timedelta(days=2)  # wherever on earth the peer is
    for number in range((options.last - options.first).days + 1):
        day = options.first + timedelta(days=number)
        key = f"{day:%Y%m%d}"
        for modality in options.modalities:
            yield _Asked("day", key, modality, Question(key, modality=modality), day < over)


def _find(run: _Run) -> _Run:
    asked = list(_questions(run.options))
    todo = [a for a in asked if not run.state.answered(a.kind, a.key, a.modality)]
    title, unit = "asking for studies", "questions"
    done = len(asked) - len(todo)
    run.show(title, done, len(asked), unit)

    def ask(one: _Asked) -> Search:
        return run.retrying.patiently(lambda: search(run.source, one.question))

    for one, found in run.retrying.each(todo, ask):
        studies = {
            uid: (row.first("StudyDate")[:8], row.first("NumberOfStudyRelatedInstances"))
            for uid, row in found.studies.items()
        }
        run.state.answer((one.kind, one.key, one.modality), studies, found.cut, one.final)
        done += 1
        run.show(title, done, len(asked), unit)
    _list(run)
    for _ in range(AGAIN):
        if not run.state.retry("aside"):
            break
        _list(run)
    run.state.give_up("studies")
    return run


def _list(run: _Run) -> None:
    done, total = 0, run.state.waiting("studies")

    def ask(said: tuple[str, str]) -> objects.Listed | PeerError:
        return _told(lambda: run.retrying.patiently(lambda: objects.list_study(run.source, *said)))

    while studies := run.state.studies_found(BATCH):
        for (study, counted), found in run.retrying.each(studies, ask):
            if isinstance(found, PeerError):
                run.state.set_aside(study, found.what)
            else:
                fault = objects.FEWER if found.is_short_of(counted) else ""
                run.state.list_study(study, map(_row, found.instances), found.unusable, fault)
            done += 1
            run.show("looking at studies", done, total, "studies")


def _told(ask: Callable[[], Answer]) -> Answer | PeerError:
    """An answer, or the fault of this one object; faults of the peer as a whole are raised."""
    try:
        return ask()
    except (DeniedError, GoneError):
        raise
    except PeerError as error:
        return error


def _row(one: Instance) -> Row:
    left = one.decide().refused
    state: FetchState = "left" if left else "found"
    return Row(one.instance, one.study, one.series, state, left, one.file, one.fingerprint)


def _fetch(run: _Run) -> None:
    for again in range(AGAIN + 1):
        if again and not run.state.retry("aside"):
            break
        _fetch_found(run)
    run.state.give_up("instances")


def _fetch_found(run: _Run) -> None:
    done, total = 0, run.state.waiting("instances")
    objects.require_space(run.images)

    def fetch(row: Row) -> objects.Taken | PeerError:
        instance = Instance(row.study, row.series, row.instance, Described())
        path = run.images / row.file
        path.parent.mkdir(mode=0o700, exist_ok=True)
        return _told(
            lambda: run.retrying.patiently(lambda: objects.take(run.source, instance, path))
        )

    while rows := run.state.instances_found(BATCH):
        for row, taken in run.retrying.each(rows, fetch):
            _settle(run.state, row, taken)
            done += 1
            run.show("fetching", done, total, "images")


def _settle(state: State, row: Row, taken: objects.Taken | PeerError) -> None:
    if isinstance(taken, TooLargeError):
        state.settle(row.instance, "left", reason=objects.TOO_LARGE)
    elif isinstance(taken, PeerError):
        state.settle(row.instance, "aside", reason=taken.what)
    elif taken.left:
        state.settle(row.instance, "left", reason=taken.left)
    else:
        state.settle(row.instance, "fetched", digest=taken.digest, size=taken.size)


def _summary(run: _Run) -> PullSummary:
    state = run.state
    counts = state.counts("instances")
    unusable = state.unusable()

    def reasons(*states: str) -> dict[str, int]:
        found: Counter[str] = Counter()
        for (name, reason), count in counts.items():
            if name in states:
                found[reason] += count
        return dict(found.most_common())

    left = reasons("left")
    if unusable:
        left[objects.NO_UID] = unusable
    studies = state.counts("studies")
    unlisted = {reason: count for (name, reason), count in studies.items() if name == "failed"}
    here = ("found",) if run.options.dry_run else ("fetched",)
    return PullSummary(
        studies=sum(studies.values()),
        found=sum(counts.values()) + unusable,
        fetched=sum(reasons(*here).values()),
        left=left,
        failed=reasons("failed"),
        unlisted=unlisted,
        cut=state.cut_questions(),
        bytes=state.fetched_bytes(),
        dry_run=run.options.dry_run,
        images=None if run.options.dry_run else run.images,
    )
