"""The images known to an evaluation: table 1, and the flow to those measured (STARD).

All columns have one entry for each image, in the order of the manifest.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.datasets.admission.public import NOTE
from cxrtext.datasets.importing.folder import WRITTEN
from cxrtext.errors import DataError
from cxrtext.evaluation.classification.classified import Classified, Codes, label_codes
from cxrtext.evaluation.classification.subgroups import MOST_GROUPS, age_years
from cxrtext.evaluation.data import DataFolder
from cxrtext.evaluation.predictions.columns import Images, images_of
from cxrtext.files import read_sealed, sha256
from cxrtext.files.digests import read_sums
from cxrtext.metrics.ranking import UNKNOWN_LABEL, Floats, Truth
from cxrtext.page import EMPTY, Block, Table, Text
from cxrtext.records.manifest import SPLITS
from cxrtext.records.study import DAMAGED
from cxrtext.records.tables import read_table

PLURALS = {"study": "studies", "box": "boxes", "file or row": "files and rows"}
LABEL_NAMES = {1: "with", 0: "without", -1: "uncertain", UNKNOWN_LABEL: "missing"}
COLUMNS = {"sex": "patient", "view": "image", "site": "image", "manufacturer": "image"}
"""Manifest columns that table 1 counts, and whether by patient or by image."""
MISSING = "missing"
TABLE_NOTE = (
    "Numbers with percentages of their column, or median [first and third quartile]. Age and sex "
    "are those of a patient's first image in the split that says them. A label belongs to a "
    "study and counts for each of its images."
)
MOST_REASONS = 6
"""Reasons listed separately; the rest are counted together."""
NO_REASON = "not measured, with no reason noted"
_NAMED = re.compile(r"^[^:]*([/\\]|\.(png|jpe?g|dcm|dicom)\b)[^:]*:\s*", re.IGNORECASE)


def counted(number: int, name: str) -> str:
    """A number with its noun: "1 study", "2,500 studies"."""
    return f"1 {name}" if number == 1 else f"{number:,} {PLURALS.get(name, name + 's')}"


@dataclass(frozen=True, slots=True)
class Counts:
    images: int
    studies: int | None = None
    patients: int | None = None

    def text(self, noun: str = "image") -> str:
        """In words; ``noun`` is what is counted first."""
        parts = ((self.images, noun), (self.studies, "study"), (self.patients, "patient"))
        return ", ".join(counted(number, name) for number, name in parts if number is not None)


@dataclass(frozen=True, slots=True)
class Population:
    """Images [B], their labels by finding (int8 [B]), and which of them were measured.

    ``whole``: these are all images of a manifest, not only those in a file of predictions.
    """

    images: Images
    labels: Mapping[str, Codes]
    measured: Truth
    whole: bool = True

    def __len__(self) -> int:
        return len(self.images)

    def counts(self, rows: Truth) -> Counts:
        at = np.flatnonzero(rows)
        studies, patients = self.images.studies, self.images.patients
        return Counts(len(at), *(len({each[row] for row in at}) for each in (studies, patients)))

    def of_split(self, split: str) -> Truth:
        return np.array([split in ("all", one) for one in self.images.splits], dtype=np.bool_)

    @property
    def split_names(self) -> list[str]:
        return [name for name in SPLITS if name in set(self.images.splits)]


def population_of(folder: DataFolder, findings: Sequence[str], measured: Set[str]) -> Population:
    """The images of a data folder; ``measured`` names those that were measured."""
    records = folder.records
    columns = list(dict.fromkeys(name for record in records for name in record.metadata))
    labels: Mapping[str, Codes] = {}
    if folder.labels is not None:
        codes = label_codes(folder.labels, [record.study_id for record in records], findings)
        labels = dict(zip(findings, codes, strict=True))
    own = np.array([record.name in measured for record in records], dtype=np.bool_)
    return Population(images_of(records, columns), labels, own)


def population_in(classified: Classified, labeled: bool) -> Population:
    labels = dict(zip(classified.findings, classified.labels, strict=True)) if labeled else {}
    return Population(classified.images, labels, classified.measured, whole=False)


def table_one(population: Population) -> list[list[str]]:
    """Describe the images by split, and those measured if they are not one of the splits.

    Returns rows of cells, the header first.
    """
    parts = {name: population.of_split(name) for name in population.split_names}
    measured, everything = population.measured, population.of_split("all")
    if len(parts) > 1:
        parts["all"] = everything
    columns = {
        f"{name} (measured)" if np.array_equal(rows, measured) else name: rows
        for name, rows in parts.items()
    }
    if columns.keys() == parts.keys():
        columns["measured"] = measured
    masks = list(columns.values())
    counts = [population.counts(mask) for mask in masks]
    rows = [["", *columns]]
    for name in ("images", "studies", "patients"):
        rows.append([name.capitalize(), *(f"{getattr(one, name):,}" for one in counts)])
    each = [Counter(population.images.patients[row] for row in np.flatnonzero(m)) for m in masks]
    sizes = (np.fromiter(one.values(), dtype=np.float64) for one in each)
    rows.append(["Images of a patient (median [IQR])", *map(_median, sizes)])
    rows += _age(population, masks)
    for column, unit in COLUMNS.items():
        rows += _levels(population, masks, column, unit)
    for finding, labels in population.labels.items():
        for value, name in LABEL_NAMES.items():
            numbers = [int((labels[mask] == value).sum()) for mask in masks]
            if value in (0, 1) or any(numbers):
                cells = [_share(n, int(m.sum())) for n, m in zip(numbers, masks, strict=True)]
                rows.append([f"{finding}: {name} (images, %)", *cells])
    return rows


def _median(values: Floats) -> str:
    if not len(values):
        return EMPTY
    low, middle, high = np.percentile(values, (25, 50, 75))
    return f"{middle:.4g} [{low:.4g}, {high:.4g}]"


def _share(number: int, total: int) -> str:
    return f"{number:,} ({100 * number / total:.1f})" if total else EMPTY


def _first(population: Population, mask: Truth, cells: Sequence[str]) -> dict[str, str]:
    """The first cell of each patient's images that is not empty, or ""."""
    first: dict[str, str] = {}
    for row in np.flatnonzero(mask):
        patient = population.images.patients[row]
        first[patient] = first.get(patient) or cells[int(row)]
    return first


