"""A peer over DIMSE: C-ECHO, C-FIND, and objects by C-GET or C-MOVE.

Storage is proposed with one presentation context a transfer syntax: peers choose one syntax of a
context for all objects, and refuse those that are stored otherwise.
"""

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.datasets.admission.decide import RADIOGRAPHS
from cxrtext.errors import ConfigError, WorkError
from cxrtext.images.dicom.described import Described, described
from cxrtext.images.dicom.file import ALLOWED, Header
from cxrtext.images.source import quiet
from cxrtext.pacs import need
from cxrtext.pacs.faults import (
    AnswerError,
    BusyError,
    DeniedError,
    GoneError,
    PeerError,
    TooLargeError,
)
from cxrtext.pacs.peers import Dimse, Peer
from cxrtext.pacs.source import (
    INSTANCE_FIELDS,
    MAX_ROWS,
    STUDY_FIELDS,
    Instance,
    Question,
    Studies,
    is_uid,
)
from cxrtext.pacs.throttle import Throttle

if TYPE_CHECKING:
    from pydicom.dataset import Dataset
    from pynetdicom import AE
    from pynetdicom.association import Association
    from pynetdicom.presentation import PresentationContext

CONNECT_S = 5.0
FIND, GET, MOVE = (f"1.2.840.10008.5.1.4.1.2.2.{n}" for n in (1, 3, 2))
"""The Study Root queries."""
ECHO = "1.2.840.10008.1.1"
TAKEN = RADIOGRAPHS[:2]
"""Classes of objects that may enter; what is for processing may not."""

_PENDING = (0xFF00, 0xFF01)
_SERIES_FIELDS = (
    *("Modality", "BodyPartExamined", "SeriesDescription", "ProtocolName"),
    *("PerformedProcedureStepDescription",),
)


def silent_pynetdicom() -> None:
    """Keep pynetdicom from logging: its lines quote what is sent."""
    need("pynetdicom")
    from pynetdicom import _config

    _config.LOG_HANDLER_LEVEL = "none"
    logger = logging.getLogger("pynetdicom")
    logger.propagate = False
    logger.setLevel(logging.CRITICAL + 1)


def at_once(event: Any) -> None:
    """Send each message at once: a handler of connections that open.

    TCP holds back the end of a message until its begin is confirmed, which a peer does after 40 ms.
    """
    with suppress(OSError, AttributeError):
        connection = event.assoc.dul.socket.socket
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def dimse_of(peer: Peer) -> Dimse:
    """Where a peer is asked over DIMSE (ConfigError where the file does not say)."""
    if peer.dimse is None:
        raise ConfigError(f"{peer.name}: has no dimse in peers.yaml, which this needs")
    return peer.dimse


def storage_contexts() -> "list[PresentationContext]":
    """One context for each class and transfer syntax that is taken."""
    from pynetdicom import build_context

    return [build_context(uid, [syntax]) for uid in TAKEN for syntax in sorted(ALLOWED)]


