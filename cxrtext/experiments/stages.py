"""Stages of an experiment: each is done once, and noted when it is done."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.config import first_difference
from cxrtext.errors import ConfigError, DataError
from cxrtext.files import DAMAGED_ARCHIVE, read_sealed, write_sealed

IDENTITY = "experiment.json"
"""What an experiment's folder was made with."""


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object that an experiment noted; None where there is none."""
    if not path.is_file():
        return None
    try:
        return read_sealed(path)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}; remove it, and the command makes it again") from None


def noted_in(path: Path) -> dict[str, Any]:
    """Read a JSON object that must be there."""
    noted = read_json(path)
    if noted is None:
        raise ConfigError(f"{path}: is missing; run the same command again")
    return noted


@contextmanager
def opened_arrays(path: Path, mend: str) -> Iterator[Mapping[str, Any]]:
    """The arrays of an ``.npz`` file; where it is damaged, ``mend`` says what makes it again."""
    try:
        # Opened here: NumPy leaves a file that is no archive open.
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as held:
            yield held
    except DAMAGED_ARCHIVE as error:
        raise DataError(f"{path}: not readable ({type(error).__name__}); {mend}") from None


def claim(out: Path, identity: Mapping[str, Any]) -> None:
    """Note what an experiment is made with in its folder, or check that it is what is noted."""
    note = out / IDENTITY
    noted = read_json(note)
    if noted is None:
        # Hidden files may be what a killed run has left of the note itself; locks are ours.
        left = [
            p.name
            for p in (out.iterdir() if out.is_dir() else ())
            if not p.name.startswith(".") and p.suffix != ".lock"
        ]
        if left:
            raise ConfigError(
                f"{out}: holds '{min(left)}' and no experiment; name another folder with --out"
            )
        write_sealed(note, identity)
        return
    found = first_difference(noted, json.loads(json.dumps(identity)))
    if found is not None:
        key, before, now = found
        raise ConfigError(
            f"{note}: the folder holds an experiment with {key} {before!r}, not {now!r}; name "
            "another folder with --out, or remove this one"
        )


def stage(
    out: Path, name: str, product: Path, work: Callable[[], Mapping[str, Any] | None]
) -> dict[str, Any]:
    """Do a stage unless it is noted as done; gives its note, with ``seconds``."""
    note = out / "stages" / f"{name}.json"
    noted = read_json(note)
    if noted is not None and product.exists():
        return noted
    begun = time.monotonic()
    result = dict(work() or {})
    result["seconds"] = round(time.monotonic() - begun, 1)
    write_sealed(note, result)
    return result
