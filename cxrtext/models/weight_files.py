"""Files of weights: safetensors, and pickles that are turned into safetensors once.

A pickle that has been read and checked is copied as ``model.safetensors`` into this program's own
cache, under the SHA-256 of the pickle, and the copy is used from then on.  Neither a user's model
folder nor the hub's cache is ever written to.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.files import SEAL, SUMS, file_problems, replacing, replacing_folder, seal_of, sha256
from cxrtext.models.folders import PICKLED_WEIGHTS, SAFE_WEIGHTS, cache_folder

_NOTES = "notes"
_WRAPPERS = ("state_dict", "model_state_dict", "model")


def read_state(folder: Path) -> tuple[Path, Mapping[str, Any]]:
    """Read the weights of a model folder: safetensors, the copy of a pickle, or the pickle.

    Returns:
        The file they came from, and tensors by name.
    """
    safe, pickled = folder / SAFE_WEIGHTS, folder / PICKLED_WEIGHTS
    if safe.is_file():
        try:
            return safe, load_file(safe)
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{safe}: not readable as safetensors ({error})") from None
    if pickled.is_file():
        return _read_copy(pickled) or (pickled, _read_pickle(pickled))
    raise CheckpointError(f"{folder}: no {SAFE_WEIGHTS} and no {PICKLED_WEIGHTS}")


def keep_copy(source: Path, state: Mapping[str, Tensor]) -> Path | None:
    """Copy the tensors of a pickle, checked against the model, into the cache as safetensors.

    Returns:
        The copy, read again and found equal; None where the cache cannot be written.
    """
    # Tensors of a pickle may share memory, which safetensors refuses.
    tensors = {
        name: tensor.detach().clone(memory_format=torch.contiguous_format)
        for name, tensor in state.items()
    }
    try:
        path = _copy_of(source)
        with replacing_folder(path.parent) as folder:
            save_file(tensors, folder / path.name, metadata={"format": "pt"})
            _check_equal(load_file(folder / path.name), state)
    except (SafetensorError, OSError, RuntimeError, ValueError):
        return None
    return path


def _copy_of(pickled: Path) -> Path:
    return cache_folder() / sha256(pickled) / SAFE_WEIGHTS


def _check_equal(copy: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
    same = copy.keys() == state.keys() and all(
        copy[name].dtype == tensor.dtype and torch.equal(copy[name], tensor)
        for name, tensor in state.items()
    )
    if not same:
        raise ValueError("the copy differs from the pickle")


def _read_copy(pickled: Path) -> tuple[Path, Mapping[str, Any]] | None:
    """The copy of a pickle in the cache; None where there is none that can be read."""
    try:
        if not cache_folder().is_dir():
            return None  # saves the digest
        path = _copy_of(pickled)
        if not (path.parent / SUMS).is_file() or file_problems(path.parent):
            return None
        return path, load_file(path)
    except (SafetensorError, OSError, RuntimeError):
        return None  # it is written again


def _seal_of_tensors(notes: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    listed = []
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest = hashlib.sha256(tensor.flatten().view(torch.uint8).numpy().data).hexdigest()
        listed.append([name, str(tensor.dtype), list(tensor.shape), digest])
    return seal_of([dict(notes), listed])


def save_sealed(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """Write a ``.safetensors`` with notes and a digest of both, whole or not at all."""
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps({**notes, SEAL: _seal_of_tensors(notes, kept)})
    with replacing(path) as temporary:
        # One note: the order of several is drawn anew each time, and equal files are to be equal.
        save_file(kept, temporary, metadata={_NOTES: text})


def load_sealed(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what :func:`save_sealed` wrote.

    Returns:
        The notes, and the tensors by name.

    Raises:
        ValueError: The file is damaged or something else.
        OSError: It cannot be read.
    """
    try:
        with safe_open(path, framework="pt") as file:
            notes = json.loads((file.metadata() or {}).get(_NOTES, ""))
        tensors = load_file(path)
    except (SafetensorError, RecursionError) as error:
        raise ValueError(str(error).splitlines()[0][:120]) from None
    except json.JSONDecodeError:
        raise ValueError("has no notes") from None
    if not isinstance(notes, dict):
        raise ValueError("has no notes")
    if notes.pop(SEAL, None) != _seal_of_tensors(notes, tensors):
        raise ValueError("is not what was written: its digest differs")
    return notes, tensors


def load_bound(
    path: Path, kind: tuple[str, int], what: str, fingerprint: str
) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Read what an evaluation kept with a checkpoint; None where there is no file.

    Args:
        path: Of :func:`save_sealed`; its notes have ``format``, ``version`` and ``fingerprint``.
        kind: The format and version that are read.
        what: What the file holds, for messages: "the reference images".
        fingerprint: Of the model that it must be of.
    """
    if not path.exists():
        return None
    try:
        notes, tensors = load_sealed(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}); {KEEP_AGAIN}") from None
    if (notes.get("format"), notes.get("version")) != kind:
        raise CheckpointError(f"{path}: not {what} of a checkpoint; {KEEP_AGAIN}")
    if notes.get("fingerprint") != fingerprint:
        raise CheckpointError(
            f"{path}: made by another model ({str(notes.get('fingerprint'))[:12]}…, this one is "
            f"{fingerprint[:12]}…); {KEEP_AGAIN}"
        )
    return notes, tensors


KEEP_AGAIN = "make it again with 'cxrtext evaluate CHECKPOINT --data DIR --keep-reference'"


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of one file by name: safetensors, or a pickle.

    A pickle's may lie under ``state_dict``, ``model_state_dict`` or ``model``, and whatever is no
    tensor (an epoch, an optimizer's state) is left out.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file of image weights")
    if path.suffix == ".safetensors":
        try:
            with safe_open(path, framework="pt") as file:
                is_sealed = f'"{SEAL}"' in (file.metadata() or {}).get(_NOTES, "")
            return load_sealed(path)[1] if is_sealed else load_file(path)
        except (SafetensorError, OSError, ValueError) as error:
            raise CheckpointError(f"{path}: not readable as safetensors ({error})") from None
    state = _read_pickle(path, "save its state_dict alone")
    for wrapper in _WRAPPERS:
        if isinstance(state.get(wrapper), Mapping):
            state = state[wrapper]
    return {str(name): value for name, value in state.items() if isinstance(value, Tensor)}


def _read_pickle(path: Path, advice: str = "convert it to model.safetensors") -> Mapping[str, Any]:
    """Read a pickled state with torch's restricted unpickler, which builds tensors only."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state = torch.load(path, map_location="cpu", weights_only=True)
    # A damaged pickle can raise anything at all.
    except Exception:  # noqa: BLE001
        raise CheckpointError(
            f"{path}: not a plain file of weights: it is damaged, or holds objects that could run "
            f"code and are not loaded; {advice} where you trust it"
        ) from None
    if not isinstance(state, Mapping):
        raise CheckpointError(f"{path}: holds no tensors by name")
    return state
