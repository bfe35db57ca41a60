"""Make and send results of a peer's images automatically, by its rule in the gateway's file.

This reads the index that the inbox's worker fills, by the columns ``source`` and ``received``.  The
folder of results notes which images are done, so it may be stopped at any time.
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cxrtext.datasets.admission.ids import Ids
from cxrtext.errors import InputError, WorkError
from cxrtext.index import IndexedImage
from cxrtext.pacs.faults import AnswerError, PeerError
from cxrtext.pacs.identity import CLASSES
from cxrtext.pacs.peers import Peer, ResultsRule
from cxrtext.pacs.results.finding import find
from cxrtext.pacs.results.folder import Kept, ResultsFolder
from cxrtext.pacs.results.making import make_results
from cxrtext.pacs.results.sending import send_results
from cxrtext.records.manifest import RECEIVED, SOURCE
from cxrtext.service import Service

PAGE, OVERLAP = 200, 20
"""Images to look at together, and how many of them to look at again with the next ones."""
EVERY_S, WAIT_S = 2.0, 60.0  # between turns, and if a peer is gone or a disk is full
UNAPPROVED = "its rule waits to be approved: see 'cxrtext gateway results approve'"
REFUSED = 3  # images in a row with refused results before we wait for the peer


@dataclass(slots=True)
class Answered:
    images: int = 0
    made: int = 0
    sent: int = 0
    failed: int = 0
    waits: list[str] = field(default_factory=list)  # why rules send no more for now


class Answerer:
    """Answers images by the rules of peers, each once.

    An image is noted as failed and not tried again if it gives no results, or if a peer refuses its
    results but takes those of other images.
    """

    def __init__(
        self,
        peers: Iterable[Peer],
        folder: ResultsFolder,
        ids: Ids | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._rules = [(peer, peer.results) for peer in peers if peer.results is not None]
        self._folder, self._ids, self._say = folder, ids, say
        self._next = -math.inf
        self._waits: list[str] = []  # already said

    def turn(self, service: Service) -> None:
        """Answer what came since the last turn; after a failure, wait longer."""
        if time.monotonic() < self._next:
            return
        wait = EVERY_S
        try:
            self.answer(service)
        except WorkError as error:
            wait = WAIT_S
            self._say(f"{error}; trying again in {wait:.0f} s")
        self._next = time.monotonic() + wait

    def answer(self, service: Service) -> Answered:
        """Answer everything that came.

        Raises:
            WorkError: A disk is full, or a peer is gone; other peers still get their results first.
                What was made is kept, and the next call sends it.
        """
        done, faults = Answered(), list[PeerError]()
        if {SOURCE, RECEIVED} <= service.archive.catalogue.columns().keys():
            for peer, rule in self._rules:
                peer.require_write()
                one = _Answering(service, peer, rule, self._folder, self._ids, self._say, done)
                try:
                    one.answer()
                except PeerError as error:
                    faults.append(error)
        if faults:
            raise faults[0]
        for line in done.waits:
            if line not in self._waits:
                self._say(line)
        self._waits = done.waits
        if done.images:
            self._say(
                f"images answered: {done.images}; results made: {done.made}, "
                f"sent: {done.sent}; images without results: {done.failed}"
            )
        return done


@dataclass
class _Answering:
    """One run of a peer's rule."""

    service: Service
    peer: Peer
    results: ResultsRule
    folder: ResultsFolder
    ids: Ids | None
    say: Callable[[str], None]
    done: Answered

    def answer(self) -> None:
        rule = rule_name(self.peer, self.service)
        if not self.folder.is_approved(rule):
            self.done.waits.append(f"{self.peer.name}: {UNAPPROVED}")
            return
        refused: list[tuple[IndexedImage, AnswerError]] = []
        for image in self._new(rule):
            if self._is_full():
                break
            try:
                sent = self._answer(rule, image)
            except AnswerError as error:
                # The fault may be the image's or the peer's: other images will tell.
                refused.append((image, error))
                if len(refused) == REFUSED:
                    break
                continue
            for other, why in refused if sent else ():
                self._note(rule, other, f"{why.what}; 'gateway results send' tries again")
            refused = [] if sent else refused
        if refused:
            raise refused[0][1]

    def _is_full(self) -> bool:
        """Whether the results of another image might exceed the rule's daily limit."""
        most, each = self.results.daily, len(CLASSES) * len(self.results.sentences)
        sent = self.folder.sent_since(self.peer.name, datetime.now(UTC) - timedelta(days=1))
        if sent == 0 or sent + each <= most:
            return False
        self.done.waits.append(
            f"{self.peer.name}: {sent} results were sent in 24 hours; 'daily' of its rule allows "
            f"{most}, so the rest waits"
        )
        return True

    def _answer(self, rule: str, image: IndexedImage) -> bool:
        """Make and send the results of an image; whether there were any."""
        try:
            with suppress(OSError):  # reading the file will say why
                image.require_whole()
            made = self._made(Path(image.path))
        except InputError as error:
            require_mounted(Path(image.path))
            # Keep only the file's name, which identifies nobody.
            self._note(rule, image, str(error).rpartition("/")[2])
            return False
        if made:
            self.done.sent += send_results(self.folder, made, self.peer).sent
        self._note(rule, image)
        return bool(made)

    def _note(self, rule: str, image: IndexedImage, fault: str = "") -> None:
        if fault:
            self.say(f"{self.peer.name}: no results of an image: {fault}")
            self.done.failed += 1
        self.folder.note_answered(rule, image.image, image.metadata[RECEIVED], fault)
        self.done.images += 1

    def _made(self, path: Path) -> list[Kept]:
        made = list[Kept]()
        for sentence in self.results.sentences:
            one = make_results(
                self.service, path, sentence, self.folder, above=self.results.above, ids=self.ids
            )
            made += one.results
            self.done.made += one.new
        return made

    def _new(self, rule: str) -> Iterator[IndexedImage]:
        """The peer's images that the rule has not done yet, in the order of indexing.

        It looks from the end of the index backwards until a page has none, as an image may enter
        the index long after it was received.
        """
        where = f"{SOURCE} = '{self.peer.name}' and not {RECEIVED} is null"
        _, end = self.service.archive.page(0, 1, where)
        by_number: dict[int, IndexedImage] = {}
        while end > 0:
            begin = max(0, end - PAGE)
            images, _ = self.service.archive.page(begin, end - begin, where)
            keys = {(one.image, one.metadata[RECEIVED]): one for one in images}
            new = keys.keys() - self.folder.answered(rule, keys)
            by_number |= {keys[key].number: keys[key] for key in new}
            if not new:
                break
            end = begin and begin + OVERLAP
        for number in sorted(by_number):
            yield by_number[number]


