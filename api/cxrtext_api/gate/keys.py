"""Bearer keys: a file of digests, who a key belongs to, and what it may do.

A line of the file is ``NAME SCOPES SHA256 [LAST-DAY]``: scopes are separated by commas, the last
day looks like 2027-12-31, ``#`` starts a comment.  Lines that this program writes end with a
checksum, which reveals damage.  Whoever can write the file can let themselves in, so a file that
others can write is refused.  Digests give no key away: ``cxrtext keys add`` makes keys of 256
random bits.  Nobody can try that many, so one round of SHA-256 is enough; the slow salted hash that
passwords need would only slow the server.
"""

import fcntl
import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from shlex import quote

from cxrtext.errors import ConfigError

KEYS_FILE_VARIABLE = "CXRTEXT_API_KEYS_FILE"
CALLER = "cxrtext.caller"  # key of the :class:`Caller` in the ASGI scope
READ, MARK, WRITE, ADMIN, METRICS = "read", "mark", "write", "admin", "metrics"

SCOPES = frozenset({READ, MARK, WRITE, ADMIN, METRICS})
"""What a key may do: ask; and with that, mark answers as right or wrong; add images, and change and
delete its own; together with ``write``, change and delete what others added.  Read the metrics
(``read`` may, too)."""

MAX_FILE_BYTES = 2**20
HEADER = "# Keys of cxrtext: NAME SCOPES SHA256 [LAST-DAY]; made by `cxrtext keys add`.\n"
CHECK_SECONDS = 1.0  # how long a change of the file may go unnoticed
_FORM = "write 'NAME SCOPES SHA256 [LAST-DAY]', as `cxrtext keys add` does"
_SUM = "#sum:"
_log = logging.getLogger("cxrtext_api")

Signature = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the name of the key, or "-" if the server has no keys, and what it may do."""

    key_id: str
    scopes: frozenset[str]


ANYONE = Caller("-", SCOPES)
"""Every caller of a server without keys, which listens only on this machine."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key as the server keeps it: its name for the audit log, and its SHA-256."""

    key_id: str
    digest: str
    scopes: frozenset[str] = frozenset({READ})
    expires: date | None = None

    def is_over(self, today: date) -> bool:
        """Whether its last day (UTC) is past."""
        return self.expires is not None and today > self.expires


def hash_key(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def find_caller(given: str, keys: Iterable[Key], today: date | None = None) -> Caller | None:
    """Who a key belongs to (today, UTC); takes equally long for every key."""
    digest = hash_key(given)
    today = today or datetime.now(UTC).date()
    caller = None
    for key in keys:
        if hmac.compare_digest(digest, key.digest) and not key.is_over(today):
            caller = Caller(key.key_id, key.scopes)
    return caller


def keys_file_of(environment: Mapping[str, str]) -> Path | None:
    path = environment.get(KEYS_FILE_VARIABLE)
    return Path(path) if path else None


def read_key_file(path: Path) -> tuple[Key, ...]:
    """Read a file of keys; a file of comments has none."""
    keys: list[Key] = []
    for number, line in enumerate(_lines(path), 1):
        said, _, noted = line.partition(_SUM)
        if noted and noted.strip() != _sum_of(said):
            raise ConfigError(
                f"{path}: line {number}: is not what was written; take '{_SUM}...' off its end if "
                "you changed it yourself, else make a new key"
            )
        words = line.partition("#")[0].split()
        if not words:
            continue
        key = _key_of(words, f"{path}: line {number}")
        if any(key.key_id == other.key_id for other in keys):
            raise ConfigError(f"{path}: line {number}: a second key named {key.key_id}; rename it")
        keys.append(key)
    return tuple(keys)


def _lines(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            if status.st_size > MAX_FILE_BYTES:
                raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes; {_FORM} per line")
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise ConfigError(
                    f"{path}: other users of this machine can write it (mode "
                    f"{stat.S_IMODE(status.st_mode):04o}) and so let themselves in; run: "
                    f"chmod 600 {quote(str(path))}"
                )
            return file.read().splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; this file should hold the API keys") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text; {_FORM} per line") from None


def _key_of(words: Sequence[str], place: str) -> Key:
    if len(words) > 4 or not re.fullmatch("[0-9a-fA-F]{64}", words[2] if len(words) > 2 else ""):
        raise ConfigError(f"{place}: not the form of a key; {_FORM}")
    scopes = frozenset(words[1].split(","))
    if not scopes <= SCOPES:
        raise ConfigError(f"{place}: unknown scope; give some of {', '.join(sorted(SCOPES))}")
    try:
        expires = date.fromisoformat(words[3]) if len(words) == 4 else None
    except ValueError:
        raise ConfigError(f"{place}: write the last day like 2027-12-31") from None
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{0,63}", words[0]):
        raise ConfigError(
            f"{place}: the name may have at most 64 letters, digits and . _ - characters"
        )
    return Key(words[0], words[2].lower(), scopes, expires)


def add_key(
    path: Path, name: str, scopes: Sequence[str] = (READ,), last: date | None = None
) -> str:
    """Make a key, which is kept nowhere, and add its digest to a file, which may be new."""
    if not name or not scopes or any(letter.isspace() or letter == "#" for letter in name):
        raise ConfigError("give the key a name without blanks, and at least one scope")
    key = secrets.token_urlsafe(32)  # 256 random bits
    words = [name, ",".join(sorted(set(scopes))), hash_key(key)]
    words += [last.isoformat()] if last else []
    _key_of(words, "the new key")
    said = " ".join(words) + " "
    line = f"{said}{_SUM}{_sum_of(said)}\n"
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if name in {known.key_id for known in read_key_file(path)}:
            raise ConfigError(f"{path}: has a key named {name}; remove its line, or use a new name")
        before = file.read()
        start = HEADER if not before else "" if before.endswith(b"\n") else "\n"
        file.write((start + line).encode())
        file.flush()
        os.fsync(file.fileno())
    return key


def _sum_of(said: str) -> str:
    return hash_key(said)[:8]


class KeyRing:
    """Recognizes callers by their keys; rereads the key file when it changes.

    Without a file everybody may enter.  If a changed file cannot be read, the keys stay as they
    were and that is logged once; a changed file without keys shuts everybody out.
    """

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.guarded = path is not None
        self._path = path
        self._clock = clock
        self._checked = clock()
        self._seen = self._signature()
        self._keys: tuple[Key, ...] = ()
        if path is None:
            return
        self._keys = read_key_file(path)
        if not self._keys:
            raise ConfigError(
                f"{path}: holds no key; make one with: cxrtext keys add {quote(str(path))} NAME"
            )
        if path.stat().st_mode & stat.S_IROTH:
            _log.warning(
                "%s: every user of this machine can read it; its digests give no key away, but it "
                "also holds names: chmod 600 %s",
                path,
                path,
            )

    def find(self, given: str | None) -> Caller | None:
        if not self.guarded:
            return ANYONE
        if self.is_due:
            self.refresh()
        return None if not given else find_caller(given, self._keys)

    @property
    def is_due(self) -> bool:
        return self._path is not None and self._clock() - self._checked >= CHECK_SECONDS

    def refresh(self) -> None:
        self._checked = self._clock()
        if self._path is None:
            return
        signature = self._signature()
        if signature == self._seen:
            return
        self._seen = signature
        try:
            self._keys = read_key_file(self._path)
        except ConfigError as error:
            _log.error("the keys stay as they were: %s", error)
        else:
            _log.warning("reloaded %d keys", len(self._keys))

    def _signature(self) -> Signature:
        if self._path is None:
            return None
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
