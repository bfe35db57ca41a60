"""The identity of results: UIDs derived from the content, and how to recognize our own results.

The same result always gets the same UIDs, so a PACS keeps it only once.  Code that receives
objects calls :func:`is_own_result` first, so that no result becomes the source of another.
"""

import hashlib

from cxrtext.images.dicom.described import Described

CLASSES = {"sc": "1.2.840.10008.5.1.4.1.1.7", "sr": "1.2.840.10008.5.1.4.1.1.88.34"}
"""SOP classes of the two results: a Secondary Capture Image and a Comprehensive 3D SR."""

MANUFACTURER = "cxrtext"
SERIES = "cxrtext"  # the first word in the series descriptions of results
NAMES = {"sc": "heatmap", "sr": "measurements", "reject": "rejection note"}
"""The words after it, by kind of object; "reject" is the note that takes results back."""
NUMBERS = {"sc": 9101, "sr": 9102, "reject": 9109}
"""Series numbers, higher than those of a modality."""
WARNING = "RESEARCH ONLY – NOT FOR DIAGNOSIS"

NEEDED = ("Manufacturer", "SeriesDescription")  # the elements that `is_own_result` reads


def uid(*parts: str) -> str:
    """A UID derived from these parts (PS3.5 B.2: 2.25. and 128 bits)."""
    text = "\0".join(("cxrtext results", *parts))
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16])
    return f"2.25.{number}"


def series_description(kind: str) -> str:
    return f"{SERIES} {NAMES[kind]}"


def is_own_result(said: Described) -> bool:
    """Whether this program made an object, by `NEEDED`; if so, it is never taken in."""
    return said.first("Manufacturer").casefold() == MANUFACTURER and is_own_series(said)


def is_own_series(said: Described) -> bool:
    """Whether the description of an object's series is one that this program writes."""
    return said.first("SeriesDescription").casefold() in _SERIES


_SERIES = frozenset(f"{SERIES} {name}" for name in NAMES.values())
