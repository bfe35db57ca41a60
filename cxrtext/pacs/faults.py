"""What can go wrong with a peer, and so whether it is worth asking again.

Messages name the peer, what was asked for and what to do.  They quote nothing from an answer.
"""

from cxrtext.errors import WorkError


class PeerError(WorkError):
    """A peer did not do what it was asked; asking again may help."""

    def __init__(self, peer: str, what: str, *, retry_after: float | None = None) -> None:
        super().__init__(f"{peer}: {what}")
        self.peer, self.what, self.retry_after = peer, what, retry_after


class GoneError(PeerError):
    """It cannot be reached at all."""


class BusyError(PeerError):
    """It has no room now, or took too long."""


class DeniedError(PeerError):
    """It does not let us in; it will not answer any other question either."""


class LoginError(DeniedError):
    """It does not accept the user or the token."""


class TlsError(DeniedError):
    """Its certificate is not trusted, or only one side speaks TLS."""


class AnswerError(PeerError):
    """It answered, but the answer cannot be used."""


class TooLargeError(AnswerError):
    """An object is larger than the limit for this peer; asking again does not help."""

    def __init__(self, peer: str, max_bytes: int) -> None:
        allowed = f"{max_bytes >> 20} MiB; limits.object_mb in the gateway's file allows more"
        super().__init__(peer, f"an image is larger than {allowed}")
