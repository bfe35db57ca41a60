"""The studies kept, and by which numbers reports and labels name them."""

from typing import NamedTuple

from cxrtext.datasets.admission.ids import digest
from cxrtext.datasets.importing.reading import FoundImage


class _Owner(NamedTuple):
    """Whose a study is, by digests."""

    patient: int  # of its id with the issuer
    bare: int  # of its id alone
    issued: bool


def _owner(patient: str, issuer: str) -> _Owner:
    bare = patient.removeprefix(f"{issuer}:") if issuer else patient
    return _Owner(digest(patient), digest(bare), bool(issuer))


class Studies:
    """Which studies were kept, by which numbers a report may name them, and what has come."""

    def __init__(self) -> None:
        self._kept: dict[int, _Owner | None] = {}
        self._came: dict[str, set[int]] = {"report": set(), "labels": set()}
        # Study, patient, and whether its number has an issuer; None where two studies share one.
        self._by_accession: dict[int, tuple[str, int, bool] | None] = {}

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def without_report(self) -> int:
        """How many studies no report has come for."""
        return len(self._kept) - len(self._came["report"])

    def add(self, image: FoundImage) -> None:
        """Take note of the study of an image that was kept."""
        owner = _owner(image.patient_id, image.issuer) if image.patient_id else None
        self._kept.setdefault(digest(image.study_id), owner)
        if not image.accession or image.accession == image.study_id:
            return
        issuer = image.accession_issuer
        entry = (image.study_id, digest(image.patient_id or image.study_id), bool(issuer))
        for key in {_number("", image.accession), _number(issuer, image.accession)}:
            known = self._by_accession.setdefault(key, entry)
            # One number for two studies names neither: a report would go to the wrong patient.
            if known is not None and known != entry:
                self._by_accession[key] = None

    def named(self, number: str, issuer: str = "") -> str | None:
        """The study that a report or a label row names by study id or accession number.

        A number with an issuer belongs to a study of that issuer, or of none that is named.
        """
        if digest(number) in self._kept:
            return number
        entry = self._by_accession.get(_number(issuer, number))
        if issuer and entry is None and _number(issuer, number) not in self._by_accession:
            entry = self._by_accession.get(_number("", number))
            entry = None if entry is None or entry[2] else entry
        return None if entry is None else entry[0]

    def is_of(self, study_id: str, patient: str) -> bool:
        """Whether a study may be that of a patient; an id without issuer is compared alone."""
        owner = self._kept.get(digest(study_id))
        if owner is None or not patient or owner.patient == digest(patient):
            return True
        bare = digest(patient.partition(":")[2] or patient)
        has_issuer = ":" in patient
        return bare == owner.bare and not (has_issuer and owner.issued)

    def is_first(self, what: str, study_id: str) -> bool:
        """Note that the "report" or "labels" of a kept study came; False where some had before."""
        seen = self._came[what]
        before = len(seen)
        seen.add(digest(study_id))
        return len(seen) > before


def _number(issuer: str, accession: str) -> int:
    return digest(f"{issuer}\0{accession}".casefold())
