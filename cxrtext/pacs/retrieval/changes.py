"""Orthanc's own list of changes: which studies and objects came and are still there."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from cxrtext.datasets.admission.ids import is_uid
from cxrtext.pacs.dicomweb import DicomWeb
from cxrtext.pacs.faults import AnswerError
from cxrtext.pacs.retrieval.follow_state import FollowState

PAGE = 100


def read_changes(source: DicomWeb, state: FollowState, say: Callable[[str], None]) -> bool:
    """Note the studies that a peer's list names as pending; True if the list has a gap."""
    known = state.fact("sequence")
    if not known:
        state.note("sequence", str(ask(source, "last")["Last"]))
        return False  # comparing the days finds what is there already
    since, gap = int(known), False
    if ask(source, "last")["Last"] < since:
        say(f"{source.name}: its list of changes starts again; comparing the days")
        since, gap = 0, True
    while True:
        page = ask(source, since=since, limit=PAGE)
        numbers = [int(change["Seq"]) for change in page["Changes"]]
        last = max([int(page["Last"]), *numbers])
        expected = range(since + 1, since + 1 + len(numbers))
        gap |= numbers != list(expected) or last > (numbers[-1] if numbers else since)
        named = _named(source, page["Changes"])
        with state.together():
            state.pend([study for study, _, _ in named], [renewed for _, *renewed in named])
            state.note("sequence", str(last))
            if gap:  # comparing the days will find what it hides
                state.note("gap", "1")
        if page.get("Done", True) or last == since:
            return gap
        since = last


def ask(source: DicomWeb, *flags: str, **params: int) -> dict[str, Any]:
    """A page of the list, or its end with the flag "last"."""
    page = source.orthanc("/changes" + (f"?{flags[0]}" if flags else ""), **params)
    with suppress(KeyError, TypeError, ValueError):
        if isinstance(page["Changes"], list) and int(page["Last"]) >= 0:
            return dict(page)
    raise AnswerError(source.name, "its list of changes does not look like Orthanc's")


def _named(source: DicomWeb, changes: Iterable[Any]) -> list[tuple[str, str, str]]:
    """Study, UID and Orthanc's number of the objects that came and are still there."""
    named = []
    for change in changes:
        number = str(change.get("ID", ""))
        if change.get("ChangeType") == "NewInstance" and number.replace("-", "").isalnum():
            study = _uid(source, f"/instances/{number}/study", "StudyInstanceUID")
            instance = _uid(source, f"/instances/{number}", "SOPInstanceUID")
            if study and instance:
                named.append((study, instance, number))
    return named


def _uid(source: DicomWeb, path: str, keyword: str) -> str:
    try:
        uid = str(source.orthanc(path)["MainDicomTags"][keyword])
    except (AnswerError, KeyError, TypeError):
        return ""  # removed meanwhile
    return uid if is_uid(uid) else ""
