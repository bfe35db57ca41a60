"""Follow a PACS from a given day: all that it has since then, and every change.

The first turn asks for all days (QIDO).  Then Orthanc's list of changes, or a look at today, brings
new studies.  The list is not enough: a deletion adds no entry and removes earlier ones, a
correction under the same UID may add none, and the list can be emptied.  So each night all days are
asked for again.  The studies of the last days are compared image by image, and a share of the
earlier ones, so that each has its turn.  This also works with a PACS that has no such list.

An object is put into the inbox before it is noted here: after a kill one may be put twice, which
the inbox's worker notices, and none is lost.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from cxrtext.errors import WorkError
from cxrtext.files import only_one
from cxrtext.images.dicom.described import Described
from cxrtext.pacs.dicomweb import DicomWeb
from cxrtext.pacs.faults import AnswerError, DeniedError, GoneError, PeerError, TooLargeError
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.peers import Follow, Peer
from cxrtext.pacs.query import Instance, Question, day_of
from cxrtext.pacs.retrieval.changes import read_changes
from cxrtext.pacs.retrieval.follow_state import FollowState, Seen, SeenState
from cxrtext.pacs.retrieval.objects import FEWER, TOO_LARGE, list_study, why_left_out
from cxrtext.pacs.retrieval.search import search
from cxrtext.pacs.throttle import Throttle

TRIES = 3
ANY = 1_000_000  # tries
GAP_PAUSE_S = 3600.0
"""The shortest time between comparisons of the days because of gaps in the list of changes."""

FEW_GONE, GONE_SHARE = 20, 0.1
"""More deletions at once than both of these wait for somebody to accept them."""

TOO_MANY = "one of many deletions at once; look at the PACS, then accept or drop them"
UNDATED = ("", "")
SAY_EVERY = 200  # studies

Say = Callable[[str], None]


@dataclass
class Tally:
    """What was put into the inbox, and what was not."""

    counts: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        words = ("new", "corrected", "gone", "left out", "failed")
        return ", ".join(f"{self.counts[word]} {word}" for word in words)


class Follower:
    """Follows one peer, on as many threads as the peer allows."""

    def __init__(
        self, peer: Peer, source: DicomWeb, box: Inbox, state: FollowState, say: Say
    ) -> None:
        self._peer, self._source, self._box, self._state = peer, source, box, state
        self._say = say
        self._options = peer.follow or Follow()
        self.tally = Tally()
        self._compared_at = -math.inf
        self._cut: set[tuple[str, str]] = set()  # days whose answers were reported as cut off
        if not state.fact("first"):
            state.note("first", date.today().isoformat())
        self._has_list = peer.dicomweb.orthanc is not None
        self._first = self._options.first or date.fromisoformat(state.fact("first"))

    # --- the days ---

    def _spans(self) -> Iterator[tuple[str, str]]:
        """First and last day of each year to follow; then UNDATED, for studies without a date."""
        last = date.today() + timedelta(days=1)
        for year in range(self._first.year, last.year + 1):
            begin, end = max(self._first, date(year, 1, 1)), min(last, date(year, 12, 31))
            yield f"{begin:%Y%m%d}", f"{end:%Y%m%d}"
        yield UNDATED

    def poll(self) -> None:
        """Note the studies of yesterday to tomorrow that are new or have grown."""
        today, day = date.today(), timedelta(days=1)
        self._note_new(self._studies(f"{today - day:%Y%m%d}", f"{today + day:%Y%m%d}"))

    def _note_new(self, studies: dict[str, tuple[str, str]]) -> None:
        with self._state.together():
            for study, (when, objects) in studies.items():
                if self._state.know_study(study, when, objects):
                    self._state.pend([study])

    def compare(self) -> None:
        """Ask for all days again: what is new, corrected or gone."""
        begun = time.time()
        missing: list[str] = []
        for begin, end in self._spans():
            studies = self._studies(begin, end)
            self._note_new(studies)
            if studies:
                self._say(f"{self._peer.name}: {len(studies)} studies {_named(begin, end)}")
            missing += sorted(self._state.here(begin, end) - studies.keys())
        # What came since the list was read is named by it and by these answers, and comes once.
        gap = self._has_list and read_changes(self._source, self._state, self._say)
        recent = f"{date.today() - timedelta(days=self._options.days):%Y%m%d}"
        closely = [
            *sorted(self._state.here(recent, "9")),
            *self._state.looked_longest_ago(recent, 1 / self._options.days),
        ]
        known = sum(self._state.counts().values())
        gone = [seen for study in missing for seen in self._look_elsewhere(study)]
        looked = [one for one in dict.fromkeys(closely) if one not in set(missing)]
        self._forget(gone + self._look_at(looked), known)
        self._state.note("gap", "1" if gap else "")
        self._state.note("from", self._first.isoformat())
        self._state.note("compared", datetime.fromtimestamp(begun).astimezone().isoformat())
        self._compared_at = time.monotonic()
        self._say(f"{self._peer.name}: compared {len(looked)} studies closely: {self.tally}")

    def _studies(self, begin: str, end: str) -> dict[str, tuple[str, str]]:
        """The studies of some days: the day and the number of objects of each."""
        span = "" if (begin, end) == UNDATED else f"{begin}-{end}"
        studies: dict[str, Described] = {}
        for modality in self._options.modalities:
            part, complete = search(self._source, Question(span, modality=modality))
            studies |= part
            if not complete and (begin, end) not in self._cut:
                self._cut.add((begin, end))
                self._say(
                    f"{self._peer.name}: cuts its answers off; it may have more studies "
                    f"{_named(begin, end)}"
                )
        return {
            study: (day_of(row), row.first("NumberOfStudyRelatedInstances"))
            for study, row in studies.items()
            if span or not day_of(row)
        }

    def _look_elsewhere(self, study: str) -> list[Seen]:
        """What is gone from a study missing on its day; its date may have been corrected."""
        row = self._row(study)
        if row is None:
            return [seen for seen in self._state.objects_of(study).values() if seen.state != "gone"]
        self._state.place_study(study, day_of(row))
        return self._look_at([study])

    def _row(self, study: str) -> Described | None:
        return self._source.studies(Question(study=study))[0].get(study)

    # --- the studies ---

    def work(self, *, times: int = 1) -> None:
        """Look at the pending studies; what fails stays pending."""
        for _ in range(times):
            if studies := self._state.pending(TRIES):
                self._forget(self._look_at(studies), sum(self._state.counts().values()))

    def _look_at(self, studies: Sequence[str]) -> list[Seen]:
        """Take what is new or corrected in studies; gives what is gone from them."""
        gone: list[Seen] = []
        with _threads(self._peer, self._source.throttle) as pool:
            for number, (lost, counts) in enumerate(pool.map(self._look, studies), 1):
                gone += lost
                self.tally.counts += counts
                if number % SAY_EVERY == 0:
                    self._say(
                        f"{self._peer.name}: {number} of {len(studies)} studies: {self.tally}"
                    )
        return gone

    def _look(self, study: str) -> tuple[list[Seen], Counter[str]]:
        """Take what is new or corrected in a study, on any thread; gives what is gone.

        If the peer counts more images than it lists, what the list leaves out is not gone.
        """
        gone, counts = list[Seen](), Counter[str]()
        fault: PeerError | None = None
        day, is_short, known = "", False, self._state.objects_of(study)
        try:
            counted, renewed = self._state.counted(study), self._state.renewed(study)
            listed = list_study(self._source, study)
            here = {instance.instance for instance in listed.instances}
            missing = [s for uid, s in known.items() if uid not in here and s.state != "gone"]
            row = self._row(study) if missing else None
            counted = row.first("NumberOfStudyRelatedInstances") if row else counted
            is_short = listed.is_short_of(counted)
            if missing and is_short:
                fault = AnswerError(self._source.name, FEWER)
            else:
                gone = missing
            for instance in listed.instances:
                day = day or instance.day
                copies = renewed.get(instance.instance, ())
                try:
                    counted = self._look_at_object(instance, known.get(instance.instance), copies)
                    counts[counted] += bool(counted)
                except (DeniedError, GoneError):
                    raise
                except PeerError as error:  # go on with the other objects
                    fault = fault or error
        except (DeniedError, GoneError):
            raise
        except PeerError as error:
            fault = error
        self._state.place_study(study, day)
        if fault is not None:
            self._state.fail(study, fault.what)
            counts["failed"] += 1
            self._say(f"{fault}; it is tried again")
        elif not is_short or self._state.fail(study, FEWER) >= TRIES:
            self._state.looked_at(study, time.time())  # the peer may hide some images forever
        return gone, counts

    def _look_at_object(self, instance: Instance, known: Seen | None, copies: Sequence[str]) -> str:
        """Take an object if it is new or corrected; gives its word for the tally, or ""."""
        same = known is not None and known.header == instance.fingerprint
        if same and not copies and known is not None and known.state in ("entered", "left"):
            return ""
        left = instance.decide().refused or self._take(instance, copies)
        entered_before = known is not None and known.state == "entered"
        if left and entered_before:  # by its correction it may not enter any more
            self._put_deletion(instance.instance)
        state: SeenState = "left" if left else "entered"
        self._state.know(Seen(instance.instance, instance.study, state, left, instance.fingerprint))
        return "left out" if left else "corrected" if entered_before else "new"

    def _take(self, instance: Instance, copies: Sequence[str]) -> str:
        """Fetch an object into the inbox; gives why it may not enter, or "".

        Several copies under one UID are each fetched by their number: the inbox holds a copy that
        names another patient.
        """
        reasons: list[str] = []
        for number in [*copies, ""]:
            if not number and reasons:
                break
            try:
                data = self._source.fetch(instance, number)
                left = why_left_out(self._peer.name, instance, data)
            except TooLargeError:
                left = TOO_LARGE
            except AnswerError:
                if not number:
                    raise
                continue  # that copy is gone again
            if not left:
                self._box.put(self._peer.name, data)
            reasons.append(left)
        return "" if "" in reasons else reasons[0]

    def _forget(self, gone: list[Seen], known: int) -> None:
        """Pass deletions on; many at once are held in the inbox until somebody accepts them."""
        entered = [seen for seen in gone if seen.state == "entered"]
        held = TOO_MANY if len(entered) > max(FEW_GONE, GONE_SHARE * known) else ""
        if held:
            self._say(
                f"{self._peer.name}: {len(entered)} images are gone there, suspiciously many: "
                "their deletions are held"
            )
        for seen in gone:
            if seen.state == "entered":
                self._put_deletion(seen.instance, held)
                self.tally.counts["gone"] += 1
            self._state.know(Seen(seen.instance, seen.study, "gone", "", seen.header))

    def _put_deletion(self, instance: str, held: str = "") -> None:
        from cxrtext.pacs.inbox.deletions import deletion  # imports the index, and so torch

        self._box.put(self._peer.name, deletion(instance), "deletion", held=held)

    def turn(self, *, once: bool = False) -> None:
        """Look once for what is new, and if a comparison is due, for what is gone."""
        gap = bool(self._state.fact("gap"))
        if self._has_list:
            gap |= read_changes(self._source, self._state, self._say)
        gap &= time.monotonic() - self._compared_at > GAP_PAUSE_S
        if self._is_due() or gap:
            self._state.try_again()
            self.compare()
        elif not self._has_list:
            self.poll()
        self.work(times=TRIES if once else 1)

    def _is_due(self) -> bool:
        """Whether the hour to compare has passed since the last time, or the first day changed."""
        if self._state.fact("from") != self._first.isoformat():
            return True
        now = datetime.now().astimezone()
        hour, minute = map(int, self._options.at.split(":"))
        due = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
        if due > now:
            due -= timedelta(days=1)
        done = self._state.fact("compared")
        # A time in the future means that the clock was wrong.
        return not done or not due <= datetime.fromisoformat(done) <= now


def _named(begin: str, end: str) -> str:
    return f"from {begin} to {end}" if begin else "without a date"


def follow_peer(
    peer: Peer,
    box: Inbox,
    say: Say,
    throttle: Throttle | None = None,
    *,
    once: bool = False,
) -> Tally:
    """Follow a peer into an inbox until ``throttle.stopped``, or for one turn."""
    throttle = throttle or Throttle(peer.limits)
    file = box.folder / f"follow-{peer.name}.sqlite"
    with (
        only_one(file),
        FollowState(file) as state,
        closing(DicomWeb(peer, throttle)) as source,
    ):
        follower = Follower(peer, source, box, state, say)
        every_s = (peer.follow or Follow()).every_s
        state.try_again()
        while True:
            before = sum(follower.tally.counts.values())
            try:
                follower.turn(once=once)
            except DeniedError:
                raise
            except WorkError as error:  # a peer that is gone, a full disk
                if throttle.stopped.is_set():
                    break
                if once:
                    raise
                say(f"{error}; trying again in {every_s:.0f} s")
            if sum(follower.tally.counts.values()) > before:
                say(f"{peer.name}: put into the inbox so far: {follower.tally}")
            if once or throttle.stopped.wait(every_s):
                break
        if once and (waiting := len(state.pending(ANY))):
            raise WorkError(f"{peer.name}: {waiting} studies could not be looked at; run it again")
        return follower.tally


@contextmanager
def _threads(peer: Peer, throttle: Throttle) -> Iterator[Executor]:
    """The threads that a peer allows; after an error, running work is finished first."""
    with ThreadPoolExecutor(peer.limits.parallel) as pool:
        try:
            yield pool
        except KeyboardInterrupt:
            throttle.stopped.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
