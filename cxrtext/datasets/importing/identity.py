"""Splits drawn from the ids of patients, and the studies kept."""

import hashlib

from cxrtext.datasets.admission.ids import digest
from cxrtext.datasets.importing.reading import TRAIN_OR_VAL, FoundImage


def draw_split(patient: str, shares: tuple[int, int, int], seed: int, given: str = "") -> str:
    """Draw train, val or test by a hash of the patient, and of nothing but the arguments."""
    train, val, test = shares
    if given == TRAIN_OR_VAL:
        test = 0
        train, val = (train, val) if train + val else (1, 0)
    key = f"cxrtext split {seed}".encode()[:64]
    data = patient.encode("utf-8", "surrogatepass")
    drawn = int.from_bytes(hashlib.blake2b(data, digest_size=8, key=key).digest())
    place = drawn * (train + val + test) >> 64
    return "train" if place < train else "val" if place < train + val else "test"


class Studies:
    """Which studies were kept, by which numbers a report may name them, and what has come."""

    def __init__(self) -> None:
        self._kept: set[int] = set()
        self._came: dict[str, set[int]] = {"report": set(), "labels": set()}
        self._by_accession: dict[int, tuple[str, int] | None] = {}

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def without_report(self) -> int:
        """How many studies no report has come for."""
        return len(self._kept) - len(self._came["report"])

    def add(self, image: FoundImage) -> None:
        """Take note of the study of an image that was kept."""
        self._kept.add(digest(image.study_id))
        if not image.accession or image.accession == image.study_id:
            return
        entry = (image.study_id, digest(image.patient_id or image.study_id))
        key = digest(image.accession.casefold())
        known = self._by_accession.setdefault(key, entry)
        # One number for two studies names neither: a report would go to the wrong patient.
        if known is not None and known != entry:
            self._by_accession[key] = None

    def named(self, number: str) -> str | None:
        """The study that a report or a label row names by study id or accession number."""
        if digest(number) in self._kept:
            return number
        entry = self._by_accession.get(digest(number.casefold()))
        return None if entry is None else entry[0]

    def is_first(self, what: str, study_id: str) -> bool:
        """Note that the "report" or "labels" of a kept study came; False where some had before."""
        seen = self._came[what]
        before = len(seen)
        seen.add(digest(study_id))
        return len(seen) > before
