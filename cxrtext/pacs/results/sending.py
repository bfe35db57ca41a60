"""Send results to a peer by STOW-RS.

What the peer has already is not sent again, whoever sent it.  We note that sending begins before
the first byte, so that taking results back reaches every peer that may have them.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from cxrtext.errors import DataError
from cxrtext.pacs.dicomweb import DicomWeb
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.results.folder import Kept, ResultsFolder


@dataclass(frozen=True, slots=True)
class Delivery:
    sent: int
    there: int  # the peer had these already


def send_results(folder: ResultsFolder, results: Sequence[Kept], peer: Peer) -> Delivery:
    """Send results to a peer, noting each in the folder; a call after an error continues there.

    Results that were taken back, even meanwhile, are not sent.
    """
    peer.require_write()
    known = folder.sent_to(peer.name)
    new = [one for one in dict.fromkeys(results) if one.instance not in known]
    for one in new:
        if not folder.is_whole(one):
            raise DataError(f"{folder.path / one.file}: is gone or changed; make it again")
    if not new:
        return Delivery(0, len(results))
    sent = 0
    with closing(DicomWeb(peer)) as web:
        for study in dict.fromkeys(one.study for one in new):
            some = [one for one in new if one.study == study]
            there = {found.first("SOPInstanceUID") for found in web.instances(study)}
            folder.note_sent([one.instance for one in some if one.instance in there], peer.name)
            for one in some:
                if one.instance not in there and folder.begin(one, peer.name):
                    web.store((folder.path / one.file).read_bytes(), study)
                    folder.note_sent([one.instance], peer.name)
                    sent += 1
    return Delivery(sent, len(results) - sent)
