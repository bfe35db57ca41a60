"""The identity of results: UIDs that follow from what they are of, and how own ones are told.

Whoever makes the same result again makes it under the same UIDs, so a PACS that has it already
keeps one.  Whatever receives objects asks :func:`is_own_result` first, so that no result becomes
the source of another.
"""

import hashlib

from cxrtext.images.dicom.described import Described

CLASSES = {"sc": "1.2.840.10008.5.1.4.1.1.7", "sr": "1.2.840.10008.5.1.4.1.1.88.34"}
"""What every result is, with its SOP class: a Secondary Capture Image and a Comprehensive 3D SR."""

MANUFACTURER = "cxrtext"
SERIES = "cxrtext"  # what the descriptions of series of results begin with
NAMES = {"sc": "heatmap", "sr": "measurements", "reject": "rejection note"}
"""What follows it, by kind of object; "reject" is the note that takes results back."""
NUMBERS = {"sc": 9101, "sr": 9102, "reject": 9109}
"""Series numbers, behind those of a modality."""
WARNING = "RESEARCH ONLY – NOT FOR DIAGNOSIS"

NEEDED = ("Manufacturer", "SeriesDescription")  # the elements by which own results are told


def uid(*parts: str) -> str:
    """A UID made from what it names, as PS3.5 B.2 has it (2.25. and 128 bits)."""
    text = "\0".join(("cxrtext results", *parts))
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16])
    return f"2.25.{number}"


def series_description(kind: str) -> str:
    return f"{SERIES} {NAMES[kind]}"


def is_own_result(said: Described) -> bool:
    """Whether an object is a result of this program, by `NEEDED`: it is never taken in."""
    return said.first("Manufacturer").casefold() == MANUFACTURER and is_own_series(said)


def is_own_series(said: Described) -> bool:
    """Whether an object is of a series that is described as results of this program are."""
    return said.first("SeriesDescription").casefold() in _SERIES


_SERIES = frozenset(f"{SERIES} {name}" for name in NAMES.values())
