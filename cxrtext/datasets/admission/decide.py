"""Whether a DICOM object is a frontal radiograph of a chest, and if not, why.

Import, upload, check-data and everything else that receives objects ask here and nowhere else.  A
model would learn from what enters wrongly, so an object whose header contradicts itself stays out.
The answer names the elements that decided, and never quotes the header.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from cxrtext.datasets.admission.views import (
    FRONTAL,
    LATERAL,
    OTHER,
    coded_view,
    oriented_view,
    read_view,
)
from cxrtext.datasets.admission.words import (
    CHEST,
    CHEST_CODES,
    NOT_SAID,
    PARTS,
    POSTURES,
    plain_words,
)
from cxrtext.images.dicom.described import Described
from cxrtext.images.dicom.file import ALLOWED
from cxrtext.images.dicom.orientation import movement_said

_SERIES = ("SeriesDescription", "ProtocolName")
_STUDY = ("PerformedProcedureStepDescription", "StudyDescription")
NEEDED = (
    *("SOPClassUID", "Modality", "PresentationIntentType", "Rows", "NumberOfFrames"),
    *("ViewPosition", "ViewCodeSequence", "PatientOrientation", *_SERIES, *_STUDY),
    *("BodyPartExamined", "AnatomicRegionSequence", "BurnedInAnnotation"),
    "ImageOrientationPatient",
)
"""The elements that decide."""

MODALITIES = ("CR", "DX", "DR")
_RAW_CLASS = "1.2.840.10008.5.1.4.1.1.1.1.1"
RADIOGRAPHS = ("1.2.840.10008.5.1.4.1.1.1", "1.2.840.10008.5.1.4.1.1.1.1", _RAW_CLASS)
"""Computed Radiography, and Digital X-Ray for presentation and for processing."""
SECONDARY_CAPTURE = "1.2.840.10008.5.1.4.1.1.7"

NO_IMAGE = "no image in it (report, presentation state, or the like)"
SECONDARY = "secondary capture (screen shot, scan or derived picture)"
OTHER_MODALITY = "another modality than CR, DX or DR"
OTHER_CLASS = "not the SOP class of a radiograph"
RAW = "raw detector data (for processing)"
OTHER_PART = "another body part"
FRAMES = "several frames in one file"
TWO_VIEWS = "its header names a frontal and another view"

BURNED_IN = "text burnt into its pixels (BurnedInAnnotation)"
MOVED = {
    "mirrored": "stored mirrored, as its header says; shown with the patient's left at the right",
    "turned": "stored turned, as its header says; shown upright",
}
NO_PART = "nothing says its body part"
NO_VIEW = "nothing says its view"


@dataclass(frozen=True, slots=True)
class Decision:
    refused: str = ""  # why it may not enter, in the words it is counted under; "" if it may
    because: str = ""  # the elements that say so
    fault: str = ""  # what is wrong with an object of the right kind, and what to do
    view: str = ""  # "AP", "PA", "frontal", or "" if nothing says
    notes: tuple[str, ...] = ()  # what to know about an object that may enter

    @property
    def enters(self) -> bool:
        return not (self.refused or self.fault)

    def __str__(self) -> str:
        """Why it may not enter, on one line."""
        reason = self.refused or self.fault
        return f"{reason}: {self.because}" if self.because else reason


def decide(said: Described) -> Decision:
    """Decide by an object's header, read for `NEEDED`."""
    if kind := _kind(said):
        return kind
    part, known = _part(said)
    if part is not None:
        return part
    view = _view(said)
    if not view.enters:
        return view
    if not said.pixels:
        return Decision(fault="holds no pixel data; export the image with its pixels")
    if said.syntax and said.syntax not in ALLOWED:
        return Decision(fault="its transfer syntax is not supported; export it uncompressed")
    orientation = said.all("PatientOrientation"), said.all("ImageOrientationPatient")
    notes = (
        BURNED_IN if said.first("BurnedInAnnotation").upper() == "YES" else "",
        MOVED.get(movement_said(*orientation), ""),
        "" if known else NO_PART,
        "" if view.view else NO_VIEW,
    )
    return Decision(view=view.view, notes=tuple(filter(None, notes)))


