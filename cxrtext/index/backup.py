"""A copy of an index that answers the same questions, taken while others write; and its return.

The catalogue is copied first, as SQLite sees it at one moment, and says what else belongs to that
moment: so many rows of each vector file, which are never written over, and files that are named by
their content.  Where one of them is gone by the time that it is copied, a writer has changed the
index; the catalogue is then copied once more, and what is there already is kept.
"""

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cxrtext.errors import CheckpointError, DataError, WorkError
from cxrtext.files import (
    SUMS,
    file_problems,
    read_sealed,
    replacing_folder,
    sha256,
    write_sealed,
)
from cxrtext.index.store.catalogue import (
    CATALOGUE,
    Catalogue,
    check_index_folder,
    empty_index,
    set_meta,
    sqlite_errors,
)
from cxrtext.index.store.check import check_index
from cxrtext.index.store.vectors import OF_IMAGES, SENTENCES, VectorFile, vector_files
from cxrtext.index.store.writer import write_summary, writing

NOTE = "backup.json"
"""The file by which a backup is known: when it was made, of what, and with which digest."""

INDEX, UPLOADS, MODEL, KEYS = "index", "uploads", "model", "keys.txt"

ATTEMPTS = 4  # the last holds writers off
COPY_BYTES = 32 * 2**20

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """What a backup holds."""

    folder: Path
    made: str  # when, UTC, as ISO 8601
    images: int
    sentences: int
    uploads: int  # files of images that were added over HTTP
    model: bool  # whether the checkpoint is in it
    keys: bool  # whether the file of keys is in it
    size: int  # bytes of all its files


class _GoneError(Exception):
    """A file that the copied catalogue names is there no longer."""


def back_up(
    index: Path,
    out: Path,
    *,
    keys: Path | None = None,
    model: bool = True,
    wait_s: float = 30.0,
    progress: Progress | None = None,
) -> BackupSummary:
    """Copy an index, the files of its uploads, its checkpoint and a file of keys into a new folder.

    Others may search and write the index meanwhile; the copy is the index of one moment.  Images
    that lie where their manifest has them are not copied.

    Args:
        index: The folder of the index.
        out: The backup's folder, new or empty, which only its owner may read.
        keys: The server's file of keys, to be copied, too.
        model: Whether to copy the checkpoint that the index notes.
        wait_s: How long to wait for a writer, where the index changes faster than it is copied.
        progress: Called with the stage, the bytes or files done, and those in all.

    Raises:
        CheckpointError: The folder is no index, it is empty or damaged, or its checkpoint is gone.
        DataError: ``out`` holds something, or another process writes without end.
        WorkError: The disk is full or cannot be written.
    """
    check_index_folder(index)
    check_empty(out)
    tell = progress or (lambda _stage, _done, _total: None)
    try:
        with replacing_folder(out, private=True) as folder:
            copy = _Copy(index, folder, tell)
            copy.take(wait_s)
            if model:
                copy.take_model()
            if keys is not None:
                shutil.copyfile(keys, folder / KEYS)
            noted = copy.note()
            tell("checking the copy", 0, 1)
            wrong = copy.damage()
            tell("checking the copy", 1, 1)
            if wrong:
                raise CheckpointError(
                    f"{index}: {wrong[0]}; run 'cxrtext index check {index}': a damaged index is "
                    "not backed up"
                )
            write_sealed(folder / NOTE, noted)
    except OSError as error:
        raise WorkError(
            f"{error.filename or out}: {error.strerror}; the backup was not made; fix the disk and "
            "run the same command again"
        ) from None
    return summary_of(out)


def summary_of(folder: Path) -> BackupSummary:
    """What a backup says of itself.

    Raises:
        DataError: The folder is no backup, or its note is damaged.
    """
    try:
        noted = read_sealed(folder / NOTE)
    except FileNotFoundError:
        raise DataError(
            f"{folder}: is no backup: it has no {NOTE}; give the folder that 'cxrtext backup' made"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / NOTE}: {error}; restore from another backup") from None
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    names = ("made", "images", "sentences", "uploads", "model", "keys")
    return BackupSummary(folder, size=size, **{name: noted[name] for name in names})


