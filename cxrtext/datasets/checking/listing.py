"""The images that a manifest lists, read past its faults."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern

from cxrtext.datasets.checking.problems import Kind, Problems, Severity
from cxrtext.datasets.checking.rows import BadRow, Cells, Rows
from cxrtext.records.manifest import SPLITS

BAD_ROW = Kind(
    "manifest-row",
    Severity.ERROR,
    "rows of the manifest that cannot be read",
    "mend the rows: quote cells that hold a comma or a line break, and save as UTF-8",
)
NO_IMAGE = Kind("empty-image", Severity.ERROR, "rows without an image", "name the image file")
NO_STUDY = Kind(
    "empty-study", Severity.ERROR, "rows without a study_id", "give each image its study"
)
TWICE = Kind(
    "image-listed-twice",
    Severity.ERROR,
    "images listed in two rows",
    "keep one row for each image file",
)
OUTSIDE = Kind(
    "image-outside",
    Severity.ERROR,
    "images outside the manifest's folder",
    "move them into the folder, or allow it with --allow-outside",
)
BAD_SPLIT = Kind(
    "unknown-split",
    Severity.ERROR,
    "rows whose split is not train, val or test",
    "use train, val or test; blank counts as train",
)
TWO_SPLITS = Kind(
    "patient-in-two-splits",
    Severity.ERROR,
    "patients in two splits",
    "keep all images of a patient in one split: figures on the others would be too good",
)
STUDY_OF_TWO = Kind(
    "study-of-two-patients",
    Severity.ERROR,
    "studies of two patients",
    "give each study an id of its own: their reports would be mixed up",
)
NO_PATIENTS = Kind(
    "no-patients",
    Severity.WARNING,
    "images without a patient_id",
    "add patient_id: without it each study counts as a patient, and splits may share patients",
)
NO_SPLIT = Kind(
    "no-split",
    Severity.NOTE,
    "images without a split, which count as train",
    "add split (train, val, test), or train only",
)
ONE_SPLIT = Kind(
    "empty-split",
    Severity.WARNING,
    "splits without an image",
    "keep some patients for validation (val) and for the final test (test)",
)
BLANKS = Kind(
    "missing-metadata",
    Severity.NOTE,
    "columns of the manifest with blank cells",
    "fill them where the column serves as a filter or a condition",
)

VIEW_COLUMNS = ("view", "ViewPosition", "view_position")
_TEXT = {"report", "findings", "impression", "indication", "comparison"}
_KNOWN = {"image", "study_id", "patient_id", "split"}


@dataclass(frozen=True, slots=True)
class ListedImage:
    """An image of the manifest.

    Args:
        row: Its row.
        name: Its ``image`` cell.
        path: Where it lies.
        study: Its study.
        patient: Its patient; the study where none is given.
        split: Its split; "train" where none or a wrong one is given.
        view: Its view as the manifest has it; "" where unknown.
    """

    row: int
    name: str
    path: str
    study: str
    patient: str
    split: str
    view: str


@dataclass(slots=True)
class Listing:
    """What a manifest lists.

    Args:
        images: The images, in the order of the rows.
        rows: How many rows there are, bad ones too.
        blanks: Blank cells by column of metadata.
        columns: All columns.
    """

    images: list[ListedImage] = field(default_factory=list)
    rows: int = 0
    blanks: Counter[str] = field(default_factory=Counter)
    columns: tuple[str, ...] = ()


def read_listing(manifest: Path, problems: Problems, *, allow_outside: bool = False) -> Listing:
    """Read a manifest and note what is wrong with it.

    Args:
        manifest: A table with ``image`` and ``study_id``.
        problems: What is wrong is added.
        allow_outside: Whether images may lie outside the manifest's folder.

    Raises:
        DataError: The table cannot be read, lacks a column, or has no rows.
    """
    rows = Rows(manifest)
    rows.require("image", "study_id")
    listing = Listing(columns=rows.columns)
    for item in _good(rows, listing, problems):
        number, cells = item
        image = _listed(number, cells, manifest.parent, problems, allow_outside)
        if image is not None:
            listing.images.append(image)
    _check_groups(listing, problems)
    _check_blanks(listing, problems)
    return listing


def _good(rows: Rows, listing: Listing, problems: Problems) -> Iterator[tuple[int, Cells]]:
    metadata = [name for name in rows.columns if name not in _TEXT]
    seen: dict[str, int] = {}
    for item in rows:
        listing.rows += 1
        if isinstance(item, BadRow):
            problems.add(BAD_ROW, f"row {item.row}: {item.reason}")
            continue
        number, cells = item
        listing.blanks.update(name for name in metadata if not cells[name].strip())
        name = cells["image"].strip()
        first = seen.setdefault(name, number) if name else number
        if first != number:
            problems.add(TWICE, f"{name} (rows {first} and {number})")
            continue
        yield item


def _listed(
    number: int, cells: Cells, folder: Path, problems: Problems, allow_outside: bool
) -> ListedImage | None:
    name, study = cells["image"].strip(), cells["study_id"].strip()
    if not name:
        problems.add(NO_IMAGE, f"row {number}")
    if not study:
        problems.add(NO_STUDY, f"row {number}")
    split = cells.get("split", "").strip()
    if split and split not in SPLITS:
        problems.add(BAD_SPLIT, f"row {number}")
    if not name or not study:
        return None
    path = _place(folder, name)
    if not allow_outside and not path.is_relative_to(folder.resolve()):
        problems.add(OUTSIDE, f"row {number}")
        return None
    return ListedImage(
        row=number,
        name=name,
        path=str(path),
        study=study,
        patient=intern(cells.get("patient_id", "").strip() or study),
        split=intern(split if split in SPLITS else "train"),
        view=intern(_view(cells)),
    )


def _place(folder: Path, name: str) -> Path:
    try:
        return (folder / name).resolve()
    except (OSError, ValueError, RuntimeError):  # a link to itself, a null character
        return folder.resolve() / "".join(c if c.isprintable() else "?" for c in name)[:200]


def _view(cells: Cells) -> str:
    for column in VIEW_COLUMNS:
        if cells.get(column, "").strip():
            return " ".join(cells[column].upper().split())[:24]
    return ""


def _check_groups(listing: Listing, problems: Problems) -> None:
    """Patients in two splits, studies of two patients."""
    first: dict[str, ListedImage] = {}
    owner: dict[str, ListedImage] = {}
    split_patients: set[str] = set()
    mixed_studies: set[str] = set()
    for image in listing.images:
        other = first.setdefault(image.patient, image)
        if other.split != image.split and image.patient not in split_patients:
            split_patients.add(image.patient)
            problems.add(
                TWO_SPLITS, f"rows {other.row} ({other.split}) and {image.row} ({image.split})"
            )
        other = owner.setdefault(image.study, image)
        if other.patient != image.patient and image.study not in mixed_studies:
            mixed_studies.add(image.study)
            problems.add(STUDY_OF_TWO, f"rows {other.row} and {image.row}")


def _check_blanks(listing: Listing, problems: Problems) -> None:
    total, blanks = listing.rows, listing.blanks
    without = {name: total for name in ("patient_id", "split") if name not in listing.columns}
    for column, kind in (("patient_id", NO_PATIENTS), ("split", NO_SPLIT)):
        missing = without.get(column, blanks[column])
        problems.add(kind, f"{missing} of {total} rows", missing)
    for column in listing.columns:
        if blanks[column] and column not in _KNOWN:
            problems.add(BLANKS, f"{column}: {blanks[column]} of {total}")
    if "split" in listing.columns:
        used = {image.split for image in listing.images}
        for split in SPLITS:
            if split not in used:
                problems.add(ONE_SPLIT, split)
