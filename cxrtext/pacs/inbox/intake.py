"""Turn received DICOM objects into images of the index: each once, by the rules of import.

An object with a corrected header or pixels replaces the one before; an object without news changes
nothing.  What the rules leave out is removed from the inbox, and the reason is noted.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from PIL import Image

from cxrtext.datasets.admission.decide import NO_IMAGE
from cxrtext.datasets.admission.ids import NO_UID, Ids, ObjectIds, is_uid, object_ids
from cxrtext.datasets.importing import resolving
from cxrtext.datasets.importing.formats.dicom import metadata_of, read_object
from cxrtext.datasets.importing.reading import LeftOutError
from cxrtext.datasets.importing.reports.sr import read_sr
from cxrtext.errors import ImageError
from cxrtext.images import encode_png
from cxrtext.images.dicom.described import described
from cxrtext.images.dicom.file import read_wanted
from cxrtext.images.frontal import look
from cxrtext.images.reader_pool import ReaderPool, ReadImage
from cxrtext.index.changes import NewImage, add_images
from cxrtext.index.entry import Imported, entering, keep_image, others_say
from cxrtext.index.store.catalogue import Catalogue, IndexedImage
from cxrtext.pacs.identity import NEEDED as OWN_NEEDED
from cxrtext.pacs.identity import is_own_result
from cxrtext.pacs.inbox.queue import WRITE_WAIT_S, Entry, Finishing, Inbox
from cxrtext.pacs.inbox.reports import SAME, look_again, merged, put_versions
from cxrtext.pacs.peers import Peer
from cxrtext.records.manifest import RECEIVED, SOURCE
from cxrtext.service import EmbeddedImage, Service
from cxrtext.service.intake import Pixels, digest_of, same_pixels, shown_digest

NAME = "the object"  # its name in errors, which quote nothing of it
OWN = "a result that this program made"
BURNT_IN = "burnt into its margins"
LONGEST_ID = 200
SPLIT = "test"
"""The split of new patients, so that no later model learns from what an earlier one labeled."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    index: Path  # gets the images; its own prompts label them
    archive: Path  # folder of the objects as received, or of their pixels alone if ids are hashed
    device: str = "cpu"
    ids: Ids = field(default_factory=Ids)  # ids as in headers, or their hashes
    columns: tuple[str, ...] = ()  # of headers, among those that an import offers
    issuer: str = ""  # of patient ids if the header names none
    peers: Mapping[str, Peer] = field(default_factory=dict)  # by name
    readers: int = 2  # processes that decode
    burnt_in: Callable[[Pixels], str] | None = None  # text in the margins, a reason to hold

    def forgets(self, source: str) -> bool:
        """Whether to forget what a source deletes."""
        return source in self.peers and self.peers[source].on_deletion == "forget"


