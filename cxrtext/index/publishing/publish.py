"""Publishing an index: what is new of it is put where replicas pull it from, the pointer last.

What is published is the index at one moment, whoever writes it meanwhile.  The catalogue is copied
first, as SQLite sees it at one moment, and says what else belongs to that moment: so many rows of
each vector file, which are never written over, and files that are named by their content.  Where
one of them is gone by the time that it is taken, a writer has changed the index; the catalogue is
then copied once more, and what was sent already is kept.

A publisher that is killed at any time leaves pieces that the next one uses, or removes; two at once
write the same pieces under the same names and a list each, and the pointer names one of the lists.
"""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from cxrtext.errors import CheckpointError, DataError, NotFoundError, WorkError
from cxrtext.files import file_problems, scratch_folder
from cxrtext.files.digests import read_sums
from cxrtext.files.sqlite import open_database
from cxrtext.files.storage import Storage
from cxrtext.index.publishing.publication import (
    OBJECTS,
    PIECE_BYTES,
    PUBLISHING,
    UPLOADS,
    File,
    Manifest,
    collect,
    digest_of,
    encoded,
    in_words,
    now,
    object_name,
    process_mark,
    read_pointer,
    write_manifest,
    write_pointer,
)
from cxrtext.index.store.catalogue import (
    CATALOGUE,
    Catalogue,
    catalogue_errors,
    check_index_folder,
    empty_index,
    set_meta,
)
from cxrtext.index.store.check import check_index
from cxrtext.index.store.replica import INDEX, MODEL, refuse_replica
from cxrtext.index.store.vectors import VectorFile, counted_rows, vector_files
from cxrtext.index.store.writer import disk_errors, writing
from cxrtext.models.checkpoint import checkpoint_fingerprint
from cxrtext.models.folders import has_model
from cxrtext.pausing import StageProgress

KEEP = 3
GRACE_S = 3600.0
"""How long a publication stays after it was replaced, for those who are pulling it."""

WITHOUT = "an index is published with its model; a backup may be made without it: --no-model"

OTHER_UPLOAD = (
    "is not what its name says; put the file of an older backup in its place, or delete its image"
)
CHANGED = "was changed while it was copied; do it again"

ATTEMPTS = 4  # at one moment of the index; the last holds writers off

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Published:
    publication: str  # digest
    published: str  # when the index was taken, UTC, as ISO 8601
    images: int
    sentences: int
    uploads: int  # files of images that were added over HTTP
    size: int  # bytes of all files
    sent: int  # bytes of the pieces that were not there yet
    is_current: bool  # whether replicas pull it: another publisher may have been later
    removed: int  # older publications that were removed
    is_tidy: bool  # whether all was removed that is to be: not while another publisher works


class GoneError(Exception):
    """A file that the copied catalogue names is there no longer."""


@dataclass(frozen=True, slots=True)
class Moment:
    index: Path
    catalogue: Path  # a copy, which nobody else changes
    meta: Mapping[str, str]
    vectors: Mapping[str, tuple[VectorFile, int]]  # by name, with the rows that count
    structures: Sequence[tuple[str, str]]  # names and digests of FAISS files
    roots: Mapping[str, str]  # folders of uploads, by the name of their copy
    uploads: Sequence[tuple[str, str]]  # the name of the folder's copy, and a file in it


