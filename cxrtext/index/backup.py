"""Back up an index, with keys and a gateway's state, into a folder of files, and restore it.

The index is copied under its writer's lock: searches continue, and writers wait.
"""

import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

from cxrtext.errors import CheckpointError, DataError
from cxrtext.files import (
    check_folder,
    copy_files,
    file_problems,
    is_empty,
    read_sealed,
    replacing_folder,
    sha256,
    write_sealed,
)
from cxrtext.files.digests import read_sums
from cxrtext.files.sqlite import open_database
from cxrtext.index.store.catalogue import (
    CATALOGUE,
    Catalogue,
    check_index_folder,
    empty_index,
    set_meta,
    structure_of,
)
from cxrtext.index.store.check import check_index
from cxrtext.index.store.vectors import counted_rows, vector_files
from cxrtext.index.store.writer import disk_errors, write_summary, writing
from cxrtext.models.checkpoint import checkpoint_fingerprint
from cxrtext.models.folders import has_model, model_files
from cxrtext.pausing import StageProgress
from cxrtext.records.marks import copy_marks, marks_beside

NOTE = "backup.json"  # the file that identifies a backup
INDEX, MODEL = "index", "model"
UPLOADS = "uploads"  # the first folder of uploads; more are ``uploads-2`` …
KEYS = "keys.txt"
MARKS = marks_beside(Path(INDEX)).name
GATEWAY = "gateway"  # folder with the state of the gateway that fills the index
FORMAT, VERSION = "cxrtext backup", 3

WAIT_S = 60.0  # how long to wait for a writer

OTHER_UPLOAD = (
    "is not what its name says; replace it with the file of an older backup, or delete its image"
)
ANOTHER_BACKUP = "restore from another backup"


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
    size: int  # bytes of everything to restore


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

    Others may search the index meanwhile; writers wait.  Images that a manifest lists in their own
    place are not copied.

    Args:
        out: The backup's folder, new or empty, which only its owner may read.
        keys: The server's key file, to copy, too.
        model: Whether to copy the checkpoint that the index names.
        copy_state: Copies a gateway's state into a new folder, before the index is copied.
    """
    check_index_folder(index)
    check_empty(out)
    tell = progress or (lambda _stage, _done, _total: None)
    with (
        disk_errors(out, "the backup was not made"),
        replacing_folder(out, private=True) as folder,
    ):
        if copy_state is not None:
            copy_state(folder / GATEWAY)
        with writing(index, wait_s=WAIT_S) as source, disk_errors(out, "the backup was not made"):
            made = datetime.now(UTC)
            try:
                _copy(source, folder, model, tell)
            except FileNotFoundError as error:
                raise CheckpointError(
                    f"{error.filename}: the index names this file, but it is missing; run "
                    f"'cxrtext index check {quote(str(index))}'"
                ) from None
        with Catalogue(folder / INDEX / CATALOGUE) as catalogue:
            images, sentences = catalogue.counts()
            if wrong := check_index(folder / INDEX, catalogue):
                raise CheckpointError(
                    f"{index}: {wrong[0]}; run 'cxrtext index check {quote(str(index))}': a "
                    "damaged index is not copied"
                )
        if keys is not None:
            shutil.copyfile(keys, folder / KEYS)
        if marks_beside(index).is_file():
            copy_marks(marks_beside(index), folder / MARKS)
        files = [path for path in folder.rglob("*") if path.is_file()]
        names = sorted(path.relative_to(folder).as_posix() for path in files)
        about: dict[str, Any] = {
            "made": made.isoformat(timespec="milliseconds"),
            "images": images,
            "sentences": sentences,
            "uploads": sum(name.startswith(UPLOADS) for name in names),
            "model": model,
            "keys": keys is not None,
            "gateway": copy_state is not None,
            "marks": (folder / MARKS).is_file(),
            "size": sum(path.stat().st_size for path in files),
        }
        noted = {"format": FORMAT, "version": VERSION, "of": str(index.absolute())}
        write_sealed(folder / NOTE, {**noted, "about": about, "files": names})
    return BackupSummary(out, **about)


def _copy(source: Catalogue, folder: Path, model: bool, tell: StageProgress) -> None:
    """Copy the catalogue and the files that it names (FileNotFoundError: one is gone)."""
    index, home = source.path.parent, folder / INDEX
    home.mkdir()
    with closing(open_database(home / CATALOGUE)) as target:
        source.database.backup(target)
    with (
        Catalogue(home / CATALOGUE, write=True) as catalogue,
        catalogue.transaction(write=True) as database,
    ):
        meta = catalogue.meta()
        if "generation" not in meta:
            raise empty_index(index)
        uploads = database.execute(
            "SELECT DISTINCT path, file FROM images JOIN roots USING (root) "
            "WHERE file IS NOT NULL ORDER BY path, file"
        ).fetchall()
        # The copy names its uploads and its checkpoint relative to itself.
        names: dict[str, str] = {}
        for root, _ in uploads:
            names.setdefault(root, f"{UPLOADS}-{len(names) + 1}" if names else UPLOADS)
        for root, name in names.items():
            database.execute("UPDATE roots SET path = ? WHERE path = ?", (f"../{name}", root))
        database.execute("DELETE FROM leftovers")  # files of the index that is copied
        if model:
            set_meta(database, {"checkpoint": f"../{MODEL}"})
    rows = counted_rows(meta)
    files = [file.path for name, file in vector_files(index, meta).items() if rows[name]]
    if structure := structure_of(meta):
        files.append(index / structure["file"])
    for number, file in enumerate(files, 1):
        shutil.copyfile(file, home / file.name)
        tell("copying vectors (files)", number, len(files))
    for number, (root, file) in enumerate(uploads, 1):
        made = folder / names[root] / file
        made.parent.mkdir(exist_ok=True)
        shutil.copyfile(Path(root) / file, made)
        if sha256(made) != made.stem:
            raise CheckpointError(f"{Path(root) / file}: {OTHER_UPLOAD}")
        tell("copying uploads", number, len(uploads))
    if model:
        _copy_model(index, meta, folder / MODEL)


def _copy_model(index: Path, meta: Mapping[str, str], target: Path) -> None:
    noted = Path(meta.get("checkpoint", ""))
    if not has_model(noted):
        raise CheckpointError(
            f"{index}: the checkpoint that made this index is no longer at '{noted}'; put it back"
        )
    copy_files(noted, model_files(noted), target)
    # A training may have replaced it, before or meanwhile.
    if checkpoint_fingerprint(target, read_sums(target)) != meta["model"]:
        raise CheckpointError(
            f"{noted}: holds another model than the one that made {index} and is needed to search "
            "it; put that one back, or run 'cxrtext index compact "
            f"{quote(str(index))} --model {quote(str(noted))}'"
        )
    if file_problems(target):
        problems = file_problems(noted) or [f"{noted}: was changed while it was copied"]
        raise CheckpointError(f"{problems[0]}; a damaged checkpoint is not copied")


def _read(folder: Path) -> tuple[BackupSummary, list[str]]:
    """A backup's own summary, and the names of its files (DataError)."""
    try:
        noted: dict[str, Any] = read_sealed(folder / NOTE)
    except FileNotFoundError:
        raise DataError(
            f"{folder}: is not a backup: it has no {NOTE}; give a folder that 'cxrtext backup' made"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / NOTE}: {error}; {ANOTHER_BACKUP}") from None
    version = noted.get("version", 1)
    if version != VERSION:
        raise DataError(
            f"{folder}: is a backup of another version of cxrtext ({version}, this one reads "
            f"{VERSION}); restore it with that one, then back up again"
        )
    about = {one.name: noted["about"][one.name] for one in fields(BackupSummary)[1:]}
    return BackupSummary(folder, **about), noted["files"]


