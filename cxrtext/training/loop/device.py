"""Where it is computed, and in which precision."""

from contextlib import AbstractContextManager, nullcontext

import torch

from cxrtext.errors import ConfigError
from cxrtext.models.precision import has_bfloat16

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(name: str) -> torch.device:
    """The device of a name; "auto" is the first GPU, or the CPU where there is none."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ConfigError(f"training.device: '{name}' is not auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"training.device: '{name}' is not on this machine "
            f"({torch.cuda.device_count()} GPUs seen); use cpu or auto"
        )
    return device


def choose_precision(name: str, device: torch.device) -> str:
    """The precision of a name; "auto" is bfloat16 where the device multiplies it faster."""
    return name if name != "auto" else "bfloat16" if has_bfloat16(device) else "float32"


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """Half precision where it is asked for."""
    dtype = DTYPES.get(precision)
    return torch.autocast(device.type, dtype=dtype) if dtype else nullcontext()