def publish(
    index: Path,
    storage: Storage,
    *,
    keep: int = KEEP,
    grace_s: float = GRACE_S,
    model: bool = True,
    scratch: Path | None = None,
    wait_s: float = 30.0,
    progress: StageProgress | None = None,
) -> Published:
    """Publish an index as it is at one moment, with its uploads and, for replicas, its checkpoint.

    Others may search and write the index meanwhile.  Images that lie where their manifest has them
    are not published.  Where nothing has changed nothing is written.

    Args:
        keep: As for :func:`~.publication.collect`, with ``grace_s``.
        model: Whether to publish the checkpoint; replicas want it, backups may do without.
        scratch: A folder for the copied catalogue; by default the index's.
        wait_s: How long to wait for a writer, where the index changes faster than it is read.
    """
    refuse_replica(index)
    check_index_folder(index)
    tell = progress or (lambda _stage, _done, _total: None)
    tell("checking the index", 0, 1)
    with Catalogue(index / CATALOGUE) as catalogue:
        wrong = check_index(index, catalogue)
    if wrong:
        raise CheckpointError(
            f"{index}: {wrong[0]}; run 'cxrtext index check {index}': a damaged index is not copied"
        )
    tell("checking the index", 1, 1)
    with _announced(storage) as own:
        at_first = read_pointer(storage)
        sender = _Sender(storage, tell, with_model=model)
        beside = scratch or index
        with (
            disk_errors(beside, "nothing was published"),
            scratch_folder(beside, "publishing") as folder,
        ):
            taken, manifest = at_one_moment(index, folder / CATALOGUE, sender.send, wait_s)
        before = read_pointer(storage)
        is_new = before is None or before.digest != manifest.digest
        if is_new:
            write_manifest(storage, manifest, taken)
            sender.require_all(manifest)
            # What was published before this one began is older, whatever the clocks say.
            if (
                before is None
                or before == at_first
                or datetime.fromisoformat(before.published) <= taken
            ):
                write_pointer(storage, manifest.digest, taken)
        current = read_pointer(storage)
        is_current = current is not None and current.digest == manifest.digest
        try:
            removed, is_tidy = collect(storage, keep, grace_s, own)
        except (DataError, NotFoundError) as error:
            raise DataError(
                f"{error} (the index is published; what is old was not removed)"
            ) from None
    published = in_words(taken) if is_new or before is None else before.published
    return Published(
        manifest.digest, published, manifest.images, manifest.sentences, manifest.uploads,
        manifest.size, sender.sent, is_current, removed, is_tidy,
    )  # fmt: skip


@contextmanager
def _announced(storage: Storage) -> Iterator[str]:
    """Note that a publisher is at work, so that no other removes what it relies on."""
    name = f"{PUBLISHING}/{secrets.token_hex(8)}.json"
    storage.commit(name, encoded({"begun": in_words(now()), "process": process_mark()}))
    try:
        yield name
    finally:
        with suppress(WorkError, OSError):  # it is out of date after a day
            storage.remove(name)


class _Sender:
    def __init__(self, storage: Storage, tell: StageProgress, *, with_model: bool) -> None:
        self._storage, self._tell, self._with_model = storage, tell, with_model
        self._there = set(storage.names(f"{OBJECTS}/"))
        self.sent = 0
        self._done = self._total = 0

    def send(self, moment: Moment) -> tuple[datetime, Manifest]:
        taken = now()
        _make_movable(moment, with_model=self._with_model)
        checkpoint = _checkpoint_of(moment) if self._with_model else None
        found = checkpoint.rglob("*") if checkpoint else ()
        model = sorted(path for path in found if path.is_file())
        # But for uploads, of which each would have to be looked at.
        vectors = sum(rows * file.row_bytes for file, rows in moment.vectors.values())
        beside = sum(path.stat().st_size for path in [moment.catalogue, *model])
        self._done, self._total = 0, vectors + beside
        files: dict[str, File] = {}
        short = f"is shorter than the index says; run 'cxrtext index check {moment.index}'"
        for source, rows in moment.vectors.values():
            size = rows * source.row_bytes
            files[f"{INDEX}/{source.path.name}"] = self._file(source.path, short, size=size)
        damaged = f"is damaged; 'cxrtext index rebuild {moment.index}' makes it again"
        for name, digest in moment.structures:
            files[f"{INDEX}/{name}"] = self._file(moment.index / name, damaged, digest=digest)
        for folder, name in moment.uploads:
            path = Path(moment.roots[folder]) / name
            files[f"{folder}/{name}"] = self._file(path, OTHER_UPLOAD, digest=path.stem)
        if checkpoint is not None:
            for path in model:
                name = f"{MODEL}/{path.relative_to(checkpoint).as_posix()}"
                files[name] = self._file(path, CHANGED)
            # A training may have put another one in its place meanwhile.
            _require_model_of(moment, checkpoint)
        files[f"{INDEX}/{CATALOGUE}"] = self._file(moment.catalogue, CHANGED)
        with Catalogue(moment.catalogue) as copied:
            images, sentences = copied.counts()
        return taken, Manifest(moment.meta["model"], images, sentences, len(moment.uploads), files)

    def _file(
        self, path: Path, wrong: str, *, size: int | None = None, digest: str | None = None
    ) -> File:
        """Send what is missing of a file's first bytes; ``wrong`` says why they are not these."""
        whole, pieces = hashlib.sha256(), list[str]()
        if size == 0:  # an index without sentences
            return File(0, ())
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size if size is None else size
                for offset in range(0, size, PIECE_BYTES):
                    data = file.read(min(PIECE_BYTES, size - offset))
                    if len(data) < min(PIECE_BYTES, size - offset):
                        raise CheckpointError(f"{path}: {wrong}")
                    if digest is not None:
                        whole.update(data)
                    pieces.append(self._piece(data))
        except FileNotFoundError:
            raise GoneError(path) from None
        if digest is not None and whole.hexdigest() != digest:
            raise CheckpointError(f"{path}: {wrong}")
        return File(size, tuple(pieces))

    def _piece(self, data: bytes) -> str:
        digest = digest_of(data)
        name = object_name(digest)
        if name not in self._there:
            self._storage.commit(name, data)
            self._there.add(name)
            self.sent += len(data)
        self._done += len(data)
        self._tell("publishing (bytes)", self._done, max(self._done, self._total))
        return digest

    def require_all(self, manifest: Manifest) -> None:
        """See that all pieces are there, before replicas are told of them (WorkError)."""
        there = set(self._storage.names(f"{OBJECTS}/"))
        if missing := [d for d in manifest.objects if object_name(d) not in there]:
            raise WorkError(
                f"{self._storage.address}: {len(missing)} pieces were removed meanwhile; publish "
                "again"
            )


