"""Lines that nobody can change, add or remove unnoticed without the key.

Each line is a JSON object with an HMAC-SHA256 of itself, under a key in a separate file, and the
HMAC of the line before.  The only change it does not show is lines cut off at the end.
"""

import fcntl
import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

from cxrtext.errors import ConfigError, WorkError
from cxrtext.files.writing import replacing

SIGNATURE, BEFORE = "signature", "before"
KEY_BYTES = 32


def key_of(path: Path) -> bytes:
    """The key in a file; if there is none, it is made for its owner alone."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # Whole or not at all, even if the process is killed; the first one to come stays.
            with suppress(FileExistsError), replacing(path, new=True) as whole:
                whole.chmod(0o600)
                whole.write_text(secrets.token_hex(KEY_BYTES) + "\n", encoding="ascii")
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        text, mode = "", 0
    except OSError as error:
        raise WorkError(f"{path}: {error.strerror}; it must hold the key of the log") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        mend = f"chmod 600 {quote(str(path))}"
        raise ConfigError(f"{path}: other users of this machine can use this key: {mend}")
    if len(text) < 2 * KEY_BYTES:
        raise ConfigError(f"{path}: holds no key of {KEY_BYTES} bytes in hexadecimal; name another")
    return text.encode()


def mark_of(key: bytes, *words: str) -> str:
    """Stands in for an id in a log: equal ids get equal marks, which need the key to compute."""
    return hmac.new(
        key, "\0".join(words).encode("utf-8", "surrogatepass"), hashlib.sha256
    ).hexdigest()


def append_signed(path: Path, key: bytes, **fields: Any) -> dict[str, Any]:
    """Append a line with the time and return it; it is on disk when this returns."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            lines = file.read().splitlines()
            try:
                before = json.loads(lines[-1])[SIGNATURE] if lines else ""
            except (ValueError, KeyError, TypeError):
                raise WorkError(
                    f"{path}: its last line is damaged; move the file away, and keep it"
                ) from None
            when = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = {"time": when, **fields, BEFORE: before}
            line[SIGNATURE] = _signature(key, line)
            file.write((json.dumps(line, ensure_ascii=True) + "\n").encode())
            os.fsync(file.fileno())
    except OSError as error:
        raise WorkError(f"{path}: {error.strerror}; the log must be a writable file") from None
    return line


def _signature(key: bytes, line: dict[str, Any]) -> str:
    plain = {name: value for name, value in line.items() if name != SIGNATURE}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def faults(path: Path, key: bytes) -> Iterator[str]:
    """What is wrong with a log, a line each; nothing if every line is as it was written."""
    before = ""
    for number, text in enumerate(path.read_bytes().splitlines(), 1):
        try:
            line = json.loads(text)
            signature = str(line[SIGNATURE])
            signed = hmac.compare_digest(signature, _signature(key, line))
        except (ValueError, KeyError, TypeError, AttributeError):
            yield f"line {number}: is not a signed line"
            continue
        if not signed:
            yield f"line {number}: was changed, or signed with another key"
        elif line.get(BEFORE) != before:
            yield f"line {number}: a line before it was taken out or put in"
        before = signature
