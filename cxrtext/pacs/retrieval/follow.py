"""Following a PACS from a day on: all that it has of these days, and what changes there.

The first turn asks for all days (QIDO).  New studies then come by Orthanc's list of changes, or by
looking at today.  The list alone is not enough: a deletion makes no entry in it and takes earlier
ones away, a correction under the same UID may make none, and it can be emptied.  So each night all
days are asked for again, and the studies of the last days are compared image by image, of earlier
ones a share, so that each has its turn.  That also works with a PACS that has no such list.

An object is put into the inbox before it is noted here: after a kill one may be put twice, which
the inbox's worker sees, and none is lost.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path

from cxrtext.errors import WorkError
from cxrtext.files import only_one, scratch_folder
from cxrtext.images.dicom.described import Described
from cxrtext.pacs.dicomweb.client import DicomWeb
from cxrtext.pacs.faults import AnswerError, DeniedError, GoneError, PeerError, TooLargeError
from cxrtext.pacs.inbox.queue import MAX_BYTES, Inbox
from cxrtext.pacs.peers import Follow, Peer
from cxrtext.pacs.query import Instance, Question, day_of
from cxrtext.pacs.retrieval import search as searching
from cxrtext.pacs.retrieval.changes import ChangeList
from cxrtext.pacs.retrieval.follow_state import FollowState, Seen
from cxrtext.pacs.retrieval.objects import FEWER, TOO_LARGE, list_study, take
from cxrtext.pacs.throttle import Retrying, Throttle

TRIES = 3
GAP_PAUSE_S = 3600.0
"""How often the days are compared because of gaps in the list of changes, at most."""

FEW_GONE, GONE_SHARE = 20, 0.1
"""More deletions at once than these wait for somebody to accept them."""

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


@dataclass(frozen=True, slots=True)
class _Asked:
    """A study that is to be looked at, and what is known of it."""

    study: str
    counted: str  # how many objects the peer counts in it
    known: dict[str, Seen]
    renewed: Mapping[str, Sequence[str]]


@dataclass(slots=True)
class _Looked:
    day: str = ""
    seen: list[tuple[Seen, str]] = field(default_factory=list)  # and how each counts
    gone: list[Seen] = field(default_factory=list)
    is_short: bool = False  # the peer counts more than it lists
    fault: PeerError | None = None


class Follower:
    """Follows one peer: it notes on one thread, and asks on those that the peer allows."""

    def __init__(
        self,
        peer: Peer,
        source: DicomWeb,
        box: Inbox,
        state: FollowState,
        scratch: Path,
        say: Say,
        retrying: Retrying,
    ) -> None:
        self._peer, self._source, self._box, self._state = peer, source, box, state
        self._scratch, self._say, self._retrying = scratch, say, retrying
        self._options = peer.follow or Follow()
        self._list: ChangeList | None = None
        if peer.dicomweb.orthanc:
            self._list = ChangeList(source, retrying, state)
        self.tally = Tally()
        self._compared_at = -math.inf
        self._cut: set[tuple[str, str]] = set()  # days of which that was said
        if not state.fact("first"):
            state.note("first", date.today().isoformat())
        self._first = self._options.first or date.fromisoformat(state.fact("first"))

    # --- the days ---

    def _spans(self) -> Iterator[tuple[str, str]]:
        """First and last day of each year that is followed; then none, of undated studies."""
        last = date.today() + timedelta(days=1)
        for year in range(self._first.year, last.year + 1):
            begin, end = max(self._first, date(year, 1, 1)), min(last, date(year, 12, 31))
            yield f"{begin:%Y%m%d}", f"{end:%Y%m%d}"
        yield UNDATED

    def poll(self) -> None:
        """Note the studies of yesterday to tomorrow that are new or have grown."""
        today, day = date.today(), timedelta(days=1)
        self._note_new(self._studies(f"{today - day:%Y%m%d}", f"{today + day:%Y%m%d}"))

    def _note_new(self, found: dict[str, tuple[str, str]]) -> None:
        with self._state.together():
            for study, (when, objects) in found.items():
                if self._state.know_study(study, when, objects):
                    self._state.pend([study])

    def compare(self) -> None:
        """Ask for all days again: what is new, corrected, and gone."""
        begun = time.time()
        missing: list[str] = []
        for begin, end in self._spans():
            found = self._studies(begin, end)
            self._note_new(found)
            if found:
                self._say(f"{self._peer.name}: {len(found)} studies {_named(begin, end)}")
            missing += sorted(self._state.here(begin, end) - found.keys())
        recent = f"{date.today() - timedelta(days=self._options.days):%Y%m%d}"
        closely = [
            *sorted(self._state.here(recent, "9")),
            *self._state.looked_longest_ago(recent, 1 / self._options.days),
        ]
        known = sum(self._state.counts().values())
        gone = [seen for study in missing for seen in self._look_elsewhere(study)]
        looked = [one for one in dict.fromkeys(closely) if one not in set(missing)]
        self._forget(gone + self._look_at(looked), known)
        self._state.note("gap", "")
        self._state.note("from", self._first.isoformat())
        self._state.note("compared", datetime.fromtimestamp(begun).astimezone().isoformat())
        self._compared_at = time.monotonic()
        self._say(f"{self._peer.name}: compared {len(looked)} studies closely: {self.tally}")

    def _studies(self, begin: str, end: str) -> dict[str, tuple[str, str]]:
        """The studies of some days: the day and the number of objects of each."""
        span = "" if (begin, end) == UNDATED else f"{begin}-{end}"
        questions = [Question(span, modality=one) for one in self._options.modalities]
        found = searching.merged(
            [answer for _, answer in self._retrying.each(questions, self._search)]
        )
        if found.cut and (begin, end) not in self._cut:
            self._cut.add((begin, end))
            self._say(
                f"{self._peer.name}: cuts its answers off; it may have more studies "
                f"{_named(begin, end)}"
            )
        return {
            study: (day_of(row), row.first("NumberOfStudyRelatedInstances"))
            for study, row in found.studies.items()
            if span or not day_of(row)
        }

    def _search(self, question: Question) -> searching.Search:
        return self._retrying.patiently(lambda: searching.search(self._source, question))

    def _look_elsewhere(self, study: str) -> list[Seen]:
        """What is gone of a study that its day has no more: its date may have been corrected."""
        row = self._row(study)
        if row is None:
            return [seen for seen in self._state.objects_of(study).values() if seen.state != "gone"]
        self._state.place_study(study, day_of(row))
        return self._look_at([study])

    def _row(self, study: str) -> Described | None:
        answer = self._retrying.patiently(lambda: self._source.studies(Question(study=study)))
        return next((row for row in answer.rows if row.first("StudyInstanceUID") == study), None)

    # --- the studies ---

    def work(self, *, times: int = 1) -> None:
        """Look at the studies that are pending; what fails stays pending."""
        for _ in range(times):
            if studies := self._state.pending(TRIES):
                self._forget(self._look_at(studies), sum(self._state.counts().values()))

    def _look_at(self, studies: Sequence[str]) -> list[Seen]:
        """Take what is new or corrected in studies; gives what is gone of them."""
        gone: list[Seen] = []
        asked = (
            _Asked(s, self._state.counted(s), self._state.objects_of(s), self._state.renewed(s))
            for s in studies
        )
        for number, (one, found) in enumerate(self._retrying.each(asked, self._look), 1):
            for seen, counted in found.seen:
                self._state.know(seen)
                self.tally.counts[counted] += 1
            self._state.place_study(one.study, found.day)
            if found.fault is not None:
                self._state.fail(one.study, found.fault.what)
                self.tally.counts["failed"] += 1
                self._say(f"{found.fault}; it is tried again")
            elif not found.is_short or self._state.fail(one.study, FEWER) >= TRIES:
                self._state.looked_at(one.study, time.time())  # it may hide some from us for ever
            gone += found.gone
            if number % SAY_EVERY == 0:
                self._say(f"{self._peer.name}: {number} of {len(studies)} studies: {self.tally}")
        return gone

    def _look(self, asked: _Asked) -> _Looked:
        """Look at a study, on any thread.

        What a listing leaves out is not gone where the peer counts more images than it lists.
        """
        looked, study = _Looked(), asked.study
        try:
            counted = asked.counted
            listed = self._retrying.patiently(lambda: list_study(self._source, study))
            here = {instance.instance for instance in listed.instances}
            missing = [s for uid, s in asked.known.items() if uid not in here and s.state != "gone"]
            row = self._row(study) if missing else None
            counted = row.first("NumberOfStudyRelatedInstances") if row else counted
            looked.is_short = listed.is_short_of(counted)
            if missing and looked.is_short:
                looked.fault = AnswerError(self._source.name, FEWER)
            else:
                looked.gone = missing
        except (DeniedError, GoneError):
            raise
        except PeerError as error:
            looked.fault = error
            return looked
        for instance in listed.instances:
            try:
                looked.seen += self._look_at_object(instance, asked)
            except (DeniedError, GoneError):
                raise
            except PeerError as error:  # the other objects do not wait for it
                looked.fault = looked.fault or error
        looked.day = listed.instances[0].day if listed.instances else ""
        return looked

    def _look_at_object(self, instance: Instance, asked: _Asked) -> list[tuple[Seen, str]]:
        known = asked.known.get(instance.instance)
        same = known is not None and known.header == instance.fingerprint
        copies = asked.renewed.get(instance.instance, ())
        if same and not copies and known is not None and known.state in ("entered", "left"):
            return []
        left = instance.decide().refused or self._take(instance, copies)
        entered_before = known is not None and known.state == "entered"
        state, counted = "left", "left out"
        if not left:
            state, counted = "entered", "corrected" if entered_before else "new"
        elif entered_before:  # a correction says that it is none that may enter
            self._put_deletion(instance.instance)
        seen = Seen(instance.instance, instance.study, state, left, instance.fingerprint)  # type: ignore[arg-type]
        return [(seen, counted)]

    def _take(self, instance: Instance, copies: Sequence[str]) -> str:
        """Fetch an object into the inbox; gives why it may not enter, or "".

        Of several copies under one UID each is fetched by its number: the inbox holds what is of
        another patient.
        """
        path = self._scratch / f"{instance.fingerprint}.dcm"
        reasons: list[str] = []
        for number in [*copies, ""]:
            if not number and reasons:
                break
            try:
                left = self._retrying.patiently(partial(take, self._source, instance, path, number))
                left = left or (TOO_LARGE if path.stat().st_size > MAX_BYTES else "")
            except TooLargeError:
                left = TOO_LARGE
            except AnswerError:
                if not number:
                    raise
                continue  # that copy is gone again
            if not left:
                self._box.put(self._peer.name, path)
                path.unlink()
            reasons.append(left)
        return "" if "" in reasons else reasons[0]

    def _forget(self, gone: list[Seen], known: int) -> None:
        """Pass deletions on; many at once are held in the inbox until somebody accepts them."""
        entered = [seen for seen in gone if seen.state == "entered"]
        held = TOO_MANY if len(entered) > max(FEW_GONE, GONE_SHARE * known) else ""
        if held:
            self._say(
                f"{self._peer.name}: {len(entered)} images are gone there, too many to be "
                "believed: their deletions are held (cxrtext gateway held)"
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
        """Look once at all that may be new, and at what is gone where that is due."""
        gap = bool(self._state.fact("gap"))
        if self._list is not None:
            gap |= self._list.read(self._say)
        gap &= time.monotonic() - self._compared_at > GAP_PAUSE_S
        if self._is_due() or gap:
            self._state.try_again()
            self.compare()
        elif self._list is None:
            self.poll()
        self.work(times=TRIES if once else 1)

    def _is_due(self) -> bool:
        """Whether the hour of comparing passed since it was done last, or the first day changed."""
        if self._state.fact("from") != self._first.isoformat():
            return True
        now = datetime.now().astimezone()
        hour, minute = map(int, self._options.at.split(":"))
        due = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
        if due > now:
            due -= timedelta(days=1)
        done = self._state.fact("compared")
        # A moment in the future was noted by a clock that was wrong.
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
        closing(DicomWeb(peer, throttle=throttle)) as source,
        scratch_folder(box.folder, f"follow-{peer.name}") as scratch,
        Retrying(peer, throttle) as retrying,
    ):
        follower = Follower(peer, source, box, state, scratch, say, retrying)
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
        if once and state.waiting():
            raise WorkError(
                f"{peer.name}: {state.waiting()} studies could not be looked at; run it again"
            )
        return follower.tally
