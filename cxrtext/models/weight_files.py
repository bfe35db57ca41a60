"""Files of weights: safetensors, sealed or not, and pickles, read without running code in them."""

from __future__ import annotations

import hashlib
import json
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from cxrtext.errors import CheckpointError
from cxrtext.files import SEAL, open_regular, replacing, seal_of
from cxrtext.models.folders import PICKLED_WEIGHTS, SAFE_WEIGHTS

M = TypeVar("M", bound=nn.Module)
_NOTES = "notes"
SHOWN = 4  # most names in a message
MAX_HEADER = 4 * 2**20  # most bytes in a safetensors header
_NUMBERS = {
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.uint8),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
}
_WRAPPERS = ("state_dict", "model_state_dict", "model")


def read_state(folder: Path) -> tuple[Path, dict[str, Tensor]]:
    """A model folder's weights, from safetensors or a pickle: their file, and tensors by name."""
    for path in (folder / SAFE_WEIGHTS, folder / PICKLED_WEIGHTS):
        if path.is_file():
            return path, read_tensors(path)
    raise CheckpointError(f"{folder}: no {SAFE_WEIGHTS} and no {PICKLED_WEIGHTS}")


def on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors ready to be saved: on the CPU, without gradients, contiguous."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _seal_of_tensors(notes: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    listed = []
    for name, tensor in sorted(on_cpu(tensors).items()):
        digest = hashlib.sha256(tensor.flatten().view(torch.uint8).numpy().data).hexdigest()
        listed.append([name, str(tensor.dtype), list(tensor.shape), digest])
    return seal_of([dict(notes), listed])


