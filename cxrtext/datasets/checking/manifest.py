"""The images that a manifest lists, and what its rows say of them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern

from cxrtext.datasets.checking.facts import ImageFacts
from cxrtext.datasets.checking.problems import Problems
from cxrtext.records import LeftOut, TableRows
from cxrtext.records.columns import SECTION_COLUMNS
from cxrtext.records.manifest import SPLITS, ImageFolder, listed_image

VIEW_COLUMNS = ("view", "ViewPosition", "view_position")
_TEXT = {"report", *SECTION_COLUMNS}


@dataclass(slots=True)
class ListedImage:
    row: int
    name: str
    path: str
    study: str
    patient: str  # its patient; the study where none is given
    split: str  # its split; "train" where none or a wrong one is given
    view: str  # its view as the manifest has it; "" where unknown
    facts: ImageFacts | None = None  # what its file holds; None where it is missing

    def __str__(self) -> str:
        return f"{self.name} (row {self.row})"

    @property
    def read(self) -> ImageFacts | None:
        """What its file holds, where that can be read."""
        return None if self.facts is None or self.facts.fault else self.facts

    @property
    def any_view(self) -> str:
        """Its view as the manifest or else its file has it; "" where unknown."""
        return self.view or (self.facts.view if self.facts else "")


@dataclass(slots=True)
class Listing:
    images: list[ListedImage] = field(default_factory=list)  # the images, in the order of the rows
    rows: int = 0  # how many rows there are, bad ones too
    blanks: Counter[str] = field(default_factory=Counter)  # blank cells by column of metadata
    columns: tuple[str, ...] = ()


def read_listing(manifest: Path, problems: Problems, *, allow_outside: bool = False) -> Listing:
    rows = TableRows(manifest)
    rows.require("image", "study_id")
    listing = Listing(columns=rows.columns)
    metadata = [name for name in rows.columns if name not in _TEXT]
    places, seen = ImageFolder(manifest.parent), dict[str, int]()
    for item in rows:
        listing.rows += 1
        if isinstance(item, LeftOut):
            problems.add("row-wrong", f"manifest {item.where}: {item.why}")
            continue
        number, cells = item
        listing.blanks.update(name for name in metadata if not cells[name].strip())
        name = cells["image"].strip()
        first = seen.setdefault(name, number) if name else number
        if first != number:
            problems.add("row-wrong", f"manifest row {number}: {name} is in row {first} too")
            continue
        record, wrong = listed_image(number, cells, places, allow_outside=allow_outside)
        for one in wrong:
            problems.add("row-wrong", f"manifest {one.where}: {one.why}")
        if record is not None:
            listing.images.append(
                ListedImage(
                    row=number,
                    name=name,
                    path=str(record.path),
                    study=record.study_id,
                    patient=intern(record.patient_id),
                    split=record.split,
                    view=intern(_view(record.metadata)),
                )
            )
    _check_groups(listing, problems)
    _check_blanks(listing, problems)
    return listing


def _view(cells: Mapping[str, str]) -> str:
    views = (" ".join(cells.get(column, "").upper().split())[:24] for column in VIEW_COLUMNS)
    return next(filter(None, views), "")


def _check_groups(listing: Listing, problems: Problems) -> None:
    first: dict[str, ListedImage] = {}
    owner: dict[str, ListedImage] = {}
    split_patients: set[str] = set()
    mixed_studies: set[str] = set()
    for image in listing.images:
        other = first.setdefault(image.patient, image)
        if other.split != image.split and image.patient not in split_patients:
            split_patients.add(image.patient)
            problems.add(
                "patient-in-two-splits",
                f"rows {other.row} ({other.split}) and {image.row} ({image.split})",
            )
        other = owner.setdefault(image.study, image)
        if other.patient != image.patient and image.study not in mixed_studies:
            mixed_studies.add(image.study)
            problems.add("study-of-two-patients", f"rows {other.row} and {image.row}")


def _check_blanks(listing: Listing, problems: Problems) -> None:
    total, blanks = listing.rows, listing.blanks
    missing = blanks["patient_id"] if "patient_id" in listing.columns else total
    problems.add("no-patients", f"{missing} of {total} rows", missing)
    if "split" in listing.columns:
        used = {image.split for image in listing.images}
        for split in SPLITS:
            if split not in used:
                problems.add("empty-split", split)
