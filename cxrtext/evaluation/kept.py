"""Sealed JSON files that an evaluation keeps with a checkpoint, each bound to its model."""

import json
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from cxrtext.errors import CheckpointError
from cxrtext.files import read_sealed

Kept = TypeVar("Kept", bound=BaseModel)

AGAIN = (
    "remove it and make it again with 'cxrtext calibrate CHECKPOINT --data DIR', and --prompts "
    "FILE where they were your own"
)


def load_kept(path: Path, kind: type[Kept], what: str, fingerprint: str) -> Kept | None:
    """Read what an evaluation kept for the model of a fingerprint; None where there is no file.

    Args:
        kind: What the file holds; it has the fields ``format``, ``version`` and ``fingerprint``.
        what: What the file is, for messages: "the calibration".
    """
    if not path.exists():
        return None
    try:
        values = read_sealed(path)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}); {AGAIN}") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}; {AGAIN}") from None
    try:
        # As JSON: strict, and a list stands for a tuple.
        kept = kind.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        place = error.errors(include_url=False)[0]
        if place["loc"][:1] in (("format",), ("version",)):
            raise CheckpointError(f"{path}: not {what} of this version; {AGAIN}") from None
        at = ".".join(map(str, place["loc"]))
        raise CheckpointError(f"{path}: {at}: {place['msg']}; {AGAIN}") from None
    if values["fingerprint"] != fingerprint:
        raise CheckpointError(f"{path}: fitted for another model; {AGAIN}")
    return kept
