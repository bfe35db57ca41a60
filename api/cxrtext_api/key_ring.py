"""The keys of a running server, which follow their file."""

import logging
import time
from collections.abc import Callable

from cxrtext.errors import ConfigError
from cxrtext_api.key_files import is_open_to_others, read_key_file
from cxrtext_api.keys import ANYONE, Caller, Key, find_caller
from cxrtext_api.settings import Settings

CHECK_SECONDS = 1.0
"""How long a change of the file may go unseen."""

_log = logging.getLogger("cxrtext_api")

Signature = tuple[int, int, int] | None


class KeyRing:
    """Knows callers by their keys; the file of keys is read anew when it changes.

    A new file that cannot be read leaves the keys as they were and is told once.  One without a
    key is taken at its word and shuts everybody out.

    Args:
        settings: Name the keys and their file.
        clock: Seconds that only go forward.

    Raises:
        ConfigError: The file cannot be read, or holds no key, when the server starts.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._fixed = settings.keys
        self._path = settings.keys_file
        self._clock = clock
        self._checked = clock()
        self._seen = self._signature()
        self._keys: tuple[Key, ...] = self._fixed
        if self._path is not None:
            in_file = read_key_file(self._path)
            if not in_file and not self._fixed:
                raise ConfigError(
                    f"{self._path}: holds no key; make one with: cxrtext keys add {self._path} NAME"
                )
            self._keys = (*self._fixed, *in_file)
            if is_open_to_others(self._path):
                _log.warning(
                    "%s: every user of this machine can read it; it holds digests alone, which "
                    "give no key away, but names too: chmod 600 %s",
                    self._path,
                    self._path,
                )
        self.guarded = settings.guarded

    def find(self, given: str | None) -> Caller | None:
        """Who a key belongs to; everybody is let in where the server has no keys.

        Args:
            given: The key that was sent.
        """
        if not self.guarded:
            return ANYONE
        if self.is_due:
            self.refresh()
        return None if not given else find_caller(given, self._keys)

    @property
    def is_due(self) -> bool:
        """Whether it is time to look at the file again."""
        return self._path is not None and self._clock() - self._checked >= CHECK_SECONDS

    def refresh(self, *, force: bool = False) -> None:
        """Read the file where it changed, or in any case."""
        self._checked = self._clock()
        if self._path is None:
            return
        signature = self._signature()
        if signature == self._seen and not force:
            return
        self._seen = signature
        try:
            self._keys = (*self._fixed, *read_key_file(self._path))
        except ConfigError as error:
            _log.error("the keys stay as they were: %s", error)
        else:
            _log.warning("read %d keys anew", len(self._keys))

    def _signature(self) -> Signature:
        if self._path is None:
            return None
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
