"""The audit log: who asked what about whom, and when.

One JSON object a line, in a file that only its owner may read.  It names images, studies and
patients on purpose; it never holds text, a person's name or a pixel.  The access log, which is
for operators, names none of them.
"""

import json
import os
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import Request

from cxrtext.errors import WorkError
from cxrtext.index.search.filter import named_ids

SUBJECTS = "cxrtext.subjects"  # key of the ids that a request is about, in the ASGI scope

EXPORTED = "cxrtext.exported"
"""Key of the number of images that an export has given, in the ASGI scope."""

DECISION = "cxrtext.decision"
"""Key of what was decided of something held, in the ASGI scope."""

SUBJECT_FIELDS = {
    "image_id": "image_id",
    "study_id": "study_id",
    "patient_id": "patient_id",
    "exclude_patient": "patient_id",
}
"""Fields of requests that name somebody, and what they are in the log."""

FILTER_FIELD = "where"
SUBJECT_COLUMNS = {"image": "image_id", "study_id": "study_id", "patient_id": "patient_id"}
"""Columns of filters that do."""

MAX_IDS = 10_000  # of each kind in a line; no request that is answered names so many
MAX_ID_CHARACTERS = 256


class AuditLog:
    """Appends lines to a file; without one nothing is written."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._handle: int | None = None
        self._lock = threading.Lock()
        self.failed = False
        if path is not None:
            try:
                self._handle = _open(path)
            except OSError as error:
                raise WorkError(
                    f"{path}: {error.strerror}; the audit log is to be a file that can be written"
                ) from None

    def write(self, **fields: Any) -> bool:
        """Append a line with the time; False where it is not whole: :attr:`failed` until one is."""
        if self._path is None:
            return True
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": when, **fields}, ensure_ascii=True) + "\n"
        with self._lock:
            try:
                if self._handle is None:
                    self._handle = _open(self._path)
                data = line.encode()
                self.failed = os.write(self._handle, data) != len(data)
            except OSError:
                self.failed = True
        return not self.failed

    def works(self) -> bool:
        """Whether lines can be written; tries where the last could not be."""
        return not self.failed or self.write(event="audit resumed")

    def reopen(self) -> None:
        """Go on in a new file of the same name, after the old one was moved away."""
        with self._lock:
            self._close()
            if self._path is not None:
                try:
                    self._handle = _open(self._path)
                except OSError:
                    self.failed = True

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _open(path: Path) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


async def note_subjects(request: Request) -> None:
    """Note in the request's scope which images, studies and patients it names.

    A dependency of every route.  Only what the framework parsed before it called the dependency
    is looked at, so that the body is not read a second time.
    """
    given: dict[str, list[str]] = {}
    for field, name in SUBJECT_FIELDS.items():
        in_address, in_form = _texts(request, field)
        add_subjects(given, name, [*in_address, *in_form])
    # Of several filters the last counts.  A server that is not ready looks nothing up.
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
    """Note what is decided of something that is held."""
    request.scope[DECISION] = {"held": name, "verdict": verdict}


def note_images(request: Request, images: Sequence[tuple[str, str, str]]) -> None:
    """Note images, each with its study and its patient, as what a request is about."""
    subjects = request.scope.setdefault(SUBJECTS, {})
    for number, name in enumerate(("image_id", "study_id", "patient_id")):
        add_subjects(subjects, name, [image[number] for image in images])
