"""Reading a single file of tensors by name."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from cxrtext.errors import CheckpointError

_WRAPPERS = ("state_dict", "model_state_dict", "model")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read safetensors, or a pickle with torch's restricted unpickler.

    Args:
        path: The file; a pickle's tensors may lie under ``state_dict``, ``model_state_dict`` or
            ``model``, and whatever is no tensor (an epoch, an optimiser's state) is left out.

    Raises:
        CheckpointError: There is no such file, or it is not readable as tensors by name.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file of image weights")
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{path}: not readable as safetensors ({error})") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state: Any = torch.load(path, map_location="cpu", weights_only=True)
    # A damaged pickle can raise anything at all.
    except Exception:  # noqa: BLE001
        raise CheckpointError(
            f"{path}: not a plain file of weights: it is damaged, or holds objects that could run "
            "code and are not loaded; save its state_dict alone where you trust it"
        ) from None
    for wrapper in _WRAPPERS:
        if isinstance(state, Mapping) and isinstance(state.get(wrapper), Mapping):
            state = state[wrapper]
    if not isinstance(state, Mapping):
        raise CheckpointError(f"{path}: holds no tensors by name")
    return {str(name): value for name, value in state.items() if isinstance(value, Tensor)}