def _kind(said: Described) -> Decision | None:
    """The decision by class, modality and frames; None if these let the object in."""
    uid, modality = said.first("SOPClassUID"), said.first("Modality").upper()
    name = _class_name(uid)
    if name.endswith("Storage") and "Image" not in name:
        return Decision(NO_IMAGE)
    if uid == SECONDARY_CAPTURE or uid.startswith(f"{SECONDARY_CAPTURE}."):
        return Decision(SECONDARY)
    if modality not in MODALITIES and (modality or uid not in RADIOGRAPHS):
        return Decision(OTHER_MODALITY)
    if uid and uid not in RADIOGRAPHS:
        return Decision(OTHER_CLASS)
    if not said.first("Rows"):
        return Decision(NO_IMAGE)
    if uid == _RAW_CLASS or said.first("PresentationIntentType").upper() == "FOR PROCESSING":
        return Decision(RAW)
    return None if said.first("NumberOfFrames").lstrip("0+") in ("", "1") else Decision(FRAMES)


def _class_name(uid: str) -> str:
    from pydicom.uid import UID

    from cxrtext.images.source import quiet

    with quiet():  # a damaged UID is a warning
        return UID(uid).name if uid else ""


@dataclass(frozen=True)
class _Part:
    """What one element says about the body part."""

    keyword: str
    text: str
    coded: bool = False

    @cached_property
    def _words(self) -> str:
        return plain_words(self.text)

    @cached_property
    def chest(self) -> bool:
        return CHEST.within(self._words) and self.other != "spine"

    @cached_property
    def other(self) -> str:
        """The other body part that it names, in English; "" if none."""
        return _other(self._words)

    @property
    def posture(self) -> bool:
        """Whether it names a body part only to say how the patient stood or lay."""
        return not self.coded and not _other(POSTURES.sub(" ", self._words))

    @property
    def unknown(self) -> bool:
        """Whether it names a body part that is unknown here."""
        return self.coded and not (self.chest or self.other or self._words in NOT_SAID)


def _other(words: str) -> str:
    return next((part for part, names in PARTS.items() if names.within(words)), "")


def _parts(said: Described) -> Iterator[_Part]:
    for value in said.all("BodyPartExamined"):
        yield _Part("BodyPartExamined", value.replace("_", " "), coded=True)
    codes = said.all("AnatomicRegionSequence")
    if not CHEST_CODES.isdisjoint(codes):
        yield _Part("AnatomicRegionSequence", "chest", coded=True)
    elif any(codes):
        meant = " ".join(code for code in codes if len(plain_words(code)) > 1)
        yield _Part("AnatomicRegionSequence", meant or "code", coded=True)
    for keyword in _SERIES:
        if text := said.first(keyword):
            yield _Part(keyword, text)


def _part(said: Described) -> tuple[Decision | None, bool]:
    """The decision by body part, None if it lets the object in; and whether the chest is named."""
    parts = list(_parts(said))
    chests = [part for part in parts if part.chest]
    # A description that names the chest and other parts describes an examination of several.
    others = [p for p in parts if p.other and (p.coded or not (p.chest or (chests and p.posture)))]
    if others:
        return _other_part(others[0], chests), bool(chests)
    if chests:
        return None, True
    unknown = next((part for part in parts if part.unknown), None)
    if unknown is not None:
        return Decision(OTHER_PART, f"{unknown.keyword} names no part of the chest"), False
    for keyword in _STUDY:
        part = _Part(keyword, said.first(keyword))
        if part.chest:
            return None, True
        if part.other:
            return _other_part(part, []), False
    return None, False


def _other_part(part: _Part, chests: Sequence[_Part]) -> Decision:
    because = f"{part.keyword} says {part.other}"
    chest = next((one.keyword for one in chests), "")
    if part.chest:
        because += " and chest"
    elif chest:
        because += f", {chest} says chest"
    return Decision(OTHER_PART, because)


def _view(said: Described) -> Decision:
    """The view; or a refusal, if it is not frontal or two views are named."""
    views = {
        "ViewPosition": read_view(" ".join(said.all("ViewPosition"))),
        "ViewCodeSequence": coded_view(said.all("ViewCodeSequence")),
        "PatientOrientation": oriented_view(said.all("PatientOrientation")),
        **{keyword: read_view(said.first(keyword)) for keyword in _SERIES},
    }
    if not any(views.values()):
        views = {keyword: read_view(said.first(keyword)) for keyword in _STUDY}
    others = [(name, view) for name, view in views.items() if view in (LATERAL, OTHER)]
    frontals = [(name, view) for name, view in views.items() if view in FRONTAL]
    if others:
        name, view = others[0]
        if not frontals:
            return Decision(view, f"by {name}")
        front, said_view = frontals[0]
        word = "lateral" if view == LATERAL else "another"
        return Decision(TWO_VIEWS, f"{front} says {said_view}, {name} says {word}")
    exact = [view for _, view in frontals if view != "frontal"]
    return Decision(view=next(iter(exact or [view for _, view in frontals]), ""))
