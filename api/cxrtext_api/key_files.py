"""Files of keys: one a line, ``NAME SCOPES SHA256 [LAST-DAY]``, or a key as it is.

``#`` starts a comment.  Scopes stand between commas; the last day is as in 2027-12-31.

Whoever can write the file lets himself in, and whoever can read a key that stands there as it is
has it.  Such files are refused.  Digests give no key away.
"""

import fcntl
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path

from pydantic import ValidationError

from cxrtext.errors import ConfigError
from cxrtext_api.keys import READ, SCOPES, Key, hash_key, new_key, plain_key

MAX_FILE_BYTES = 2**20
HEADER = "# Keys of cxrtext: NAME SCOPES SHA256 [LAST-DAY]; made by `cxrtext keys add`.\n"

_FORM = "write 'NAME SCOPES SHA256 [LAST-DAY]', as `cxrtext keys add` does, or one key"


def read_key_file(path: Path) -> tuple[Key, ...]:
    """Read a file of keys.

    Args:
        path: The file.

    Returns:
        The keys; none where every line is a comment.

    Raises:
        ConfigError: The file cannot be read, or a line of it, or others can write it, or read keys
            in it; the message holds no key.
    """
    keys: list[Key] = []
    lines, others_read = _lines(path)
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) == 1:
            if others_read:
                raise ConfigError(
                    f"{path}: line {number} holds a key as it is, and every user of this machine "
                    f"can read it; take that right away: chmod 600 {path}"
                )
            plain = sum(key.key_id.startswith("plain-") for key in keys) + 1
            key = plain_key(words[0], plain, f"{path}: line {number}")
            if any(key.digest == other.digest for other in keys):
                continue
        else:
            key = _key_of(words, f"{path}: line {number}")
        if any(key.key_id == other.key_id for other in keys):
            raise ConfigError(f"{path}: line {number}: a second key named {key.key_id}; rename it")
        keys.append(key)
    return tuple(keys)


def _lines(path: Path) -> tuple[list[str], bool]:
    """The lines of a file, and whether every user of the machine can read them."""
    try:
        with path.open(encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            if found.st_size > MAX_FILE_BYTES:
                raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes; {_FORM} a line")
            if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise ConfigError(
                    f"{path}: other users of this machine can write it (mode "
                    f"{stat.S_IMODE(found.st_mode):04o}) and so let themselves in; take that right "
                    f"away: chmod 600 {path}"
                )
            return file.read().splitlines(), bool(found.st_mode & stat.S_IROTH)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; it is to hold the API keys") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text; {_FORM} a line") from None


def is_open_to_others(path: Path) -> bool:
    """Whether every user of the machine can read a file, and so learn who may ask."""
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def _key_of(words: Sequence[str], place: str) -> Key:
    if len(words) > 4 or not re.fullmatch("[0-9a-fA-F]{64}", words[2] if len(words) > 2 else ""):
        raise ConfigError(f"{place}: blanks, but not the form of a key; {_FORM}")
    scopes = frozenset(words[1].split(","))
    if not scopes <= SCOPES:
        raise ConfigError(f"{place}: unknown scope; give some of {', '.join(sorted(SCOPES))}")
    try:
        expires = date.fromisoformat(words[3]) if len(words) == 4 else None
        return Key.model_validate(
            {"key_id": words[0], "scopes": scopes, "digest": words[2].lower(), "expires": expires}
        )
    except ValidationError:
        raise ConfigError(
            f"{place}: the name is to be at most 64 letters, digits and . _ - characters"
        ) from None
    except ValueError:
        raise ConfigError(f"{place}: the last day is to be as in 2027-12-31") from None


def add_key(
    path: Path, name: str, scopes: Sequence[str] = (READ,), last: date | None = None
) -> str:
    """Make a key and write its digest into a file, which is made where there is none.

    Args:
        path: The file.
        name: Name of the key, as the audit log will show it.
        scopes: What it may do: "read", "write", "metrics".
        last: The last day on which it is taken.

    Returns:
        The key, which is kept nowhere.

    Raises:
        ConfigError: The name is taken or no name, a scope is unknown, or the file is wrong.
    """
    if not name or not scopes or any(letter.isspace() or letter == "#" for letter in name):
        raise ConfigError("give the key a name without blanks, and at least one scope")
    key = new_key()
    words = [name, ",".join(sorted(set(scopes))), hash_key(key)]
    words += [last.isoformat()] if last else []
    _key_of(words, "the new key")
    with _rewriting(path) as lines:
        if name in {known.key_id for known in read_key_file(path)}:
            raise ConfigError(f"{path}: a key named {name} is there; revoke it, or take another")
        if not lines:
            lines.append(HEADER)
        elif not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        lines.append(" ".join(words) + "\n")
    return key


def revoke_key(path: Path, name: str) -> None:
    """Take a key out of a file; a running server follows within a second.

    Raises:
        ConfigError: There is no such key, or the file is wrong.
    """
    known = {key.key_id: key.digest for key in read_key_file(path)}
    if name not in known:
        raise ConfigError(f"{path}: no key named {name}; see: cxrtext keys list {path}")
    with _rewriting(path) as lines:
        lines[:] = [line for line in lines if not _is_line_of(line, known[name])]


def _is_line_of(line: str, digest: str) -> bool:
    words = line.partition("#")[0].split()
    if len(words) == 1:
        return hash_key(words[0]) == digest
    return len(words) > 2 and words[2].lower() == digest


@contextmanager
def _rewriting(path: Path) -> Iterator[list[str]]:
    """The lines of a file, written back at the end; a new file is its owner's alone.

    The file is written over rather than replaced: a container that has it mounted would go on
    seeing the old one.  A server that reads it at that very moment reads it again a second later.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        lines = file.readlines()
        yield lines
        file.seek(0)
        file.writelines(lines)
        file.truncate()
        file.flush()
        os.fsync(handle)
