"""The cells that filters look at, column by column beside the vectors.

A filter over SQLite's rows reads all of them: 130 ms for a million images, whatever it selects.
Here a column is one small code an image, and the distinct cells in order, so that a filter asks
each distinct cell once and looks the answers up: a millisecond a million.

The file is derived from the catalogue, named there with its digest, and stands for one moment.
What changes afterwards is noted, by triggers, in the catalogue's table ``recent``, in the same
transaction: those images are asked of SQLite.  When they become many, the writer derives the file
anew.  Where images were deleted, it writes the file again without their cells, which are not to
stay on disk.
"""

import json
import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from cxrtext.errors import CheckpointError
from cxrtext.files import replacing, sha256
from cxrtext.index.store.catalogue import Catalogue, cells_of, set_meta

NAME = "columns"  # in the table of structures
OLD = "columns.old"  # the same while it has cells of images that were deleted
ENDING = ".columns"

MIN_IMAGES = 2_000  # below, SQLite's rows are as fast
STALE, STALE_SHARE = 1_000, 0.005
"""Recent images, and share of all images, past which the file is made anew."""

MAX_TEXTS = 2**16
"""Distinct numbers of a column up to which they are kept as SQLite writes them, too."""

ROWS_AT_ONCE, COLUMNS_AT_ONCE = 10_000, 64  # that are read from the catalogue together


class Texts(Sequence[str]):
    """Many texts in one piece of memory: their UTF-8, one after the other, and where each ends."""

    def __init__(self, data: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self._data, self._ends = data, ends

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Texts":
        parts = [text.encode() for text in texts]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        return cls(np.frombuffer(b"".join(parts), dtype=np.uint8), ends)

    def tensors(self, name: str) -> dict[str, NDArray[Any]]:
        """As a file keeps them; the arguments of the class under two names."""
        return {f"{name}.data": self._data, f"{name}.ends": self._ends}

    def find(self, text: str) -> int | None:
        """Where a text is among these, which are in rising order; None where it is not."""
        at = bisect_left(self, text)
        return at if at < len(self) and self[at] == text else None

    def only(self, kept: NDArray[np.bool_]) -> "Texts":
        """Some of them, [texts]."""
        sizes = np.diff(self._ends, prepend=0)
        return Texts(self._data[np.repeat(kept, sizes)], np.cumsum(sizes[kept], dtype=np.int64))

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, i: Any) -> Any:
        begin = int(self._ends[i - 1]) if i else 0
        return self._data[begin : int(self._ends[i])].tobytes().decode()


@dataclass(frozen=True)
class Column:
    """The cells of one column.

    The code of an empty cell is 0; those of numbers come next, by rising number, and those of
    texts, by rising text, last.
    """

    codes: NDArray[Any]  # [places], unsigned
    numbers: NDArray[Any]  # distinct ones; int64 where all are whole, else float64
    texts: Texts  # distinct ones
    as_texts: Texts | None  # the numbers as SQLite writes them; None where there are many

    @cached_property
    def distinct(self) -> int:
        return 1 + len(self.numbers) + len(self.texts)

    @property
    def is_empty(self) -> bool:
        return self.distinct == 1

    def only(self, kept: NDArray[np.bool_]) -> "Column":
        """The same with the cells of ``kept`` [places] alone, and nothing that only others held."""
        codes = np.where(kept, self.codes, self.codes.dtype.type(0))
        used = np.bincount(codes, minlength=self.distinct)[1:] > 0
        table = np.zeros(self.distinct, self.codes.dtype)
        table[1:][used] = np.arange(1, used.sum() + 1)
        of_numbers, of_texts = np.split(used, [len(self.numbers)])
        as_texts = None if self.as_texts is None else self.as_texts.only(of_numbers)
        return Column(table[codes], self.numbers[of_numbers], self.texts.only(of_texts), as_texts)


