"""The exceptions a user can meet, and their exit codes.

Every message says what is wrong, where (file, row, value) and what to do about it, and never holds
report text, a patient's name or a pixel.  Wrong arguments to mathematics raise ``ValueError``.
"""

import sqlite3


class CxrTextError(Exception):
    """Any error that cxrtext reports in one line."""

    exit_code = 1


class InputError(CxrTextError):
    """The input or an option is wrong; the user can fix it."""

    exit_code = 2


class ConfigError(InputError):
    """A configuration file, key or value is wrong."""


class DataError(InputError):
    """A table, one of its rows, or a data folder is wrong."""


class ImageError(InputError):
    """An image cannot be read."""


class CheckpointError(InputError):
    """A model folder or an index is incomplete, damaged, or does not fit the other."""


class NotFoundError(InputError):
    """The requested item is not in the index, or there is no index."""


class UnavailableError(InputError):
    """The service was started without what this question needs, such as a language model."""


class WorkError(CxrTextError):
    """The input was right, but the work failed."""


class DiskError(WorkError):
    """A disk is full, or cannot be written."""


class HeldError(WorkError):
    """Another process holds a file; trying again in a moment may work."""


class HubError(WorkError):
    """The model hub cannot be reached, or does not have the model."""


def kind_of(error: sqlite3.Error | UnicodeDecodeError) -> type[WorkError]:
    """The error class for an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return HeldError
    disk = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)
    return DiskError if code in disk else WorkError


def line_of(error: Exception) -> str:
    """SQLite's message in one line, cut, because it may quote all of a damaged schema."""
    line = " ".join(str(error).split())
    return line if len(line) <= 100 else f"{line[:99]}…"