def _age(population: Population, masks: Sequence[Truth]) -> list[list[str]]:
    if "age" not in population.images.metadata:
        return []
    ages = population.images.metadata["age"]
    cells = ["" if np.isnan(age_years(cell)) else cell for cell in ages]
    medians, missing = [], []
    for mask in masks:
        years = np.array([age_years(cell) for cell in _first(population, mask, cells).values()])
        unknown = np.isnan(years)
        medians.append(_median(years[~unknown]))
        missing.append(_share(int(unknown.sum()), len(years)))
    return [
        ["Age: years (patients, median [IQR])", *medians],
        [f"Age: {MISSING} (patients, %)", *missing],
    ]


def _levels(
    population: Population, masks: Sequence[Truth], column: str, unit: str
) -> list[list[str]]:
    if column not in population.images.metadata:
        return []
    cells = population.images.metadata[column]
    counts = []
    for mask in masks:
        some: Iterable[str] = (cells[row] for row in np.flatnonzero(mask))
        if unit == "patient":
            some = _first(population, mask, cells).values()
        counts.append(Counter(cell or MISSING for cell in some))
    total = Counter(cell or MISSING for cell in cells)
    names = [name for name, _ in total.most_common() if name != MISSING]
    rest = names[MOST_GROUPS - 1 :] if len(names) > MOST_GROUPS else []
    levels = {name: [name] for name in sorted(set(names) - set(rest))}
    levels |= {f"other ({len(rest)} values)": rest} if rest else {}
    levels[MISSING] = [MISSING]
    return [
        [
            f"{column.capitalize()}: {level} ({unit}s, %)",
            *(_share(sum(one[name] for name in some), one.total()) for one in counts),
        ]
        for level, some in levels.items()
    ]


@dataclass(frozen=True, slots=True)
class Step:
    """Images at one point, and those that go no further, by reason; ``noun`` names them."""

    title: str
    counts: Counts
    left_out: Mapping[str, Counts] = field(default_factory=dict)
    noun: str = "image"


@dataclass(frozen=True, slots=True)
class Flow:
    """Steps from the first to the images measured, and their labels by finding.

    ``labels[finding]`` counts images by "with", "without", "uncertain" and "missing".  Figures that
    do not add up raise a ValueError.
    """

    steps: Sequence[Step]
    labels: Mapping[str, Mapping[str, int]]
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        for one, after in zip(self.steps, self.steps[1:], strict=False):
            left = sum(part.images for part in one.left_out.values())
            if one.counts.images - left != after.counts.images:
                raise ValueError(
                    f"{one.title}: {one.counts.images} images less {left} left out are not the "
                    f"{after.counts.images} of '{after.title}'"
                )
        measured = self.steps[-1].counts.images
        for finding, numbers in self.labels.items():
            if sum(numbers.values()) != measured:
                raise ValueError(f"{finding}: its labels are not {measured}: {dict(numbers)}")

    def to_dict(self) -> dict[str, Any]:
        return {
            "steps": [asdict(step) for step in self.steps],
            "labels": {name: dict(numbers) for name, numbers in self.labels.items()},
            "notes": list(self.notes),
        }

    def blocks(self) -> list[Block]:
        steps = [["", "how many"]]
        for step in self.steps:
            steps.append([step.title, step.counts.text(step.noun)])
            steps += [
                [f"\u2003left out, {why}", some.text(step.noun)]
                for why, some in step.left_out.items()
            ]
        strong = frozenset(at for at, row in enumerate(steps) if row[0][:1] not in ("", "\u2003"))
        blocks: list[Block] = [Table(steps, "Flow of images", strong)]
        if self.labels:
            names = list(LABEL_NAMES.values())
            rows = [["finding", *names, "sum"]]
            for finding, numbers in self.labels.items():
                counts = [*(numbers[name] for name in names), sum(numbers.values())]
                rows.append([finding, *(f"{count:,}" for count in counts)])
            blocks.append(Table(rows, "Labels of the images measured"))
        return [*blocks, *map(Text, self.notes)]


