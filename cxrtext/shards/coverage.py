"""How many shards an answer rests on."""

from collections.abc import Sequence

from cxrtext.client.models import Shards
from cxrtext.errors import UnavailableError


class Coverage:
    """The shards that were asked for one answer, and those that gave nothing.

    Args:
        names: Of all shards, in their order.
        require_all: Whether an answer without one of them is refused.
    """

    def __init__(self, names: Sequence[str], *, require_all: bool = False) -> None:
        self._names = list(names)
        self._require_all = require_all
        self._asked = False
        self._missing: set[str] = set()

    def note(self, missing: Sequence[str]) -> None:
        """Note that all shards were asked, and which of them gave nothing.

        Raises:
            UnavailableError: One did not, and all are required; or none answered.
        """
        self._asked = True
        self._missing.update(missing)
        if len(self._missing) == len(self._names):
            raise UnavailableError("No shard of the archive answers; see the server's log.")
        if self._require_all and self._missing:
            raise UnavailableError(f"{self.sentence} This server gives no answer without all.")

    @property
    def missing(self) -> list[str]:
        """Names of the shards that gave nothing, in their order."""
        return [name for name in self._names if name in self._missing]

    @property
    def shards(self) -> Shards | None:
        """What an answer says of it; None where no shard was asked."""
        if not self._asked:
            return None
        asked, missing = len(self._names), self.missing
        return Shards(asked=asked, answered=asked - len(missing), missing=missing)

    @property
    def sentence(self) -> str | None:
        """The same in words, where one is missing."""
        missing = self.missing
        if not missing:
            return None
        total = len(self._names)
        return f"{total - len(missing)} of {total} shards answered; missing: {', '.join(missing)}."

    @property
    def header(self) -> str | None:
        """The same for a header: ``9/10; missing=shard-03``."""
        shards = self.shards
        if shards is None:
            return None
        gone = f"; missing={','.join(shards.missing)}" if shards.missing else ""
        return f"{shards.answered}/{shards.asked}{gone}"
