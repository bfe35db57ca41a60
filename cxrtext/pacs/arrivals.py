"""Objects that a peer sends because we asked for them: as they come, and at a port of our own.

With C-GET they come on the association that asked; with C-MOVE the peer opens another one, to
``our_port``, which speaks TLS where the peer's own port does.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.errors import WorkError
from cxrtext.images.dicom.file import ALLOWED
from cxrtext.pacs.associations import TAKEN, Associations, end_now
from cxrtext.pacs.tls import server_context

if TYPE_CHECKING:
    import ssl

    from pynetdicom.presentation import PresentationContext


@dataclass
class Arrival:
    """An object that is waited for."""

    path: Path
    max_bytes: int
    done: threading.Event = field(default_factory=threading.Event)
    too_large: bool = False
    fault: OSError | None = None  # why it could not be written

    def take(self, event: Any) -> int:
        """Write what came; the status that the peer is told."""
        try:
            data = event.encoded_dataset()
            if len(data) > self.max_bytes:
                self.too_large = True
                return 0xA700
            self.path.write_bytes(data)
        except OSError as error:
            self.fault = error
            return 0xA700
        self.done.set()
        return 0x0000


class OwnPort:
    """The port that a peer sends to (C-MOVE); what nobody waits for is answered, and not kept.

    Raises:
        ConfigError: A file of certificates or keys cannot be used.
        WorkError: It cannot be listened at.
    """

    def __init__(self, associations: Associations, max_bytes: int) -> None:
        from pynetdicom import evt

        from cxrtext.pacs.accepting import AssociationPort

        where = associations.where
        self._waited: dict[str, Arrival] = {}
        self._refused: list[list[str]] = []
        received: dict[Any, int] = {}

        def took(event: Any) -> int:
            received.pop(event.assoc, None)
            arrival = self._waited.get(str(event.request.AffectedSOPInstanceUID))
            return 0x0000 if arrival is None else arrival.take(event)

        def counted(event: Any) -> None:
            received[event.assoc] = received.get(event.assoc, 0) + len(event.data)
            if received[event.assoc] > max_bytes + 2**20:
                # Which object it is of is not known yet; those that arrive are not too large.
                for arrival in [*self._waited.values()]:
                    arrival.too_large = True
                end_now(event.assoc)

        def forget(event: Any) -> None:
            received.pop(event.assoc, None)

        entity = associations.entity()
        entity.supported_contexts = _supported()
        entity.require_called_aet = True
        entity.require_calling_aet = [where.aet]
        try:
            self._server = AssociationPort(
                entity,
                (where.our_host, where.our_port or 0),
                tls=_tls(associations),
                idle_s=associations.timeout_s,
                refused=self._note,
                handlers=[
                    (evt.EVT_CONN_CLOSE, forget),
                    (evt.EVT_DATA_RECV, counted),
                    (evt.EVT_C_STORE, took),
                ],
            )
        except OSError as error:
            raise WorkError(
                f"{associations.name}: our_port {where.our_port} cannot be listened at "
                f"({error.strerror}); choose another in peers.yaml"
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @contextmanager
    def waiting(self, instance: str, arrival: Arrival) -> Iterator[list[str]]:
        """Take an object while the block runs; gives why connections are refused meanwhile."""
        refused: list[str] = []
        self._waited[instance] = arrival
        self._refused.append(refused)
        try:
            yield refused
        finally:
            self._waited.pop(instance, None)
            self._refused = [one for one in self._refused if one is not refused]

    def _note(self, address: str, why: str) -> None:
        for one in self._refused:
            one.append(f"a connection from {address} was refused: {why}")


def _tls(associations: Associations) -> "ssl.SSLContext | None":
    """The port's own certificate is that which we show as a client, too."""
    files = associations.where.tls
    if files is None or files.certificate is None or files.key is None:
        return None
    return server_context(files.certificate, files.key, files.ca)


def _supported() -> "list[PresentationContext]":
    from pynetdicom import build_context

    return [build_context(uid, sorted(ALLOWED)) for uid in TAKEN]
