"""What is held, and what somebody decides of it: entries of the queue, and reports."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cxrtext.errors import InputError
from cxrtext.pacs.inbox.queue import NOT_HELD, Inbox

HIDES = {
    "object": "Until then nobody can see or find this image here.",
    "message": "Until then nobody sees what this message says.",
    "deletion": "Until then everybody still sees the image that its source deleted.",
    "report": "Until then nobody can see or find this report here.",
}
"""What nobody sees while something is held, by what it is."""


@dataclass(frozen=True, slots=True)
class Held:
    name: str  # a number; of a report "r" and a number
    what: str  # object, message, deletion or report
    state: str  # held or failed
    source: str
    received: float  # seconds since 1970
    why: str
    studies: tuple[str, ...]  # that it concerns
    accession: str = ""
    patient: str = ""


def list_held(inbox: Inbox) -> list[Held]:
    """What waits for somebody's decision, or until its study changes, and what failed."""
    entries = [
        Held(str(one.number), one.what, one.state, one.source, one.received, one.reason,
             (one.study,) if one.study else ())
        for one in inbox.held()
    ]  # fmt: skip
    return entries + _reports(inbox)


def _reports(inbox: Inbox) -> list[Held]:
    with inbox.database.reading() as database:
        rows = database.execute(
            "SELECT report, source, received, held, matches, accession, patient FROM reports "
            "WHERE held IS NOT NULL ORDER BY report"
        ).fetchall()
    return [
        Held(f"r{number}", "report", "held", source, at, why, tuple(json.loads(matches)), *of)
        for number, source, at, why, matches, *of in rows
    ]


def decide(inbox: Inbox, names: Sequence[str] | None, verb: Literal["accept", "drop"]) -> int:
    """Accept or drop what is held, or with None all of it; gives how much (InputError).

    An accepted object enters whatever speaks against it, what failed is tried again, and a report
    joins the one study that it matches; of several, `join` names one.
    """
    reports = {one.name: one for one in _reports(inbox)}
    chosen = list(reports) if names is None else [name for name in names if name in reports]
    others = [name for name in names or () if name not in reports]
    if wrong := [name for name in others if not (name.isascii() and name.isdigit())]:
        raise InputError(f"{', '.join(wrong)}: {NOT_HELD}")
    several = [name for name in chosen if len(reports[name].studies) != 1]
    if verb == "accept" and several and names is not None:
        raise InputError(f"{several[0]}: matches several studies; join it to one of them")
    entries = None if names is None else [int(name) for name in others]
    done = getattr(inbox, verb)(entries) if entries is None or entries else 0
    for name in chosen:
        if verb == "drop":
            _settle(inbox, name, "DELETE FROM reports")
        elif name not in several:
            join(inbox, name, reports[name].studies[0])
        else:
            done -= 1
    return int(done) + len(chosen)


def join(inbox: Inbox, name: str, study: str) -> None:
    """Join a held report to a study, whatever it says of the patient (InputError: not held).

    The intake does so with its next step, as soon as the study is in the index.
    """
    _settle(inbox, name, "UPDATE reports SET chosen = ?, held = NULL, seen = 0", study)


def _settle(inbox: Inbox, name: str, change: str, *values: str) -> None:
    number = name.removeprefix("r")
    if not (name.startswith("r") and number.isascii() and number.isdigit()):
        raise InputError(f"{name}: no report, which are named such as r12")
    with inbox.database.transaction() as database:
        done = database.execute(
            f"{change} WHERE report = ? AND held IS NOT NULL", (*values, int(number))
        )
    if not done.rowcount:
        raise InputError(f"{name}: {NOT_HELD}")
