"""Bearer keys: read once, kept as digests, compared in constant time."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from pathlib import Path

from cxrtext.errors import ConfigError

KEYS_VARIABLE = "CXRTEXT_API_KEYS"
KEYS_FILE_VARIABLE = "CXRTEXT_API_KEYS_FILE"
MIN_KEY_CHARACTERS = 16


def hash_key(key: str) -> str:
    """The SHA-256 digest of a key, in hexadecimal."""
    return hashlib.sha256(key.encode()).hexdigest()


def is_known(key: str, digests: Iterable[str]) -> bool:
    """Whether a key is one of those known; takes the same time whichever it is."""
    given = hash_key(key)
    matches = [hmac.compare_digest(given, digest) for digest in digests]
    return any(matches)


def read_keys(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Digests of the keys that the environment names.

    ``CXRTEXT_API_KEYS_FILE`` is a file of one key a line, where ``#`` starts a comment;
    ``CXRTEXT_API_KEYS`` holds keys between commas.  Both may be given.

    Args:
        environment: Such as ``os.environ``.

    Returns:
        One digest a key; empty where neither variable is set.

    Raises:
        ConfigError: The file is unreadable or empty, or a key is too short to be safe.
    """
    keys = [key.strip() for key in environment.get(KEYS_VARIABLE, "").split(",") if key.strip()]
    if path := environment.get(KEYS_FILE_VARIABLE):
        keys += _keys_in_file(Path(path))
    for number, key in enumerate(keys, 1):
        if len(key) < MIN_KEY_CHARACTERS or any(character.isspace() for character in key):
            raise ConfigError(
                f"API key {number} of {len(keys)} has blanks or fewer than {MIN_KEY_CHARACTERS} "
                'characters; make one with: python -c "import secrets; '
                'print(secrets.token_urlsafe(32))"'
            )
    return tuple(dict.fromkeys(hash_key(key) for key in keys))


def _keys_in_file(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; {KEYS_FILE_VARIABLE} names it") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text; write one key a line") from None
    keys = [line.partition("#")[0].strip() for line in lines]
    found = [key for key in keys if key]
    if not found:
        raise ConfigError(f"{path}: holds no key; write one a line, or unset {KEYS_FILE_VARIABLE}")
    return found
