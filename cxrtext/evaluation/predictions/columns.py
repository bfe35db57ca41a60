"""Columns of a part: from lists and arrays to Arrow and back.

Values that do not fit a column raise a ValueError when read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.metrics.ranking import UNKNOWN_LABEL

if TYPE_CHECKING:
    import pyarrow as pa

    from cxrtext.records import ImageRecord

Places = NDArray[np.intp]
MANIFEST = "manifest."
"""The prefix of columns that come from the manifest, such as ``manifest.sex``."""


@dataclass(frozen=True, slots=True)
class Images:
    """The images of rows, [B]; ``metadata`` has columns of the manifest."""

    names: list[str]
    studies: list[str]
    patients: list[str]
    splits: list[str]
    metadata: dict[str, list[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    def take(self, places: Sequence[int] | Places) -> "Images":
        def some(values: Sequence[str]) -> list[str]:
            return [values[place] for place in places]

        return Images(
            some(self.names),
            some(self.studies),
            some(self.patients),
            some(self.splits),
            {name: some(values) for name, values in self.metadata.items()},
        )

    def to_columns(self, places: Places) -> dict[str, Any]:
        """The columns for rows of the images at these places, [n]."""
        columns = {
            "image": self.names,
            "study_id": self.studies,
            "patient_id": self.patients,
            "split": self.splits,
            **{MANIFEST + name: values for name, values in self.metadata.items()},
        }
        return {name: words(values, places) for name, values in columns.items()}

    @classmethod
    def from_columns(cls, table: "pa.Table") -> tuple["Images", Places]:
        """The images in order of first appearance, and the place of each row's image, [n]."""
        names, places = numbered(table["image"])
        first = np.full(len(names), -1, dtype=np.intp)
        first[places[::-1]] = np.arange(len(places))[::-1]

        def of_first(column: str) -> list[str]:
            import pyarrow as pa

            if column not in table.column_names:
                return [""] * len(names)
            rows = table[column].take(pa.array(first)).cast(pa.string()).to_pylist()
            return [row or "" for row in rows]

        metadata = {
            name.removeprefix(MANIFEST): of_first(name)
            for name in table.column_names
            if name.startswith(MANIFEST) and table[name].null_count < len(table)
        }
        studies, patients, splits = map(of_first, ("study_id", "patient_id", "split"))
        # As in a manifest, the study stands in for a missing patient; here also the image for it.
        studies = [study or name for study, name in zip(studies, names, strict=True)]
        patients = [patient or study for patient, study in zip(patients, studies, strict=True)]
        return cls(names, studies, patients, splits, metadata), places


def images_of(records: "Sequence[ImageRecord]", columns: Sequence[str] = ()) -> Images:
    """The images of records, with the manifest columns that are not empty."""
    metadata = {
        name: [str(record.metadata.get(name, "")).strip() for record in records] for name in columns
    }
    return Images(
        [record.name for record in records],
        [record.study_id for record in records],
        [record.patient_id for record in records],
        [record.split for record in records],
        {name: values for name, values in metadata.items() if any(values)},
    )


def words(values: Sequence[str], places: Places | None = None) -> "pa.DictionaryArray":
    """Texts, each stored once; with ``places`` [n], the texts at those places."""
    import pyarrow as pa

    if places is None:
        return pa.array(values, pa.string()).dictionary_encode()
    numbers = pa.array(np.asarray(places, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(numbers, pa.array(values, pa.string()))


def texts(table: "pa.Table", column: str) -> list[str]:
    return [value or "" for value in table[column].to_pylist()]


def numbered(column: "pa.ChunkedArray") -> tuple[list[str], Places]:
    """The distinct texts of a column in order of appearance, and the place of each row's text."""
    import pyarrow as pa

    plain = column.cast(pa.string()).combine_chunks()
    if plain.null_count:
        raise ValueError("a row has no image or no finding")
    encoded = plain.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(
        np.intp
    )


def floats(table: "pa.Table", column: str) -> NDArray[np.float64]:
    """A column of numbers, float64 [n]; NaN for empty cells."""
    values: NDArray[np.float64] = table[column].to_numpy().astype(np.float64)
    return values


def flags(table: "pa.Table", column: str) -> NDArray[np.bool_]:
    """A column of true and false, or of 1 and 0, [n]."""
    values: NDArray[Any] = table[column].to_numpy()
    if values.dtype != np.bool_ and not all(value in (0, 1) for value in values.tolist()):
        raise ValueError(f"column '{column}' needs true or false in every row")
    return values.astype(np.bool_)


def whole(table: "pa.Table", column: str) -> NDArray[np.int64]:
    """A column of whole numbers from 1, int64 [n]."""
    if table[column].null_count:
        raise ValueError(f"column '{column}' has empty rows")
    values: NDArray[np.int64] = table[column].to_numpy().astype(np.int64)
    if (values < 1).any():
        raise ValueError(f"column '{column}' has numbers below 1")
    return values


@dataclass(frozen=True, slots=True)
class Pivot:
    """Rows in any order, one for every finding and image, arranged as [F, B]."""

    findings: tuple[str, ...]
    images: Images
    which: Places
    rows: Places

    @classmethod
    def of(cls, table: "pa.Table") -> "Pivot":
        images, rows = Images.from_columns(table)
        findings, which = numbered(table["finding"])
        cells = len(findings) * len(images)
        if len(table) != cells or len(np.unique(which * len(images) + rows)) != cells:
            raise ValueError("an image lacks a finding, or has one twice")
        return cls(tuple(findings), images, which, rows)

    def placed(self, values: NDArray[Any]) -> NDArray[Any]:
        """Arrange values of the rows, [F · B] -> [F, B]."""
        arranged = np.empty((len(self.findings), len(self.images)), dtype=values.dtype)
        arranged[self.which, self.rows] = values
        return arranged


def codes(table: "pa.Table") -> NDArray[np.int8]:
    """The column ``label``: 1, 0, −1, or :data:`UNKNOWN_LABEL` for empty cells."""
    given = floats(table, "label")
    labels = np.where(np.isnan(given), UNKNOWN_LABEL, given)
    if not np.isin(labels, (1, 0, -1, UNKNOWN_LABEL)).all():
        raise ValueError("a label is not 1, 0, -1 or empty")
    return labels.astype(np.int8)
