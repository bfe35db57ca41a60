"""Held entries and reports, and what somebody decides about them."""

import json
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
"""What nobody sees while something is held, by kind."""

Verdict = Literal["accept", "drop", "join"]


@dataclass(frozen=True, slots=True)
class Held:
    name: str  # a number; for a report "r" and a number
    what: str  # object, message, deletion or report
    state: str  # held or failed
    source: str
    received: float  # seconds since 1970
    why: str
    studies: tuple[str, ...]  # that it concerns
    accession: str = ""
    patient: str = ""


def list_held(inbox: Inbox) -> list[Held]:
    """What waits for a decision or for a change of its study, and what failed."""
    with inbox.database.reading() as database:
        rows = database.execute(
            "SELECT report, source, received, held, matches, accession, patient FROM reports "
            "WHERE held IS NOT NULL ORDER BY report"
        ).fetchall()
    return [
        *(
            Held(str(one.number), one.what, one.state, one.source, one.received, one.reason,
                 (one.study,) if one.study else ())
            for one in inbox.held()
        ),
        *(
            Held(f"r{number}", "report", "held", source, at, why, tuple(json.loads(matches)), *of)
            for number, source, at, why, matches, *of in rows
        ),
    ]  # fmt: skip


def decide(inbox: Inbox, one: Held, verdict: Verdict, study: str = "") -> None:
    """Accept or drop what is held, or join a report to a study, whichever patient it names.

    An accepted object enters despite the objection, an entry that failed is tried again, and a
    report joins the only study that it matches.  This happens in the next step of the intake; a
    report joins once its study is in the index.

    Raises:
        InputError: It is no longer held, or this verdict does not apply to it.
    """
    if (verdict == "join") != bool(study):
        raise InputError("give study_id to join a report, and only then")
    if one.what != "report":
        if verdict == "join":
            raise InputError(f"{one.name}: is not a report; accept or drop it")
        (inbox.accept if verdict == "accept" else inbox.drop)(int(one.name))
        return
    if verdict == "accept" and len(one.studies) != 1:
        raise InputError(f"{one.name}: matches several studies; join it to one of them")
    change = "UPDATE reports SET chosen = ?, held = NULL, seen = 0"
    values = [study or one.studies[0]] if verdict != "drop" else []
    with inbox.database.transaction() as database:
        done = database.execute(
            f"{change if values else 'DELETE FROM reports'} "  # noqa: S608
            "WHERE report = ? AND held IS NOT NULL",
            (*values, int(one.name.removeprefix("r"))),
        )
    if not done.rowcount:
        raise InputError(f"{one.name}: {NOT_HELD}")
