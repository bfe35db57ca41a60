"""Check that a file is still what was written: SHA-256 digests of folders, JSON with a seal.

A folder that is made as a whole carries ``SHA256SUMS`` in the format of the command ``sha256sum``,
which can check it too.  A single JSON file carries the digest of its own content.
"""

import errno
import hashlib
import io
import json
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Any

from cxrtext.errors import CxrTextError, InputError

SUMS = "SHA256SUMS"  # name of a folder's list of digests
SEAL = "sha256"  # key of a sealed JSON file that holds the digest of all others

DAMAGED_ARCHIVE = (
    *(OSError, ValueError, KeyError, EOFError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)
"""What reading a damaged ``.npz`` file can raise; its parts carry their own checksums."""

MAX_LISTED = 64 * 2**20  # bytes of a list of digests
MAX_SMALL = 16 * 2**20  # bytes of a configuration or a vocabulary
DIGITS = 16  # of a digest in a file's name
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file for reading; a pipe or a device, which may never end, is an OSError."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # open() itself refuses a folder
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    return path.open("rb")


def read_regular(path: Path, most: int = MAX_SMALL) -> bytes:
    """Read a regular file; more than ``most`` bytes are an OSError."""
    with open_regular(path) as handle:
        data = handle.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"is larger than {most} bytes", str(path))
    return data


def check_inside(name: str) -> None:
    """Refuse (ValueError) a name in a folder's list that could lead out of the folder."""
    path = PurePosixPath(name)
    proper = path.parts and not path.is_absolute() and path.as_posix() == name
    if not proper or ".." in path.parts or not {"\0", "\n"}.isdisjoint(name):
        raise ValueError(f"names {name[:80]!r}, which is not a file inside the folder")


def file_in(folder: Path, name: str) -> Path:
    """The path of a plain file named by a list in its folder; anybody may have made the list.

    Raises:
        ValueError: The name leads out of the folder, over a link, or to something else than a file.
        FileNotFoundError: It is missing.
    """
    check_inside(name)
    path = folder
    for part in name.split("/"):
        path /= part
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise ValueError(f"{path}: is a link; copy the folder with its files (cp -rL)")
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path}: is not a plain file")
    return path


def copy_files(folder: Path, names: Iterable[str], to: Path) -> None:
    """Copy files of a folder by name (InputError if :func:`file_in` refuses one)."""
    for name in names:
        try:
            source = file_in(folder, name)
        except (OSError, ValueError) as error:
            raise InputError(str(error)) from None
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, to / name)


def sha256(path: Path) -> str:
    with open_regular(path) as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def is_as_named(path: Path) -> bool:
    """Whether a file of :func:`cxrtext.files.write_named` is what was written."""
    return path.stem.rpartition("-")[2] == sha256(path)[:DIGITS]


def sums_of(folder: Path, names: Iterable[str] | None = None) -> dict[str, str]:
    """SHA-256 digests of files in a folder, by default of all, by "name" or "subfolder/name"."""
    if names is None:
        files = (path for path in folder.rglob("*") if path.is_file() and path != folder / SUMS)
        names = (path.relative_to(folder).as_posix() for path in files)
    return {name: sha256(folder / name) for name in sorted(names)}


def read_sums(folder: Path) -> dict[str, str] | None:
    """The digests that a folder lists, by name; None without a list.

    A damaged list, or a name that could lead out of the folder, is a ValueError.
    """
    try:
        text = read_regular(file_in(folder, SUMS), MAX_LISTED).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    lines = [_LINE.fullmatch(line) for line in text.removesuffix("\n").split("\n")]
    digests = {match[2]: match[1] for match in lines if match}
    if not text.endswith("\n") or len(digests) < len(lines):
        raise ValueError(f"{folder / SUMS}: is damaged")
    try:
        for name in digests:
            check_inside(name)
    except ValueError as error:
        raise ValueError(f"{folder / SUMS}: {error}") from None
    return digests


def file_problems(folder: Path) -> list[str]:
    """What is wrong with the files that a folder lists, a line each; [] if nothing is."""
    try:
        listed = read_sums(folder) or {}
    except (ValueError, OSError) as error:
        return [str(error)]
    problems = []
    for name, digest in listed.items():
        try:
            path = file_in(folder, name)
            if sha256(path) != digest:
                problems.append(f"{path}: is not what {SUMS} lists")
        except (FileNotFoundError, NotADirectoryError):
            problems.append(f"{folder / name}: is missing")
        except ValueError as error:
            problems.append(str(error))
    return problems


def check_folder(
    folder: Path, names: Iterable[str], wrong: type[CxrTextError], fix: str
) -> dict[str, str]:
    """Digests of a folder's files by name (``wrong`` if one is missing, damaged or not listed)."""
    try:
        listed = read_sums(folder) or {}
    except (ValueError, OSError) as error:
        raise wrong(f"{error}; {fix}") from None
    for name in names:
        if not (folder / name).is_file():
            raise wrong(f"{folder / name}: is missing; {fix}")
        if name not in listed:
            raise wrong(f"{folder / name}: has no digest in {SUMS}; {fix}")
    if problems := file_problems(folder):
        raise wrong(f"{problems[0]}; {fix}")
    return listed


def check_listed(path: Path, wrong: type[CxrTextError]) -> None:
    """Refuse (``wrong``) a table that is not what its folder lists."""
    try:
        digest = (read_sums(path.parent) or {}).get(path.name)
    except (ValueError, OSError) as error:
        raise wrong(f"{error}; {_ACCEPT.format(quote(str(path.parent)))}") from None
    if digest is not None and path.is_file() and sha256(path) != digest:
        raise wrong(
            f"{path}: is not what {SUMS} beside it lists: it was damaged or changed; "
            + _ACCEPT.format(quote(str(path.parent)))
        )


_ACCEPT = (
    "copy it again, or, if you changed the folder yourself, run 'cxrtext check-files {} --accept'"
)


def seal_of(value: Any) -> str:
    """SHA-256 digest of a JSON value in hexadecimal, whatever its layout."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_sealed(path: Path) -> dict[str, Any]:
    """Read a JSON file of :func:`cxrtext.files.write_sealed` (OSError; ValueError if damaged)."""
    return unsealed(path.read_bytes())


def unsealed(data: bytes) -> dict[str, Any]:
    """A JSON object without its seal; a ValueError says how it is damaged, without quoting it."""
    try:
        value = json.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError("not readable as JSON") from None
    seal = value.pop(SEAL, None) if isinstance(value, dict) else None
    if seal is None:
        raise ValueError(f"has no key '{SEAL}' with its digest")
    if seal != seal_of(value):
        raise ValueError("is not what was written: its digest differs")
    return dict(value)


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with its seal, for :func:`read_sealed`."""
    plain = json.loads(json.dumps(dict(value), allow_nan=False))
    return {**plain, SEAL: seal_of(plain)}
