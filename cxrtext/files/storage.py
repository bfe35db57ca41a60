"""Files on a folder or at an address of an object store (``s3://bucket/prefix``), written whole.

A name below the address is committed in one step: in a folder under a temporary name, synced and
renamed; in an object store by one upload, which nobody sees before it is complete.  So whoever
reads finds what was written or nothing, whatever is killed.

Object stores are reached by fsspec, which takes credentials from where its libraries look for them
(for S3 the environment or ``~/.aws``), never from here.
"""

import errno
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from cxrtext.errors import ConfigError, DataError, DiskError, NotFoundError, WorkError
from cxrtext.files.writing import remove_file, replacing, sync

EXTRA = "pip install 'cxrtext[cluster]'"

_FULL = (errno.ENOSPC, errno.EDQUOT)
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Entry:
    name: str  # below the address, parts separated by "/"
    size: int  # bytes
    modified: float  # when it was committed, seconds since 1970 by the storage's clock


class Storage(ABC):
    """Files below an address.

    Names are relative, with "/" between parts; a part that starts with a dot is refused.  Every
    method raises :class:`WorkError` where the storage fails, :class:`DataError` where the right is
    missing, and :class:`NotFoundError` where a name that is asked for is not there.
    """

    def __init__(self, address: str) -> None:
        self.address = address  # as it may be shown: without credentials
        self.location = address  # as another process finds it

    @abstractmethod
    def read(self, name: str) -> bytes:
        """What a file holds."""

    @abstractmethod
    def commit(self, name: str, data: bytes | Path, *, new: bool = False) -> None:
        """Write a file, or put another in its place, in one step.

        ``data`` are the bytes, or a file that holds them; ``new`` refuses (FileExistsError) a name
        that is taken.
        """

    @abstractmethod
    def entries(self, prefix: str = "") -> list[Entry]:
        """The committed files whose names begin with a prefix, sorted by name."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def size(self, name: str) -> int:
        """Bytes of a file."""

    def names(self, prefix: str = "") -> list[str]:
        return [entry.name for entry in self.entries(prefix)]

    def has(self, name: str) -> bool:
        try:
            self.size(name)
        except NotFoundError:
            return False
        return True

    def _missing(self, name: str) -> NotFoundError:
        return NotFoundError(f"{self.address}: holds no file {name}")


def is_remote(address: str | Path) -> bool:
    """Whether an address is one of fsspec's and no folder of this machine."""
    return "://" in str(address) and not str(address).startswith("file://")


def open_storage(address: str | Path) -> Storage:
    """Open a folder, or an address such as ``s3://bucket/prefix``; nothing is made or read yet."""
    if isinstance(address, str) and is_remote(address):
        return _Remote(address)
    return _Folder(Path(str(address).removeprefix("file://")))


def _checked(name: str) -> str:
    parts = name.split("/")
    if not all(parts) or any(part.startswith(".") for part in parts):
        raise ValueError(f"'{name}' is no name of a stored file")
    return name


