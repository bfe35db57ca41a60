"""Orthanc's own list of changes: which studies and objects came, as far as they are still there."""

from collections.abc import Iterable
from typing import Any

from cxrtext.datasets.admission.ids import is_uid
from cxrtext.pacs.dicomweb.client import DicomWeb
from cxrtext.pacs.faults import AnswerError
from cxrtext.pacs.throttle import Retrying


class ChangeList:
    """The list of one peer, whose ``dicomweb.orthanc`` says where it is."""

    def __init__(self, source: DicomWeb, retrying: Retrying) -> None:
        self._source, self._retrying = source, retrying

    def ask(self, *flags: str, **params: int) -> dict[str, Any]:
        """A page of the list; with the flag "last" its end."""
        path = "/changes" + (f"?{flags[0]}" if flags else "")
        page = self._retrying.patiently(lambda: self._source.orthanc(path, **params))
        try:
            good = isinstance(page["Changes"], list) and int(page["Last"]) >= 0
        except (KeyError, TypeError, ValueError):
            good = False
        if not good:
            raise AnswerError(
                self._source.name, "its list of changes has another form than Orthanc's"
            )
        return dict(page)

    def named(self, changes: Iterable[Any]) -> tuple[set[str], set[str]]:
        """The studies and objects that changes are of; those that are gone already are not."""
        studies, renewed = set(), set()
        for change in changes:
            if change.get("ChangeType") != "NewInstance":
                continue
            number = str(change.get("ID", ""))
            if not number.replace("-", "").isalnum():
                continue
            study = self._uid(f"/instances/{number}/study", "StudyInstanceUID")
            instance = self._uid(f"/instances/{number}", "SOPInstanceUID")
            if study and instance:
                studies.add(study)
                renewed.add(instance)
        return studies, renewed

    def _uid(self, path: str, keyword: str) -> str:
        try:
            found = self._retrying.patiently(lambda: self._source.orthanc(path))
            uid = str(found["MainDicomTags"][keyword])
        except (AnswerError, KeyError, TypeError):
            return ""  # removed meanwhile
        return uid if is_uid(uid) else ""
