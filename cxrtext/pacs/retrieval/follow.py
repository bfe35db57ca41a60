"""Following a PACS by Orthanc's list of changes, and by comparing day by day what it has (QIDO).

The list alone is not enough: a deletion makes no entry in it and takes earlier ones away, a
correction under the same UID may make none, and it can be emptied.  So the days are compared each
night, which also works with a PACS that has no such list, and at once after a gap in the list.

An object is put into the inbox before it is noted here: after a kill one may be put twice, which
the inbox's worker sees, and none is lost.
"""

import math
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from cxrtext.errors import WorkError
from cxrtext.files import only_one, scratch_folder
from cxrtext.images.dicom.described import Described
from cxrtext.pacs.dicomweb.client import ChangeList, DicomWeb
from cxrtext.pacs.faults import AnswerError, DeniedError, GoneError, PeerError, TooLargeError
from cxrtext.pacs.inbox.queue import MAX_BYTES, Inbox
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.query import Instance, Question, Source
from cxrtext.pacs.retrieval.follow_state import FollowState, Seen, SeenState
from cxrtext.pacs.retrieval.objects import FEWER, TOO_LARGE, list_study, open_source, take
from cxrtext.pacs.retrieval.pull_state import FILE as PULL_STATE
from cxrtext.pacs.retrieval.search import Search, merged, search
from cxrtext.pacs.throttle import PATIENCE_S, Retrying, Throttle

PAGE = 100
TRIES = 3
GAP_PAUSE_S = 3600.0
"""How often the days are compared because of gaps in the list of changes, at most."""