class Columns:
    """An open file of columns, read when first asked for (CheckpointError: not the noted one)."""

    def __init__(self, path: Path, digest: str, places: int) -> None:
        advice = f"run 'cxrtext index rebuild {path.parent}' to derive it anew"
        if not path.is_file() or sha256(path) != digest:
            raise CheckpointError(
                f"{path}: missing or damaged (its checksum is not the noted one); {advice}"
            )
        self.digest, self.places = digest, places
        try:
            # Open as long as this is used: a writer may remove the file's name meanwhile.
            self._file = cast("Any", safe_open(path, framework="numpy"))
        except SafetensorError as error:
            raise CheckpointError(f"{path}: {error}; {advice}") from None
        self._order: dict[str, int] = {
            name: i for i, name in enumerate(json.loads(self._file.metadata()["names"]))
        }
        self._tensors = set(self._file.keys())
        self._read: dict[str, Column] = {}

    def all(self) -> Iterator[tuple[str, Column]]:
        """Every column, by name; none is kept."""
        for name, place in self._order.items():
            yield name, self._column(f"{place}")

    def __getitem__(self, name: str) -> Column | None:
        """A column; None for one in which every cell was empty."""
        if name not in self._order:
            return None
        if name not in self._read:
            self._read[name] = self._column(f"{self._order[name]}")
        return self._read[name]

    def _column(self, key: str) -> Column:
        tensor = self._file.get_tensor

        def texts(name: str) -> Texts:
            return Texts(tensor(f"{name}.data"), tensor(f"{name}.ends"))

        as_texts = texts(f"{key}.as") if f"{key}.as.ends" in self._tensors else None
        return Column(
            tensor(f"{key}.codes"), tensor(f"{key}.numbers"), texts(f"{key}.texts"), as_texts
        )


def write_columns(
    path: Path, database: sqlite3.Connection, cells: dict[str, str], places: int
) -> str:
    """Write the columns of a catalogue, as of `cells_of`; gives the file's digest."""
    left = iter(cells.items())
    parts = iter(lambda: dict(islice(left, COLUMNS_AT_ONCE)), {})
    return _save(path, chain.from_iterable(_gather(database, some, places) for some in parts))


def _save(path: Path, columns: Iterable[tuple[str, Column]]) -> str:
    """Write columns, by name, but those in which every cell is empty; gives the file's digest."""
    tensors: dict[str, NDArray[Any]] = {}
    names: list[str] = []
    for name, column in columns:
        if not column.is_empty:
            tensors |= _tensors(f"{len(names)}", column)
            names.append(name)
    with replacing(path) as temporary:
        save_file(tensors, temporary, {"names": json.dumps(names, ensure_ascii=False)})
        return sha256(temporary)


def _tensors(key: str, column: Column) -> dict[str, NDArray[Any]]:
    made = {f"{key}.codes": column.codes, f"{key}.numbers": column.numbers}
    made |= column.texts.tensors(f"{key}.texts")
    return made if column.as_texts is None else made | column.as_texts.tensors(f"{key}.as")


class _Gathered:
    def __init__(self, places: int) -> None:
        self._seen: dict[Any, int] = {None: 0}  # in the order in which they come
        self._firsts = np.zeros(places, dtype=np.uint32)

    def take(self, places: NDArray[np.int64], cells: Iterable[Any]) -> None:
        seen = self._seen
        # 1 and 1.0 are two cells, which one dictionary holds as one key.
        keys = [(cell,) if type(cell) is float else cell for cell in cells]
        self._firsts[places] = [seen.setdefault(key, len(seen)) for key in keys]

    def column(self, database: sqlite3.Connection) -> Column:
        seen = self._seen
        texts = sorted(key for key in seen if isinstance(key, str))
        plain = {key: key[0] if isinstance(key, tuple) else key for key in seen}
        numbers = sorted((key for key in seen if isinstance(key, tuple | int)), key=plain.get)  # type: ignore[arg-type]
        ranks = np.zeros(len(seen), dtype=np.uint32)
        ranks[[seen[key] for key in (*numbers, *texts)]] = np.arange(1, len(seen))
        kind = np.uint8 if len(seen) <= 2**8 else np.uint16 if len(seen) <= 2**16 else np.uint32
        whole = all(type(key) is int for key in numbers)
        values = [plain[key] for key in numbers]
        return Column(
            ranks.astype(kind)[self._firsts],
            np.array(values, dtype=np.int64 if whole else np.float64),
            Texts.of(texts),
            Texts.of(_written(database, values)) if len(values) <= MAX_TEXTS else None,
        )


