"""What public sets say about all their files and the files' own headers do not.

A public set is known by its layout, which an import recognizes by its tables and notes in the data
folder.  `decide` is the same rule as for a hospital's files; the set's description is only added
to the header first.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cxrtext.datasets.admission.decide import RADIOGRAPHS, SECONDARY_CAPTURE
from cxrtext.files import read_sealed
from cxrtext.images.dicom.described import Described

NOTE = "import.json"  # the file by which an import recognizes its own folder
BY_SET = "its set says what its header leaves out (kind of object, body part or view)"

SAID: Mapping[str, Mapping[str, str]] = {
    # JPEG files of ChestX-ray14, wrapped by a tool that calls them secondary captures.  The rest
    # of the header is whole.
    "rsna": {"SOPClassUID": RADIOGRAPHS[0]},
    "siim": {"SOPClassUID": RADIOGRAPHS[0]},
    # "18,000 postero-anterior (PA) view CXR scans"; all but 25 elements were removed.
    "vindr": {"Modality": "DX", "BodyPartExamined": "CHEST", "ViewPosition": "PA"},
}
"""What public sets say about all their files, by layout and element."""


def with_set(said: Described, layout: str) -> Described:
    """A header with missing elements, and the class of a capture, filled in from its set.

    Nothing else is replaced, so a file with a view that contradicts the set's stays out.
    """
    captured = said.first("SOPClassUID") == SECONDARY_CAPTURE
    added = {
        keyword: (value,)
        for keyword, value in SAID.get(layout, {}).items()
        if not said.first(keyword) or (keyword == "SOPClassUID" and captured)
    }
    return replace(said, texts={**said.texts, **added}) if added else said


def read_note(note: Path) -> Mapping[str, object]:
    """What an import noted about its folder; empty if it cannot be read."""
    try:
        return read_sealed(note)
    except (OSError, ValueError):
        return {}


def noted_layout(out: Path) -> str:
    """The layout that was imported into a folder; "" if none was."""
    return str(read_note(out / NOTE).get("layout", ""))
