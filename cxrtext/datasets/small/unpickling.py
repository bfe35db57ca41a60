"""Pickled arrays without running what a pickle may hold.

The CIFAR-10 files are Python pickles, and a pickle may name any function to be called. Only what
NumPy arrays are made of is let through.
"""

import io
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cxrtext.errors import DataError


class _RefusedError(pickle.UnpicklingError):
    """What is named in a pickle and not let through."""


def _reconstruct(kind: Any, shape: Any, code: Any) -> Any:
    if kind is not np.ndarray or shape != (0,):  # the state that follows has the shape
        raise _RefusedError("an array of an odd shape")
    return np.ndarray.__new__(np.ndarray, shape, code)


def _latin(text: str, encoding: str) -> bytes:
    # Python 3 writes bytes of protocol 2 as text with its encoding.
    if encoding != "latin1":
        raise _RefusedError("text of an odd encoding")
    return text.encode("latin1")


_ALLOWED: Mapping[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin,
}


class _Arrays(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Callable[..., Any]:
        found: Callable[..., Any] | None = _ALLOWED.get((module_name, global_name))
        if found is None:
            raise _RefusedError(f"{module_name}.{global_name}")
        return found


def unpickle_arrays(source: Path | str, data: bytes) -> dict[str, Any]:
    """The mapping in a pickle of plain values and numeric NumPy arrays.

    Args:
        source: Named in messages.
        data: The pickle; Python 2's are read too.

    Returns:
        Its values by name.

    Raises:
        DataError: It holds something else, or is damaged.
    """
    try:
        value = _Arrays(io.BytesIO(data), encoding="bytes").load()
    except _RefusedError as error:
        raise DataError(
            f"{source}: holds more than arrays ({error}), so it is not opened; give the data as "
            "the CIFAR-10 page has them, or as .npz"
        ) from None
    except Exception as error:  # noqa: BLE001 - a damaged pickle may raise anything
        raise DataError(
            f"{source}: not a readable pickle ({type(error).__name__}); get the file again"
        ) from None
    if not isinstance(value, dict):
        raise DataError(f"{source}: holds no batch of images; give a CIFAR-10 file")
    return {k.decode("latin1") if isinstance(k, bytes) else str(k): v for k, v in value.items()}
