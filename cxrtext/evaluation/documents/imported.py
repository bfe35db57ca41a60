"""What an import left out of a data folder, and why, as it noted."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cxrtext.datasets.admission.public import NOTE
from cxrtext.datasets.importing.folder import WRITTEN
from cxrtext.errors import DataError
from cxrtext.files import read_sealed, sha256
from cxrtext.files.digests import read_sums
from cxrtext.records.study import DAMAGED
from cxrtext.records.tables import read_table


@dataclass(frozen=True, slots=True)
class Imported:
    """An import into a data folder.

    ``left_out``: images (files and rows that would have been images) by the reason, most first.
    ``unchanged``: whether the manifest is what the import wrote, as its list of digests says.
    """

    left_out: Mapping[str, int]
    unchanged: bool = True


def read_imported(folder: Path) -> Imported | None:
    """What ``cxrtext import`` noted in a folder.

    None where there is no note, or a damaged one, or its list of what was left out is damaged or
    gone: images that nobody knows of would seem never to have been there.
    """
    log = folder / WRITTEN[-1]
    try:
        read_sealed(folder / NOTE)
        listed = read_sums(folder) or {}
        left_out = read_table(log).rows if log.is_file() or log.name in listed else []
    except (OSError, ValueError, DataError):
        return None
    images = Counter[str]()
    for row in left_out:
        if row.get("of", "image") == "image":
            damaged = row.get("kind") == "damaged"
            images[DAMAGED if damaged else row.get("reason", "").partition(":")[0]] += 1
    manifest = folder / "manifest.csv"
    return Imported(
        left_out=dict(images.most_common()),
        unchanged=manifest.is_file() and listed.get(manifest.name) == sha256(manifest),
    )
