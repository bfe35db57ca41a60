"""Find and remove the rows of tables that are about somebody; others stay byte for byte."""

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO, cast

from cxrtext.errors import DataError, WorkError
from cxrtext.files import SUMS, read_sealed, replacing, sha256, write_json, write_text
from cxrtext.files.digests import read_sums
from cxrtext.records.decoding import open_text
from cxrtext.records.rows import as_written, separator_of
from cxrtext.records.sentences import META, TABLE, write_notes
from cxrtext.service.forget.subject import IMAGE_COLUMNS, PATIENT_COLUMNS, STUDY_COLUMNS, Subject

CELL_LIMIT = 10_000_000
COCO_LIMIT = 2**28
ENDINGS = (".csv", ".parquet", ".jsonl", ".json")
_KNOWN = {*STUDY_COLUMNS, *PATIENT_COLUMNS, *IMAGE_COLUMNS}

Row = dict[str, Any]


def ending_of(path: Path) -> str:
    """The ending of a table's name, without a ``.gz`` of compression."""
    name = path.name.lower()
    return Path(name.removesuffix(".gz") if name.endswith(".csv.gz") else name).suffix


def is_table(path: Path) -> bool:
    """Whether a file is a table that names studies, patients or images."""
    if ending_of(path) == ".json":
        return _coco(path) is not None
    return bool(_KNOWN & set(next(rows_of(path), {})))


def rows_of(path: Path) -> Iterator[Row]:
    """Rows of a table as text, by column in lower case, as far as it can be read."""
    suffix = ending_of(path)
    try:
        if suffix == ".parquet":
            for part in row_groups(path):
                yield from (_lowered(row) for row in part.to_pylist())
        elif suffix in _RECORDS:
            with _opened(path) as handle:
                yield from (row for row, _ in _RECORDS[suffix](handle) if row is not None)
    except (OSError, EOFError, ValueError, csv.Error, zlib.error):
        return


def _lowered(row: Row) -> Row:
    return {str(k).strip().lower(): None if v is None else str(v) for k, v in row.items()}


def _json_row(line: str) -> Row | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return _lowered(value) if isinstance(value, dict) and "request_id" not in value else None


def _bytes_of(path: Path, mode: Literal["rb", "wb"] = "rb", like: Path | None = None) -> BinaryIO:
    """Open a table, compressed if its name (or another's) says so."""
    zipped = (like or path).suffix.lower() == ".gz"
    return cast(BinaryIO, gzip.open(path, mode) if zipped else path.open(mode))


def _opened(path: Path) -> TextIO:
    if path.suffix.lower() == ".jsonl":
        return path.open(encoding="utf-8", errors="surrogateescape", newline="")
    raw = _bytes_of(path)
    try:
        return open_text(cast(Any, raw), str(path), table=True)
    except DataError as error:
        raw.close()
        raise ValueError(str(error)) from None


def _lines(handle: TextIO) -> Iterator[str]:
    """Whole lines, to be written back unchanged (ValueError: one is longer than a cell)."""
    while line := handle.readline(CELL_LIMIT + 1):
        if len(line) > CELL_LIMIT:
            raise ValueError("a line is too long")
        yield line


def _json_records(handle: TextIO) -> Iterator[tuple[Row | None, str]]:
    """Each line of JSON Lines with its row; no row if it is not an object."""
    return ((_json_row(line), line) for line in _lines(handle))


def _csv_records(handle: TextIO) -> Iterator[tuple[Row | None, str]]:
    """Each record of a CSV file with its original text; the header has no row."""
    lines: list[str] = []
    separator = separator_of(handle.readline(CELL_LIMIT))
    handle.seek(0)

    def noted() -> Iterator[str]:
        for line in _lines(handle):
            lines.append(line)
            yield line

    before = csv.field_size_limit(CELL_LIMIT)
    try:
        header: list[str] | None = None
        for cells in csv.reader(noted(), delimiter=separator):
            text = "".join(lines)
            lines.clear()
            if header is None:
                header = [name.strip().lower() for name in cells]
                yield None, text
            else:
                yield dict(zip(header, map(as_written, cells), strict=False)), text
        if lines:
            yield None, "".join(lines)
    finally:
        csv.field_size_limit(before)


_RECORDS = {".csv": _csv_records, ".jsonl": _json_records}