def restore(backup: Path, out: Path, *, progress: StageProgress | None = None) -> BackupSummary:
    """Restore an index, its uploads, marks, checkpoint and keys from a backup to a new folder.

    Before, every file is compared with its digest; after, the index with its checksums.  The
    restored index finds its uploads and its checkpoint in the new folder, and images that a
    manifest listed in their old place.

    Args:
        out: A new or empty folder; it gets ``index/`` and, if the backup has them, ``uploads/``,
            ``model/``, ``keys.txt`` and ``gateway/``.
    """
    check_empty(out)
    tell = progress or (lambda _stage, _done, _total: None)
    tell("checking the backup", 0, 1)
    summary, names = _read(backup)
    mend = f"nothing was restored; {ANOTHER_BACKUP}"
    check_folder(backup, [NOTE, *names], DataError, mend)
    tell("checking the backup", 1, 1)
    with (
        disk_errors(out, "nothing was restored"),
        replacing_folder(out, sums=False, private=True) as folder,
    ):
        for number, name in enumerate(names, 1):
            copy_files(backup, [name], folder)
            tell("restoring", number, len(names))
        _tell_where(folder / INDEX, out.absolute(), model=summary.model)
        with Catalogue(folder / INDEX / CATALOGUE) as catalogue:
            wrong = check_index(folder / INDEX, catalogue)
        if wrong:
            raise DataError(f"{backup}: {wrong[0]}; {ANOTHER_BACKUP}")
    return summary


def check_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or not is_empty(folder)):
        raise DataError(f"{folder}: is not empty; name a new folder")


def _tell_where(index: Path, home: Path, *, model: bool) -> None:
    with Catalogue(index / CATALOGUE, write=True) as catalogue:
        with catalogue.transaction(write=True) as database:
            known = dict(database.execute("SELECT path, root FROM roots"))
            for path, root in known.items():
                if path.startswith(f"../{UPLOADS}"):
                    new = str(home / path.removeprefix("../"))
                    if new in known:  # the index already knows this folder
                        there = known[new]
                        database.execute("UPDATE images SET root = ? WHERE root = ?", (root, there))
                        database.execute("DELETE FROM roots WHERE root = ?", (there,))
                    database.execute("UPDATE roots SET path = ? WHERE root = ?", (new, root))
            if model:
                set_meta(database, {"checkpoint": home / MODEL})
        write_summary(index, catalogue)
