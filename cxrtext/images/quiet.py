"""Keeping other libraries' warnings and log lines from reaching the user.

pydicom puts values of a file, a patient's name among them, into its warnings and log lines.
"""

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_SILENCED = ("pydicom", "pylibjpeg", "openjpeg", "jpeg_ls", "rle", "imagecodecs", "PIL")

_lock = threading.Lock()
_depth = 0
_undo = ExitStack()


@contextmanager
def _loggers_off() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _SILENCED]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


@contextmanager
def quiet() -> Iterator[None]:
    """Drop warnings and the image libraries' log lines inside the block.

    ``warnings.catch_warnings`` alone is not safe when images are read on several threads: the
    first to leave would restore what the second had saved.  Here the first to enter saves and
    the last to leave restores.
    """
    global _depth
    with _lock:
        if _depth == 0:
            _undo.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            _undo.enter_context(_loggers_off())
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _undo.close()
