"""What a DICOM header says of its object in words and codes, as plain texts by element.

Plain, so that a process of its own can read a hostile file and hand the texts over as JSON.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cxrtext.images.dicom.file import Header
from cxrtext.images.source import quiet

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

SEQUENCES: Mapping[str, tuple[str, ...]] = {
    "ViewCodeSequence": ("CodeValue", "CodeMeaning"),
    "AnatomicRegionSequence": ("CodeValue", "CodeMeaning"),
    "IssuerOfAccessionNumberSequence": ("LocalNamespaceEntityID", "UniversalEntityID"),
    "IssuerOfPatientIDQualifiersSequence": ("UniversalEntityID",),
    "OriginalAttributesSequence": ("AttributeModificationDateTime",),
}
"""Sequences that are read, and the elements that are read of their items."""

LONGEST = 1024  # characters kept of a text, and texts of an element


@dataclass(frozen=True, slots=True)
class Described:
    """What a header says; JSON can hold its fields."""

    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values by element, without space around them; those of a sequence's items in one row."""
    syntax: str = ""  # transfer syntax; "" where the file names none
    pixels: bool = True  # whether pixels follow

    def all(self, keyword: str) -> Sequence[str]:
        """The values of an element; () where there is none."""
        return self.texts.get(keyword, ())

    def first(self, keyword: str) -> str:
        """The first value of an element that is not empty; "" where there is none."""
        return next(filter(None, self.all(keyword)), "")


def described(header: Header, keywords: Iterable[str]) -> Described:
    """Take texts out of a header; a damaged value gives none."""
    texts = {}
    for keyword in keywords:
        if found := _texts(header.dataset, keyword):
            texts[keyword] = found
    return Described(texts, header.syntax, header.pixels)


def texts_of(dataset: "Dataset", keyword: str) -> list[str]:
    """The values of an element as text without space around them; [] where there is none."""
    try:
        with quiet():
            value = dataset.get(keyword)
            if isinstance(value, bytes):  # of another representation than the standard's
                value = value.decode("latin-1").split("\\")
            several = [value] if isinstance(value, str) or not hasattr(value, "__iter__") else value
            texts = [str(one) for one in several if one is not None]
    except Exception:  # noqa: BLE001 - converting a damaged value raises anything
        return []
    return [text.replace("\0", "").strip()[:LONGEST] for text in texts[:LONGEST]]


def text_of(dataset: "Dataset", keyword: str) -> str:
    """The first value of an element as text; "" where there is none."""
    return next(iter(texts_of(dataset, keyword)), "")


def _texts(dataset: "Dataset", keyword: str) -> list[str]:
    if (parts := SEQUENCES.get(keyword)) is None:
        return texts_of(dataset, keyword)
    found: list[str] = []
    try:
        for item in dataset.get(keyword) or []:
            found += [text for part in parts for text in texts_of(item, part)]
    except Exception:  # noqa: BLE001 - a damaged sequence raises anything
        return found
    return found[:LONGEST]
