"""Publishing an index: what is new of it is put where replicas pull it from, the pointer last.

A publisher that is killed at any time leaves pieces that the next one uses, or removes; two at once
write the same pieces under the same names and a list each, and the pointer names one of the lists.
"""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from cxrtext.errors import CheckpointError, DataError, NotFoundError, WorkError
from cxrtext.files import scratch_folder
from cxrtext.files.digests import read_sums
from cxrtext.files.storage import Storage
from cxrtext.index.moment import (
    GoneError,
    Moment,
    at_one_moment,
    checkpoint_of,
    damaged_structure,
    damaged_upload,
    require_model_of,
    too_short,
)
from cxrtext.index.publishing.collect import collect
from cxrtext.index.publishing.publication import (
    OBJECTS,
    PIECE_BYTES,
    PUBLISHING,
    File,
    Manifest,
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
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue, check_index_folder, set_meta
from cxrtext.index.store.check import check_index
from cxrtext.index.store.replica import INDEX, MODEL, Publication, refuse_replica

KEEP = 3
GRACE_S = 3600.0
"""How long a publication stays after it was replaced, for those who are pulling it."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Published:
    """What was published."""

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

    def as_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)


def publish(
    index: Path,
    storage: Storage,
    *,
    keep: int = KEEP,
    grace_s: float = GRACE_S,
    wait_s: float = 30.0,
    progress: Progress | None = None,
) -> Published:
    """Publish an index as it is at one moment, with its uploads and its checkpoint.

    Others may search and write the index meanwhile.  Images that lie where their manifest has them
    are not published.  Where nothing has changed nothing is written.

    Args:
        index: The folder of the index.
        storage: Where it is published.
        keep: How many publications stay, the newest among them.
        grace_s: How long one stays after it was replaced, in any case.
        wait_s: How long to wait for a writer, where the index changes faster than it is read.
        progress: Called with the stage, the bytes done, and those in all.

    Raises:
        CheckpointError: The folder is no index, it is empty or damaged, or its checkpoint is gone.
        DataError: The folder is a replica, another process writes without end, or what was
            published before is damaged.
        WorkError: The place cannot be written.
    """
    refuse_replica(index)
    check_index_folder(index)
    tell = progress or (lambda _stage, _done, _total: None)
    tell("checking the index", 0, 1)
    with Catalogue(index / CATALOGUE) as catalogue:
        wrong = check_index(index, catalogue)
    if wrong:
        raise CheckpointError(
            f"{index}: {wrong[0]}; run 'cxrtext index check {index}': a damaged index is not "
            "published"
        )
    tell("checking the index", 1, 1)
    with _announced(storage) as own:
        at_first = read_pointer(storage)
        sender = _Sender(storage, tell)
        with _scratch(index) as folder:
            taken, manifest = at_one_moment(index, folder / CATALOGUE, sender.send, wait_s)
        before = read_pointer(storage)
        is_new = before is None or before.digest != manifest.digest
        if is_new:
            write_manifest(storage, manifest, taken)
            sender.require_all(manifest)
            # What was published before this one began is older, whatever the clocks say.
            later = before is not None and before != at_first and _time_of(before) > taken
            if not later:
                write_pointer(storage, manifest.digest, taken)
        is_current = (
            found := read_pointer(storage)
        ) is not None and found.digest == manifest.digest
        try:
            removed, is_tidy = collect(storage, keep, grace_s, own)
        except (DataError, NotFoundError) as error:
            raise DataError(
                f"{error} (the index is published; what is old was not removed)"
            ) from None
    return Published(
        manifest.digest,
        in_words(taken) if is_new or before is None else before.published,
        manifest.images,
        manifest.sentences,
        manifest.uploads,
        manifest.size,
        sender.sent,
        is_current,
        removed,
        is_tidy,
    )


def _time_of(publication: Publication) -> datetime:
    return datetime.fromisoformat(publication.published)


@contextmanager
def _scratch(index: Path) -> Iterator[Path]:
    try:
        with scratch_folder(index, "publishing") as folder:
            yield folder
    except OSError as error:
        raise WorkError(
            f"{error.filename or index}: {error.strerror}; nothing was published; fix the disk and "
            "run the same command again"
        ) from None


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
    """Sends the pieces that are not there yet."""

    def __init__(self, storage: Storage, tell: Progress) -> None:
        self._storage, self._tell = storage, tell
        self._there = set(storage.names(f"{OBJECTS}/"))
        self.sent = 0
        self._done = self._total = 0

    def send(self, moment: Moment) -> tuple[datetime, Manifest]:
        """Send what belongs to a moment of an index; gives when that was, and what it holds."""
        taken = now()
        _make_movable(moment)
        without = "an index is published with its model"
        checkpoint = checkpoint_of(moment, without)
        model = sorted(path for path in checkpoint.rglob("*") if path.is_file())
        self._done, self._total = 0, _bytes_of(moment, model)
        files: dict[str, File] = {}
        for source, rows in moment.vectors.values():
            wrong = too_short(moment.index, source.path)
            size = rows * source.row_bytes
            files[f"{INDEX}/{source.path.name}"] = self._file(source.path, wrong, size=size)
        for name, digest in moment.structures:
            wrong = damaged_structure(moment.index, name)
            files[f"{INDEX}/{name}"] = self._file(moment.index / name, wrong, digest=digest)
        for folder, name in moment.uploads:
            path = Path(moment.roots[folder]) / name
            wrong = damaged_upload(path)
            files[f"{folder}/{name}"] = self._file(path, wrong, digest=path.stem)
        for path in model:
            wrong = CheckpointError(f"{path}: was changed while it was published; publish again")
            name = f"{MODEL}/{path.relative_to(checkpoint).as_posix()}"
            files[name] = self._file(path, wrong)
        # A training may have put another one in its place meanwhile.
        require_model_of(moment, checkpoint, without, sums=read_sums(checkpoint))
        wrong = CheckpointError(f"{moment.catalogue}: was changed; publish again")
        files[f"{INDEX}/{CATALOGUE}"] = self._file(moment.catalogue, wrong)
        with Catalogue(moment.catalogue) as copied:
            images, sentences = copied.counts()
        uploads = len(moment.uploads)
        return taken, Manifest(moment.meta["model"], images, sentences, uploads, files)

    def _file(
        self,
        path: Path,
        wrong: CheckpointError,
        *,
        size: int | None = None,
        digest: str | None = None,
    ) -> File:
        """Send what is missing of a file's first bytes.

        Raises:
            CheckpointError: It is ``wrong``, shorter than ``size`` or not of this digest.
            GoneError: It is not there.
        """
        whole, pieces = hashlib.sha256(), list[str]()
        if size == 0:  # an index without sentences
            return File(0, ())
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size if size is None else size
                for offset in range(0, size, PIECE_BYTES):
                    data = file.read(min(PIECE_BYTES, size - offset))
                    if len(data) < min(PIECE_BYTES, size - offset):
                        raise wrong
                    if digest is not None:
                        whole.update(data)
                    pieces.append(self._piece(data))
        except FileNotFoundError:
            raise GoneError(path) from None
        if digest is not None and whole.hexdigest() != digest:
            raise wrong
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


def _make_movable(moment: Moment) -> None:
    """Let a copied catalogue name its uploads and its checkpoint by where they lie beside it."""
    with (
        Catalogue(moment.catalogue, write=True) as catalogue,
        catalogue.transaction(write=True) as database,
    ):
        database.execute("DELETE FROM leftovers")  # files of the index that is published
        for name, root in moment.roots.items():
            database.execute("UPDATE roots SET path = ? WHERE path = ?", (f"../{name}", root))
        set_meta(database, {"checkpoint": f"../{MODEL}"})


def _bytes_of(moment: Moment, model: Sequence[Path]) -> int:
    """Bytes that are read, but for uploads, of which each would have to be looked at."""
    vectors = sum(rows * file.row_bytes for file, rows in moment.vectors.values())
    return vectors + sum(path.stat().st_size for path in [moment.catalogue, *model])
