"""Files below a folder, written whole.

A file is committed in one step: under a temporary name, synced and renamed.  So whoever reads finds
what was written or nothing, whatever is killed.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from cxrtext.errors import DataError, DiskError, NotFoundError, WorkError
from cxrtext.files.writing import remove_file, replacing, sync

_FULL = (errno.ENOSPC, errno.EDQUOT)
_ATTEMPTS = 5


class Storage:
    """Files below a folder, which several machines may share.

    Names are relative, with "/" between parts; a part that starts with a dot is refused.  Every
    method raises :class:`WorkError` where the disk fails, :class:`DataError` where the right is
    missing, and :class:`NotFoundError` where a name that is asked for is not there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileExistsError:
            raise
        except (FileNotFoundError, IsADirectoryError):
            raise NotFoundError(f"{self.folder}: holds no file {name}") from None
        except (PermissionError, NotADirectoryError) as error:
            raise DataError(
                f"{self.folder}: {name} cannot be read or written ({error.strerror}); check the "
                "folder and its rights"
            ) from None
        except OSError as error:
            kind = DiskError if error.errno in _FULL else WorkError
            raise kind(
                f"{self.folder}: {name} cannot be read or written ({error.strerror or error}); "
                "check the disk, then run the same command again"
            ) from None

    def _path(self, name: str) -> Path:
        parts = name.split("/")
        if not all(parts) or any(part.startswith(".") for part in parts):
            raise ValueError(f"'{name}' is no name of a stored file")
        return self.folder / name

    def read(self, name: str) -> bytes:
        """What a file holds."""
        with self._errors(name):
            return self._path(name).read_bytes()

    def commit(self, name: str, data: bytes, *, new: bool = False) -> None:
        """Write a file, or put another in its place, in one step.

        ``new`` refuses (FileExistsError) a name that is taken.
        """
        path = self._path(name)
        with self._errors(name):
            if new and path.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            self._make(path.parent)
            for _ in range(_ATTEMPTS - 1):
                # Where a file system has no locks, another machine's sweep can take a temporary
                # file for one that was left.
                with suppress(FileNotFoundError):
                    self._put(path, data, new)
                    return
            self._put(path, data, new)

    def _make(self, folder: Path) -> None:
        """Make a folder and those above it; what this storage makes is for its owner alone."""
        for each in [*reversed(folder.parents), folder]:
            if not each.is_dir():
                with suppress(FileExistsError):  # another process was faster
                    each.mkdir(mode=0o700)
                    sync(each.parent)
                if not each.is_dir():
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(each))

    def _put(self, path: Path, data: bytes, new: bool) -> None:
        with replacing(path, new=new) as temporary:
            temporary.write_bytes(data)

    def names(self, prefix: str = "") -> list[str]:
        """The committed files whose names begin with a prefix, sorted."""
        found: list[str] = []
        below = PurePosixPath(prefix if prefix.endswith("/") else PurePosixPath(prefix).parent)
        with self._errors(prefix or "the folder"):
            for place, folders, files in os.walk(self.folder / below, onerror=_unless_missing):
                folders[:] = [name for name in folders if not name.startswith(".")]
                paths = [Path(place) / file for file in files if not file.startswith(".")]
                found += [path.relative_to(self.folder).as_posix() for path in paths]
        return sorted(name for name in found if name.startswith(prefix))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with self._errors(name):
            remove_file(self._path(name))


def _unless_missing(error: OSError) -> None:
    """Raise what keeps a folder from being listed: a part of a list would pass for the whole."""
    if not isinstance(error, FileNotFoundError):
        raise error
