"""Caches: entries that are about somebody, found by digests, and overwritten where they lie.

An entry of a file that others may have mapped is overwritten with zeros and no longer named; the
file keeps its size, so that what others have mapped stays where it is.
"""

import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cxrtext.errors import CxrTextError, WorkError
from cxrtext.files import only_one, remove_file
from cxrtext.files.sqlite import open_database, sqlite_errors
from cxrtext.images.cache_store import NAME as DECODED
from cxrtext.images.cache_store import only_filler
from cxrtext.language.scoring.cache import digest_of
from cxrtext.language.scoring.score import encode_pieces
from cxrtext.models.text_folder import family_of
from cxrtext.service.forget.subject import Subject
from cxrtext.text.tokenizer import load_tokenizer_of
from cxrtext.training.data.locked_features import ENTRY, content_digest

BUSY_SECONDS = 120.0
CACHE = "remove the file: it is a cache"
NO_CACHE = "it is no cache: restore it from a copy"
"""What to do about a file that is damaged."""
LONGEST_ROW = 16 * 2**20  # bytes of one image's features, at most


@contextmanager
def opened(path: Path, *, write: bool = False, mend: str = CACHE) -> Iterator[sqlite3.Connection]:
    """A SQLite file; where it is written, no journal and no freed page stays."""
    with sqlite_errors(path, WorkError, mend, "then run the command again"):
        base = open_database(path, write=write, wait_s=BUSY_SECONDS, journal="DELETE")
        with closing(base):
            yield base
            if write:
                base.execute("VACUUM")


