"""Reuse memory that is freed and needed again."""

import ctypes
import sys

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # glibc's names for what may be set (malloc.h)


def keep_memory() -> bool:
    """Let this process reuse the memory of large tensors instead of giving it back each time.

    By default glibc gets every large block from the system and returns it, so that pages are zeroed
    and mapped again each time.  Measured on a CPU, that costs a fifth of float32 scoring, a fifth
    to a third of a training step of a ResNet, and two fifths of a pass without gradients.  The
    process keeps its peak memory until it ends, so this is for commands and workers that compute
    and end; the library's functions and the server do not call it.

    Returns whether it was done: only Linux with glibc can.  Source: mallopt(3).
    """
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, 2**31 - 1))
