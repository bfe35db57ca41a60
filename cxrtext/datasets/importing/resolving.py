"""The images that a scan found, before any is kept: corrected versions, merges, equal pixels.

They wait in a nameless file that only this process can read: which of several files of one object
counts, and whose a picture is, can be said only when all headers have been read and, where they
are to be, all pixels looked at.
"""

import os
import pickle
import tempfile
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from cxrtext.datasets.admission.ids import digest
from cxrtext.datasets.checking.facts import FactsCache, ImageFacts, Stamp, looked_at
from cxrtext.datasets.importing.reading import FoundImage, read_rows
from cxrtext.errors import DataError
from cxrtext.pausing import StageProgress
from cxrtext.records import LeftOut
from cxrtext.records.study import none_left_out

AGAIN = "the same SOPInstanceUID as another file"
CORRECTED = "an earlier version: its header was corrected in another file"
OTHER_PIXELS = "the same SOPInstanceUID as another file, which has other pixels"
ANOTHERS = "the same SOPInstanceUID as an image of another patient or study, with other pixels"
TWO_PATIENTS = "its study is under two patients"
EQUAL = "the same pixels as another image"
WHOSE = "the same pixels under two patients: nobody knows whose they are"


def why_not_replaced(
    before: tuple[str, str], now: tuple[str, str], *, same_pixels: bool, same_source: bool
) -> str:
    """Why an object may not take the place of the one of its SOPInstanceUID; "" where it may.

    One source may correct whose its picture is; a picture that changes must stay with its owner.
    ``before`` and ``now`` are the study and patient of the one that is there, and of the object.
    """
    if not same_pixels:
        return "" if before == now else ANOTHERS
    return "" if before[1] == now[1] or same_source else WHOSE


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of an image's pixels."""

    pixels: int = 0  # a digest; 0 where they are of one gray level or were not looked at
    fault: str = ""  # why it cannot be read


@dataclass(frozen=True, slots=True)
class _Version:
    order: tuple[str, int]  # when the header was changed, and the file
    number: int
    name: str
    said: int  # a digest of what its header says
    whose: tuple[str, str]  # its study and patient


@dataclass(frozen=True, slots=True)
class Waiting:
    """An image that waits, with its number and the name that it will have."""

    number: int
    image: FoundImage
    name: str


class OnDisk:
    """What waits in a file without a name; each takes eight bytes of memory."""

    def __init__(self) -> None:
        self._open: IO[bytes] | None = None
        self._places = array("q")

    def __len__(self) -> int:
        return len(self._places)

    def close(self) -> None:
        """Give the file up."""
        if self._open is not None:
            self._open.close()

    def _put(self, value: object) -> None:
        if self._open is None:
            self._open = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._places.append(self._open.seek(0, 2))
        pickle.dump(value, self._open)

    def _get(self, number: int) -> Any:
        assert self._open is not None  # noqa: S101 - a place says that it is open
        self._open.seek(self._places[number])
        return pickle.load(self._open)  # noqa: S301 - written by this process alone


class FoundImages(OnDisk):
    """Images in the order in which they were found; each takes some hundred bytes of memory."""

    def __init__(self) -> None:
        super().__init__()
        self._versions: dict[int, list[_Version]] = {}  # of each SOP instance

    def add(self, image: FoundImage, name: str) -> None:
        """Take an image, and the name that it will have."""
        number = len(self)
        self._put((image, name))
        if image.instance:
            order = image.changed, image.modified_ns or 0
            whose = image.study_id, image.patient_id
            version = _Version(order, number, image.name, digest(repr(_said(image))), whose)
            self._versions.setdefault(digest(image.instance), []).append(version)

    def __getitem__(self, number: int) -> Waiting:
        return Waiting(number, *self._get(number))

    def __iter__(self) -> Iterator[Waiting]:
        return map(self.__getitem__, range(len(self)))

    def refused(self, seen: Mapping[int, Seen]) -> dict[int, LeftOut]:
        """Why images are not to be kept, by number: what the others of the set say."""
        found: dict[int, LeftOut] = {}
        patients: dict[int, int] = {}
        mixed: set[int] = set()
        for one in self:
            image, fault = one.image, seen.get(one.number, Seen()).fault
            if fault:
                found[one.number] = LeftOut(image.name, fault)
            elif (why := self._superseded(one, seen)) is not None:
                found[one.number] = why
            elif image.patient_id:
                study, patient = digest(image.study_id), digest(image.patient_id)
                if patients.setdefault(study, patient) != patient:
                    mixed.add(study)
        for one in self if mixed else ():
            if digest(one.image.study_id) in mixed and one.number not in found:
                advice = "correct the header or the table, or use --merged-patients"
                found[one.number] = LeftOut(one.image.name, advice, TWO_PATIENTS)
        return found

    def _superseded(self, one: Waiting, seen: Mapping[int, Seen]) -> LeftOut | None:
        """Why another file of the same object is used, or none; None where this one is."""
        versions = self._versions.get(digest(one.image.instance), []) if one.image.instance else []
        if len(versions) < 2:
            return None
        readable = [v for v in versions if not seen.get(v.number, Seen()).fault]
        newest = max(readable, key=lambda version: version.order)
        # Of files that say the same, the first.
        newest = next(version for version in readable if version.said == newest.said)
        mine = next(v for v in readable if v.number == one.number)
        for other in readable:
            same = seen.get(other.number, Seen()).pixels == seen.get(one.number, Seen()).pixels
            if why_not_replaced(other.whose, mine.whose, same_pixels=same, same_source=True):
                return LeftOut(one.image.name, what=ANOTHERS, other=other.name)
        if newest.number == one.number:
            return None
        pixels = {seen.get(number, Seen()).pixels for number in (one.number, newest.number)}
        kind = AGAIN if newest.said == digest(repr(_said(one.image))) else CORRECTED
        kind = OTHER_PIXELS if len(pixels) > 1 else kind
        return LeftOut(one.image.name, what=kind, other=newest.name)


