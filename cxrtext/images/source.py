"""Stored image files, and one-line errors about whatever is wrong with them.

Other libraries are kept silent: pydicom puts values of a file, even a patient's name, into its
warnings and log lines.
"""

import logging
import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cxrtext.errors import ImageError
from cxrtext.images.limits import MAX_FILE_BYTES

_NO_MEMORY = "needs more memory to be {} than there is; make the image smaller"
_SILENCED = ("pydicom", "imagecodecs", "PIL")

_lock = threading.Lock()
_depth = 0
_undo = ExitStack()


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
            for logger in map(logging.getLogger, _SILENCED):
                _undo.callback(setattr, logger, "disabled", logger.disabled)
                logger.disabled = True
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _undo.close()


class ImageMemoryError(ImageError):
    """The image may be sound, but there is too little memory to decode it."""


def stored_bytes(path: Path) -> bytes:
    """Read a file of at most 1 GiB, or say in one line why not (ImageError)."""
    called = shown(path)
    try:
        path = Path(path)
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            # A pipe or a device could be read without end; a folder is refused when it is opened.
            raise ImageError(f"{called}: is not a regular file; check the path")
        if status.st_size > MAX_FILE_BYTES:
            raise ImageError(f"{called}: is larger than 1 GiB; split it into single frames")
        return path.read_bytes()
    except MemoryError:
        raise ImageMemoryError(f"{called}: {_NO_MEMORY.format('read')}") from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise ImageError(f"{called}: cannot be opened ({reason}); check the path") from None
    except ValueError:
        raise ImageError(f"{called}: is not a path; check the path") from None


@contextmanager
def named_errors(name: str) -> Iterator[None]:
    """Turn any error about an image into one line that names the image."""
    called = shown(name)
    try:
        with quiet():
            yield
    except ImageError as error:
        raise ImageError(f"{called}: {error}") from None
    except MemoryError:
        raise ImageMemoryError(f"{called}: {_NO_MEMORY.format('decoded')}") from None
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - decoders raise anything on a hostile file
        # Not only an Exception: a decoder written in Rust may panic.  The decoder's own words may
        # quote the file, so only the kind of error is named.
        raise ImageError(
            f"{called}: is damaged ({type(error).__name__}); copy or export the file again"
        ) from None


def shown(name: Path | str) -> str:
    """Make a name safe for a one-line error."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(name))
