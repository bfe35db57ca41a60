"""The studies and patients of an import, held as digests: some hundred bytes a study."""

from cxrtext.datasets.importing.found import FoundImage
from cxrtext.datasets.importing.identity import digest


class Studies:
    """Which studies were kept, by which numbers a report may name them, and what has come."""

    def __init__(self) -> None:
        self._with_report: dict[int, bool] = {}
        self._labelled: set[int] = set()
        self._by_accession: dict[int, tuple[str, int] | None] = {}

    def __len__(self) -> int:
        return len(self._with_report)

    @property
    def without_report(self) -> int:
        """How many studies no report has come for."""
        return sum(not has for has in self._with_report.values())

    def add(self, image: FoundImage) -> None:
        """Take note of the study of an image that was kept."""
        self._with_report.setdefault(digest(image.study_id), False)
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
        if digest(number) in self._with_report:
            return number
        entry = self._by_accession.get(digest(number.casefold()))
        return None if entry is None else entry[0]

    def give_report(self, study_id: str) -> bool:
        """Note that a report has come; False where one had before."""
        had = self._with_report[digest(study_id)]
        self._with_report[digest(study_id)] = True
        return not had

    def give_labels(self, study_id: str) -> bool:
        """Note that labels have come; False where some had before."""
        before = len(self._labelled)
        self._labelled.add(digest(study_id))
        return len(self._labelled) > before