def _said(image: FoundImage) -> tuple[object, ...]:
    """What a header says that an archive keeps."""
    ids = image.study_id, image.patient_id, image.accession
    return *ids, image.view, tuple(image.metadata.items())


@dataclass(slots=True)
class Equal:
    """Images of equal pixels."""

    # by patient of a picture that several have, who stands for them all: they share a split.
    together: dict[int, str] = field(default_factory=dict)
    groups: list[list[int]] = field(default_factory=list)  # numbers
    relations: list[str] = field(default_factory=list)  # of each group


def find_equal(found: FoundImages, seen: Mapping[int, Seen], left_out: set[int]) -> Equal:
    """Find images of equal pixels among those that are to be kept."""
    from scipy.cluster.hierarchy import DisjointSet

    first: dict[int, int] = {}
    several: dict[int, list[int]] = {}
    for number in sorted(seen):
        if (pixels := seen[number].pixels) and number not in left_out:
            start = first.setdefault(pixels, number)
            if start != number:
                several.setdefault(start, [start]).append(number)
    equal, united = Equal(), DisjointSet()
    for group in several.values():
        members = [found[number] for number in group]
        patients = {one.image.patient_id or one.image.study_id for one in members}
        studies = {one.image.study_id for one in members}
        equal.groups.append(group)
        equal.relations.append(
            "of two patients" if len(patients) > 1
            else "of two studies" if len(studies) > 1
            else "twice in a study"
        )  # fmt: skip
        for name in sorted(patients):
            united.add(name)
            united.merge(name, min(patients))
    for names in united.subsets():
        equal.together |= {digest(name): min(names) for name in names}
    return equal


class Merged:
    """Patients that a hospital has merged: one id stands for another.

    The table has the columns ``patient_id`` and ``merged_into``, both with their issuer where
    headers name one ("NORD:000123").
    """

    def __init__(self, path: Path | None) -> None:
        self.count = 0  # images whose patient was another
        self._into: dict[str, str] = {}
        if path is None:
            return
        for item, row in none_left_out(path, read_rows(path, ("patient_id", "merged_into"))):
            old, new = row["patient_id"], row["merged_into"]
            if not old or not new or self._into.setdefault(old, new) != new:
                raise DataError(f"{item}: an id is empty, or merged into two; fix the row")
        for old in self._into:
            if self._final(old) is None:
                raise DataError(f"{path}: ids are merged in a circle; take one row out")

    def _final(self, patient: str) -> str | None:
        passed = {patient}
        while (patient := self._into.get(patient, "")) not in passed:
            if patient not in self._into:
                return patient
            passed.add(patient)
        return None

    def of(self, patient: str) -> str:
        """The id that a patient has now."""
        return self._final(patient) or patient if patient in self._into else patient

    def apply(self, image: FoundImage) -> FoundImage:
        """The image under the patient that it belongs to now."""
        if (patient := self.of(image.patient_id)) == image.patient_id:
            return image
        self.count += 1
        return replace(image, patient_id=patient)


FEW = 8  # images for which another process is not worth its start


def look_at(
    found: FoundImages, out: Path, cache: FactsCache, tell: StageProgress
) -> dict[int, Seen]:
    """Look at every image, or remember it from a run before; what was seen, by number.

    It is kept under the image's name in the data folder, so that ``check-data`` finds it, and no
    other name is kept.
    """
    seen: dict[int, Seen] = {}
    total = len(found)
    home = out.resolve()
    unread: list[tuple[int, str, Stamp]] = []
    for one in found:
        try:
            status = one.image.path.stat()
        except OSError as error:
            fault = f"cannot be read ({error.strerror}); run the import again"
            seen[one.number] = Seen(fault=fault)
            continue
        stamp = status.st_size, status.st_mtime_ns
        kept = str(home / one.name)
        if (known := cache.get(kept, stamp)) is None:
            unread.append((one.number, kept, stamp))
        else:
            seen[one.number] = _seen(known)
    tell("looking at images", len(seen), max(total, 1))
    paths = (str(found[number].image.path) for number, _, _ in unread)
    looked = looked_at(paths, min(os.cpu_count() or 1, 1 + len(unread) // FEW))
    for (number, kept, stamp), (_, facts) in zip(unread, looked, strict=True):
        cache.put(kept, stamp, facts)
        seen[number] = _seen(facts)
        tell("looking at images", len(seen), total)
    return seen


def _seen(facts: ImageFacts) -> Seen:
    pixels = 0 if facts.constant or facts.fault else int(facts.pixel_digest[:16], 16)
    return Seen(pixels, facts.fault)
