"""``predictions.parquet``: the parts of an evaluation in one long table.

Column ``part`` says which kind of measurement a row belongs to; a part leaves columns it does not
use empty.  What was measured on what is JSON in the schema's metadata, under "cxrtext".
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from cxrtext.errors import DataError
from cxrtext.files import SEAL, note_source, replacing, sealed, sha256, unsealed

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "predictions.parquet"
KIND, VERSION = "cxrtext predictions", 1
AGAIN = (
    "make it again with 'cxrtext evaluate CHECKPOINT --data DIR --out DIR', or, for a model of "
    "your own, as the guide to evaluating says"
)
KEY = b"cxrtext"
COLUMNS = "columns"


class Part(Protocol):
    """The rows of one kind of measurement; their columns are those of the table."""

    def to_table(self) -> "pa.Table":
        """The rows as they are in the file."""

    @classmethod
    def from_table(cls, table: "pa.Table") -> Self:
        """Read the rows of a table; a KeyError or a ValueError if they do not fit."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """Everything that figures are computed from.

    ``about``: what was measured on what, with which settings and prompts, as JSON holds it.
    ``parts``: by name, if the data had what they need.  ``sha256``: of the file they were read
    from, in hexadecimal; "" for new predictions.
    """

    about: dict[str, Any]
    parts: dict[str, Part]
    sha256: str = ""


def write_predictions(path: Path, predictions: Predictions, *, sentences: bool = True) -> None:
    """Write all parts to a Parquet file, whole or not at all.

    Without ``sentences``, the sentences of reports are replaced by numbers; every figure stays the
    same.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = {name: part.to_table() for name, part in predictions.parts.items()}
    if not sentences:
        tables = _numbered_sentences(tables)
    names = pa.field("part", pa.dictionary(pa.int32(), pa.string()))
    schema = pa.unify_schemas([pa.schema([names]), *(table.schema for table in tables.values())])
    about = {"format": KIND, "version": VERSION, **predictions.about}
    about = sealed({**about, COLUMNS: schema.names})
    schema = schema.with_metadata({KEY: json.dumps(about)})
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema, write_page_checksum=True) as writer,
    ):
        for name, table in tables.items():
            rows = len(table)
            same = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), [name])
            columns = [
                same
                if field.name == "part"
                else table[field.name]
                if field.name in table.column_names
                else pa.nulls(rows, field.type)
                for field in schema
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _numbered_sentences(tables: "dict[str, pa.Table]") -> "dict[str, pa.Table]":
    """The same tables with "sentence 1", "sentence 2" … in place of each distinct sentence."""
    import pyarrow as pa

    numbers: dict[str, str] = {}
    numbered = {}
    for name, table in tables.items():
        if "sentence" in table.column_names:
            texts = [
                None if text is None else numbers.setdefault(text, f"sentence {len(numbers) + 1}")
                for text in table["sentence"].cast(pa.string()).to_pylist()
            ]
            column = pa.array(texts, pa.string()).dictionary_encode()
            table = table.set_column(table.column_names.index("sentence"), "sentence", column)
        numbered[name] = table
    return numbered


def read_predictions(path: Path, kinds: Mapping[str, type[Part]]) -> Predictions:
    """Read a file of :func:`write_predictions`.

    ``kinds``: the parts to read, by name; others in the file are skipped.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if not path.is_file():
        raise DataError(f"{path}: no such file")
    note_source(path)
    try:
        table = pq.read_table(path, page_checksum_verification=True)
    # A damaged file may hold broken text, sizes that are too large, or unknown types.
    except (OSError, ValueError, MemoryError, pa.ArrowException):
        raise DataError(f"{path}: not a Parquet file, or a damaged one; {AGAIN}") from None
    try:
        noted = (table.schema.metadata or {})[KEY]
        about = json.loads(noted)
    except (KeyError, ValueError):
        about = {}
    if isinstance(about, dict) and SEAL in about:
        try:
            about = unsealed(noted)
        except ValueError:
            about = {}
        if not {*about.pop(COLUMNS, [""])} <= {*table.column_names}:
            raise DataError(f"{path}: is damaged, or was changed; {AGAIN}")
    if not isinstance(about, dict) or about.get("format") != KIND:
        raise DataError(
            f"{path}: not a file of predictions: the metadata of its schema have no "
            f"'{KEY.decode()}' entry that says so; {AGAIN}"
        )
    if "part" not in table.column_names:
        raise DataError(f"{path}: not a file of predictions: it has no column 'part'; {AGAIN}")
    if about.get("version") != VERSION:
        raise DataError(f"{path}: of another version of cxrtext; {AGAIN}")
    parts: dict[str, Part] = {}
    for name, kind in kinds.items():
        rows = table.filter(pc.equal(pc.cast(table["part"], pa.string()), name))
        if not len(rows):
            continue
        try:
            parts[name] = kind.from_table(rows)
        except (KeyError, ValueError, TypeError, pa.ArrowException) as error:
            fault = str(error).strip("'\"").splitlines()[0]
            raise DataError(f"{path}: part '{name}': {fault}; {AGAIN}") from None
    if not parts:
        raise DataError(f"{path}: no row belongs to a known part: {', '.join(kinds)}; {AGAIN}")
    return Predictions(about, parts, sha256(path))
