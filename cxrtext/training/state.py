"""What is needed to go on with a stopped run: the last few states, in a folder of their own.

A state's file carries the number of its step and the beginning of its SHA-256 in its name, so that
one rename puts in place both, and a damaged file is noticed.
"""

import hashlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from cxrtext.errors import CheckpointError, WorkError
from cxrtext.files import is_as_named, sha256, write_named

PATTERN = "step-*.pt"


def save_state(folder: Path, step: int, state: Mapping[str, Any], keep: int) -> Path:
    """Write the state after ``step`` steps, whole or not at all, and remove old ones.

    Args:
        folder: The state folder.
        step: Steps done.
        state: Tensors, numbers and texts.
        keep: States that stay, this one included.

    Returns:
        The file.
    """
    named = write_named(
        folder, f"step-{step:08d}", ".pt", lambda path: torch.save(dict(state), path)
    )
    for old in _newest_first(folder):
        if old != named and _step_of(old) >= step:
            old.unlink()  # of a later step: what a damaged state was passed over for
    for old in _newest_first(folder)[keep:]:
        old.unlink()
    return named


def load_newest_state(
    folder: Path, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any] | None:
    """Read the newest state that is whole, onto the CPU.

    Args:
        folder: The state folder.
        say: Told of each damaged state that is passed over.

    Returns:
        What was saved; None where nothing was saved yet.

    Raises:
        CheckpointError: There are states, and none of them is readable.
    """
    paths = _newest_first(folder)
    for path in paths:
        reason = "it is not what was written"
        try:
            if is_as_named(path):
                state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
                return state
        except (OSError, RuntimeError, UnpicklingError, EOFError, ValueError) as error:
            reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        if path != paths[-1]:
            say(f"{path}: damaged ({reason}); going on from the state before it")
    if paths:
        raise CheckpointError(
            f"{paths[-1]}: not a readable training state, and there is no older one; remove "
            f"{folder} to start afresh"
        )
    return None


def last_good(folder: Path) -> str:
    """Where the newest state lies and what step it is of, for a message."""
    paths = _newest_first(folder)
    if not paths:
        return "no state was saved yet"
    return f"the last good state is that of step {_step_of(paths[0])}, {paths[0]}"


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob(PATTERN), key=_step_of, reverse=True)


def _step_of(path: Path) -> int:
    digits = path.stem.split("-")[1]
    return int(digits) if digits.isdigit() else -1


def require_room(folder: Path, size: int, what: str) -> None:
    """Refuse to write what will not fit on the disk.

    Args:
        folder: Where it is to be written; need not exist.
        size: Bytes.
        what: What it is, for the message.

    Raises:
        WorkError: There is less room.
    """
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free < size:
        raise WorkError(
            f"{folder}: {what} takes {size / 1e9:.3g} GB and the disk has {free / 1e9:.3g} GB "
            "free; make room, lower training.keep, or train elsewhere with --set out=…"
        )


def bytes_of(state: Any) -> int:
    """Bytes of the tensors in nested dictionaries and lists."""
    if isinstance(state, torch.Tensor):
        return state.nbytes
    if isinstance(state, Mapping):
        return sum(bytes_of(value) for value in state.values())
    if isinstance(state, list | tuple):
        return sum(bytes_of(value) for value in state)
    return 0


def first_difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """The first key in which two nested configurations differ, with both values."""
    for key in [*before, *(key for key in now if key not in before)]:
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            inner = first_difference(old, new)
            if inner:
                return f"{key}.{inner}"
        elif old != new:
            return f"{key} was {old} and is now {new}"
    return None


def fingerprint(paths: list[Path]) -> str:
    """SHA-256 over the contents of files, in hexadecimal."""
    return hashlib.sha256(";".join(sha256(path) for path in paths).encode()).hexdigest()
