"""The exceptions a user can meet, and what each means for the exit code.

Every message names what is wrong, where (file, row, value) and what to do about it, and never holds
report text, a patient's name or a pixel.  Wrong arguments to mathematics raise ``ValueError``.
"""

import sqlite3


class CxrTextError(Exception):
    """Anything that cxrtext tells its user in one line."""

    exit_code = 1


class InputError(CxrTextError):
    """The input or the options are wrong; the user can fix them."""

    exit_code = 2


class ConfigError(InputError):
    """A configuration file, key or value is wrong."""


class DataError(InputError):
    """A table, a row of it, or a data folder is wrong."""


class ImageError(InputError):
    """An image cannot be read."""


class CheckpointError(InputError):
    """A model folder or an index is incomplete, damaged, or does not fit the other."""


class NotFoundError(InputError):
    """What was asked for is not in the index, or there is no index."""


class UnavailableError(InputError):
    """The service was started without what this question wants, such as a language model."""


class WorkError(CxrTextError):
    """The input was right, but the work failed."""


class DiskError(WorkError):
    """A disk is full, or cannot be written."""


class HeldError(WorkError):
    """Another process holds a file for now; the same may work in a moment."""


class HubError(WorkError):
    """The model hub cannot be reached, or does not have the model."""


def kind_of(error: sqlite3.Error | UnicodeDecodeError) -> type[WorkError]:
    """What an error of SQLite's is to a user."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return HeldError
    disk = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)
    return DiskError if code in disk else WorkError


def line_of(error: Exception) -> str:
    """What SQLite says, in one line; of a damaged schema it quotes all that it does not know."""
    said = " ".join(str(error).split())
    return said if len(said) <= 100 else f"{said[:99]}…"
