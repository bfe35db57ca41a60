"""Orthanc's own list of changes: which studies and objects came, as far as they are there."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from cxrtext.datasets.admission.ids import is_uid
from cxrtext.pacs.dicomweb.client import DicomWeb
from cxrtext.pacs.faults import AnswerError
from cxrtext.pacs.retrieval.follow_state import FollowState
from cxrtext.pacs.throttle import Retrying

PAGE = 100


class ChangeList:
    """Of a peer that is followed; what it names is noted as pending."""

    def __init__(self, source: DicomWeb, retrying: Retrying, state: FollowState) -> None:
        self._source, self._retrying, self._state = source, retrying, state

    def read(self, say: Callable[[str], None]) -> bool:
        """Note the studies that the list names as changed; whether it has a gap."""
        known = self._state.fact("sequence")
        if not known:
            self._state.note("sequence", str(self.ask("last")["Last"]))
            return False  # what is there already is found by its day
        since, gap = int(known), False
        if self.ask("last")["Last"] < since:
            say(f"{self._source.name}: its list of changes begins anew; comparing the days")
            since, gap = 0, True
        while True:
            page = self.ask(since=since, limit=PAGE)
            numbers = [int(change["Seq"]) for change in page["Changes"]]
            last = max([int(page["Last"]), *numbers])
            expected = range(since + 1, since + 1 + len(numbers))
            gap |= numbers != list(expected) or last > (numbers[-1] if numbers else since)
            studies, renewed = self._named(page["Changes"])
            with self._state.together():
                self._state.pend(studies, renewed)
                self._state.note("sequence", str(last))
                if gap:  # what it hides is found by comparing, whenever that succeeds
                    self._state.note("gap", "1")
            if page.get("Done", True) or last == since:
                return gap
            since = last

    def ask(self, *flags: str, **params: int) -> dict[str, Any]:
        """A page of the list; with the flag "last" its end."""
        path = "/changes" + (f"?{flags[0]}" if flags else "")
        page = self._retrying.patiently(lambda: self._source.orthanc(path, **params))
        with suppress(KeyError, TypeError, ValueError):
            if isinstance(page["Changes"], list) and int(page["Last"]) >= 0:
                return dict(page)
        raise AnswerError(self._source.name, "its list of changes has another form than Orthanc's")

    def _named(self, changes: Iterable[Any]) -> tuple[set[str], list[tuple[str, str]]]:
        """The studies that changes are of, and the objects with Orthanc's number of each.

        Those that are gone already are left out.
        """
        studies, renewed = set[str](), list[tuple[str, str]]()
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
                renewed.append((instance, number))
        return studies, renewed

    def _uid(self, path: str, keyword: str) -> str:
        try:
            found = self._retrying.patiently(lambda: self._source.orthanc(path))
            uid = str(found["MainDicomTags"][keyword])
        except (AnswerError, KeyError, TypeError):
            return ""  # removed meanwhile
        return uid if is_uid(uid) else ""