def row_groups(path: Path) -> Iterator[Any]:
    """The row groups of a Parquet file (ValueError: it is damaged)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        for number in range(file.num_row_groups):
            yield file.read_row_group(number)
    except (pa.ArrowException, OSError):
        raise ValueError("the file is damaged") from None


def _coco(path: Path) -> Row | None:
    try:
        if path.stat().st_size > COCO_LIMIT:
            return None
        data = path.read_bytes()
        if b'"annotations"' not in data:
            return None
        value = json.loads(data)
    except (OSError, ValueError):
        return None
    is_coco = isinstance(value, dict) and isinstance(value.get("annotations"), list)
    return value if is_coco and isinstance(value.get("images"), list) else None


def count(path: Path, subject: Subject) -> int:
    """How many rows of a table, or images of a box file, are about somebody."""
    if ending_of(path) == ".json":
        boxes = _coco(path) or {"images": []}
        return sum(subject.has(_lowered(image)) for image in boxes["images"])
    return sum(subject.has(row) for row in rows_of(path))


def take_out(path: Path, subject: Subject) -> None:
    """Write a table without the rows about somebody, completely or not at all.

    Its digest is updated in the folder's list and in its notes before the table is replaced; after
    a kill in between, the next run does the same again.
    """
    before = sha256(path)
    with replacing(path) as temporary:
        try:
            _WRITERS[ending_of(path)](path, temporary, subject)
        except (EOFError, ValueError, csv.Error, zlib.error):
            raise WorkError(
                f"{path}: cannot be read to its end: it is damaged, or a line is longer than "
                f"{CELL_LIMIT:,} characters; repair it, then run the command again"
            ) from None
        temporary.chmod(path.stat().st_mode & 0o777)
        now = sha256(temporary)
        notes = path.with_name(path.name + META)
        if notes.is_file():
            noted = read_sealed(notes)
            if noted.get(TABLE) == before:  # do not vouch for a table that was damaged before
                write_notes(path, noted, now)
            relist(path.parent, {notes: sha256(notes)})
        relist(path.parent, {path: now}, only_if=before)


def _is_marked(path: Path) -> bool:
    with _bytes_of(path) as handle:
        return handle.read(3) == b"\xef\xbb\xbf"


def _write_lines(path: Path, out: Path, subject: Subject) -> None:
    with _opened(path) as handle:
        mark = "\ufeff" if handle.encoding == "utf-8-sig" and _is_marked(path) else ""
        encoding = "utf-8" if handle.encoding == "utf-8-sig" else handle.encoding
        with TextIOWrapper(
            _bytes_of(out, "wb", path), encoding=encoding, errors=handle.errors, newline=""
        ) as target:
            target.write(mark)
            for row, text in _RECORDS[ending_of(path)](handle):
                if row is None or not subject.has(row):
                    target.write(text)


def _write_parquet(path: Path, out: Path, subject: Subject) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetWriter(out, pq.ParquetFile(path).schema_arrow) as writer:
        for part in row_groups(path):
            kept = [i for i, row in enumerate(part.to_pylist()) if not subject.has(_lowered(row))]
            writer.write_table(_encoded_anew(part.take(pa.array(kept, pa.int64()))))


def _encoded_anew(table: Any) -> Any:
    """A table with new dictionaries; the old ones still hold values of the removed rows."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            values = table.column(place).cast(field.type.value_type)
            table = table.set_column(place, field, values.dictionary_encode().cast(field.type))
    return table


def _write_coco(path: Path, out: Path, subject: Subject) -> None:
    boxes = _coco(path) or {}
    gone = [image.get("id") for image in boxes["images"] if subject.has(_lowered(image))]
    boxes["images"] = [image for image in boxes["images"] if image.get("id") not in gone]
    boxes["annotations"] = [b for b in boxes["annotations"] if b.get("image_id") not in gone]
    write_json(out, boxes)


_WRITERS: dict[str, Callable[[Path, Path, Subject], None]] = {
    ".csv": _write_lines,
    ".jsonl": _write_lines,
    ".parquet": _write_parquet,
    ".json": _write_coco,
}


def relist(folder: Path, digests: Mapping[Path, str | None], *, only_if: str | None = None) -> None:
    """Update the digests of files, None to drop one, in the list of a folder or one above it.

    ``only_if`` is the digest that must be listed now: do not vouch for a file that was damaged.
    """
    homes = (folder, *folder.parents)
    home = next((home for home in homes if (home / SUMS).is_file()), folder)
    try:
        listed = read_sums(home) or {}
    except (OSError, ValueError):
        return
    named = {path.relative_to(home).as_posix(): digest for path, digest in digests.items()}
    now = listed | {
        name: digest
        for name, digest in named.items()
        if name in listed and only_if in (None, listed[name])
    }
    if now != listed:
        lines = (f"{digest}  {name}\n" for name, digest in now.items() if digest)
        write_text(home / SUMS, "".join(lines))
