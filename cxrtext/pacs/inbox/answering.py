"""Results of what a peer sent, made and sent back to it where its entry in peers.yaml asks for it.

An image is due from the moment that the index has it until all of its results were sent, whatever
is killed: results are made and sent once under the same UIDs.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from cxrtext.errors import CxrTextError, ImageError
from cxrtext.pacs.inbox.inbox import Inbox
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.results.folder import Kept, ResultsFolder
from cxrtext.pacs.results.making import make_results
from cxrtext.pacs.results.sending import send_results
from cxrtext.service import Service

WAIT_S = (60.0, 3600.0)
"""After how long it is tried again, at first and at most."""


class Answers:
    """Makes and sends the results that are due, one image at a time.

    Args:
        folder: Where results are kept.
        peers: By name, those whose rules ask for results.
        say: Takes a line for the log.
    """

    def __init__(
        self, inbox: Inbox, folder: Path, peers: Mapping[str, Peer], say: Callable[[str], None]
    ) -> None:
        self._inbox, self._peers, self._say = inbox, peers, say
        self._folder = ResultsFolder(folder)

    def send_next(self, service: Service) -> bool:
        """Make and send what is due of one image; False where nothing is due now."""
        with self._inbox.database.reading() as database:
            row = database.execute(
                "SELECT image, source, tries FROM due WHERE after <= ? ORDER BY after LIMIT 1",
                (time.time(),),
            ).fetchone()
        if row is None:
            return False
        image, source, tries = row
        again = min(WAIT_S[0] * 2.0**tries, WAIT_S[1])
        try:
            self._send(service, image, source)
        except ImageError as error:
            self._say(f"{source}: no result of an image can be made: {error}")
        except CxrTextError as error:
            self._say(f"{source}: results were not sent, again in {again:.0f} s: {error}")
            with self._inbox.database.transaction() as database:
                database.execute(
                    "UPDATE due SET tries = tries + 1, after = ? WHERE image = ?",
                    (time.time() + again, image),
                )
            return True
        with self._inbox.database.transaction() as database:
            database.execute("DELETE FROM due WHERE image = ?", (image,))
        return True

    def _send(self, service: Service, image: str, source: str) -> None:
        peer = self._peers.get(source)
        found = service.index.catalogue.image(image)
        if peer is None or peer.results is None or found is None:
            return  # the rule, or the image, is gone
        rule = peer.results
        made: list[Kept] = []
        for sentence in rule.sentences:
            results = make_results(
                service, Path(found.path), sentence, self._folder, kinds=rule.kinds,
                above=rule.above,
            )  # fmt: skip
            made += results.results
        if made:
            send_results(self._folder, made, peer)