class _Folder(Storage):
    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.location = str(folder.absolute())
        self._folder = folder

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileExistsError:
            raise
        except (FileNotFoundError, IsADirectoryError):
            raise self._missing(name) from None
        except (PermissionError, NotADirectoryError) as error:
            raise DataError(
                f"{self.address}: {name} cannot be read or written ({error.strerror}); check the "
                "folder and its rights"
            ) from None
        except OSError as error:
            kind = DiskError if error.errno in _FULL else WorkError
            raise kind(
                f"{self.address}: {name} cannot be read or written ({error.strerror or error}); "
                "check the disk, then run the same command again"
            ) from None

    def _path(self, name: str) -> Path:
        return self._folder / _checked(name)

    def read(self, name: str) -> bytes:
        with self._errors(name):
            return self._path(name).read_bytes()

    def size(self, name: str) -> int:
        with self._errors(name):
            path = self._path(name)
            if path.is_dir():
                raise IsADirectoryError
            return path.stat().st_size

    def commit(self, name: str, data: bytes | Path, *, new: bool = False) -> None:
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

    def _put(self, path: Path, data: bytes | Path, new: bool) -> None:
        with replacing(path, new=new) as temporary:
            if isinstance(data, Path):
                shutil.copyfile(data, temporary)
            else:
                temporary.write_bytes(data)

    def entries(self, prefix: str = "") -> list[Entry]:
        found: list[Entry] = []
        below = PurePosixPath(prefix if prefix.endswith("/") else PurePosixPath(prefix).parent)
        with self._errors(prefix or "the folder"):
            for place, folders, files in os.walk(self._folder / below, onerror=_unless_missing):
                folders[:] = [name for name in folders if not name.startswith(".")]
                for file in files:
                    path = Path(place) / file
                    name = path.relative_to(self._folder).as_posix()
                    if file.startswith(".") or not name.startswith(prefix):
                        continue
                    with suppress(FileNotFoundError):  # removed meanwhile
                        status = path.stat()
                        found.append(Entry(name, status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: entry.name)

    def remove(self, name: str) -> None:
        with self._errors(name):
            remove_file(self._path(name))


def _unless_missing(error: OSError) -> None:
    """Raise what keeps a folder from being listed: a part of a list would pass for the whole."""
    if not isinstance(error, FileNotFoundError):
        raise error


class _Remote(Storage):
    def __init__(self, address: str) -> None:
        protocol, _, rest = address.partition("://")
        if "@" in rest.partition("/")[0]:
            raise ConfigError(
                f"{protocol}://…@…: an address with credentials would end up in logs; give them "
                "in the environment (for S3 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
            )
        super().__init__(address.rstrip("/"))
        if not rest.strip("/"):
            raise ConfigError(f"{address}: names no bucket; write {protocol}://BUCKET/FOLDER")
        try:
            import fsspec

            # Listings are asked for anew each time: other machines write here, too.
            self._files: Any = fsspec.filesystem(protocol, use_listings_cache=False)
        except ImportError:
            raise ConfigError(
                f"{address}: what reads {protocol} addresses is not installed; run {EXTRA} (for "
                "S3), or install fsspec's package for it"
            ) from None
        except ValueError:
            raise ConfigError(
                f"{address}: {protocol} is no kind of address that fsspec knows; a folder or "
                "s3://BUCKET/FOLDER is meant"
            ) from None
        self._root = self._files._strip_protocol(self.address).rstrip("/")

    def _path(self, name: str) -> str:
        return f"{self._root}/{_checked(name)}"

    def _ask(self, name: str, do: Callable[[], Any]) -> Any:
        """Ask the store something; its errors become one line, which quotes no secret."""
        try:
            return do()
        except FileExistsError:
            raise
        except FileNotFoundError:
            raise self._missing(name) from None
        except PermissionError:
            raise DataError(
                f"{self.address}: the store refused {name}; check the credentials and the right "
                "to read and write there"
            ) from None
        except Exception as error:  # noqa: BLE001 - each store has errors of its own
            kind = type(error).__name__
            if "Credential" in kind or "Token" in kind:
                raise ConfigError(
                    f"{self.address}: there are no credentials for it; set them in the "
                    "environment (for S3 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
                ) from None
            raise WorkError(
                f"{self.address}: the store cannot be used ({kind}, at {name}); check the address "
                "and the network, then run the same command again"
            ) from None

    def read(self, name: str) -> bytes:
        path = self._path(name)
        data: bytes = self._ask(name, lambda: self._files.cat_file(path))
        return data

    def size(self, name: str) -> int:
        path = self._path(name)
        return int(self._ask(name, lambda: self._files.info(path))["size"])

    def commit(self, name: str, data: bytes | Path, *, new: bool = False) -> None:
        path, mode = self._path(name), "create" if new else "overwrite"
        if new and self.has(name):  # not every store knows conditions on uploads
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        if isinstance(data, Path):
            self._ask(name, lambda: self._files.put_file(str(data), path, mode=mode))
        else:
            self._ask(name, lambda: self._files.pipe_file(path, data, mode=mode))

    def entries(self, prefix: str = "") -> list[Entry]:
        below = prefix if prefix.endswith("/") else prefix.rpartition("/")[0]
        place = f"{self._root}/{below}".rstrip("/")
        try:
            found = self._ask(prefix, lambda: self._files.find(place, detail=True))
        except NotFoundError:
            return []
        cut = len(self._root) + 1
        entries = [
            Entry(path[cut:], int(info.get("size") or 0), _moment(info))
            for path, info in found.items()
            if path[cut:].startswith(prefix)
        ]
        return sorted(entries, key=lambda entry: entry.name)

    def remove(self, name: str) -> None:
        path = self._path(name)
        with suppress(NotFoundError):
            self._ask(name, lambda: self._files.rm_file(path))


def _moment(info: dict[str, Any]) -> float:
    """When an object was written, by whatever name the store gives it."""
    for key in ("LastModified", "mtime", "modified", "updated", "last_modified", "created"):
        value = info.get(key)
        if isinstance(value, datetime):
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, int | float):
            return float(value)
    return 0.0
