"""Whom to forget: the ids and files that identify them, found step by step."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cxrtext.datasets.admission.ids import Ids
from cxrtext.errors import WorkError
from cxrtext.files import read_sealed, write_private
from cxrtext.files.digests import sealed

STUDY_COLUMNS = ("study_id", "studyinstanceuid", "study_instance_uid")
PATIENT_COLUMNS = ("patient_id", "subject_id", "patientid")
IMAGE_COLUMNS = ("image", "image_id", "file_name", "item", "path", "dicom_id")
"""Columns of tables that name a study, a patient or an image, in lower case."""


@dataclass(slots=True)
class Subject:
    """What is known about the patient or study to forget.

    For a patient, these are all of their studies and images; for a study, its images.
    """

    patients: set[str] = field(default_factory=set)
    studies: set[str] = field(default_factory=set)
    images: set[str] = field(default_factory=set)  # named as in manifests and indexes
    files: set[str] = field(default_factory=set)  # paths of image files
    digests: set[str] = field(default_factory=set)  # SHA-256 of these files, hexadecimal
    ids: Ids = field(default_factory=Ids)  # how an import replaced the hospital's ids

    def has(self, row: dict[str, Any]) -> bool:
        """Whether a row of a table, by column in lower case, is about them.

        The patient decides first, then the study, then the image: two archives may use the same
        numbers for studies and images.
        """
        for columns, ids in (
            (PATIENT_COLUMNS, self.patients),
            (STUDY_COLUMNS, self.studies),
            (IMAGE_COLUMNS, self.images),
        ):
            named = [value for column in columns if isinstance(value := row.get(column), str)]
            if ids and any(named):
                return any(value in ids for value in named)
        return False

    def has_study(self, uid: str) -> bool:
        """Whether a study's UID from a header is theirs, as it is or hashed as in an index."""
        return bool(uid) and not {uid, self.ids.of("study", uid)}.isdisjoint(self.studies)

    def has_image(self, uid: str) -> bool:
        """The same for an image's UID."""
        return bool(uid) and not {uid, self.ids.of("instance", uid)}.isdisjoint(self.images)

    @property
    def bare(self) -> set[str]:
        """The patients' ids without issuers, as they may be in a header or message."""
        return {patient.partition(":")[2] for patient in self.patients} - {""}

    @property
    def size(self) -> int:
        """How much is known; it only grows."""
        return sum(map(len, self._known().values()))

    def _known(self) -> dict[str, set[str]]:
        return {name: getattr(self, name) for name in _SETS}

    def needles(self) -> list[str]:
        """Texts to search for in files of other kinds."""
        texts = {*self.patients, *self.studies, *self.images, *self.digests}
        return sorted(text for text in texts if len(text) >= SHORTEST)

    def save(self, path: Path) -> None:
        """Keep what is known until the work is done, in a file that only its owner may read."""
        content = {name: sorted(values) for name, values in self._known().items()}
        temporary = path.with_name(path.name + ".new")
        write_private(temporary, json.dumps(sealed(content)).encode("utf-8", "surrogatepass"))
        temporary.replace(path)

    def load(self, path: Path) -> None:
        """Add what a stopped run knew."""
        try:
            noted = read_sealed(path)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise WorkError(f"{path}: {error}; remove it, and run the command again") from None
        for name, values in self._known().items():
            values.update(noted.get(name, ()))


SHORTEST = 4
"""The fewest characters of an id to search other files for; shorter ones are everywhere."""

_SETS = ("patients", "studies", "images", "files", "digests")