def _make_movable(moment: Moment, *, with_model: bool) -> None:
    """Let a copied catalogue name its uploads and its checkpoint by where they lie beside it."""
    with (
        Catalogue(moment.catalogue, write=True) as catalogue,
        catalogue.transaction(write=True) as database,
    ):
        database.execute("DELETE FROM leftovers")  # files of the index that is published
        for name, root in moment.roots.items():
            database.execute("UPDATE roots SET path = ? WHERE path = ?", (f"../{name}", root))
        if with_model:
            set_meta(database, {"checkpoint": f"../{MODEL}"})


def at_one_moment(index: Path, copy: Path, take: Callable[[Moment], T], wait_s: float) -> T:
    """Call a function with an index at one moment, again where its files went meanwhile.

    The catalogue is copied to ``copy``; ``take`` raises :class:`GoneError` where a file is gone.  A
    writer is waited for where the index changes faster than it is taken.
    """
    for attempt in range(1, ATTEMPTS + 1):
        with ExitStack() as stack:
            if attempt == ATTEMPTS:
                stack.enter_context(writing(index, wait_s=wait_s))
            try:
                return take(_copy_catalogue(index, copy))
            except GoneError as error:
                if attempt == ATTEMPTS:
                    raise CheckpointError(
                        f"{error}: the index names this file and it is not there; run "
                        f"'cxrtext index check {index}'"
                    ) from None
    raise AssertionError  # the last attempt returns or raises


def _copy_catalogue(index: Path, copy: Path) -> Moment:
    copy.unlink(missing_ok=True)
    with (
        catalogue_errors(index / CATALOGUE),
        Catalogue(index / CATALOGUE) as source,
        closing(open_database(copy)) as target,
    ):
        source.database.backup(target)
    with Catalogue(copy) as copied:
        meta = copied.meta()
        if "generation" not in meta:
            raise empty_index(index)
        structures = copied.database.execute("SELECT file, digest FROM structures").fetchall()
        named = copied.database.execute(
            "SELECT DISTINCT path, file FROM images JOIN roots USING (root) "
            "WHERE file IS NOT NULL ORDER BY path, file"
        ).fetchall()
    rows = counted_rows(meta)
    name_of: dict[str, str] = {}
    for root, _ in named:
        name_of.setdefault(root, f"{UPLOADS}-{len(name_of) + 1}" if name_of else UPLOADS)
    return Moment(
        index=index,
        catalogue=copy,
        meta=meta,
        vectors={name: (file, rows[name]) for name, file in vector_files(index, meta).items()},
        structures=structures,
        roots={name: root for root, name in name_of.items()},
        uploads=[(name_of[root], file) for root, file in named],
    )


def _checkpoint_of(moment: Moment) -> Path:
    noted = moment.index / moment.meta.get("checkpoint", "")
    if not has_model(noted):
        raise CheckpointError(
            f"{moment.index}: the checkpoint that made this index is no longer at "
            f"'{moment.meta.get('checkpoint', '')}'; {WITHOUT}"
        )
    if problems := file_problems(noted):
        raise CheckpointError(f"{problems[0]}; a damaged checkpoint is not copied")
    _require_model_of(moment, noted)
    return noted


def _require_model_of(moment: Moment, checkpoint: Path) -> None:
    if checkpoint_fingerprint(checkpoint, read_sums(checkpoint)) != moment.meta["model"]:
        raise CheckpointError(
            f"{checkpoint}: holds another model than the one that made {moment.index}, which "
            "could not be searched with it; put that one back, or run 'cxrtext index rebuild "
            f"{moment.index} --model {checkpoint}'; {WITHOUT}"
        )
