"""Resuming a run: its last states, and the check that it is the same run.

A state's file name has the step's number and the beginning of its SHA-256, so that one rename puts
both in place, and a damaged file is noticed.
"""

import hashlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from cxrtext.config import Config, first_difference, path_keys
from cxrtext.errors import CheckpointError, WorkError
from cxrtext.files import is_as_named, sha256, write_named
from cxrtext.training.loop.folder import OUT

PATTERN = "step-*.pt"
FREE = {"device", "log_every", "validate_every", "save_every"}
"""Keys of the training section that may change when a run is resumed."""
KEEP = 2  # states that a run keeps


def save_state(folder: Path, step: int, state: Mapping[str, Any]) -> Path:
    """Write the state after ``step`` steps, whole or not at all; the previous one stays."""
    named = write_named(
        folder, f"step-{step:08d}", ".pt", lambda path: torch.save(dict(state), path)
    )
    for old in _newest_first(folder):
        if old != named and _step_of(old) >= step:
            old.unlink()  # a later, damaged state that was skipped
    for old in _newest_first(folder)[KEEP:]:
        old.unlink()
    return named


def load_newest_state(
    folder: Path, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any] | None:
    """Read the newest whole state onto the CPU, or None; ``say`` hears about damaged ones."""
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
            say(f"{path}: damaged ({reason}); resuming from the state before it")
    if paths:
        raise CheckpointError(
            f"{paths[-1]}: not a readable training state, and there is no older one; remove "
            f"{folder} to start afresh"
        )
    return None


def last_good(folder: Path) -> str:
    """The newest state's step and path, for a message."""
    if not (paths := _newest_first(folder)):
        return "no state was saved yet"
    return f"the last good state is that of step {_step_of(paths[0])}, {paths[0]}"


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob(PATTERN), key=_step_of, reverse=True)


def _step_of(path: Path) -> int:
    digits = path.stem.split("-")[1]
    return int(digits) if digits.isdigit() else -1


def require_room(folder: Path, size: int, what: str, instead: str) -> None:
    """Refuse to write ``size`` bytes that will not fit on a folder's disk; it need not exist yet.

    ``instead`` says what else the user can do.
    """
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if (free := shutil.disk_usage(there).free) < size:
        raise WorkError(
            f"{folder}: {what} takes {size / 1e9:.3g} GB and the disk has {free / 1e9:.3g} GB "
            f"free; make room, or {instead}"
        )


def fingerprint(paths: list[Path]) -> str:
    """SHA-256 over the contents of files, in hexadecimal."""
    return hashlib.sha256(";".join(sha256(path) for path in paths).encode()).hexdigest()


def deciding(config: Config) -> dict[str, Any]:
    """The configuration that must be equal to resume a run: all but paths and logging."""
    tree = config.model_dump(mode="json")
    del tree["out"]
    # The contents of these files are compared by digest.
    for section, names in path_keys(tree).items():
        for name in names:
            tree[section].pop(name, None)
    if Path(config.model.text).is_dir():
        del tree["model"]["text"]
    tree["training"] = {k: v for k, v in tree["training"].items() if k not in FREE}
    return tree


def check_same(
    saved: Mapping[str, Any],
    configuration: Mapping[str, Any],
    data: str,
    state: Path,
    *,
    read: str,
    option: str = OUT,
) -> None:
    """Refuse to resume a saved state with another configuration or another data fingerprint.

    Messages name the folder ``state``, the fingerprinted data (``read``), and the ``option`` for
    another folder.
    """
    if difference := first_difference(saved["configuration"], configuration):
        key, before, now = difference
        raise CheckpointError(
            f"{state}: saved by a run with another configuration: {key} was {before} and is now "
            f"{now}; resume with the old value, or train into a new folder ({option})"
        )
    if saved["data"] != data:
        raise CheckpointError(
            f"{state}: saved by a run on other data: {read} changed; resume with the old ones, "
            f"or train into a new folder ({option})"
        )
