"""A peer over DIMSE: C-FIND, and objects by C-GET or C-MOVE.

With C-GET objects come on the association that asked; with C-MOVE the peer opens another one, to
``our_port``, which speaks TLS where the peer's own port does.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrtext.datasets.admission.ids import is_uid
from cxrtext.images.dicom.described import Described, described
from cxrtext.images.dicom.file import ALLOWED, Header
from cxrtext.images.source import quiet
from cxrtext.pacs.dimse.association import (
    FIND,
    GET,
    MOVE,
    TAKEN,
    Associations,
    end_now,
    storage_contexts,
)
from cxrtext.pacs.faults import AnswerError, BusyError, DeniedError, PeerError, TooLargeError
from cxrtext.pacs.peers import Peer
from cxrtext.pacs.ports import Served
from cxrtext.pacs.query import INSTANCE_FIELDS, MAX_ROWS, STUDY_FIELDS, Instance, Question, Studies
from cxrtext.pacs.throttle import Throttle

if TYPE_CHECKING:
    from pydicom.dataset import Dataset
    from pynetdicom.association import Association
    from pynetdicom.presentation import PresentationContext

_PENDING = (0xFF00, 0xFF01)
_SERIES_FIELDS = (
    *("Modality", "BodyPartExamined", "SeriesDescription", "ProtocolName"),
    *("PerformedProcedureStepDescription",),
)


@dataclass
class Arrival:
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


class OwnPort(Served):
    """The port that a peer sends to (C-MOVE); what nobody waits for is answered, and not kept."""

    def __init__(self, associations: Associations, max_bytes: int) -> None:
        from pynetdicom import build_context, evt

        from cxrtext.pacs.dimse.port import AssociationPort

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

        entity = associations.entity()
        entity.supported_contexts = [build_context(uid, sorted(ALLOWED)) for uid in TAKEN]
        entity.require_called_aet = True
        entity.require_calling_aet = [where.aet]
        handlers: list[Any] = [
            (evt.EVT_CONN_CLOSE, lambda event: received.pop(event.assoc, None)),
            (evt.EVT_DATA_RECV, counted),
            (evt.EVT_C_STORE, took),
        ]
        super().__init__(
            (where.our_host, where.our_port or 0),
            lambda address: AssociationPort(
                entity,
                address,
                tls=where.tls.server_context() if where.tls else None,
                idle_s=associations.timeout_s,
                refused=self._note,
                handlers=handlers,
            ),
        )

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


class DimsePeer:
    """A peer over DIMSE; each thread that asks has associations of its own."""

    def __init__(self, peer: Peer, *, throttle: Throttle | None = None) -> None:
        self.name = peer.name
        self.throttle = throttle or Throttle(peer.limits)
        self._associations = Associations(peer)
        self._where = self._associations.where
        self._max_bytes = peer.limits.object_mb * 2**20
        self._timeout_s = peer.limits.timeout_s
        self._own = threading.local()
        self._all: list[Association] = []
        self._port: OwnPort | None = None
        if self._where.retrieve == "move":
            self._port = OwnPort(self._associations, self._max_bytes)
            self._port.start()

    def close(self) -> None:
        for association in self._all:
            if association.is_established:
                association.release()
        if self._port is not None:
            self._port.close()

    def studies(self, question: Question) -> Studies:
        wanted = {**dict.fromkeys(STUDY_FIELDS, ""), **question.matches()}
        wanted.setdefault("ModalitiesInStudy", "")
        return Studies([described(_header(d), STUDY_FIELDS) for d in self._find("STUDY", wanted)])

    def instances(self, study: str) -> list[Described]:
        """Ask for the instances of a study (C-FIND, series by series)."""
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
        arrival = Arrival(path, self._max_bytes)
        with quiet():
            identifier = _identifier(
                "IMAGE",
                {
                    "StudyInstanceUID": instance.study,
                    "SeriesInstanceUID": instance.series,
                    "SOPInstanceUID": instance.instance,
                },
            )
        if self._port is not None:
            self._move(self._port, instance, identifier, arrival)
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
            for status, row in association.send_c_find(_identifier(level, wanted), FIND):
                if self._code(status, association, "a question") in _PENDING:
                    if row is None:
                        association.abort()
                        raise AnswerError(self.name, "answers with a row that cannot be read")
                    rows.append(row)
                if len(rows) > MAX_ROWS:
                    association.abort()
                    raise AnswerError(self.name, f"answers with more than {MAX_ROWS} rows")
        return rows

    def _get(self, identifier: "Dataset", arrival: Arrival) -> None:
        from pynetdicom import build_context, evt

        self._own.arrival = arrival
        self._own.received = [0]
        holder = self._own.__dict__

        def took(event: Any) -> int:
            return int(holder["arrival"].take(event))

        def counted(event: Any) -> None:
            holder["received"][0] += len(event.data)
            if holder["received"][0] > self._max_bytes + 2**20:
                holder["arrival"].too_large = True
                end_now(event.assoc)

        handlers = [(evt.EVT_C_STORE, took), (evt.EVT_DATA_RECV, counted)]
        contexts = [build_context(GET), *storage_contexts()]
        asking = self._association("get", contexts, scp=True, handlers=handlers)
        with asking as association, quiet():
            for status, _ in association.send_c_get(identifier, GET):
                if arrival.too_large:
                    raise TooLargeError(self.name, self._max_bytes)
                if arrival.fault is not None:
                    raise arrival.fault
                self._code(status, association, "an image")

    def _move(
        self, port: OwnPort, instance: Instance, identifier: "Dataset", arrival: Arrival
    ) -> None:
        from pynetdicom import build_context

        with port.waiting(instance.instance, arrival) as refused:
            try:
                with self._association("move", [build_context(MOVE)]) as association, quiet():
                    for status, _ in association.send_c_move(identifier, self._where.our_aet, MOVE):
                        self._code(status, association, "an image")
                arrival.done.wait(min(self._timeout_s, 5.0))
            except PeerError as error:
                if refused:
                    raise AnswerError(self.name, f"{error.what}; our_port: {refused[-1]}") from None
                if not (arrival.too_large or arrival.fault):
                    raise
        if arrival.too_large and not arrival.done.is_set():
            raise TooLargeError(self.name, self._max_bytes)
        if refused and not arrival.done.is_set():
            raise AnswerError(self.name, f"an image did not come; our_port: {refused[-1]}")

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
