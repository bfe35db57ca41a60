"""What the inbox is told where a source no longer has an object (`Inbox.put` with "deletion")."""

import json
from dataclasses import asdict, dataclass
from typing import Literal

from cxrtext.pacs.source import is_uid


@dataclass(frozen=True, slots=True)
class Deletion:
    """An object that a source had and has no more."""

    study: str
    instance: str
    do: Literal["note", "forget"] = "note"  # what the file of peers asks for

    def to_bytes(self) -> bytes:
        """As the inbox keeps it: JSON."""
        return json.dumps(asdict(self)).encode()


def read_deletion(data: bytes) -> Deletion:
    """Read what `Deletion.to_bytes` wrote.

    Raises:
        ValueError: It is something else.
    """
    value = json.loads(data)
    if not isinstance(value, dict) or set(value) != {"study", "instance", "do"}:
        raise ValueError("not a deletion")
    found = Deletion(**value)
    if not (is_uid(found.study) and is_uid(found.instance)) or found.do not in ("note", "forget"):
        raise ValueError("not a deletion")
    return found
