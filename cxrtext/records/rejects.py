"""Bad rows of a large input, rejected with the reason."""

from dataclasses import dataclass, field
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.records.tables import write_table


@dataclass(slots=True)
class Rejects:
    """Collects what was rejected, up to a limit.

    Args:
        limit: How many are borne; one more raises.
        rows: ``(item, reason)`` pairs: a row number, file name or study id, and why.
        name: What the user sets the limit with.
        where: What the items are of, for the message.
    """

    limit: int = 100
    rows: list[tuple[str, str]] = field(default_factory=list)
    name: str = "--max-rejected"
    where: str = ""

    def add(self, item: str, reason: str) -> None:
        """Reject one item.

        Raises:
            DataError: More than ``limit`` items have been rejected.
        """
        self.rows.append((item, reason))
        if len(self.rows) > self.limit:
            where = f"{self.where}: " if self.where else ""
            raise DataError(
                f"{where}{len(self.rows)} bad items, more than {self.name} {self.limit}; "
                f"the last: {item}: {reason}"
            )

    def write(self, output: Path) -> Path | None:
        """Write ``<output>.rejected.csv``; without rejects remove an old one.

        Returns:
            The file written, or None.
        """
        path = output.with_name(output.name + ".rejected.csv")
        if not self.rows:
            path.unlink(missing_ok=True)
            return None
        write_table(
            path, ["item", "reason"], [{"item": item, "reason": why} for item, why in self.rows]
        )
        return path
