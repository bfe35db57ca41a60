"""Manifests: a table with one row an image."""

import os
from collections.abc import Iterable
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.records.study import ImageRecord
from cxrtext.records.tables import read_table

SPLITS = ("train", "val", "test")  # the values of the ``split`` column


class _Places:
    """Where the images of a folder lie, links followed; each folder is looked at once."""

    def __init__(self, folder: Path) -> None:
        self._root = os.path.realpath(folder)
        self._prefix = self._root.rstrip("/") + "/"
        self._folders = {"": self._root}

    def _real(self, name: str) -> str:
        head, tail = os.path.split(name)
        if tail in ("", ".", ".."):
            return os.path.realpath(os.path.join(self._root, name))  # noqa: PTH118
        if head not in self._folders:
            self._folders[head] = self._real(head)
        place = f"{self._folders[head]}/{tail}"
        return os.path.realpath(place) if os.path.islink(place) else place  # noqa: PTH114

    def find(self, name: str, allow_outside: bool) -> Path | None:
        """The image's path, or None where it leaves the folder."""
        place = self._real(name)
        inside = place == self._root or place.startswith(self._prefix)
        return Path(place) if inside or allow_outside else None


def read_manifest(path: Path, *, allow_outside: bool = False) -> list[ImageRecord]:
    """Read a manifest.

    Args:
        path: A CSV or Parquet file with ``image`` (a path relative to the manifest) and
            ``study_id``; optional ``patient_id`` (default: the study), ``split`` (default: train)
            and any other column.
        allow_outside: Whether an image may lie outside the manifest's folder.

    Returns:
        One record a row, in the order of the table.  Whether an image exists is not looked at.

    Raises:
        DataError: A column or a value is missing or wrong, an image occurs twice, a path leaves
            the folder, or a patient stands in two splits.
    """
    table = read_table(path, required=["image", "study_id"])
    records = []
    seen: dict[str, int] = {}
    places = _Places(path.parent)
    for number, row in enumerate(table.rows, 1):
        name, study_id = row.pop("image").strip(), row.pop("study_id").strip()
        patient_id = row.pop("patient_id", "").strip() or study_id
        split = row.pop("split", "").strip() or "train"
        for column, value in (("image", name), ("study_id", study_id)):
            if not value:
                raise DataError(f"{path}: row {number} has an empty {column}")
        if split not in SPLITS:
            raise DataError(
                f"{path}: row {number}: split '{split}' is not one of {', '.join(SPLITS)}"
            )
        if name in seen:
            raise DataError(f"{path}: image '{name}' occurs in rows {seen[name]} and {number}")
        seen[name] = number
        image = places.find(name, allow_outside)
        if image is None:
            raise DataError(
                f"{path}: row {number}: image '{name}' lies outside the manifest's folder; move "
                "it there, or allow it with --allow-outside"
            )
        records.append(
            ImageRecord(image, name, study_id, patient_id, split, metadata=row, row=number)
        )
    check_patient_disjoint(path, records)
    return records


def check_patient_disjoint(path: Path, records: Iterable[ImageRecord]) -> None:
    """Refuse a manifest in which one patient stands in two splits, with both rows."""
    first: dict[str, ImageRecord] = {}
    for record in records:
        other = first.setdefault(record.patient_id, record)
        if other.split != record.split:
            raise DataError(
                f"{path}: patient '{record.patient_id}' is in two splits, {other.split} (row "
                f"{other.row}) and {record.split} (row {record.row}); keep each patient in one"
            )