def restore(backup: Path, out: Path, *, progress: Progress | None = None) -> BackupSummary:
    """Make an index, its uploads, its checkpoint and its keys of a backup, in a new folder.

    Every file is compared with its digest before, and the index with its checksums after.  The
    restored index knows its uploads and its checkpoint in the new folder; images that a manifest
    listed it looks for where they were.

    Args:
        backup: The folder that :func:`back_up` made.
        out: A new or an empty folder; it gets ``index/``, and ``uploads/``, ``model/`` and
            ``keys.txt`` where the backup has them.

    Raises:
        DataError: The backup is none or is damaged, or ``out`` holds something.
        WorkError: The disk is full or cannot be written.
    """
    check_empty(out)
    found = summary_of(backup)
    tell = progress or (lambda _stage, _done, _total: None)
    tell("checking the backup", 0, 1)
    if not (backup / SUMS).is_file():
        raise DataError(f"{backup}: has no {SUMS}; restore from another backup")
    if problems := file_problems(backup):
        raise DataError(f"{problems[0]}; nothing was restored; restore from another backup")
    tell("checking the backup", 1, 1)
    names = [name for name in (INDEX, MODEL, KEYS) if (backup / name).exists()]
    names += sorted(path.name for path in backup.glob(f"{UPLOADS}*") if path.is_dir())
    try:
        with replacing_folder(out, sums=False, private=True) as folder:
            for done, name in enumerate(names):
                tell("restoring", done, len(names))
                source = backup / name
                (shutil.copytree if source.is_dir() else shutil.copyfile)(source, folder / name)
            _tell_where(folder, read_sealed(backup / NOTE), out.absolute())
            with Catalogue(folder / INDEX / CATALOGUE) as catalogue:
                wrong = check_index(folder / INDEX, catalogue)
            if wrong:
                raise DataError(f"{backup}: {wrong[0]}; restore from another backup")
            tell("restoring", len(names), len(names))
    except OSError as error:
        raise WorkError(
            f"{error.filename or out}: {error.strerror}; nothing was restored; fix the disk and "
            "run the same command again"
        ) from None
    return found