@dataclass(slots=True)
class _Candidate:
    """An object that may enter the index, as known so far."""

    entry: Entry
    instance: str  # its id in the index
    ids: ObjectIds  # as in the index
    changed: str
    metadata: dict[str, str]
    note: str = ""
    read: ReadImage = field(init=False)  # once it is decoded
    pixels: str = ""  # digest; "" if all pixels are equal

    @property
    def shown(self) -> Pixels:
        assert self.read.whole is not None  # noqa: S101 - `_decode` asks for it
        shown: Pixels = self.read.whole[0]
        return shown

    @property
    def said(self) -> str:
        """A digest of what is kept of its header."""
        facts = (self.ids, sorted(self.metadata.items()))
        return hashlib.sha256(repr(facts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


Outcome = Callable[[Finishing], None]


class Intake:
    """Takes objects into an index; after an error the entries can be taken again."""

    def __init__(
        self,
        inbox: Inbox,
        service: Service,
        settings: WorkerSettings,
        readers: ReaderPool,
        imported: Imported,
    ) -> None:
        self._inbox, self._service, self._settings = inbox, service, settings
        self._readers, self._imported = readers, imported

    def take(self, entries: Sequence[Entry]) -> None:
        """Take objects in.

        If two are the same object, have the same pixels, or name two patients for one study, the
        later one is put back: its outcome depends on the first.
        """
        outcomes: list[Outcome] = []
        candidates: list[_Candidate] = []
        later: list[Entry] = []
        for entry in entries:
            seen = self._look(entry)
            if not isinstance(seen, _Candidate):
                outcomes.append(seen)
            elif any(_concerns(one, seen) for one in candidates):
                later.append(entry)
            else:
                candidates.append(seen)
        decoded = self._decode(candidates, outcomes)
        first: dict[str, _Candidate] = {}
        for one in list(decoded):
            if one.pixels and first.setdefault(one.pixels, one) is not one:
                decoded.remove(one)
                later.append(one.entry)
        self._add(decoded, outcomes)
        with self._inbox.finishing() as finishing:
            for outcome in outcomes:
                outcome(finishing)
        self._inbox.put_back(later)

    def _look(self, entry: Entry) -> "_Candidate | Outcome":
        """A candidate by its header, or the outcome of an object that cannot enter."""
        try:
            said, decision = read_object(entry.path, NAME, self._settings.columns)
        except LeftOutError as error:
            return self._not_kept(entry, error)
        except ImageError as error:
            return _failing(entry, str(error))
        own = object_ids(said, self._settings.issuer)
        if not is_uid(own.instance):
            return _holding(entry, None, NO_UID)
        ids = self._settings.ids.of_object(own)
        texts = ids.instance, ids.study, ids.patient, ids.accession
        if any(len(value) > LONGEST_ID or not value.isprintable() for value in texts):
            return _failing(entry, "an id has more than 200 characters, or some not printed")
        if not ids.study:
            return _failing(entry, "names neither a study nor an accession number")
        columns = self._settings.ids.of_metadata(metadata_of(said, self._settings.columns))
        metadata = {name: value for name, value in columns.items() if value}
        if decision.view:
            metadata["view"] = decision.view
        return _Candidate(
            entry,
            self._imported.called(self._service.archive.catalogue, ids.instance),
            replace(ids, patient=self._owner(ids.patient or ids.study)),
            max(said.all("OriginalAttributesSequence"), default=""),
            metadata,
            "; ".join(decision.notes),
        )

    def _owner(self, patient: str) -> str:
        with self._inbox.database.reading() as database:
            return merged(database, patient)

    def _not_kept(self, entry: Entry, error: LeftOutError) -> Outcome:
        """The outcome of an object that is no image to keep; structured reports join reports."""
        why = error.entry
        if why.damaged:
            return _failing(entry, why.why)
        with suppress(ImageError):
            if is_own_result(described(read_wanted(entry.path, OWN_NEEDED), OWN_NEEDED)):
                return _leaving(entry, OWN)
        if why.what == NO_IMAGE:
            try:
                version = read_sr(entry.path, NAME)
            except ImageError as damaged:
                return _failing(entry, str(damaged))
            if version is not None:
                return lambda finishing: put_versions(
                    finishing, [version], entry, self._settings.ids
                )
        return _leaving(entry, f"{why.what}: {why.why}" if why.why else why.what)

    def _decode(
        self, candidates: Sequence[_Candidate], outcomes: list[Outcome]
    ) -> list[_Candidate]:
        square = self._service.model.spec.preprocessing

        def decode(one: _Candidate) -> ReadImage | ImageError:
            try:
                data = one.entry.path.read_bytes()
                return self._readers.prepare_bytes(data, NAME, square, whole=True)
            except ImageError as error:
                return error

        decoded = []
        for one, read in zip(candidates, self._readers.each(decode, candidates), strict=True):
            if isinstance(read, ImageError):
                outcomes.append(_failing(one.entry, str(read)))
                continue
            one.read = read
            shown = one.shown
            one.pixels = "" if shown.min() == shown.max() else digest_of(shown)
            seen = look(shown)
            if not seen.frontal:
                one.note = "; ".join(filter(None, (one.note, f"looks like: {seen.kind}")))
            decoded.append(one)
        return decoded

    def _embedded(self, candidates: Sequence[_Candidate]) -> list[EmbeddedImage]:
        if not candidates:
            return []
        squares = [one.read.pixels for one in candidates]
        unlike = self._service.familiar.of_squares(squares, self._service.model.spec.preprocessing)
        return [
            EmbeddedImage(regions, one.read.height, one.read.width, unlike=far)
            for one, regions, far in zip(
                candidates, self._service.embed_squares(squares), unlike, strict=True
            )
        ]

    def _add(self, candidates: Sequence[_Candidate], outcomes: list[Outcome]) -> None:
        index = self._service.archive

        def enters(outcome: Outcome | None) -> bool:
            outcomes.extend([outcome] if outcome else [])
            return outcome is None

        # Look up what was there before without the lock: no other process takes objects in, and at
        # worst an image that an upload adds meanwhile is there twice.
        news = [one for one in candidates if enters(self._held_back(one))]
        embedded = [
            (one, image)
            for one, image in zip(news, self._embedded(news), strict=True)
            if enters(self._elsewhere(one, image))
        ]
        if not embedded:
            return
        news = [one for one, _ in embedded]
        rows = self._service.index_rows(index, [image for _, image in embedded])
        with entering(index.folder, rows.generation, WRITE_WAIT_S) as catalogue:
            images = [
                self._image(catalogue, one, labels)
                for one, labels in zip(news, rows.labels, strict=True)
            ]
            replaced = [catalogue.image(image.image) is not None for image in images]
            add_images(index.folder, catalogue, images, rows.arrays)
        for one, was in zip(news, replaced, strict=True):
            outcomes.append(self._taking(one, "replaced" if was else "added"))

    def _held_back(self, one: _Candidate) -> Outcome | None:
        """The outcome of an object that changes nothing or must wait, by inbox and index."""
        catalogue = self._service.archive.catalogue
        with self._inbox.database.reading() as database:
            known = database.execute(
                "SELECT said, pixels, changed, entry FROM objects WHERE instance = ?",
                (one.instance,),
            ).fetchone()
            equal = database.execute(
                "SELECT instance, study, patient, source FROM objects "
                "WHERE pixels = ? AND pixels <> '' AND instance <> ?",
                (one.pixels, one.instance),
            ).fetchall()
        before = catalogue.image(one.instance)
        if before is not None and known is not None:
            if known[:2] == (one.said, one.pixels):
                return self._again(one)
            if not one.entry.accepted and (why := self._why_not(before, one)):
                return _holding(one.entry, before.study_id, why)
            # An object that was held or had failed may be older than what came meanwhile.
            older = one.entry.number < known[3] or (one.changed and one.changed < known[2])
            if older and not one.entry.accepted:
                return _leaving(one.entry, resolving.CORRECTED)
        if before is not None and known is None:  # an import brought it, and named its patient
            same_owner = (before.study_id, before.patient_id) == (one.ids.study, one.ids.patient)
            if same_owner and self._digest(before) == one.pixels:
                return self._taking(one, "again")
        if one.entry.accepted:
            return None
        if (
            (before is None or known is None or known[1] != one.pixels)  # else it is there already
            and self._settings.burnt_in is not None
            and (read := self._settings.burnt_in(one.shown))
        ):
            return _holding(one.entry, None, f"{BURNT_IN}: {read}")
        if before is not None and (why := self._why_not(before, one)):
            return _holding(one.entry, before.study_id, why)
        for instance, study, patient, source in equal:
            if catalogue.image(instance) is not None:
                return _equal(one, study, patient, may_go=self._settings.forgets(source))
        patients = others_say(catalogue, "patient_id", "study_id", one.ids.study, but=one.instance)
        if known is None and set(patients) - {one.ids.patient}:
            return _holding(one.entry, one.ids.study, resolving.TWO_PATIENTS)
        return None

    def _why_not(self, before: IndexedImage, one: _Candidate) -> str:
        """Why an object may not replace the image with its UID; "" if it may."""
        return resolving.why_not_replaced(
            (before.study_id, before.patient_id), (one.ids.study, one.ids.patient),
            same_pixels=self._digest(before) == one.pixels,
            # Imported images have no source: the first source that sends one may correct it.
            same_source=before.metadata.get(SOURCE, one.entry.source) == one.entry.source,
        )  # fmt: skip

    def _elsewhere(self, one: _Candidate, image: EmbeddedImage) -> Outcome | None:
        """The outcome of an object whose pixels the index got in another way, as from an import."""
        if not one.pixels or one.entry.accepted:
            return None
        for other in same_pixels(self._service, image, one.shown.shape, one.pixels, self._digest):
            if other.image != one.instance:
                return _equal(one, other.study_id, other.patient_id)
        return None

    def _digest(self, other: IndexedImage) -> str:
        """A digest of an indexed image's pixels; kept for images that came another way."""
        key = f"{other.number} {other.image}"
        with self._inbox.database.reading() as database:
            row = database.execute(
                "SELECT pixels FROM objects WHERE instance = ? "
                "UNION ALL SELECT pixels FROM pictures WHERE image = ?",
                (other.image, key),
            ).fetchone()
        if row is not None:
            return str(row[0])
        digest = shown_digest(self._service, other)
        with self._inbox.database.transaction() as database:
            database.execute("INSERT OR REPLACE INTO pictures VALUES (?, ?)", (key, digest))
        return digest

    def _image(
        self, catalogue: Catalogue, one: _Candidate, labels: Mapping[str, float]
    ) -> NewImage:
        if self._settings.ids.hashed:  # keep pixels alone: the object names the patient
            data, ending = encode_png(Image.fromarray(one.shown)), ".png"
        else:
            data, ending = one.entry.path.read_bytes(), ".dcm"
        splits = others_say(catalogue, "split", "patient_id", one.ids.patient)
        before = catalogue.image(one.instance)
        imported = before.metadata if before is not None and SOURCE not in before.metadata else {}
        received = datetime.fromtimestamp(one.entry.received, UTC).isoformat(timespec="seconds")
        return keep_image(
            catalogue, self._settings.archive, data, ending,
            image=one.instance, study_id=one.ids.study, patient_id=one.ids.patient,
            split=(*splits, before.split if before else SPLIT)[0],
            height=one.read.height, width=one.read.width,
            metadata={**imported, **one.metadata, SOURCE: one.entry.source, RECEIVED: received},
            labels=labels,
        )  # fmt: skip

    def _taking(self, one: _Candidate, outcome: str) -> Outcome:
        def note(finishing: Finishing) -> None:
            database, ids = finishing.database, one.ids
            before = database.execute(
                "SELECT study FROM objects WHERE instance = ?", (one.instance,)
            ).fetchone()
            database.execute(
                "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (one.instance, ids.study, ids.patient, ids.issuer, ids.accession,
                 ids.accession_issuer, one.said, one.pixels, one.changed, one.entry.source,
                 one.entry.received, one.entry.number),
            )  # fmt: skip
            for study in {ids.study, *(before or ())}:
                finishing.release(study)
                look_again(database, study, ids.accession)
            finishing.done(one.entry, outcome, one.note)

        return note

    def _again(self, one: _Candidate) -> Outcome:
        def note(finishing: Finishing) -> None:
            finishing.database.execute(
                "UPDATE objects SET entry = max(entry, ?) WHERE instance = ?",
                (one.entry.number, one.instance),
            )
            finishing.done(one.entry, "again", SAME)

        return note


def _concerns(one: _Candidate, other: _Candidate) -> bool:
    """Whether the outcome of an object depends on another one of the same batch."""
    same_study = one.ids.study == other.ids.study
    return one.instance == other.instance or (same_study and one.ids.patient != other.ids.patient)


def _failing(entry: Entry, reason: str) -> Outcome:
    return lambda finishing: finishing.fail(entry, reason.removeprefix(f"{NAME}: "))


def _leaving(entry: Entry, reason: str) -> Outcome:
    return lambda finishing: finishing.done(entry, "left out", reason)


def _holding(entry: Entry, study: str | None, reason: str) -> Outcome:
    return lambda finishing: finishing.hold(entry, study, reason)


def _equal(one: _Candidate, study: str, patient: str, *, may_go: bool = False) -> Outcome:
    """The outcome of an object with the same pixels as another image.

    If the source may still delete that image, as after a correction under a new UID, the object
    waits to take its place.
    """
    if patient != one.ids.patient:
        return _holding(one.entry, study, resolving.WHOSE)
    if study != one.ids.study or may_go:
        return _holding(one.entry, study, resolving.EQUAL)
    return _leaving(one.entry, resolving.EQUAL)