FEW_GONE, GONE_SHARE = 20, 0.1
"""More deletions at once than these are not believed without being told to."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FollowOptions:
    first: date | None = None  # studies from this day on; None: from the first start on
    days: int = 30  # how many are compared at a time
    modalities: tuple[str, ...] = ("CR", "DX")
    every_s: float = 10.0
    at: str = "02:00"  # when the days are compared, in local time
    once: bool = False
    compare: bool = False  # at once, too
    believe: bool = False  # that much is gone
    pulled: Path | None = None  # folder of a pull, whose images are known
    patience_s: float = PATIENCE_S


@dataclass
class Tally:
    """What was put into the inbox, and what was not."""

    counts: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        words = ("new", "corrected", "gone", "left out", "failed")
        return ", ".join(f"{self.counts[word]} {word}" for word in words)


class Follower:
    """Follows one peer, of one thread."""

    def __init__(
        self,
        peer: Peer,
        source: Source,
        box: Inbox,
        state: FollowState,
        options: FollowOptions,
        scratch: Path,
        say: Say,
        retrying: Retrying,
    ) -> None:
        self._peer, self._source, self._box, self._state = peer, source, box, state
        self._options, self._scratch, self._say, self._retrying = options, scratch, say, retrying
        self._list = ChangeList(source, retrying) if isinstance(source, DicomWeb) else None
        self.tally = Tally()
        self._compared_at = -math.inf
        if not state.fact("first"):
            state.note("first", (options.first or date.today()).isoformat())

    @property
    def has_changes(self) -> bool:
        return self._peer.dicomweb is not None and self._peer.dicomweb.orthanc is not None

    def read_changes(self) -> bool:
        """Note the studies that the list names as changed; whether it has a gap."""
        assert self._list is not None  # noqa: S101 - for mypy: has_changes says so
        known = self._state.fact("sequence")
        if not known:
            last = self._list.ask("last")["Last"]
            self._state.note("sequence", str(last))
            return True  # what is there already is found by comparing
        since, gap = int(known), False
        if self._list.ask("last")["Last"] < since:
            self._say(f"{self._peer.name}: its list of changes begins anew; comparing the days")
            since, gap = 0, True
        while True:
            page = self._list.ask(since=since, limit=PAGE)
            numbers = [int(change["Seq"]) for change in page["Changes"]]
            last = max([int(page["Last"]), *numbers])
            expected = range(since + 1, since + 1 + len(numbers))
            gap |= numbers != list(expected) or last > (numbers[-1] if numbers else since)
            studies, renewed = self._list.named(page["Changes"])
            with self._state.together():
                self._state.pend(studies, renewed)
                self._state.note("sequence", str(last))
                if gap:  # what it hides is found by comparing, whenever that succeeds
                    self._state.note("gap", "1")
            if page.get("Done", True) or last == since:
                return gap
            since = last

    def poll(self) -> None:
        """Note the studies of today and yesterday that are new or have grown."""
        for day in days_under_way(datetime.now().astimezone()):
            for study, (when, objects) in self._studies(day).items():
                with self._state.together():
                    if self._state.know_study(study, when, objects):
                        self._state.pend([study])

    def compare(self) -> None:
        """Compare the days with what is known: what is new, corrected, and gone."""
        first = date.fromisoformat(self._state.fact("first"))
        last = date.today() + timedelta(days=1)
        day = max(first, last - timedelta(days=self._options.days))
        gone: list[Seen] = []
        looked = 0
        while day <= last:
            found = self._studies(day)
            for study, (when, objects) in found.items():
                self._state.know_study(study, when, objects)
                gone += self._look_at(study, objects)
                looked += 1
            for study in self._state.studies_of(f"{day:%Y%m%d}"):
                if study not in found:
                    gone += self._look_elsewhere(study)
                    looked += 1
            day += timedelta(days=1)
        self._forget(gone, sum(self._state.counts().values()))
        self._state.note("gap", "")
        self._state.note("compared", datetime.now().astimezone().isoformat(timespec="seconds"))
        self._compared_at = time.monotonic()
        self._say(f"{self._peer.name}: compared {looked} studies: {self.tally}")

    def _studies(self, day: date) -> dict[str, tuple[str, str]]:
        """The studies of a day: the day and the number of objects of each."""
        key = f"{day:%Y%m%d}"
        questions = [Question(key, modality=one) for one in self._options.modalities]
        found = merged([self._search(question) for question in questions])
        if found.cut:
            self._say(f"{self._peer.name}: cuts its answers off; {key} may have more studies")
        return {
            study: (row.first("StudyDate")[:8] or key, row.first("NumberOfStudyRelatedInstances"))
            for study, row in found.studies.items()
        }

    def _search(self, question: Question) -> Search:
        return self._retrying.patiently(lambda: search(self._source, question))

    def _look_elsewhere(self, study: str) -> list[Seen]:
        """What is gone of a study that its day has no more: its date may have been corrected."""
        row = self._row(study)
        if row is None:
            return [seen for seen in self._state.objects_of(study).values() if seen.state != "gone"]
        self._state.place_study(study, row.first("StudyDate")[:8])
        return self._look_at(study, row.first("NumberOfStudyRelatedInstances"))

    def _row(self, study: str) -> Described | None:
        answer = self._retrying.patiently(lambda: self._source.studies(Question(study=study)))
        return next((row for row in answer.rows if row.first("StudyInstanceUID") == study), None)

    def work(self) -> None:
        """Look at the studies that are pending; what fails stays pending."""
        for study in self._state.pending(TRIES):
            self._forget(self._look_at(study), 0)

    def _look_at(self, study: str, counted: str = "") -> list[Seen]:
        """Take what is new or corrected in a study; gives what is gone of it.

        What a listing leaves out is not gone where the peer counts more images than it lists.
        """
        known = self._state.objects_of(study)
        faults: list[PeerError] = []
        try:
            listed = self._retrying.patiently(lambda: list_study(self._source, study, counted))
            here = {instance.instance for instance in listed.instances}
            gone = [one for uid, one in known.items() if uid not in here and one.state != "gone"]
            if gone and not counted and (row := self._row(study)):
                counted = row.first("NumberOfStudyRelatedInstances")
        except (DeniedError, GoneError):
            raise
        except PeerError as error:
            self._failed(study, error)
            return []
        if gone and listed.is_short_of(counted):
            gone, faults = [], [AnswerError(self._source.name, FEWER)]
        for instance in listed.instances:
            try:
                self._look_at_object(instance, known.get(instance.instance))
            except (DeniedError, GoneError):
                raise
            except PeerError as error:  # the other objects do not wait for it
                faults.append(error)
        if listed.instances:
            self._state.place_study(study, listed.instances[0].said.first("StudyDate")[:8])
        if faults:
            self._failed(study, faults[0])
        else:
            self._state.looked_at(study)
        return gone

    def _failed(self, study: str, error: PeerError) -> None:
        self._state.pend([study])
        self._state.fail(study, error.what)
        self.tally.counts["failed"] += 1
        self._say(f"{error}; it is tried again")

    def _look_at_object(self, instance: Instance, known: Seen | None) -> None:
        same = known is not None and known.header == instance.fingerprint
        again = self._state.is_renewed(instance.instance)
        if same and not again and known is not None and known.state in ("entered", "left"):
            return
        left = instance.decide().refused
        if not left:
            path = self._scratch / "object.dcm"
            try:
                taken = self._retrying.patiently(lambda: take(self._source, instance, path))
                left = taken.left or (TOO_LARGE if taken.size > MAX_BYTES else "")
            except TooLargeError:
                left = TOO_LARGE
        entered_before = known is not None and known.state == "entered"
        if not left:
            self._box.put(self._peer.name, path)
            path.unlink()
            self._note(instance, "entered", "", "corrected" if entered_before else "new")
        else:
            if entered_before:  # a correction says that it is none that may enter
                self._put_deletion(instance.instance)
            self._note(instance, "left", left, "left out")

    def _note(self, instance: Instance, state: SeenState, reason: str, counted: str) -> None:
        fingerprint = instance.fingerprint
        self._state.know(Seen(instance.instance, instance.study, state, reason, fingerprint))
        self.tally.counts[counted] += 1

    def _forget(self, gone: list[Seen], known: int) -> None:
        """Pass deletions on; many at once only where this was allowed."""
        entered = [seen for seen in gone if seen.state == "entered"]
        many = len(entered) > max(FEW_GONE, GONE_SHARE * known)
        if many and not self._options.believe:
            self._say(
                f"{self._peer.name}: {len(entered)} images are gone there, too many to be "
                "believed; look there, and run once with --believe-deletions if they are"
            )
            return
        for seen in gone:
            if seen.state == "entered":
                self._put_deletion(seen.instance)
                self.tally.counts["gone"] += 1
            self._state.know(Seen(seen.instance, seen.study, "gone", "", seen.header))

    def _put_deletion(self, instance: str) -> None:
        from cxrtext.pacs.inbox.deletions import deletion  # imports the index, and so torch

        self._box.put(self._peer.name, deletion(instance=instance), "deletion")

    def turn(self) -> None:
        gap = bool(self._state.fact("gap"))
        if self.has_changes:
            gap |= self.read_changes()
        elif not self._options.once:
            self.poll()
        self.work()
        gap &= time.monotonic() - self._compared_at > GAP_PAUSE_S
        if self._options.compare or self._is_due() or gap:
            self._state.try_again()
            self.compare()
            self.work()

    def _is_due(self) -> bool:
        """Whether the hour of comparing passed since it was done last."""
        now = datetime.now().astimezone()
        hour, minute = map(int, self._options.at.split(":"))
        due = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
        if due > now:
            due -= timedelta(days=1)
        done = self._state.fact("compared")
        # A moment in the future was noted by a clock that was wrong.
        return not done or not due <= datetime.fromisoformat(done) <= now


def days_under_way(now: datetime) -> list[date]:
    """Yesterday and today, and tomorrow where it has begun somewhere on earth."""
    today = now.date()
    latest = (now.astimezone(UTC) + timedelta(hours=14)).date()
    count = max(2, (latest - today).days + 2)
    return [today + timedelta(days=day) for day in range(-1, count - 1)]


def follow_peer(
    peer: Peer, folder: Path, options: FollowOptions, say: Say, throttle: Throttle | None = None
) -> Tally:
    """Follow a peer until ``throttle.stopped``, or for one turn, into the inbox in a folder."""
    throttle = throttle or Throttle(peer.limits, say)
    file = folder / f"follow-{peer.name}.sqlite"
    with (
        Inbox(folder) as box,
        only_one(file),
        FollowState(file) as state,
        closing(open_source(peer, throttle)) as source,
        scratch_folder(folder, f"follow-{peer.name}") as scratch,
    ):
        if options.pulled and (count := state.learn_pull(options.pulled / PULL_STATE)):
            say(f"{peer.name}: learned of {count} more objects from {options.pulled}")
        retrying = Retrying(peer, throttle, say, patience_s=options.patience_s)
        follower = Follower(peer, source, box, state, options, scratch, say, retrying)
        _turns(follower, options, say, throttle)
        if options.once and state.waiting():
            raise WorkError(
                f"{peer.name}: {state.waiting()} studies could not be looked at; run it again"
            )
        return follower.tally


def _turns(follower: Follower, options: FollowOptions, say: Say, throttle: Throttle) -> None:
    while True:
        before = sum(follower.tally.counts.values())
        try:
            follower.turn()
        except DeniedError:
            raise
        except WorkError as error:  # a peer that is gone, a full disk
            if options.once or throttle.stopped.is_set():
                raise
            say(f"{error}; trying again in {options.every_s:.0f} s")
        if sum(follower.tally.counts.values()) > before:
            say(f"put into the inbox so far: {follower.tally}")
        if options.once or throttle.stopped.is_set():
            return
        throttle.pause(options.every_s)
        if throttle.stopped.is_set():
            return