@dataclass(frozen=True, slots=True)
class Preview:
    """What a rule would have made from the latest images."""

    images: int
    results: Mapping[str, int]  # by sentence, the images that would get a result


def preview(service: Service, peer: Peer, most: int) -> Preview:
    """Show what a rule would make from its peer's latest images; nothing is kept or sent."""
    assert peer.results is not None  # noqa: S101 - the caller has checked
    counts = dict.fromkeys(peer.results.sentences, 0)
    if not {SOURCE, RECEIVED} <= service.archive.catalogue.columns().keys():
        return Preview(0, counts)
    where = f"{SOURCE} = '{peer.name}' and not {RECEIVED} is null"
    _, end = service.archive.page(0, 1, where)
    images, _ = service.archive.page(max(0, end - most), most, where)
    for image in images:
        embedded = service.embedded(image.image)
        for sentence in counts:
            probability = find(service, embedded, sentence).probability
            counts[sentence] += peer.results.above == 0 or (probability or 0) >= peer.results.above
    return Preview(len(images), counts)


def require_mounted(path: Path) -> None:
    """Raise WorkError if a folder is empty or missing, as when a disk is not mounted."""
    folder = path.parent
    if not path.exists() and not (folder.is_dir() and any(folder.iterdir())):
        raise WorkError(f"{folder}: the images of the index are not there; is it mounted?")


def rule_name(peer: Peer, service: Service) -> str:
    """A name for a peer's rule and a model; a new name answers every image again."""
    rule = peer.results
    assert rule is not None  # noqa: S101 - asked for before
    content = repr((peer.name, rule.sentences, rule.above, service.model.fingerprint))
    return hashlib.sha256(content.encode()).hexdigest()[:32]
