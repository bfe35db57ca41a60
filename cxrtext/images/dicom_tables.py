"""Look-up tables of DICOM: modality, value of interest and palette."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cxrtext.errors import ImageError
from cxrtext.images.grey import Doubles

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

_BROKEN = "a look-up table is damaged; export the file again"


@dataclass(frozen=True, slots=True)
class Table:
    """A look-up table.

    Args:
        first: The input that the first entry belongs to; smaller inputs get the first entry,
            inputs past the end the last.
        entries: [n] outputs.
    """

    first: int
    entries: Doubles

    def __call__(self, values: Doubles) -> Doubles:
        """Look values up, any shape."""
        places = np.clip(np.rint(values) - self.first, 0, len(self.entries) - 1)
        return np.asarray(self.entries[places.astype(np.int64)], dtype=np.float64)

    @property
    def top(self) -> float:
        """The largest value of the depth that the entries need.

        Descriptors often say 16 bits over entries of fewer, which would come out dark.
        """
        return float((1 << max(int(self.entries.max()).bit_length(), 1)) - 1)


def read_table(descriptor: Any, data: Any, *, little: bool, signed: bool) -> Table:
    """Read a table from its descriptor and data elements.

    Args:
        descriptor: Number of entries, first input, bits an entry.
        data: Entries as pydicom gives them: numbers, or the bytes of words.
        little: Byte order of those bytes.
        signed: Whether the first input may be negative.

    Raises:
        ImageError: When the data is shorter than the descriptor says, or either is malformed.
    """
    try:
        count, first, _bits = (int(one) for one in descriptor)
        words = _words(data, little)
    except (ValueError, TypeError, OverflowError):
        raise ImageError(_BROKEN) from None
    count = (count & 0xFFFF) or 65536
    if signed and first > 0x7FFF:
        first -= 0x10000
    if len(words) >= count:
        entries = words[:count]
    elif 2 * len(words) >= count:
        # Entries of 8 bits, two a word.
        entries = words.view(np.uint8)[:count]
    else:
        raise ImageError(_BROKEN)
    return Table(first, entries.astype(np.float64))


def _words(data: Any, little: bool) -> npt.NDArray[Any]:
    if isinstance(data, bytes):
        whole = data[: len(data) // 2 * 2]
        return np.frombuffer(whole, dtype="<u2" if little else ">u2").astype("<u2")
    numbers = [data] if isinstance(data, int) else list(data)
    return np.array([int(one) & 0xFFFF for one in numbers], dtype="<u2")


def read_palette(dataset: "Dataset", *, little: bool) -> tuple[Table, Table, Table]:
    """Read the red, green and blue tables of a PALETTE COLOR image.

    Raises:
        ImageError: When one is missing, segmented or malformed.
    """
    tables = []
    for colour in ("Red", "Green", "Blue"):
        name = f"{colour}PaletteColorLookupTable"
        data = dataset.get(f"{name}Data")
        if data is None:
            raise ImageError("has no plain palette; export it as greyscale")
        descriptor = dataset.get(f"{name}Descriptor")
        tables.append(read_table(descriptor, data, little=little, signed=False))
    red, green, blue = tables
    return red, green, blue
