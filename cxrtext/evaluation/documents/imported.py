"""What an import noted of a data folder: what it read, and what it left out and why."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cxrtext.datasets.admission.public import NOTE
from cxrtext.datasets.importing.folder import LOOKS, REPLACED, SAME, WRITTEN
from cxrtext.errors import DataError
from cxrtext.files import read_sealed, sha256
from cxrtext.files.digests import read_sums
from cxrtext.records.study import DAMAGED
from cxrtext.records.tables import read_table

TOLD = ("layout", "split", "seed", "keep", "require_view")
"""Options of an import that are told; others could name people or places."""


@dataclass(frozen=True, slots=True)
class Imported:
    """An import into a data folder.

    ``left_out``: images (files and rows that would have been images) by the reason, most first;
    ``others``: reports, labels and boxes, by what they are of.  ``unchanged``: whether the manifest
    is what the import wrote, as its list of digests says.  ``hashed``: whether ids were replaced by
    keyed hashes.
    """

    options: Mapping[str, Any]
    hashed: bool
    left_out: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)
    same_images: int = 0
    unlike_frontal: int = 0
    replaced_reports: int = 0
    unchanged: bool = True


def read_imported(folder: Path) -> Imported | None:
    """What ``cxrtext import`` noted in a folder.

    None where there is no note, or a damaged one, or the lists beside it are damaged or gone:
    images that nobody knows of would seem never to have been there.
    """
    try:
        note = read_sealed(folder / NOTE)
        listed = read_sums(folder) or {}
        left_out, same, looks, replaced = (
            _rows(folder / name, listed) for name in (WRITTEN[-1], SAME, LOOKS, REPLACED)
        )
    except (OSError, ValueError, DataError):
        return None
    images, others = Counter[str](), Counter[str]()
    for row in left_out:
        if row.get("of", "image") != "image":
            others[row["of"]] += 1
        elif row.get("kind") == "damaged":
            images[DAMAGED] += 1
        else:
            images[row.get("reason", "").partition(":")[0]] += 1
    manifest = folder / "manifest.csv"
    return Imported(
        options={name: note[name] for name in TOLD if name in note},
        hashed=bool(note.get("key")),
        left_out=dict(images.most_common()),
        others=dict(others.most_common()),
        same_images=len(same),
        unlike_frontal=len(looks),
        replaced_reports=len(replaced),
        unchanged=manifest.is_file() and listed.get(manifest.name) == sha256(manifest),
    )


def _rows(path: Path, listed: Mapping[str, str]) -> list[dict[str, str]]:
    return read_table(path).rows if path.is_file() or path.name in listed else []
