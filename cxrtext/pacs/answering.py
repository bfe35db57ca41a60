"""Results made and sent by themselves: of what came from a peer, by its rule in ``peers.yaml``.

Looks at the index, which the worker of the inbox fills, by the columns ``source`` and ``received``;
what was dealt with is noted in the folder of results, so that it may be stopped at any time.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cxrtext.datasets.admission.ids import Ids
from cxrtext.errors import InputError
from cxrtext.index import IndexedImage
from cxrtext.pacs.inbox.intake import RECEIVED, SOURCE
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.results.folder import Kept, ResultsFolder
from cxrtext.pacs.results.making import make_results
from cxrtext.pacs.results.sending import send_results
from cxrtext.pausing import finish
from cxrtext.service import Service

PAGE = 200


@dataclass(slots=True)
class Answered:
    """What came of a pass."""

    images: int = 0
    made: int = 0
    sent: int = 0
    failed: int = 0


def answer(
    service: Service,
    peers: Iterable[Peer],
    folder: ResultsFolder,
    *,
    ids: Ids | None = None,
    say: Callable[[str], None] = lambda _: None,
    environment: Mapping[str, str] = os.environ,
) -> Answered:
    """Make and send the results of the images that came from peers with a rule, each once.

    An image that gives no results is noted as failed, and not tried again.

    Raises:
        PeerError: A peer cannot be reached, or does not take a result; what was made is kept, and
            sent by the next call.
        ConfigError: A peer is not opened for writing, or has no password.
        DiskError: The folder cannot be written.
    """
    done = Answered()
    if not {SOURCE, RECEIVED} <= {column.name for column in service.columns()}:
        return done  # nothing was received yet
    for peer in peers:
        if peer.results is None:
            continue
        peer.require_write()
        rule = _name(peer, service)
        for image in _new(service, peer, folder.answered_until(rule)):
            if folder.is_answered(rule, image.image, image.metadata[RECEIVED]):
                continue
            made: list[Kept] = []
            fault = ""
            try:
                made = _make(service, image, peer, folder, ids, done)
            except InputError as error:
                # The message names the file; what it is called says nothing of anybody.
                fault = str(error).rpartition("/")[2]
                say(f"{peer.name}: no results of an image: {fault}")
                done.failed += 1
            done.sent += send_results(folder, made, peer, environment).sent if made else 0
            folder.note_answered(rule, image.image, image.metadata[RECEIVED], fault)
            done.images += 1
    return done


def _make(
    service: Service,
    image: IndexedImage,
    peer: Peer,
    folder: ResultsFolder,
    ids: Ids | None,
    done: Answered,
) -> list[Kept]:
    assert peer.results is not None  # noqa: S101 - asked for before
    rule, made = peer.results, list[Kept]()
    for sentence in rule.sentences:
        found = make_results(
            service, Path(image.path), sentence, folder,
            kinds=rule.kinds, above=rule.above, ids=ids,
        )  # fmt: skip
        made += found.results
        done.made += found.new
    return made


def _name(peer: Peer, service: Service) -> str:
    """A rule of a peer and a model, as a name: another one answers every image again."""
    said = (peer.name, peer.results, service.model.fingerprint)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:32]


def _new(service: Service, peer: Peer, since: str) -> Iterator[IndexedImage]:
    """The images that came from a peer since a time, that time included, the first one first."""
    where = f"{SOURCE} = '{peer.name}' and {RECEIVED} >= '{since}'"
    images: list[IndexedImage] = []
    while True:
        found, total = finish(service.archive.page(len(images), PAGE, where))
        images += found
        if not found or len(images) >= total:
            break
    yield from sorted(images, key=lambda image: (image.metadata[RECEIVED], image.number))
