"""Whether messages that wait in an inbox are about somebody."""

import json
import re

from cxrtext.datasets.importing.reports.hl7 import CHARACTER_SETS, MessageError, read_message
from cxrtext.service.forget.subject import SHORTEST, Subject


def says(data: bytes, charset: str, subject: Subject, numbers: set[str]) -> bool:
    """Whether a report is about them; ``numbers``: their ids and accession numbers."""
    try:
        reports = read_message(data, "", charset)
    except MessageError:
        reports = []
    if not reports:  # unreadable, or of another kind, such as a merge
        return names(data, numbers | subject.bare)
    return any(
        {one.study, one.accession, one.patient} & numbers - {""}
        or (":" not in one.patient and one.patient in subject.bare)
        for one in reports
    )


def names(data: bytes, ids: set[str]) -> bool:
    """Whether an unreadable message names one of these ids.

    An id must be a whole part of a field; a short one, which could mean anything, must be in PID-3.
    """
    marks = re.sub(rb"\w", b"", data[3:8]) if data.startswith(b"MSH") else b""
    divides = re.compile(b"[" + re.escape(marks + b"|^~&\\") + rb"\r\n\x0b\x1c]")
    lines = [line.strip().split(marks[:1] or b"|") for line in re.split(rb"[\r\n]", data)]
    own = b"|".join(line[3] for line in lines if line[0] == b"PID" and len(line) > 3)
    parts, own_parts = ({part.strip() for part in divides.split(one)} for one in (data, own))
    return any(
        not _spelled(name).isdisjoint(parts if len(name) >= SHORTEST else own_parts) for name in ids
    )


def _spelled(name: str) -> set[bytes]:
    """A text in every character set that a message may have."""
    return {name.encode(codec, "xmlcharrefreplace") for codec in CHARACTER_SETS.values()}


def deletes(data: bytes, subject: Subject) -> bool:
    """Whether a deletion at a peer concerns one of their objects."""
    try:
        said = json.loads(data)
        study, instance = str(said.get("study", "")), str(said.get("instance", ""))
    except (ValueError, AttributeError):
        return False
    return subject.has_study(study) or subject.has_image(instance)