def flow_of(
    population: Population,
    split: str,
    *,
    imported: "Imported | None" = None,
    rejects: Mapping[str, str] | None = None,
    validation: bool = False,
    first: Step | None = None,
) -> Flow:
    """Follow the images of a population to those measured, of one split or "all".

    ``rejects`` are names of images that could not be read, and why; ``validation`` says whether
    images of split "val" chose thresholds; ``first`` is a step before all others.
    """
    everything = population.counts(population.of_split("all"))
    notes: list[str] = []
    steps = [] if first is None else [first]
    if imported is not None and population.whole:
        left_out = {why: Counts(n) for why, n in _fewer(imported.left_out).items()}
        total = everything.images + sum(imported.left_out.values())
        steps.append(Step("What the import looked at", Counts(total), left_out, "file or row"))
        if not imported.unchanged:
            notes.append(
                "The manifest was changed after the import, so the first step counts what the "
                "manifest holds now and what the import left out."
            )
    title = "Images of the manifest" if population.whole else "Images of the file of predictions"
    names, left_out = population.split_names, {}
    if split != "all" and names != [split]:
        for name in (name for name in names if name != split):
            use = "chose thresholds and calibration" if validation and name == "val" else ""
            counts = population.counts(population.of_split(name))
            left_out[f"split {name}: {use or 'not measured'}"] = counts
    steps.append(Step(title, everything, left_out))
    if left_out:
        own = population.counts(population.of_split(split))
        steps.append(Step(f"Images of split {split}", own))
    asked = population.of_split(split)
    failed = (population.images.names[at] for at in np.flatnonzero(asked & ~population.measured))
    rejects = rejects or {}
    reasons = Counter(
        f"cannot be read: {reason_class(rejects[name])}" if name in rejects else NO_REASON
        for name in failed
    )
    lost = {why: Counts(n) for why, n in _fewer(dict(reasons.most_common())).items()}
    steps[-1] = replace(steps[-1], left_out={**steps[-1].left_out, **lost})
    at = population.measured
    steps.append(Step("Images measured", population.counts(at)))
    labels = {
        finding: {name: int((values[at] == value).sum()) for value, name in LABEL_NAMES.items()}
        for finding, values in population.labels.items()
    }
    return Flow(steps, labels, notes)


def reason_class(reason: str) -> str:
    """A reason without its details of one file: no path, no name, no number.

    >>> reason_class("/data/a.png: is 12 x 9 pixels; send a larger image")
    'is n x n pixels'
    >>> reason_class("John Doe.png: cannot be decoded")
    'cannot be decoded'
    """
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "…", reason.partition(";")[0])
    # The subject is before a colon; names may hold spaces, and be people's.
    text = _NAMED.sub("", text)
    text = re.sub(r"\S*/\S*:?", "", text)
    text = " ".join(re.sub(r"\d+", "n", text).split()).strip(" :")
    return text[:90] or "no reason given"


def _fewer(counts: Mapping[str, int]) -> dict[str, int]:
    ordered = sorted(counts.items(), key=lambda one: -one[1])
    if len(ordered) <= MOST_REASONS:
        return dict(ordered)
    kept = dict(ordered[: MOST_REASONS - 1])
    return {**kept, "other reasons": sum(n for _, n in ordered[len(kept) :])}


@dataclass(frozen=True, slots=True)
class Imported:
    """An import into a data folder.

    ``left_out``: images (files and rows that would have been images) by reason, most first.
    ``unchanged``: whether the manifest is still what the import wrote, by its list of digests.
    """

    left_out: Mapping[str, int]
    unchanged: bool = True


def read_imported(folder: Path) -> Imported | None:
    """What ``cxrtext import`` noted in a folder.

    None if the note is missing or damaged, or the list of what was left out is damaged or gone:
    images that nobody knows about would seem never to have been there.
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
