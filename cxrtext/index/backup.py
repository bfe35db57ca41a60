"""A copy of an index that answers the same questions, taken while others write; and its return."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from cxrtext.errors import CheckpointError, DataError, WorkError
from cxrtext.files import (
    SUMS,
    file_problems,
    is_empty,
    read_sealed,
    replacing_folder,
    sha256,
    write_sealed,
)
from cxrtext.index.moment import (
    UPLOADS,
    GoneError,
    Moment,
    at_one_moment,
    checkpoint_of,
    damaged_structure,
    damaged_upload,
    require_model_of,
    too_short,
)
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue, check_index_folder, set_meta
from cxrtext.index.store.check import check_index
from cxrtext.index.store.vectors import VectorFile, vector_files
from cxrtext.index.store.writer import write_summary

NOTE = "backup.json"
"""The file by which a backup is known: when it was made, of what, and with which digest."""

INDEX, MODEL, KEYS = "index", "model", "keys.txt"

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
    if folder.exists() and (not folder.is_dir() or not is_empty(folder)):
        raise DataError(f"{folder}: is not empty; name a new folder")


def _tell_where(folder: Path, noted: Mapping[str, Any], home: Path) -> None:
    """Note in a restored index where its uploads and its checkpoint will lie."""
    with Catalogue(folder / INDEX / CATALOGUE, write=True) as catalogue:
        with catalogue.transaction(write=True) as database:
            database.execute("DELETE FROM leftovers")  # files of the index that was backed up
            _move_roots(database, {root: str(home / name) for name, root in noted["roots"].items()})
            if noted["model"]:
                set_meta(database, {"checkpoint": home / MODEL})
        write_summary(folder / INDEX, catalogue)


def _move_roots(database: Connection, moved: Mapping[str, str]) -> None:
    """Let folders lie elsewhere, also where another one that is known lay there before."""
    known = dict(database.execute("SELECT path, root FROM roots"))
    for old in moved:
        database.execute("UPDATE roots SET path = ? WHERE root = ?", (f"\0{old}", known[old]))
    for old, new in moved.items():
        if new in known and new not in moved:
            pair = (known[old], known[new])
            database.execute("UPDATE images SET root = ? WHERE root = ?", pair)
            database.execute("DELETE FROM roots WHERE root = ?", (known[new],))
        database.execute("UPDATE roots SET path = ? WHERE root = ?", (new, known[old]))


class _Copy:
    """A backup under way."""

    def __init__(self, index: Path, folder: Path, tell: Progress) -> None:
        self.index, self.folder, self._tell = index, folder, tell
        self._to = folder / INDEX
        self._to.mkdir()
        self._moment: Moment | None = None
        self._kept: set[Path] = set()  # files of uploads
        self._has_model = False
        self._rows: dict[str, int] = {}  # rows that were copied, by file

    @property
    def moment(self) -> Moment:
        """What was copied."""
        assert self._moment is not None  # noqa: S101 - taken before
        return self._moment

    def take(self, wait_s: float) -> None:
        """Copy the catalogue, and what it names."""
        at_one_moment(self.index, self._to / CATALOGUE, self._take, wait_s)

    def _take(self, moment: Moment) -> None:
        before, self._moment = self._moment, moment
        if before is not None and before.meta["generation"] != moment.meta["generation"]:
            for kind in ("vectors", "faiss", "columns"):
                for old in self._to.glob(f"*.{kind}"):
                    old.unlink()
            self._rows.clear()
        self._take_vectors(moment)
        self._take_uploads(moment)

    def _take_vectors(self, moment: Moment) -> None:
        targets = vector_files(self._to, moment.meta)
        total = sum(file.row_bytes * rows for file, rows in moment.vectors.values())
        done = 0
        for name, (source, rows) in moment.vectors.items():
            done = self._append(source, targets[name], rows, done, total)
        for file, digest in moment.structures:
            if not (self._to / file).is_file():
                _copy_file(self.index / file, self._to / file)
            if sha256(self._to / file) != digest:
                raise damaged_structure(self.index, file)

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
                raise GoneError(source.path) from None
        if left:
            raise too_short(self.index, source.path)
        self._rows[target.path.name] = rows
        return done

    def _take_uploads(self, moment: Moment) -> None:
        self._kept = {self.folder / name / file for name, file in moment.uploads}
        for done, (name, file) in enumerate(moment.uploads):
            source, target = Path(moment.roots[name]) / file, self.folder / name / file
            if not target.is_file():
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                _copy_file(source, target)
                if sha256(target) != target.stem:
                    raise damaged_upload(source)
            self._tell("copying uploads", done + 1, len(moment.uploads))
        for old in self.folder.glob(f"{UPLOADS}*/**/*"):
            if old.is_file() and old not in self._kept:
                old.unlink()

    def take_model(self) -> None:
        """Copy the checkpoint that the index notes."""
        without = "back up without it: --no-model"
        shutil.copytree(checkpoint_of(self.moment, without), self.folder / MODEL)
        # A training may have put another one in its place meanwhile.
        require_model_of(self.moment, self.folder / MODEL, without)
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
            "fingerprint": self.moment.meta["model"],
            "images": images,
            "sentences": sentences,
            "uploads": len(self._kept),
            "roots": dict(self.moment.roots),
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
        raise GoneError(source) from None
