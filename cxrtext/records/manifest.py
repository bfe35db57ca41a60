"""Manifests: tables with one row per image."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.records.cells import AGE, SEX, TIMES, meanings_of
from cxrtext.records.columns import NO_COLUMNS
from cxrtext.records.rows import TableRows
from cxrtext.records.study import ImageRecord, LeftOut
from cxrtext.records.tables import stream_table

SPLITS = ("train", "val", "test")  # the values of the ``split`` column

SOURCE, RECEIVED = "source", "received"
"""Columns that say which hospital system sent an image, and when."""
ACQUIRED, DATES, FOLLOW_UP = "acquired", "dates", "follow_up"
"""Columns that say when an image was taken, what was done to its dates ("modified", "removed", or
"shifted": by the same number of days for all images of a patient), and its number among the
patient's images."""
DAYS = "days_since_first"
"""Column of the days since the patient's first study: an order in time without a date."""
INSTANCE = "instance"
"""Column of an image's SOPInstanceUID or its hash, for systems of the hospital."""
LABEL, OF_MODEL = "label.", "model."
"""Prefixes of columns that a model writes: its labels, and everything else."""


def is_own_column(name: str) -> bool:
    """Whether only this program writes a column, and so can rely on it."""
    return name.lower() == RECEIVED or name.lower().startswith((LABEL, OF_MODEL))


class ImageFolder:
    """Finds the images of a folder, following links; each subfolder is resolved once."""

    KNOWN = 10_000  # folders that are remembered

    def __init__(self, folder: Path) -> None:
        self._root = os.path.realpath(folder)
        self._prefix = self._root.rstrip("/") + "/"
        self._folders = {"": self._root}

    def _real(self, name: str) -> str:
        head, tail = os.path.split(name)
        if tail in ("", ".", ".."):
            return os.path.realpath(os.path.join(self._root, name))  # noqa: PTH118
        if head not in self._folders:
            if len(self._folders) >= self.KNOWN:
                self._folders = {"": self._root}
            self._folders[head] = self._real(head)
        place = f"{self._folders[head]}/{tail}"
        return os.path.realpath(place) if os.path.islink(place) else place  # noqa: PTH114

    def find(self, name: str, allow_outside: bool) -> Path | None:
        """The image's path, or None if it lies outside the folder."""
        try:
            place = self._real(name)
        except ValueError:  # a null character: there is no such file
            return Path(self._root, name)
        inside = place == self._root or place.startswith(self._prefix)
        return Path(place) if inside or allow_outside else None


def read_manifest(
    path: Path, *, allow_outside: bool = False, columns: Mapping[str, str] = NO_COLUMNS
) -> list[ImageRecord]:
    """The records of a manifest, one per row, without checking that the images exist.

    ``path`` is a table with ``image`` (a path relative to the manifest) and ``study_id`` (default:
    the image without its ending); optional ``patient_id`` (default: the study), ``split`` (default:
    train) and any other column.  ``columns`` gives the table's own headers; without the first two
    columns, other headers are guessed.
    """
    records = stream_manifest(path, allow_outside=allow_outside, columns=columns)
    return list(_checked(path, records))


def checked_manifest(path: Path, *, allow_outside: bool = False) -> Iterator[ImageRecord]:
    """The records of :func:`read_manifest` one at a time, in some 100 bytes of memory per row."""
    return _checked(path, stream_manifest(path, allow_outside=allow_outside))


def _checked(path: Path, records: Iterable[ImageRecord]) -> Iterator[ImageRecord]:
    images: dict[int, int] = {}
    patients: dict[str, tuple[str, int]] = {}
    for record in records:
        row = images.setdefault(hash(record.name), record.row)
        if row != record.row:
            raise DataError(f"{path}: image '{record.name}' occurs in rows {row} and {record.row}")
        split, row = patients.setdefault(record.patient_id, (record.split, record.row))
        if split != record.split:
            raise DataError(
                f"{path}: patient '{record.patient_id}' is in two splits, {split} (row {row}) and "
                f"{record.split} (row {record.row}); keep each patient in one"
            )
        yield record


def stream_manifest(
    path: Path, *, allow_outside: bool = False, columns: Mapping[str, str] = NO_COLUMNS
) -> Iterator[ImageRecord]:
    """The records of a manifest one at a time, each checked alone.

    Arguments and errors as in :func:`read_manifest`; :func:`checked_manifest` also compares rows.
    """
    places = ImageFolder(path.parent)
    table = TableRows(path, given=tuple(columns.values()))
    if columns or not {"image", "study_id"} <= {*table.headers}:
        table = TableRows.known(path, columns, text=False)
    meanings = meanings_of(table, (AGE, SEX, *TIMES)) if table.names else {}
    for name, meaning in meanings.items():
        if fault := meaning.fault(name, table.names.get(name, name)):
            raise DataError(f"{path}: {fault}; or leave the column out")
    for number, row in enumerate(stream_table(table, required=["image"]), 1):
        row.setdefault("study_id", row["image"].strip().rpartition(".")[0])
        row |= {name: meanings[name].read(row[name]) for name in meanings}
        record, wrong = listed_image(number, row, places, allow_outside=allow_outside)
        for one in wrong:
            raise DataError(f"{path}: {one.where}: {one.why}")
        if record is not None:
            yield record


def listed_image(
    number: int, cells: dict[str, str], places: ImageFolder, *, allow_outside: bool = False
) -> tuple[ImageRecord | None, list[LeftOut]]:
    """The image of a row with its other cells as metadata, and what is wrong with the row.

    A wrong split counts as train.
    """
    name, study_id = cells.pop("image").strip(), cells.pop("study_id").strip()
    patient_id = cells.pop("patient_id", "").strip() or study_id
    split = cells.pop("split", "").strip() or "train"
    where, image = f"row {number}", places.find(name, allow_outside)
    wrong = []
    if not name:
        wrong.append(LeftOut(where, "it has an empty image; name the file"))
    if not study_id:
        wrong.append(LeftOut(where, "it has an empty study_id; give it its study"))
    if split not in SPLITS:
        why = f"split '{split}' is not one of {', '.join(SPLITS)}"
        wrong.append(LeftOut(where, why))
        split = "train"
    if name and image is None:
        why = (
            f"image '{name}' lies outside the manifest's folder; import the table with "
            "--follow-links, or allow it with --allow-outside where a command has that"
        )
        wrong.append(LeftOut(where, why))
    if not name or not study_id or image is None:
        return None, wrong
    return ImageRecord(image, name, study_id, patient_id, split, cells, number), wrong
