"""A backup of an index, published into a folder with keys and a gateway's state; its return."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import CxrTextError, DataError, NotFoundError
from cxrtext.files import (
    check_folder,
    copy_files,
    is_empty,
    read_sealed,
    replacing_folder,
    write_sealed,
)
from cxrtext.files.storage import open_storage
from cxrtext.index.publishing import publication
from cxrtext.index.publishing.publish import publish
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue, check_index_folder, set_meta
from cxrtext.index.store.check import check_index
from cxrtext.index.store.replica import INDEX, MODEL
from cxrtext.index.store.writer import disk_errors, write_summary
from cxrtext.pausing import StageProgress
from cxrtext.records.marks import copy_marks, marks_beside

NOTE = "backup.json"  # the file by which a backup is known
KEYS = "keys.txt"
MARKS = marks_beside(Path(INDEX)).name
GATEWAY = "gateway"  # folder with the state of the gateway that fills the index
FORMAT, VERSION = "cxrtext backup", 2


@dataclass(frozen=True, slots=True)
class BackupSummary:
    folder: Path
    made: str  # when, UTC, as ISO 8601
    images: int
    sentences: int
    uploads: int  # files of images that were added over HTTP
    model: bool  # whether the checkpoint is in it
    keys: bool  # whether the file of keys is in it
    gateway: bool  # whether a gateway's state is in it
    marks: bool  # whether marks of readers are in it
    size: int  # bytes of all that is restored


def back_up(
    index: Path,
    out: Path,
    *,
    keys: Path | None = None,
    model: bool = True,
    copy_state: Callable[[Path], None] | None = None,
    progress: StageProgress | None = None,
) -> BackupSummary:
    """Copy an index, its uploads, marks and checkpoint, and a file of keys into a new folder.

    Others may search and write the index meanwhile; the copy is the index of one moment.  Images
    that lie where their manifest has them are not copied.

    Args:
        out: The backup's folder, new or empty, which only its owner may read.
        keys: The server's file of keys, to be copied, too.
        model: Whether to copy the checkpoint that the index notes.
        copy_state: Copies a gateway's state into a new folder, before the index is copied.
    """
    check_index_folder(index)
    check_empty(out)
    with (
        disk_errors(out, "the backup was not made"),
        replacing_folder(out, private=True) as folder,
    ):
        if copy_state is not None:
            copy_state(folder / GATEWAY)
        publish(index, open_storage(folder), model=model, scratch=folder, progress=progress)
        if keys is not None:
            shutil.copyfile(keys, folder / KEYS)
        if marks_beside(index).is_file():
            copy_marks(marks_beside(index), folder / MARKS)
        noted = {"format": FORMAT, "version": VERSION, "of": str(index.absolute())}
        write_sealed(folder / NOTE, noted)
    return _read(out)[0]


def _read(folder: Path) -> tuple[BackupSummary, publication.Manifest]:
    """What a backup says of itself (DataError)."""
    try:
        version = read_sealed(folder / NOTE).get("version", 1)
    except FileNotFoundError:
        raise DataError(
            f"{folder}: is no backup: it has no {NOTE}; give the folder that 'cxrtext backup' made"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / NOTE}: {error}; restore from another backup") from None
    if version != VERSION:
        raise DataError(
            f"{folder}: is a backup of another version of cxrtext ({version}, this one reads "
            f"{VERSION}); restore it with that one, then back up again"
        )
    storage = open_storage(folder)
    try:
        current = publication.read_pointer(storage)
        if current is None:
            raise NotFoundError(f"{folder}: names no publication")
        manifest, taken = publication.read_manifest(storage, current.digest)
    except CxrTextError as error:
        raise DataError(f"{error}; restore from another backup") from None
    has_model = any(name.startswith(f"{MODEL}/") for name in manifest.files)
    beside = _beside(folder)
    summary = BackupSummary(
        folder,
        publication.in_words(taken),
        manifest.images,
        manifest.sentences,
        manifest.uploads,
        has_model,
        KEYS in beside,
        (folder / GATEWAY).is_dir(),
        MARKS in beside,
        manifest.size + sum((folder / name).stat().st_size for name in beside),
    )
    return summary, manifest


def _beside(folder: Path) -> list[str]:
    """The files of a backup that are restored and of no publication."""
    found = [folder / KEYS, folder / MARKS, *(folder / GATEWAY).rglob("*")]
    return [path.relative_to(folder).as_posix() for path in found if path.is_file()]


def restore(backup: Path, out: Path, *, progress: StageProgress | None = None) -> BackupSummary:
    """Make an index, its uploads, marks, checkpoint and keys of a backup, in a new folder.

    Every file is compared with its digest before, and the index with its checksums after.  The
    restored index knows its uploads and its checkpoint in the new folder; images that a manifest
    listed it looks for where they were.

    Args:
        out: A new or an empty folder; it gets ``index/``, and ``uploads/``, ``model/``,
            ``keys.txt`` and ``gateway/`` where the backup has them.
    """
    check_empty(out)
    tell = progress or (lambda _stage, _done, _total: None)
    tell("checking the backup", 0, 1)
    found, manifest = _read(backup)
    mend = "nothing was restored; restore from another backup"
    check_folder(backup, [NOTE, *_beside(backup)], DataError, mend)
    tell("checking the backup", 1, 1)
    with (
        disk_errors(out, "nothing was restored"),
        replacing_folder(out, sums=False, private=True) as folder,
    ):
        _lay(backup, manifest, folder, tell)
        copy_files(backup, _beside(backup), folder)
        _tell_where(folder / INDEX, out.absolute(), model=found.model)
        with Catalogue(folder / INDEX / CATALOGUE) as catalogue:
            wrong = check_index(folder / INDEX, catalogue)
        if wrong:
            raise DataError(f"{backup}: {wrong[0]}; restore from another backup")
    return found


def check_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or not is_empty(folder)):
        raise DataError(f"{folder}: is not empty; name a new folder")


def _lay(backup: Path, manifest: publication.Manifest, folder: Path, tell: StageProgress) -> None:
    storage, done = open_storage(backup), 0
    for name, file in manifest.files.items():
        (folder / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / name).open("wb") as handle:
            for digest, _, size in file.parts():
                handle.write(publication.read_piece(storage, digest))
                done += size
                tell("restoring (bytes)", done, manifest.size)


def _tell_where(index: Path, home: Path, *, model: bool) -> None:
    with Catalogue(index / CATALOGUE, write=True) as catalogue:
        with catalogue.transaction(write=True) as database:
            known = dict(database.execute("SELECT path, root FROM roots"))
            for path, root in known.items():
                if path.startswith(f"../{publication.UPLOADS}"):
                    new = str(home / path.removeprefix("../"))
                    if new in known:  # another folder that is known lies there
                        there = known[new]
                        database.execute("UPDATE images SET root = ? WHERE root = ?", (root, there))
                        database.execute("DELETE FROM roots WHERE root = ?", (there,))
                    database.execute("UPDATE roots SET path = ? WHERE root = ?", (new, root))
            if model:
                set_meta(database, {"checkpoint": home / MODEL})
        write_summary(index, catalogue)
