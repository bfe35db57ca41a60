"""Memory that a process keeps between forward passes."""

import ctypes
import sys

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""glibc's names for what may be set (malloc.h)."""


def keep_memory() -> bool:
    """Let this process reuse the memory of large tensors instead of giving it back each time.

    By default glibc takes every large block from the system anew and returns it; the pages are
    then zeroed and mapped again at each product, which was measured to cost a fifth of float32
    scoring.  The process keeps its peak of memory until it ends, so this is for processes that
    only score: the command line and its workers call it, the library's functions do not.

    Returns:
        Whether it was done; other systems than Linux with glibc are left as they are.
    """
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, 2**31 - 1))