def save_sealed(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """Write a ``.safetensors`` with notes and a digest of both, whole or not at all."""
    plain = on_cpu(tensors)
    text = json.dumps({**notes, SEAL: _seal_of_tensors(notes, plain)})
    with replacing(path) as temporary:
        # A single note, because several come in random order, and files should be reproducible.
        save_file(plain, temporary, metadata={_NOTES: text})


def load_sealed(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what :func:`save_sealed` wrote: the notes, and the tensors by name.

    Raises:
        ValueError: The file is damaged or of another kind.
        OSError: The file cannot be read.
    """
    try:
        notes = json.loads(_notes_of(path))
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
    path: Path, kind: tuple[str, int], what: str, fingerprint: str, again: str
) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Read a file kept with a checkpoint; None if it does not exist.

    Args:
        path: A file of :func:`save_sealed`; its notes have ``format``, ``version`` and
            ``fingerprint``.
        kind: The expected format and version.
        what: The file's content, for messages: "the reference images".
        fingerprint: The expected fingerprint of the model.
        again: What to do about another file.
    """
    if not path.exists():
        return None
    try:
        notes, tensors = load_sealed(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}); {again}") from None
    if (notes.get("format"), notes.get("version")) != kind:
        raise CheckpointError(f"{path}: not {what} of a checkpoint; {again}")
    if notes.get("fingerprint") != fingerprint:
        raise CheckpointError(
            f"{path}: made by another model ({str(notes.get('fingerprint'))[:12]}…, this one is "
            f"{fingerprint[:12]}…); {again}"
        )
    return notes, tensors


AGAIN = "remove it; training writes it again"
KEEP_AGAIN = "make it again with 'cxrtext calibrate CHECKPOINT --data DIR --keep-reference'"


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name, from safetensors or a pickle.

    In a pickle they may be under ``state_dict``, ``model_state_dict`` or ``model``; everything else
    (an epoch, an optimizer's state) is left out.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file of weights")
    if path.suffix == ".safetensors":
        return read_safetensors(path)
    state = read_pickle(path)
    for wrapper in _WRAPPERS:
        if isinstance(state.get(wrapper), Mapping):
            state = state[wrapper]
    return only_tensors(state)


def only_tensors(values: Mapping[Any, Any]) -> dict[str, Tensor]:
    return {str(name): value for name, value in values.items() if isinstance(value, Tensor)}


def read_notes(path: Path) -> dict[str, Any]:
    """The notes of a file of :func:`save_sealed`, without checking its digest; {} for others."""
    try:
        notes = json.loads(_notes_of(path))
    except (SafetensorError, OSError, ValueError, RecursionError):
        return {}
    return notes if isinstance(notes, dict) else {}


def _notes_of(path: Path) -> str:
    with safe_open(path, framework="pt") as file:
        return str((file.metadata() or {}).get(_NOTES, ""))


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Read a file of tensors; its digest is checked if this program sealed it."""
    try:
        with open_regular(path) as raw:
            if int.from_bytes(raw.read(8), "little") > MAX_HEADER:
                raise ValueError(f"its header has more than {MAX_HEADER} bytes")
        is_sealed = f'"{SEAL}"' in _notes_of(path)
        tensors = load_sealed(path)[1] if is_sealed else load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path}: not readable as safetensors ({error})") from None
    _check_plain(path, tensors)
    return tensors


def _check_plain(path: Path, tensors: Mapping[str, Any]) -> None:
    """Refuse tensors that are not plain numbers in this file: a few bytes can claim terabytes."""
    total = 0
    for name, tensor in tensors.items():
        plain = tensor.layout is torch.strided and tensor.device.type == "cpu"
        if not plain or tensor.dtype not in _NUMBERS or not tensor.numel():
            kind = f"{tensor.dtype}, {list(tensor.shape)}"
            raise CheckpointError(f"{path}: {name} ({kind}) is not a plain tensor of numbers")
        total += tensor.numel() * tensor.element_size()
    if total > 2 * (size := path.stat().st_size):  # a tensor with two names counts twice
        raise CheckpointError(f"{path}: claims {total} bytes of tensors, and has {size}")


def read_pickle(path: Path) -> Mapping[str, Any]:
    """Read a pickled state with torch's restricted unpickler, which builds plain values alone."""
    try:
        with open_regular(path) as file:
            if zipfile.is_zipfile(file):  # torch never compresses
                parts = zipfile.ZipFile(file).infolist()
                if sum(part.file_size for part in parts) > path.stat().st_size:
                    raise CheckpointError(f"{path}: unpacks to more than its own size")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state = torch.load(path, map_location="cpu", weights_only=True)
    except CheckpointError:
        raise
    # A damaged pickle can raise anything.
    except Exception:  # noqa: BLE001
        raise CheckpointError(
            f"{path}: not a plain file of weights: it is damaged, or holds objects that could run "
            "code and are not loaded; save its tensors alone where you trust it"
        ) from None
    if not isinstance(state, Mapping):
        raise CheckpointError(f"{path}: holds no tensors by name")
    for part in (state, *(value for value in state.values() if isinstance(value, Mapping))):
        _check_plain(path, only_tensors(part))
    return state


class _Undrawn(TorchFunctionMode):
    """Builds networks without drawing their weights, which takes as long as reading them."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if (
            func in (Tensor.normal_, Tensor.uniform_)
            or getattr(func, "__module__", "") == nn.init.__name__
        ):
            return args[0] if args else named["tensor"]
        return func(*args, **named)


def filled(
    source: Path, make: Callable[[], M], state: Mapping[str, Tensor], fix: str = "copy it again"
) -> M:
    """A module with the tensors of a file, using each of them (CheckpointError)."""
    try:
        with _Undrawn():  # memory that is never written to takes no space
            module = make()
    except (RuntimeError, MemoryError):  # not enough memory: the shapes will show why
        with torch.device("meta"):
            module = make()
    if fault := misfit(state, module.state_dict()):
        raise CheckpointError(f"{source}: the tensors do not fit: {fault}; {fix}")
    check_finite(source, {n: x for n, x in state.items() if x.is_floating_point()})
    module.load_state_dict(dict(state), strict=False)
    return module


def is_counter(name: str) -> bool:
    """Whether a tensor counts a batch norm's batches: files may omit it, and nothing uses it."""
    return name.endswith("num_batches_tracked")


def misfit(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> str:
    """How a file's tensors differ from a model's, in one line; "" if they fit.

    Batch counters may be missing or extra.
    """
    return difference(
        [name for name in wanted if name not in found and not is_counter(name)],
        [name for name in found if name not in wanted and not is_counter(name)],
        [
            (name, found[name].shape, own.shape)
            for name, own in wanted.items()
            if name in found and found[name].shape != own.shape
        ],
        [
            f"{name} is of type {found[name].dtype}, not of floating point"
            for name, own in wanted.items()
            if name in found and own.is_floating_point() and not found[name].is_floating_point()
        ],
    )


def difference(
    missing: Sequence[str],
    extra: Sequence[str],
    shapes: Sequence[tuple[str, Sequence[int], Sequence[int]]],
    types: Sequence[str] = (),
) -> str:
    """The line of :func:`misfit`; ``shapes`` has names with the actual and the expected shape."""
    parts = [
        f"{what}: {listed(names)}"
        for what, names in (("missing", missing), ("unexpected", extra))
        if names
    ]
    parts += [f"{n} has shape {list(is_)}, not {list(should)}" for n, is_, should in shapes[:1]]
    return "; ".join([*parts, *types[:1]])


def listed(names: Iterable[str]) -> str:
    """The first :data:`SHOWN` names, quoted, and the number of others."""
    every = sorted(names)
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(map(repr, every[:SHOWN])) + more


def check_finite(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are not floating point or not finite."""
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise CheckpointError(
                f"{path}: {name} is of type {tensor.dtype}, not of floating point"
            )
        if not bool(tensor.isfinite().all()):
            raise CheckpointError(f"{path}: {name} holds values that are not finite numbers")
