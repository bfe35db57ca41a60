"""What depends on the device: arithmetic, optimizer, GPUs, running out of memory.

float32 is float32 everywhere.  GPUs since Ampere would round the inputs of a convolution to TF32,
with 10 bits, and would encode images differently from a CPU; the fast arithmetic is bfloat16.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from cxrtext.errors import ConfigError, WorkError

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(name: str | torch.device | None, *, training: bool = False) -> torch.device:
    """Set up the device of a name; "auto" or None is the first GPU, or the CPU without one.

    On a GPU, TF32 is turned off.  ``training`` lets cuDNN try which kernel is fastest for each
    input shape, which pays off if all batches have the same shape.
    """
    if name in (None, "auto"):
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(str(name))
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ConfigError(f"training.device: '{name}' is not auto, cpu, cuda or cuda:N")
    if device.type == "cuda":
        if (device.index or 0) >= (count := torch.cuda.device_count()):
            raise ConfigError(
                f"training.device: '{name}' is not on this machine "
                f"({count} GPUs seen); use cpu or auto"
            )
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.benchmark |= training
    return device


def gpus(name: str) -> list[str]:
    """The GPUs that a name stands for: "cuda" for all visible ones, "cpu" for none."""
    if name == "cuda":
        return [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    return [name] if name.startswith("cuda") else []


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device has units for bfloat16; others emulate it, slower than float32.

    GPUs since Ampere have them, and processors with AVX-512 BF16 or AMX, according to torch.
    """
    if device.type == "cuda":
        with torch.cuda.device(device):  # torch asks the current one
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    has: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # not in older torch
    return bool(has.get("avx512_bf16") or has.get("amx_bf16"))


def choose_precision(name: str, device: torch.device) -> str:
    """The precision of a name; "auto" is bfloat16 if the device multiplies it faster."""
    return name if name != "auto" else "bfloat16" if has_bfloat16(device) else "float32"


def policy_of(device: torch.device) -> str:
    """What a device does by default, in words.

    Images are embedded in float32 everywhere, so that one device finds what another has indexed.
    """
    training = choose_precision("auto", device)
    gpus = f", the first of {torch.cuda.device_count()} GPUs" if device.type == "cuda" else ""
    return f"on {device}{gpus}: training in {training}, embedding in float32"


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    dtype = DTYPES.get(precision)
    return torch.autocast(device.type, dtype=dtype) if dtype else nullcontext()


@contextmanager
def without_tf32() -> Iterator[None]:
    """Compute products and convolutions in the block in float32, whatever the program chose."""
    backends: Any = torch.backends
    kinds = backends.cudnn.conv, backends.cuda.matmul
    before = [kind.fp32_precision for kind in kinds]
    for kind in kinds:
        kind.fp32_precision = "ieee"
    try:
        yield
    finally:
        for kind, precision in zip(kinds, before, strict=True):
            kind.fp32_precision = precision


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Compute on the CPU with ``count`` threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def adamw(
    groups: Iterable[dict[str, Any]], device: torch.device, *, lr: float
) -> torch.optim.AdamW:
    """AdamW, in one kernel on a GPU, with torch's default on a CPU."""
    return torch.optim.AdamW(groups, lr=lr, fused=True if device.type == "cuda" else None)


def forked_rng(device: torch.device) -> AbstractContextManager[None]:
    """Restore the random states of the CPU and of this device after the block."""
    # Not of all GPUs, which would be initialized for it.
    return torch.random.fork_rng([device] if device.type == "cuda" else [])


def out_of_memory(error: BaseException) -> str | None:
    """Which memory is used up, for a message; None if an error is about something else."""
    if isinstance(error, torch.OutOfMemoryError):
        return "the memory of the GPU is used up"
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
        return "the memory of this machine is used up"
    return None


@contextmanager
def enough_memory(advice: str) -> Iterator[None]:
    """If memory runs out inside the block, say so and what to do (WorkError)."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if (used_up := out_of_memory(error)) is None:
            raise
        raise WorkError(f"{used_up}; {advice}") from error