def check_empty(folder: Path) -> None:
    """Refuse a folder that holds something (DataError)."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: is not empty; name a new folder")


def _tell_where(folder: Path, noted: Mapping[str, Any], home: Path) -> None:
    """Note in a restored index where its uploads and its checkpoint will lie."""
    with Catalogue(folder / INDEX / CATALOGUE, write=True) as catalogue:
        with catalogue.transaction(write=True) as database:
            database.execute("DELETE FROM leftovers")  # files of the index that was backed up
            for name, root in noted["roots"].items():
                database.execute(
                    "UPDATE roots SET path = ? WHERE path = ?", (str(home / name), root)
                )
            if noted["model"]:
                set_meta(database, {"checkpoint": home / MODEL})
        write_summary(folder / INDEX, catalogue)


class _Copy:
    """A backup under way."""

    def __init__(self, index: Path, folder: Path, tell: Progress) -> None:
        self.index, self.folder, self._tell = index, folder, tell
        self._to = folder / INDEX
        self._to.mkdir()
        self._meta: dict[str, str] = {}
        self._roots: dict[str, str] = {}  # folders of uploads, by the name of their copy
        self._uploads = 0
        self._has_model = False
        self._rows: dict[str, int] = {}  # rows that were copied, by file

    def take(self, wait_s: float) -> None:
        """Copy the catalogue, and what it names."""
        for attempt in range(1, ATTEMPTS + 1):
            with ExitStack() as stack:
                if attempt == ATTEMPTS:
                    stack.enter_context(writing(self.index, wait_s=wait_s))
                try:
                    self._take_catalogue()
                    self._take_vectors()
                    self._take_uploads()
                except _GoneError as error:
                    if attempt == ATTEMPTS:
                        raise CheckpointError(
                            f"{error}: the index names this file and it is not there; run "
                            f"'cxrtext index check {self.index}'"
                        ) from None
                else:
                    return

    def _take_catalogue(self) -> None:
        path = self._to / CATALOGUE
        path.unlink(missing_ok=True)
        with (
            sqlite_errors(self.index / CATALOGUE),
            Catalogue(self.index / CATALOGUE) as source,
            closing(sqlite3.connect(path)) as target,
        ):
            source.database.backup(target)
        with Catalogue(path) as copied:
            meta = copied.meta()
        if "generation" not in meta:
            raise empty_index(self.index)
        if meta["generation"] != self._meta.get("generation"):
            for old in (*self._to.glob("*.vectors"), *self._to.glob("*.faiss")):
                old.unlink()
            self._rows.clear()
        self._meta = meta

    def _take_vectors(self) -> None:
        meta = self._meta
        counts = dict.fromkeys(OF_IMAGES, int(meta["places"]))
        counts[SENTENCES] = int(meta["sentence_places"])
        targets = vector_files(self._to, meta)
        total = sum(targets[name].row_bytes * rows for name, rows in counts.items())
        done = 0
        for name, source in vector_files(self.index, meta).items():
            done = self._append(source, targets[name], counts[name], done, total)
        with Catalogue(self._to / CATALOGUE) as copied:
            structures = copied.database.execute("SELECT file, digest FROM structures").fetchall()
        for file, digest in structures:
            if not (self._to / file).is_file():
                _copy_file(self.index / file, self._to / file)
            if sha256(self._to / file) != digest:
                raise CheckpointError(
                    f"{self.index / file}: is damaged; 'cxrtext index rebuild {self.index}' makes "
                    "it again"
                )

    def _append(
        self, source: VectorFile, target: VectorFile, rows: int, done: int, total: int
    ) -> int:
        """Copy the rows that are not copied yet; gives the bytes done of all files."""
        size = source.row_bytes
        start = self._rows.get(target.path.name, 0)
        left, done = (rows - start) * size, done + start * size
        try:
            with source.path.open("rb") as read, target.path.open("ab") as written:
                written.truncate(start * size)
                read.seek(start * size)
                while left and (data := read.read(min(left, COPY_BYTES))):
                    written.write(data)
                    left, done = left - len(data), done + len(data)
                    self._tell("copying vectors (bytes)", done, total)
        except FileNotFoundError:
            if rows:
                raise _GoneError(source.path) from None
        if left:
            raise CheckpointError(
                f"{source.path}: is shorter than the index says; run 'cxrtext index check "
                f"{self.index}'"
            )
        self._rows[target.path.name] = rows
        return done

    def _take_uploads(self) -> None:
        with Catalogue(self._to / CATALOGUE) as copied:
            named = copied.database.execute(
                "SELECT DISTINCT path, file FROM images JOIN roots USING (root) "
                "WHERE file IS NOT NULL ORDER BY path, file"
            ).fetchall()
        self._roots.clear()
        kept: set[Path] = set()
        for root in dict.fromkeys(path for path, _ in named):
            count = len(self._roots)
            self._roots[f"{UPLOADS}-{count + 1}" if count else UPLOADS] = root
        name_of = {root: name for name, root in self._roots.items()}
        for done, (root, file) in enumerate(named):
            target = self.folder / name_of[root] / file
            kept.add(target)
            if not target.is_file():
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                _copy_file(Path(root) / file, target)
                if sha256(target) != target.stem:
                    raise CheckpointError(
                        f"{Path(root) / file}: is not what its name says; put the file of an older "
                        "backup in its place, or delete its image"
                    )
            self._tell("copying uploads", done + 1, len(named))
        for old in self.folder.glob(f"{UPLOADS}*/**/*"):
            if old.is_file() and old not in kept:
                old.unlink()
        self._uploads = len(kept)

    def take_model(self) -> None:
        """Copy the checkpoint that the index notes."""
        noted = Path(self._meta.get("checkpoint", ""))
        if not (noted / "config.json").is_file():
            raise CheckpointError(
                f"{self.index}: the checkpoint that made this index is no longer at '{noted}'; "
                "back up without it: --no-model"
            )
        if problems := file_problems(noted):
            raise CheckpointError(f"{problems[0]}; a damaged checkpoint is not backed up")
        shutil.copytree(noted, self.folder / MODEL)
        self._has_model = True

    def note(self) -> dict[str, Any]:
        """What the backup is to say of itself."""
        with Catalogue(self._to / CATALOGUE) as copied:
            images, sentences = copied.counts()
            write_summary(self._to, copied)
        return {
            "format": "cxrtext backup",
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "of": str(self.index.absolute()),
            "fingerprint": self._meta["model"],
            "images": images,
            "sentences": sentences,
            "uploads": self._uploads,
            "roots": self._roots,
            "model": self._has_model,
            "keys": (self.folder / KEYS).is_file(),
        }

    def damage(self) -> list[str]:
        """What is wrong with the copied index, a line each."""
        with Catalogue(self._to / CATALOGUE) as copied:
            return check_index(self._to, copied)


def _copy_file(source: Path, target: Path) -> None:
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:
        target.unlink(missing_ok=True)
        raise _GoneError(source) from None
