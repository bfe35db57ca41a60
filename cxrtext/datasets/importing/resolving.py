"""The images that a scan found, before any is kept: corrected versions, merges, equal pixels.

Which of an object's files counts, and whose a picture is, is known only after all headers were
read and, for DICOM, all pixels looked at.
"""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
    """Why an object may not replace the one with its SOPInstanceUID; "" if it may.

    A source may correct the patient of its own picture; if the pixels change, study and patient
    must stay.  ``before`` and ``now`` are the study and patient of the old object and of the new.
    """
    if not same_pixels:
        return "" if before == now else ANOTHERS
    return "" if before[1] == now[1] or same_source else WHOSE


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of an image's pixels."""

    pixels: int = 0  # a digest; 0 if they are constant or were not looked at
    fault: str = ""  # why it cannot be read


@dataclass(frozen=True, slots=True)
class Waiting:
    """An image to be decided on, with its number and the name that it will have."""

    number: int
    image: FoundImage
    name: str


_UNSEEN = Seen()


def refused(found: Sequence[Waiting], seen: Mapping[int, Seen]) -> dict[int, LeftOut]:
    """Why images are not kept because of other images of the set, by number."""
    reasons: dict[int, LeftOut] = {}
    versions: dict[str, list[Waiting]] = defaultdict(list)
    patients: dict[str, set[str]] = defaultdict(set)
    for one in found:
        if fault := seen.get(one.number, _UNSEEN).fault:
            reasons[one.number] = LeftOut(one.image.name, fault)
        elif one.image.instance:
            versions[one.image.instance].append(one)
    for several in versions.values():
        reasons |= _superseded(several, seen)
    left = [one for one in found if one.number not in reasons]
    for one in left:
        patients[one.image.study_id] |= {one.image.patient_id} - {""}
    for one in left:
        if len(patients[one.image.study_id]) > 1:
            advice = "correct the header or the table, or use --merged-patients"
            reasons[one.number] = LeftOut(one.image.name, advice, TWO_PATIENTS)
    return reasons


def _superseded(several: Sequence[Waiting], seen: Mapping[int, Seen]) -> dict[int, LeftOut]:
    """Why files of one object are not used, by number; the one changed last is used."""
    pixels = {one.number: seen.get(one.number, _UNSEEN).pixels for one in several}
    newest = max(several, key=lambda one: (one.image.changed, one.image.modified_ns or 0))
    # Of files with the same header, the first.
    newest = next(one for one in several if _said(one.image) == _said(newest.image))
    reasons = {}
    for one in several:
        why, other = "", newest
        for another in several:
            whose = ((i.study_id, i.patient_id) for i in (another.image, one.image))
            if pixels[another.number] != pixels[one.number] and len({*whose}) > 1:
                why, other = ANOTHERS, another
                break
        if not why and one is not newest:
            why = AGAIN if _said(one.image) == _said(newest.image) else CORRECTED
            why = OTHER_PIXELS if pixels[one.number] != pixels[newest.number] else why
        if why:
            reasons[one.number] = LeftOut(one.image.name, what=why, other=other.image.name)
    return reasons


def _said(image: FoundImage) -> tuple[object, ...]:
    """The parts of a header that an archive keeps."""
    ids = image.study_id, image.patient_id, image.accession
    return *ids, image.view, tuple(image.metadata.items())


Group = tuple[str, list[Waiting]]
"""What images of equal pixels have in common, and the images."""


def find_equal(
    found: Sequence[Waiting], seen: Mapping[int, Seen]
) -> tuple[dict[str, str], list[Group]]:
    """Find images with equal pixels among those to be kept.

    Returns:
        For each patient in a group, the one patient whose split all of them share; and the groups.
    """
    from scipy.cluster.hierarchy import DisjointSet

    several: dict[int, list[Waiting]] = defaultdict(list)
    for one in found:
        if pixels := seen.get(one.number, _UNSEEN).pixels:
            several[pixels].append(one)
    groups, united = list[Group](), DisjointSet()
    for members in several.values():
        if len(members) < 2:
            continue
        patients = sorted({owner(one.image) for one in members})
        studies = {one.image.study_id for one in members}
        relation = "of two studies" if len(studies) > 1 else "twice in a study"
        groups.append(("of two patients" if len(patients) > 1 else relation, members))
        for name in patients:
            united.add(name)
            united.merge(name, patients[0])
    return {name: min(names) for names in united.subsets() for name in names}, groups


def owner(image: FoundImage) -> str:
    """The patient of an image; its study if the set names no patient."""
    return image.patient_id or image.study_id


def read_merged(path: Path | None) -> dict[str, str]:
    """The ids that a hospital has merged, each with the id that replaces it now.

    The table has the columns ``patient_id`` and ``merged_into``, both with the issuer if headers
    name one ("NORD:000123").
    """
    into: dict[str, str] = {}
    if path is None:
        return into
    for item, row in none_left_out(path, read_rows(path, ("patient_id", "merged_into"))):
        old, new = row["patient_id"], row["merged_into"]
        if not old or not new or into.setdefault(old, new) != new:
            raise DataError(f"{item}: an id is empty, or merged into two; fix the row")
    for old in into:
        passed = {old}
        while into[old] in into:
            if into[old] in passed:
                raise DataError(f"{path}: ids are merged in a circle; take one row out")
            passed.add(into[old])
            into[old] = into[into[old]]
    return into


FEW = 8  # images for each further process: fewer are not worth its start


def look_at(
    found: Sequence[Waiting], out: Path, cache: FactsCache, tell: StageProgress
) -> dict[int, Seen]:
    """Look at every image that the cache does not know; return what was seen, by number.

    The cache has only names in the data folder, under which ``check-data`` finds them again.
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