class Associations:
    """Opens associations with a peer, and says why one does not come about."""

    def __init__(self, peer: Peer) -> None:
        silent_pynetdicom()
        self.name = peer.name
        self.where = dimse_of(peer)
        self.timeout_s = peer.limits.timeout_s

    def entity(self) -> "AE":
        """Our side."""
        from pynetdicom import AE

        entity = AE(self.where.our_aet)
        entity.connection_timeout = CONNECT_S
        entity.acse_timeout = min(self.timeout_s, 10.0)
        entity.dimse_timeout = self.timeout_s
        entity.network_timeout = self.timeout_s
        return entity

    def open(
        self,
        contexts: "list[PresentationContext]",
        *,
        scp: bool = False,
        handlers: list[Any] | None = None,
    ) -> "Association":
        """Open an association.

        Args:
            contexts: What it is for.
            scp: Whether the peer sends objects on it (C-GET).
            handlers: Of pynetdicom's events.

        Raises:
            PeerError: It does not come about.
        """
        from pynetdicom import build_role, evt

        roles = [build_role(uid, scp_role=True) for uid in TAKEN] if scp else []
        opened: list[socket.socket] = []
        with quiet():
            association = self.entity().associate(
                self.where.host,
                self.where.port,
                contexts,
                self.where.aet,
                ext_neg=list(roles),
                evt_handlers=[
                    (evt.EVT_CONN_OPEN, at_once),
                    (evt.EVT_CONN_OPEN, lambda event: opened.append(event.assoc.dul.socket.socket)),
                    *(handlers or []),
                ],
            )
        if association.is_established:
            return association
        for connection in opened:
            connection.close()  # pynetdicom leaves open what its peer has closed first
        raise self._why(association)

    def _is_open(self) -> bool:
        """Whether anything takes connections at the peer's port."""
        try:
            with socket.create_connection((self.where.host, self.where.port), CONNECT_S):
                return True
        except OSError:
            return False

    def _why(self, association: "Association") -> PeerError:
        if not association.is_rejected:
            if association.acceptor.primitive is None and not self._is_open():
                return GoneError(self.name, "cannot be reached; is it running, on this port?")
            return GoneError(
                self.name, "ended the association at once; is this a port of DIMSE, in use?"
            )
        primitive = association.acceptor.primitive
        source = getattr(primitive, "result_source", 0)
        reason = getattr(primitive, "diagnostic", 0)
        if (source, reason) == (1, 7):
            return DeniedError(
                self.name,
                f"is not called {self.where.aet!r} (association rejected); correct dimse.aet",
            )
        if (source, reason) == (1, 3):
            return DeniedError(
                self.name,
                f"does not know {self.where.our_aet!r} (association rejected); have this title "
                "registered there, with this machine's address, or correct dimse.our_aet",
            )
        if source == 3:
            return BusyError(self.name, "has no room for an association")
        return DeniedError(
            self.name,
            "rejects the association without a reason; have the title "
            f"{self.where.our_aet!r} registered there",
        )


@dataclass
class _Arrival:
    """An object that is waited for."""

    path: Path
    done: threading.Event = field(default_factory=threading.Event)
    too_large: bool = False
    fault: OSError | None = None  # why it could not be written


