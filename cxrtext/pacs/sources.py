"""The protocol that a peer is asked by: DICOMweb where it has it, else DIMSE."""

import socket
from urllib.parse import urlsplit

from cxrtext.pacs.associations import dimse_of
from cxrtext.pacs.dicomweb import DicomWeb
from cxrtext.pacs.dimse import DimsePeer
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.source import Source
from cxrtext.pacs.throttle import Throttle


def open_source(peer: Peer, throttle: Throttle | None = None) -> Source:
    """Open a peer.

    Raises:
        ConfigError: The environment has no password for it.
        UnavailableError: ``cxrtext[pacs]`` is not installed.
    """
    if peer.dicomweb is not None:
        return DicomWeb(peer, throttle=throttle)
    return DimsePeer(peer, throttle=throttle)


def is_there(peer: Peer, seconds: float = 3.0) -> bool:
    """Whether something listens where a peer is said to be."""
    if peer.dicomweb is not None:
        parts = urlsplit(peer.dicomweb.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        place = (parts.hostname or "", port)
    else:
        place = (dimse_of(peer).host, dimse_of(peer).port)
    try:
        with socket.create_connection(place, timeout=seconds):
            return True
    except (OSError, UnicodeError):  # the latter of a name that is none
        return False
