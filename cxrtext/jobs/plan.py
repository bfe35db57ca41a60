"""The definition of a job: ``job.json``, committed once and never changed.

It has the digests of the tables and of the model, the options that affect the result, and what the
shards share, such as the language that an index derives its sketches from.  Every process on every
machine reads it from the job's folder.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cxrtext.errors import CheckpointError, DataError, NotFoundError
from cxrtext.files import sealed, unsealed
from cxrtext.jobs.shards import commit

NAME = "job.json"
FORMAT = "cxrtext job"
VERSION = 1

Definition = dict[str, Any]
"""What must be the same when a job is started again; the keys are the words for an error."""


@dataclass(frozen=True, slots=True)
class Plan:
    kind: str  # "embed" or "encode"
    definition: Definition
    rows: int  # images
    shards: int
    shared: Mapping[str, Any]  # what the shards share
    digest: str  # SHA-256 of the file


def read_plan(folder: Path, kind: str | None = None) -> Plan:
    """Read a job's plan (NotFoundError: there is none)."""
    try:
        data = (folder / NAME).read_bytes()
        value = unsealed(data)
        plan = Plan(
            value["kind"],
            value["definition"],
            value["rows"],
            value["shards"],
            value["shared"],
            hashlib.sha256(data).hexdigest(),
        )
    except FileNotFoundError:
        raise NotFoundError(
            f"{folder}: has no job; start one with 'index build --workers' or 'encode'"
        ) from None
    except (ValueError, KeyError):
        raise CheckpointError(
            f"{folder}: {NAME} is damaged; start the job again in another folder"
        ) from None
    if value["version"] != VERSION:
        raise CheckpointError(
            f"{folder}: the job is from another version of cxrtext ({value['cxrtext']}); continue "
            "with that one, or start the job again in another folder"
        )
    if kind is not None and plan.kind != kind:
        raise DataError(
            f"{folder}: has a job of kind '{plan.kind}', not '{kind}'; name another folder"
        )
    return plan


def begin(
    folder: Path,
    kind: str,
    definition: Definition,
    images_a_shard: int,
    contents: Callable[[], tuple[int, dict[str, Any]]],
) -> Plan:
    """Commit a plan, or read that of a job already begun, which must agree (DataError).

    ``contents`` gives the number of images, and what the shards share.
    """
    if not (folder / NAME).exists():
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
            commit(folder / NAME, data, new=True)
    plan = read_plan(folder, kind)
    for name, value in json.loads(json.dumps(definition)).items():
        if (before := plan.definition.get(name)) != value:
            raise DataError(
                f"{folder}: this job was begun with another {name} ({_short(before)}, now "
                f"{_short(value)}); continue with the former, or start again in another folder"
            )
    return plan


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 24 else f"{text[:16]}…"