class DimsePeer:
    """A peer over DIMSE; each thread that asks has associations of its own.

    Raises:
        ConfigError: The peer has no ``dimse``.
        UnavailableError: ``cxrtext[pacs]`` is not installed.
        WorkError: ``our_port`` cannot be listened at.
    """

    def __init__(self, peer: Peer, *, throttle: Throttle | None = None) -> None:
        self.name = peer.name
        self.throttle = throttle or Throttle(peer.limits)
        self._associations = Associations(peer)
        self._where = self._associations.where
        self._max_bytes = peer.limits.object_mb * 2**20
        self._timeout_s = peer.limits.timeout_s
        self._own = threading.local()
        self._all: list[Association] = []
        self._waited: dict[str, _Arrival] = {}
        self._server: Any = None
        if self._where.retrieve == "move":
            self._listen()

    def close(self) -> None:
        """Release all associations, and listen no more."""
        for association in self._all:
            if association.is_established:
                association.release()
        if self._server is not None:
            self._server.shutdown()

    # --- questions ---

    def studies(self, question: Question) -> Studies:
        """Ask for studies (C-FIND).

        Raises:
            PeerError: There is no answer that can be used.
        """
        wanted = {**dict.fromkeys(STUDY_FIELDS, ""), **question.matches()}
        wanted.setdefault("ModalitiesInStudy", "")
        return Studies([described(_header(d), STUDY_FIELDS) for d in self._find("STUDY", wanted)])

    def instances(self, study: str) -> list[Described]:
        """Ask for the instances of a study (C-FIND, series by series).

        Raises:
            PeerError: There is no answer that can be used.
        """
        found = []
        keys = {"StudyInstanceUID": study}
        wanted = {**dict.fromkeys(("SeriesInstanceUID", *_SERIES_FIELDS), ""), **keys}
        for one in self._find("SERIES", wanted):
            series = described(_header(one), ("SeriesInstanceUID", *_SERIES_FIELDS))
            uid = series.first("SeriesInstanceUID")
            if not is_uid(uid):
                continue
            fields = {**dict.fromkeys(INSTANCE_FIELDS, ""), **keys, "SeriesInstanceUID": uid}
            for row in self._find("IMAGE", fields):
                said = described(_header(row), INSTANCE_FIELDS)
                known = {k: v for k, v in series.texts.items() if any(v)}
                own = {k: v for k, v in said.texts.items() if any(v)}
                found.append(Described({**known, **own}))
        return found

    def fetch(self, instance: Instance, path: Path) -> None:
        """Write an object into a file (C-GET, or C-MOVE to our own port).

        Raises:
            PeerError: It did not come, or not whole.
        """
        arrival = _Arrival(path)
        with quiet():
            identifier = _identifier(
                "IMAGE",
                {
                    "StudyInstanceUID": instance.study,
                    "SeriesInstanceUID": instance.series,
                    "SOPInstanceUID": instance.instance,
                },
            )
        if self._where.retrieve == "move":
            self._move(instance, identifier, arrival)
        else:
            self._get(identifier, arrival)
        if arrival.fault is not None:
            raise arrival.fault
        if not arrival.done.is_set():
            raise AnswerError(
                self.name, "an image did not come; is its class or syntax refused there?"
            )

    def _find(self, level: str, wanted: dict[str, str]) -> "list[Dataset]":
        from pynetdicom import build_context

        rows: list[Dataset] = []
        with self._association("find", [build_context(FIND)]) as association, quiet():
            answers = association.send_c_find(_identifier(level, wanted), FIND)
            for status, row in answers:
                code = self._code(status, association, "a question")
                if code in _PENDING and row is not None:
                    rows.append(row)
                if len(rows) > MAX_ROWS:
                    association.abort()
                    raise AnswerError(self.name, f"answers with more than {MAX_ROWS} rows")
        return rows

    def _get(self, identifier: "Dataset", arrival: _Arrival) -> None:
        from pynetdicom import build_context, evt

        self._own.arrival = arrival
        self._own.received = [0]
        holder = self._own.__dict__

        def took(event: Any) -> int:
            return self._took(event, holder["arrival"])

        def counted(event: Any) -> None:
            holder["received"][0] += len(event.data)
            if holder["received"][0] > self._max_bytes + 2**20:
                holder["arrival"].too_large = True
                _end_now(event.assoc)

        handlers = [(evt.EVT_C_STORE, took), (evt.EVT_DATA_RECV, counted)]
        contexts = [build_context(GET), *storage_contexts()]
        asking = self._association("get", contexts, scp=True, handlers=handlers)
        with asking as association, quiet():
            for status, _ in association.send_c_get(identifier, GET):
                if arrival.too_large:
                    raise self._too_large()
                if arrival.fault is not None:
                    raise arrival.fault
                self._code(status, association, "an image")

    def _move(self, instance: Instance, identifier: "Dataset", arrival: _Arrival) -> None:
        from pynetdicom import build_context

        self._waited[instance.instance] = arrival
        try:
            with self._association("move", [build_context(MOVE)]) as association, quiet():
                for status, _ in association.send_c_move(identifier, self._where.our_aet, MOVE):
                    self._code(status, association, "an image")
            arrival.done.wait(min(self._timeout_s, 5.0))
        except PeerError:
            if not (arrival.too_large or arrival.fault):
                raise
        finally:
            self._waited.pop(instance.instance, None)
        if arrival.too_large and not arrival.done.is_set():
            raise self._too_large()

    def _too_large(self) -> TooLargeError:
        return TooLargeError(
            self.name,
            f"an image is larger than {self._max_bytes >> 20} MiB; "
            "limits.object_mb in peers.yaml allows more",
        )

    def _code(self, status: Any, association: "Association", what: str) -> int:
        """The status of an answer, where it is a good one."""
        code = getattr(status, "Status", None) if status else None
        if code is None:
            with suppress(Exception):
                association.abort()
            raise BusyError(self.name, f"gave no answer to {what}, or ended the association")
        if code in (0x0000, *_PENDING):
            return int(code)
        if code == 0x0124:
            raise DeniedError(
                self.name, f"gives {self._where.our_aet!r} no right to {what}; have it granted"
            )
        if code == 0xA801:
            raise DeniedError(
                self.name,
                f"does not know where {self._where.our_aet!r} is; register its title, address and "
                "our_port there",
            )
        if code in (0xA700, 0xA701, 0xA702):
            raise BusyError(self.name, f"has no room for {what} ({code:04X})")
        raise AnswerError(self.name, f"refuses {what} ({code:04X})")

    @contextmanager
    def _association(
        self,
        kind: str,
        contexts: "list[PresentationContext]",
        *,
        scp: bool = False,
        handlers: list[Any] | None = None,
    ) -> "Iterator[Association]":
        """This thread's association of a kind, opened again where it was lost."""
        self.throttle.wait()
        association = getattr(self._own, kind, None)
        if association is None or not association.is_established:
            association = self._associations.open(contexts, scp=scp, handlers=handlers)
            setattr(self._own, kind, association)
            self._all.append(association)
            if not association.accepted_contexts:
                association.release()
                raise DeniedError(self.name, f"does not offer C-{kind.upper()} to us")
        try:
            yield association
        except ValueError:  # pynetdicom: the peer accepted no context for this
            association.abort()
            raise DeniedError(
                self.name, f"does not offer C-{kind.upper()} to {self._where.our_aet!r}"
            ) from None
        except PeerError:
            if association.is_established:
                association.abort()
            raise

    # --- objects ---

    def _took(self, event: Any, arrival: _Arrival) -> int:
        """Write what came; the status that the peer is told."""
        try:
            data = event.encoded_dataset()
            if len(data) > self._max_bytes:
                arrival.too_large = True
                return 0xA700
            arrival.path.write_bytes(data)
        except OSError as error:
            arrival.fault = error
            return 0xA700
        arrival.done.set()
        return 0x0000

    def _listen(self) -> None:
        from pynetdicom import evt

        entity = self._associations.entity()
        entity.supported_contexts = _supported()
        entity.require_called_aet = True
        entity.require_calling_aet = [self._where.aet]

        def took(event: Any) -> int:
            received.pop(event.assoc, None)
            arrival = self._waited.get(str(event.request.AffectedSOPInstanceUID))
            return 0x0000 if arrival is None else self._took(event, arrival)

        received: dict[Any, int] = {}

        def counted(event: Any) -> None:
            received[event.assoc] = received.get(event.assoc, 0) + len(event.data)
            if received[event.assoc] > self._max_bytes + 2**20:
                # Which object it is of is not known yet; those that arrive are not too large.
                for arrival in [*self._waited.values()]:
                    arrival.too_large = True
                _end_now(event.assoc)

        def forget(event: Any) -> None:
            received.pop(event.assoc, None)

        try:
            self._server = entity.start_server(
                (self._where.our_host, self._where.our_port or 0),
                block=False,
                evt_handlers=[
                    (evt.EVT_CONN_OPEN, at_once),
                    (evt.EVT_CONN_CLOSE, forget),
                    (evt.EVT_DATA_RECV, counted),
                    (evt.EVT_C_STORE, took),
                ],
            )
        except OSError as error:
            raise WorkError(
                f"{self.name}: our_port {self._where.our_port} cannot be listened at "
                f"({error.strerror}); choose another in peers.yaml"
            ) from None


def _end_now(association: "Association") -> None:
    """Abort an association, and let who waits for an answer on it wait no longer."""
    association.abort()
    association.dimse.msg_queue.put((None, None))


def _supported() -> "list[PresentationContext]":
    from pynetdicom import build_context

    return [build_context(uid, sorted(ALLOWED)) for uid in TAKEN]


def _header(dataset: "Dataset") -> Header:
    return Header(dataset, "", pixels=True)


def _identifier(level: str, wanted: dict[str, str]) -> "Dataset":
    """What a question asks for; sequences are asked for whole."""
    from pydicom.datadict import dictionary_VR
    from pydicom.dataset import Dataset

    identifier = Dataset()
    identifier.QueryRetrieveLevel = level
    for keyword, value in wanted.items():
        setattr(identifier, keyword, [] if dictionary_VR(keyword) == "SQ" else value or None)
    return identifier
