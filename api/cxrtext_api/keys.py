"""Bearer keys: kept as digests, compared in constant time, each with its scopes.

A key made by ``cxrtext keys add`` is 256 random bits.  Nobody can try that many, so one round of
SHA-256 protects it at rest; a slow hash with salt, as passwords want, would only slow the server.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from cxrtext.errors import ConfigError

KEYS_VARIABLE = "CXRTEXT_API_KEYS"
KEYS_FILE_VARIABLE = "CXRTEXT_API_KEYS_FILE"
MIN_KEY_CHARACTERS = 16
CALLER = "cxrtext.caller"
"""Key of the :class:`Caller` in the ASGI scope."""

READ, WRITE, METRICS = "read", "write", "metrics"
SCOPES = frozenset({READ, WRITE, METRICS})
"""What a key may do: ask, change the index, read the metrics (which ``read`` may too)."""

KeyDigest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
ScopeName = Literal["read", "write", "metrics"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Args:
        key_id: Name of the key; "-" where the server has no keys.
        scopes: What the key may do.
    """

    key_id: str
    scopes: frozenset[str]


ANYONE = Caller("-", SCOPES)
"""Every caller of a server without keys, which listens on this machine only."""


class Key(BaseModel):
    """A key as the server keeps it.

    Args:
        key_id: Its name, as in the audit log.
        scopes: What it may do.
        digest: SHA-256 of it, in hexadecimal.
        expires: The last day on which it is taken (UTC).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    key_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    scopes: frozenset[ScopeName] = frozenset({"read"})
    digest: KeyDigest
    expires: date | None = None

    def is_over(self, today: date) -> bool:
        """Whether it was to be used before this day only."""
        return self.expires is not None and today > self.expires


def hash_key(key: str) -> str:
    """The SHA-256 digest of a key, in hexadecimal."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def new_key() -> str:
    """A new random key of 256 bits."""
    return secrets.token_urlsafe(32)


def find_caller(given: str, keys: Iterable[Key], today: date | None = None) -> Caller | None:
    """Who a key belongs to; takes the same time whichever it is.

    Args:
        given: The key that was sent.
        keys: The keys known.
        today: The day for which keys must not have expired; by default today (UTC).
    """
    digest = hash_key(given)
    today = today or datetime.now(UTC).date()
    found = None
    for key in keys:
        if hmac.compare_digest(digest, key.digest) and not key.is_over(today):
            found = Caller(key.key_id, frozenset(key.scopes))
    return found


def plain_key(key: str, number: int, place: str) -> Key:
    """A key that was written down as it is: it may read, and has a number for a name.

    Args:
        key: The key.
        number: Which of the plain keys it is.
        place: Where it was found, for the error.

    Raises:
        ConfigError: It is too short to be safe; the message does not hold it.
    """
    if len(key) < MIN_KEY_CHARACTERS or any(character.isspace() for character in key):
        raise ConfigError(
            f"{place}: API key {number} has blanks or fewer than {MIN_KEY_CHARACTERS} characters; "
            "make one with: cxrtext keys add FILE NAME"
        )
    return Key(key_id=f"plain-{number}", digest=hash_key(key))


def keys_of_environment(environment: Mapping[str, str]) -> tuple[Key, ...]:
    """The keys between commas in ``CXRTEXT_API_KEYS``.

    Args:
        environment: Such as ``os.environ``.

    Raises:
        ConfigError: A key is too short to be safe.
    """
    keys = [key.strip() for key in environment.get(KEYS_VARIABLE, "").split(",") if key.strip()]
    return tuple(plain_key(key, i, KEYS_VARIABLE) for i, key in enumerate(dict.fromkeys(keys), 1))


def keys_file_of(environment: Mapping[str, str]) -> Path | None:
    """The file of keys that ``CXRTEXT_API_KEYS_FILE`` names."""
    path = environment.get(KEYS_FILE_VARIABLE)
    return Path(path) if path else None
