"""Reading files of a bounded size, also where they are compressed."""

import gzip
import zlib
from pathlib import Path
from typing import Protocol

from cxrtext.errors import DataError

MOST_BYTES = 2**30
"""The most that a set of small images may take once it is decompressed: 1 GiB."""


class Readable(Protocol):
    """What can be read."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes."""


def read_stream(source: Path | str, stream: Readable, most: int | None = None) -> bytes:
    """All bytes of a stream.

    Args:
        source: Named in messages.
        stream: Read to its end.
        most: How many there may be; by default ``MOST_BYTES``.

    Raises:
        DataError: There are more, or the stream is damaged.
    """
    limit = MOST_BYTES if most is None else most
    try:
        data = stream.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{source}: not readable ({type(error).__name__}); get the file again"
        ) from None
    if len(data) > limit:
        raise DataError(
            f"{source}: takes more than {limit} bytes when it is decompressed; this is no set of "
            "small images"
        )
    return data


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """All bytes of a file; one whose name ends in .gz is decompressed.

    Args:
        path: The file.
        most: How many bytes there may be; by default ``MOST_BYTES``.

    Raises:
        DataError: See :func:`read_stream`.
    """
    try:
        with path.open("rb") as handle:
            if path.suffix == ".gz":
                with gzip.open(handle) as stream:
                    return read_stream(path, stream, most)
            return read_stream(path, handle, most)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or type(error).__name__}") from None