def _gather(
    database: sqlite3.Connection, cells: dict[str, str], places: int
) -> Iterator[tuple[str, Column]]:
    rows = database.execute(
        f"SELECT place, {', '.join(cells.values())} FROM images "  # noqa: S608
        "LEFT JOIN attributes USING (number)"
    )
    gathered = [_Gathered(places) for _ in cells]
    while part := rows.fetchmany(ROWS_AT_ONCE):
        at, *of_columns = zip(*part, strict=True)
        for column, values in zip(gathered, of_columns, strict=True):
            column.take(np.array(at), values)
    for name, column in zip(cells, gathered, strict=True):
        yield name, column.column(database)


def _written(database: sqlite3.Connection, numbers: Sequence[float]) -> list[str]:
    return [database.execute("SELECT CAST(? AS TEXT)", (n,)).fetchone()[0] for n in numbers]


def refresh_columns(folder: Path, catalogue: Catalogue) -> bool:
    """Write the file anew, under the lock, where it is missing, old, or has what was deleted."""
    meta, database = catalogue.meta(), catalogue.database
    places = int(meta.get("places", 0))
    if places < MIN_IMAGES:
        return False
    rows = database.execute("SELECT name, file, digest, places FROM structures")
    named = {name: row for name, *row in rows}
    (recent,) = database.execute("SELECT count(*) FROM recent").fetchone()
    is_recent = recent > max(STALE, STALE_SHARE * places)
    if NAME in named and not is_recent:
        return False
    serial = int(meta.get("structures", 0)) + 1
    file = f"{NAME}.{int(meta['generation']):06d}.{serial:06d}{ENDING}"
    before = None
    if OLD in named and not is_recent:
        old, *noted = named[OLD]
        with suppress(CheckpointError):  # a damaged one is no help
            before = Columns(folder / old, *noted)
    if before is None:
        digest = write_columns(folder / file, database, cells_of(catalogue.columns()), places)
    else:
        places = before.places
        kept = _kept(database, places)
        digest = _save(folder / file, ((name, column.only(kept)) for name, column in before.all()))
    with catalogue.transaction(write=True):
        database.execute("DELETE FROM structures WHERE name = ?", (OLD,))
        database.execute(
            "INSERT OR REPLACE INTO structures VALUES (?, ?, ?, ?, '{}')",
            (NAME, file, digest, places),
        )
        if before is None:
            database.execute("DELETE FROM recent")
        else:
            database.execute("DELETE FROM recent WHERE number NOT IN (SELECT number FROM images)")
        set_meta(database, {"structures": serial})
    return True


def _kept(database: sqlite3.Connection, places: int) -> NDArray[np.bool_]:
    """Whose cells stay in the file: of images that are there, and that SQLite is not asked of."""
    kept = np.zeros(places, dtype=np.bool_)
    rows = database.execute(
        "SELECT place FROM images LEFT JOIN recent USING (number) "
        "WHERE place < ? AND recent.number IS NULL",
        (places,),
    )
    while part := rows.fetchmany(ROWS_AT_ONCE):
        kept[[place for (place,) in part]] = True
    return kept


def forget_columns(database: sqlite3.Connection) -> None:
    """Have the writer leave out what is deleted, in the transaction; SQLite answers until then."""
    database.execute("UPDATE OR REPLACE structures SET name = ? WHERE name = ?", (OLD, NAME))