def tables_of(path: Path) -> set[str]:
    """Names of the tables of a SQLite file; none where it is no such file."""
    try:
        with path.open("rb") as handle:
            if not handle.read(16).startswith(b"SQLite format 3"):
                return set()
        with opened(path) as base:
            return {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
    except (OSError, CxrTextError):
        return set()


# --- decoded images ---


@dataclass(frozen=True, slots=True)
class _Square:
    store: int
    digest: bytes
    slot: int | None
    file: Path
    size: int

    @property
    def pixels(self) -> bytes:
        if self.slot is None or not self.file.is_file():
            return b""
        with self.file.open("rb") as handle:
            handle.seek(self.slot * self.size**2)
            return handle.read(self.size**2)


def _squares(base: sqlite3.Connection, folder: Path, subject: Subject) -> list[_Square]:
    found = []
    for digest in sorted(subject.digests):
        rows = base.execute(
            "SELECT store, digest, slot, file, size FROM square JOIN store ON store.id = store "
            "WHERE digest = ?",
            [bytes.fromhex(digest)],
        )
        found += [_Square(s, d, slot, folder / file, size) for s, d, slot, file, size in rows]
    return found


def _paths(base: sqlite3.Connection, subject: Subject) -> list[bytes]:
    digests = {bytes.fromhex(digest) for digest in subject.digests}
    return sorted(
        path
        for path, digest in base.execute("SELECT path, digest FROM file")
        if digest in digests or _is_theirs(os.fsdecode(path), subject)
    )


def _is_theirs(path: str, subject: Subject) -> bool:
    """Whether a path is one of their images', wherever the folder lay when it was noted.

    An entry too many does no harm: what is not in a cache is made again.
    """
    parts = path.split("/")
    return path in subject.files or any(
        "/".join(parts[-count:]) in subject.images for count in range(1, len(parts))
    )


def learn_squares(folder: Path, subject: Subject) -> int:
    """Count a decoded cache's entries, and note by what features of its squares are known."""
    with opened(folder / DECODED) as base:
        squares, paths = _squares(base, folder, subject), _paths(base, subject)
    for square in squares:
        if pixels := square.pixels:
            subject.squares.add(content_digest(np.frombuffer(pixels, np.uint8)).hex())
    return max(len(squares), len(paths))


def forget_squares(folder: Path, subject: Subject) -> None:
    """Overwrite the squares, and take their entries and the files' paths out of the catalogue."""
    with only_filler(folder), opened(folder / DECODED, write=True) as base:
        for square in _squares(base, folder, subject):
            if square.slot is not None and square.file.is_file():
                _overwrite(square.file, square.slot * square.size**2, square.size**2)
            base.execute(
                "DELETE FROM square WHERE store = ? AND digest = ?", [square.store, square.digest]
            )
        base.executemany("DELETE FROM file WHERE path = ?", [(p,) for p in _paths(base, subject)])


def _overwrite(path: Path, start: int, count: int) -> None:
    """Put zeros in the place of bytes, as far as the file goes, on disk when this returns."""
    with path.open("r+b") as handle:
        end = min(start + count, os.fstat(handle.fileno()).st_size)
        if end > start:
            handle.seek(start)
            handle.write(bytes(end - start))
            handle.flush()
            os.fsync(handle.fileno())


# --- what check-data has seen ---


def _facts(base: sqlite3.Connection, subject: Subject) -> list[bytes]:
    known = [path for (path,) in base.execute("SELECT path FROM facts")]
    return sorted(path for path in known if _is_theirs(os.fsdecode(path), subject))


def count_facts(path: Path, subject: Subject) -> int:
    with opened(path) as base:
        return len(_facts(base, subject))


def forget_facts(path: Path, subject: Subject) -> None:
    with opened(path, write=True) as base:
        rows = [(name,) for name in _facts(base, subject)]
        base.executemany("DELETE FROM facts WHERE path = ?", rows)


# --- marks of readers (`cxrtext.records.marks`) ---

MARKS = frozenset({"marks"})
"""Tables by which a file of marks is known."""


def _marks(base: sqlite3.Connection, subject: Subject) -> list[tuple[int]]:
    rows = base.execute("SELECT mark, patient_id, study_id, image FROM marks").fetchall()
    columns = ("patient_id", "study_id", "image")
    return [(row[0],) for row in rows if subject.has(dict(zip(columns, row[1:], strict=True)))]


def count_marks(path: Path, subject: Subject) -> int:
    with opened(path, mend=NO_CACHE) as base:
        return len(_marks(base, subject))


def forget_marks(path: Path, subject: Subject) -> None:
    with opened(path, write=True, mend=NO_CACHE) as base:
        base.executemany("DELETE FROM marks WHERE mark = ?", _marks(base, subject))


# --- results for a PACS (`cxrtext.pacs.results.folder`, which stands above this layer) ---

RESULTS = frozenset({"results", "sent", "answered"})
"""Tables by which the file of a folder of results is known."""


def _results(base: sqlite3.Connection, subject: Subject) -> list[tuple[str, str, str]]:
    rows = base.execute("SELECT instance, file, source, study_id, patient_id, study FROM results")
    return sorted(
        (instance, file, source)
        for instance, file, source, study_id, patient_id, study in rows
        if patient_id in subject.patients or subject.studies & {study_id, study}
    )


def count_results(path: Path, subject: Subject) -> int:
    with opened(path, mend=NO_CACHE) as base:
        return len(_results(base, subject))


def forget_results(path: Path, subject: Subject) -> None:
    """Remove their files, then take them out."""
    with opened(path, write=True, mend=NO_CACHE) as base:
        rows = _results(base, subject)
        for _, file, _ in rows:
            if (path.parent / file).resolve().is_relative_to(path.parent.resolve()):
                remove_file(path.parent / file)
        for instance, _, source in rows:
            base.execute("DELETE FROM sent WHERE instance = ?", [instance])
            base.execute("DELETE FROM answered WHERE image = ?", [source])
            base.execute("DELETE FROM results WHERE instance = ?", [instance])


# --- sentence scores, and states of locked encoders ---


@dataclass(frozen=True, slots=True)
class Pieces:
    """Word pieces of sentences, as the tokenizers that were found give them."""

    bare: frozenset[bytes]  # digests by which scores are known
    whole: frozenset[bytes]  # digests by which features of a text encoder are known


def pieces_of(folders: Iterable[Path], sentences: Sequence[str]) -> Pieces:
    """Digests of sentences by every tokenizer of some model folders."""
    bare: set[bytes] = set()
    whole: set[bytes] = set()
    for folder in folders:
        try:
            tokenizer = load_tokenizer_of(folder, family_of(folder))
        except (CxrTextError, OSError, ValueError):
            continue
        if not sentences:
            break
        bare |= {digest_of(pieces) for pieces in encode_pieces(tokenizer, sentences) if pieces}
        for longest in _lengths(folder):
            encoded = tokenizer(list(sentences), truncation=True, max_length=longest)
            whole |= {content_digest(np.array(ids, dtype=np.int64)) for ids in encoded["input_ids"]}
    return Pieces(frozenset(bare), frozenset(whole))


def _lengths(folder: Path) -> list[int]:
    """How many word pieces a checkpoint takes of a sentence; of a language model any."""
    from cxrtext.models.folders import read_checkpoint_config

    try:
        return [int(read_checkpoint_config(folder)["max_tokens"])]
    except (CxrTextError, KeyError, TypeError, ValueError):
        return []


def count_scores(path: Path, pieces: Pieces) -> int:
    with opened(path) as base:
        return sum(
            base.execute("SELECT count(*) FROM score WHERE sentence = ?", [digest]).fetchone()[0]
            for digest in pieces.bare
        )


def forget_scores(path: Path, pieces: Pieces) -> None:
    with opened(path, write=True) as base:
        rows = [(digest,) for digest in pieces.bare]
        base.executemany("DELETE FROM score WHERE sentence = ?", rows)


def _features(path: Path, wanted: frozenset[bytes]) -> tuple[list[int], int]:
    """Places of features, and the bytes of one."""
    keys = path.with_suffix(".keys").read_bytes()
    entries = np.frombuffer(keys[: len(keys) // ENTRY.itemsize * ENTRY.itemsize], dtype=ENTRY)
    places = [i for i, entry in enumerate(entries) if bytes(entry["digest"]) in wanted]
    return places, _row_bytes(path, entries) if places else 0


def _row_bytes(path: Path, entries: np.ndarray[tuple[int], np.dtype[np.void]]) -> int:
    """Bytes of one entry's features, which the file does not say: by checksums; 0 of a damaged one.

    A stopped run may have left features that are not noted: then the first ones' tell.
    """
    with path.open("rb") as handle:
        size, left = divmod(os.fstat(handle.fileno()).st_size, len(entries))
        for entry in () if left or not size or size > LONGEST_ROW else entries:
            if zlib.crc32(handle.read(size)) == entry["checksum"]:
                return size
        handle.seek(0)
        start = handle.read(LONGEST_ROW)
        total = 0
        for size in range(2, len(start) + 1, 2):
            total = zlib.crc32(start[size - 2 : size], total)
            if total != entries[0]["checksum"]:
                continue
            handle.seek(size)
            if len(entries) == 1 or zlib.crc32(handle.read(size)) == entries[1]["checksum"]:
                return size
    return 0


def count_features(path: Path, wanted: frozenset[bytes]) -> int:
    return len(_features(path, wanted)[0])


def forget_features(path: Path, wanted: frozenset[bytes]) -> None:
    """Overwrite features and their keys; a damaged file goes as a whole: it is a cache."""
    with only_one(path):
        places, size = _features(path, wanted)
        if places and not size:
            remove_file(path.with_suffix(".keys"))
            remove_file(path)
        checksum = np.array([(b"", zlib.crc32(bytes(size)))], dtype=ENTRY).tobytes()
        for place in places if size else ():
            _overwrite(path, place * size, size)
            with path.with_suffix(".keys").open("r+b") as keys:
                keys.seek(place * ENTRY.itemsize)
                keys.write(checksum)
                keys.flush()
                os.fsync(keys.fileno())
