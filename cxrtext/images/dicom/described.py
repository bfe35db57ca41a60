"""What a DICOM header says about its object in words and codes, as plain texts by element.

They are plain so that a separate process can read a hostile file and pass the texts on as JSON.
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
"""The sequences that are read, each with the elements read from its items."""

LONGEST = 1024  # characters kept of a text, and texts of an element


@dataclass(frozen=True, slots=True)
class Described:
    """What a header says; its fields fit into JSON."""

    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values by element, without space around them; a sequence's items are in one list."""
    syntax: str = ""  # transfer syntax; "" if the file names none
    pixels: bool = True  # whether pixels follow

    def all(self, keyword: str) -> Sequence[str]:
        """The values of an element, or ()."""
        return self.texts.get(keyword, ())

    def first(self, keyword: str) -> str:
        """The first value of an element that is not empty, or ""."""
        return next(filter(None, self.all(keyword)), "")


def described(header: Header, keywords: Iterable[str]) -> Described:
    """Read texts from a header; a damaged value gives none."""
    texts = {keyword: _texts(header.dataset, keyword) for keyword in keywords}
    given = {keyword: values for keyword, values in texts.items() if values}
    return Described(given, header.syntax, header.pixels)


def texts_of(dataset: "Dataset", keyword: str) -> list[str]:
    """The values of an element as text without space around them, or []."""
    try:
        with quiet():
            value = dataset.get(keyword)
            if isinstance(value, bytes):  # its value representation is not the standard's
                value = value.decode("latin-1").split("\\")
            several = [value] if isinstance(value, str) or not hasattr(value, "__iter__") else value
            texts = [str(text) for text in several if text is not None]
    except Exception:  # noqa: BLE001 - converting a damaged value raises anything
        return []
    return [text.replace("\0", "").strip()[:LONGEST] for text in texts[:LONGEST]]


def text_of(dataset: "Dataset", keyword: str) -> str:
    """The first value of an element as text, or ""."""
    return next(iter(texts_of(dataset, keyword)), "")


def _texts(dataset: "Dataset", keyword: str) -> list[str]:
    if (parts := SEQUENCES.get(keyword)) is None:
        return texts_of(dataset, keyword)
    texts: list[str] = []
    try:
        for item in dataset.get(keyword) or []:
            texts += [text for part in parts for text in texts_of(item, part)]
    except Exception:  # noqa: BLE001 - a damaged sequence raises anything
        return texts
    return texts[:LONGEST]
