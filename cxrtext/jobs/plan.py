"""What a job is: ``job.json``, committed once and never changed.

It names the digests of the tables and of the model, the options that change what comes out, and
what the shards have in common, such as the language that an index derives its sketches by.  Whoever
works on the job, on whatever machine, reads it from the storage.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from cxrtext.errors import CheckpointError, DataError, NotFoundError
from cxrtext.files import sealed, unsealed
from cxrtext.files.storage import Storage

NAME = "job.json"
FORMAT = "cxrtext job"
VERSION = 1

Definition = dict[str, Any]
"""What must be the same when a job is started again, by the words that a refusal uses."""


@dataclass(frozen=True, slots=True)
class Plan:
    kind: str  # "embed" or "encode"
    definition: Definition
    rows: int  # images
    shards: int
    shared: Mapping[str, Any]  # what the shards have in common
    digest: str  # SHA-256 of the file


def read_plan(storage: Storage, kind: str | None = None) -> Plan:
    """Read a job's plan (NotFoundError where there is none)."""
    try:
        data = storage.read(NAME)
    except NotFoundError:
        raise NotFoundError(
            f"{storage.folder}: holds no job; start one with 'cxrtext job embed' or "
            "'cxrtext encode'"
        ) from None
    try:
        value = unsealed(data)
        if value["format"] != FORMAT:
            raise ValueError
    except (ValueError, KeyError):
        raise CheckpointError(
            f"{storage.folder}: {NAME} is damaged; start the job anew in another folder"
        ) from None
    if value["version"] != VERSION:
        raise CheckpointError(
            f"{storage.folder}: the job is of another version of cxrtext ({value['cxrtext']}); "
            "go on with that one, or start the job anew in another folder"
        )
    if kind is not None and value["kind"] != kind:
        raise DataError(
            f"{storage.folder}: holds a job of kind '{value['kind']}', not '{kind}'; name another "
            "folder"
        )
    return Plan(
        value["kind"],
        value["definition"],
        value["rows"],
        value["shards"],
        value["shared"],
        hashlib.sha256(data).hexdigest(),
    )


def begin(
    storage: Storage,
    kind: str,
    definition: Definition,
    images_a_shard: int,
    contents: Callable[[], tuple[int, dict[str, Any]]],
) -> Plan:
    """Commit a plan; that of a job that was begun counts, if it is this one (DataError).

    ``contents`` gives the number of images, and what the shards have in common.
    """
    try:
        plan = read_plan(storage, kind)
    except NotFoundError:
        rows, shared = contents()
        value = {
            "format": FORMAT,
            "version": VERSION,
            "cxrtext": version("cxrtext"),
            "kind": kind,
            "definition": definition,
            "rows": rows,
            "shards": -(-rows // images_a_shard),
            "shared": shared,
        }
        data = json.dumps(sealed(value), indent=1, ensure_ascii=False).encode()
        with suppress(FileExistsError):  # another command was faster
            storage.commit(NAME, data, new=True)
        plan = read_plan(storage, kind)
    for name, value in json.loads(json.dumps(definition)).items():
        if (before := plan.definition.get(name)) != value:
            raise DataError(
                f"{storage.folder}: this job was begun with another {name} "
                f"({_short(before)}, now {_short(value)}); go on with the former, or start anew in "
                "another folder"
            )
    return plan


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 24 else f"{text[:16]}…"
