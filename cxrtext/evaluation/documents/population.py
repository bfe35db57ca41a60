"""The images that an evaluation knew of: whose they are, what is known of them, which it measured.

All columns have one entry an image, in the order of the manifest.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from cxrtext.evaluation.classification.classified import Classified, Codes, label_codes
from cxrtext.evaluation.data import DataFolder
from cxrtext.evaluation.metrics import UNKNOWN_LABEL, Truth
from cxrtext.evaluation.predictions.columns import Images, images_of
from cxrtext.records.manifest import SPLITS

UNCERTAIN_NAMES = {
    "ignore": "left out as unknown ones are",
    "positive": "counted as present",
    "negative": "counted as absent",
}
"""What becomes of uncertain labels, by the setting."""
PLURALS = {"study": "studies", "box": "boxes", "file or row": "files and rows"}
LABEL_NAMES = {1: "with", 0: "without", -1: "uncertain", UNKNOWN_LABEL: "missing"}


@dataclass(frozen=True, slots=True)
class Population:
    """Images [B], their labels by finding (int8 [B]), and which of them were measured.

    ``whole``: these are all images of a manifest, and not only those that a file of predictions
    holds.
    """

    images: Images
    labels: Mapping[str, Codes]
    measured: Truth
    whole: bool = True

    def __len__(self) -> int:
        return len(self.images)

    def counts(self, rows: Truth) -> "Counts":
        at = np.flatnonzero(rows)
        studies, patients = self.images.studies, self.images.patients
        return Counts(len(at), *(len({each[row] for row in at}) for each in (studies, patients)))

    def of_split(self, split: str) -> Truth:
        return np.array([one == split for one in self.images.splits], dtype=np.bool_)

    @property
    def split_names(self) -> list[str]:
        return [name for name in SPLITS if name in set(self.images.splits)]

    @property
    def all_rows(self) -> Truth:
        return np.ones(len(self), dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class Counts:
    images: int
    studies: int | None = None
    patients: int | None = None

    def text(self, noun: str = "image") -> str:
        """In words; ``noun`` is what is counted first."""
        parts = ((self.images, noun), (self.studies, "study"), (self.patients, "patient"))
        return ", ".join(counted(number, name) for number, name in parts if number is not None)


def counted(number: int, name: str) -> str:
    """A number with its noun: "1 study", "2,500 studies"."""
    return f"1 {name}" if number == 1 else f"{number:,} {PLURALS.get(name, name + 's')}"


def population_of(folder: DataFolder, findings: Sequence[str], measured: Set[str]) -> Population:
    """The images of a data folder, and those of them that were measured, by name."""
    records = folder.records
    columns = list(dict.fromkeys(name for record in records for name in record.metadata))
    labels: Mapping[str, Codes] = {}
    if folder.labels is not None:
        codes = label_codes(folder.labels, [record.study_id for record in records], findings)
        labels = dict(zip(findings, codes, strict=True))
    own = np.array([one.name in measured for one in records], dtype=np.bool_)
    return Population(images_of(records, columns), labels, own)


def population_in(classified: Classified, labeled: bool) -> Population:
    labels = dict(zip(classified.findings, classified.labels, strict=True)) if labeled else {}
    return Population(classified.images, labels, classified.measured, whole=False)
