"""The audit log: who asked what about whom, and when.

One JSON object per line, in a file that only its owner may read.  It names images, studies and
patients on purpose, but never holds text, a person's name or a pixel.  The access log for operators
names none of them.
"""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import Request

from cxrtext.errors import WorkError
from cxrtext.index.search.filter import named_ids

SUBJECTS = "cxrtext.subjects"  # key of the ids that a request is about, in the ASGI scope

EXPORTED = "cxrtext.exported"
"""Key of the number of images that an export has sent, in the ASGI scope."""

DECISION = "cxrtext.decision"
"""Key of a decision about something held, in the ASGI scope."""

SUBJECT_FIELDS = {
    "image_id": "image_id",
    "study_id": "study_id",
    "patient_id": "patient_id",
    "exclude_patient": "patient_id",
}
"""Fields of requests that name somebody, and their names in the log."""

FILTER_FIELD = "where"
SUBJECT_COLUMNS = {"image": "image_id", "study_id": "study_id", "patient_id": "patient_id"}
"""Columns of filters that name somebody, and their names in the log."""

MAX_IDS = 10_000  # of each kind per line; no accepted request names so many
MAX_ID_CHARACTERS = 256


class AuditLog:
    """Appends lines to a file, if there is one; each opens it anew, as it may be moved away."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.failed = False
        if path is not None:
            try:
                os.close(_open(path))
            except OSError as error:
                raise WorkError(
                    f"{path}: {error.strerror}; name a writable file for the audit log"
                ) from None

    def write(self, **fields: Any) -> bool:
        """Append a line with the time; False, and :attr:`failed`, if it was not written whole."""
        if self._path is None:
            return True
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        data = (json.dumps({"time": when, **fields}, ensure_ascii=True) + "\n").encode()
        try:
            handle = _open(self._path)
            try:
                self.failed = os.write(handle, data) != len(data)
            finally:
                os.close(handle)
        except OSError:
            self.failed = True
        return not self.failed

    def works(self) -> bool:
        """Whether lines can be written; after a failure, try one."""
        return not self.failed or self.write(event="audit resumed")


def _open(path: Path) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


async def note_subjects(request: Request) -> None:
    """Note in the request's scope which images, studies and patients it names.

    A dependency of every route.  It looks only at what the framework has parsed already, so that
    the body is not read twice.
    """
    given: dict[str, list[str]] = {}
    for field, name in SUBJECT_FIELDS.items():
        in_address, in_form = _texts(request, field)
        add_subjects(given, name, [*in_address, *in_form])
    # The last of several filters counts.  A server that is not ready answers no filter.
    conditions = [texts[-1] for texts in _texts(request, FILTER_FIELD) if texts]
    if conditions and request.app.state.resources.is_ready:
        for condition in conditions:
            for column, values in named_ids(condition).items():
                add_subjects(given, SUBJECT_COLUMNS[column], values)
    request.scope[SUBJECTS] = given


def _texts(request: Request, field: str) -> tuple[list[str], list[str]]:
    form = getattr(request, "_form", None)
    values: list[Any] = list(request.query_params.getlist(field))
    values += [request.path_params[field]] if field in request.path_params else []
    in_form = form.getlist(field) if form is not None else []
    return values, [value for value in in_form if isinstance(value, str)]


def add_subjects(given: dict[str, list[str]], name: str, values: Sequence[str]) -> None:
    shown = [value[:MAX_ID_CHARACTERS] for value in values if value]
    if shown:
        given[name] = list(dict.fromkeys([*given.get(name, []), *shown]))[:MAX_IDS]


def note_decision(request: Request, name: str, verdict: str) -> None:
    request.scope[DECISION] = {"held": name, "verdict": verdict}


def note_images(request: Request, images: Sequence[tuple[str, str, str]]) -> None:
    """Note that a request is about these images, each with its study and its patient."""
    subjects = request.scope.setdefault(SUBJECTS, {})
    for number, name in enumerate(("image_id", "study_id", "patient_id")):
        add_subjects(subjects, name, [image[number] for image in images])
